"""A tiny book in a temporary folder, for tests of the tools."""

from pathlib import Path

import nbformat
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

Cell = tuple[str, str, tuple[str, ...]]


def code(source: str, cell_id: str, *tags: str):
    """A code cell."""
    metadata = {"tags": list(tags)} if tags else {}
    return new_code_cell(source, id=cell_id, metadata=metadata)


def text(source: str, cell_id: str = "head"):
    """A Markdown cell."""
    return new_markdown_cell(source, id=cell_id)


def printed(text: str, name: str = "stdout"):
    """What a cell wrote to a stream."""
    return new_output("stream", name=name, text=text)


def shown(**data: str):
    """What a cell displayed: MIME types with _ for / and + spelled out."""
    keys = {
        "plain": "text/plain",
        "html": "text/html",
        "svg": "image/svg+xml",
        "png": "image/png",
    }
    return new_output("display_data", data={keys[key]: data[key] for key in data})


class Book:
    """A checkout in miniature: pyproject.toml, book/aiinfra, parts, _toc.yml."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.chapters: list[str] = []
        self.write("pyproject.toml", "")
        self.write("book/aiinfra/__init__.py", '"""A package."""\n')
        self.write("book/index.md", "# Book\n")
        self.toc()

    def write(self, name: str, content: str) -> Path:
        """Write a file, making its folder."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        return path

    def toc(self) -> None:
        """Write _toc.yml with the chapters known so far."""
        chapters = [{"file": chapter} for chapter in self.chapters]
        toc = {"format": "jb-book", "root": "book/index"}
        if chapters:
            toc["parts"] = [{"caption": "Part", "chapters": chapters}]
        self.write("_toc.yml", yaml.safe_dump(toc))

    def page(self, name: str, content: str) -> Path:
        """Add a Markdown page to the book and to its table of contents."""
        self.chapters.append(name.removesuffix(".md"))
        self.toc()
        return self.write(name, content)

    def lesson(self, name: str, *cells, executed: bool = True) -> Path:
        """Add a notebook to the book and to its table of contents."""
        if name not in self.chapters:
            self.chapters.append(name)
            self.toc()
        if executed:
            counted = [cell for cell in cells if cell.cell_type == "code"]
            for count, cell in enumerate(counted, 1):
                cell.execution_count = count
        nb = new_notebook(cells=list(cells))
        nb.metadata["kernelspec"] = {
            "display_name": "Python 3",
            "language": "python",
            "name": "python3",
        }
        path = self.root / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(nb, path)
        return path
