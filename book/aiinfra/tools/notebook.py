"""Reading, normalising and writing notebooks, the same way everywhere."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from aiinfra.tools.errors import UserError

# What differs from run to run or from editor to editor, and says nothing.
VOLATILE_CELL_METADATA = (
    "execution",
    "ExecuteTime",
    "collapsed",
    "scrolled",
    "trusted",
    "pycharm",
    "vscode",
    "jp-MarkdownHeadingCollapsed",
)
KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
# No version: the notebook runs on every supported Python.
LANGUAGE_INFO = {
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "pygments_lexer": "ipython3",
}
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def read(path: Path) -> NotebookNode:
    """The notebook at ``path``, in format 4.

    Raises UserError when the file is missing or is not a notebook.
    """
    try:
        nb = nbformat.read(path, as_version=4)
    except FileNotFoundError as error:
        raise UserError(f"no notebook at {path}") from error
    except Exception as error:
        raise UserError(f"{path} is not a notebook: {first_line(error)}") from error
    return nb


def write(nb: NotebookNode, path: Path) -> None:
    """Write ``nb`` in one step: a reader sees the old file or the new one."""
    nbformat.validate(nb)
    write_text(path, nbformat.writes(nb, version=4) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` in one step, keeping the file's permissions."""
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def normalise(nb: NotebookNode) -> NotebookNode:
    """Drop what is volatile, in place, so that two runs give equal files.

    Widget state goes: it is random, and the committed output carries the same
    figure as HTML. Streams split by timing become one.
    """
    nb.nbformat, nb.nbformat_minor = 4, 5
    nb.metadata = NotebookNode(
        {
            **{
                key: value
                for key, value in nb.metadata.items()
                if key not in ("widgets", "kernelspec", "language_info", "toc")
            },
            "kernelspec": KERNELSPEC,
            "language_info": LANGUAGE_INFO,
        }
    )
    for cell in nb.cells:
        for key in VOLATILE_CELL_METADATA:
            cell.metadata.pop(key, None)
        if cell.cell_type == "code":
            cell.outputs = [tidy_output(output) for output in joined(cell.outputs)]
    return nb


def joined(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    """``outputs`` with neighbouring pieces of one stream put together."""
    result: list[NotebookNode] = []
    for output in outputs:
        last = result[-1] if result else None
        if (
            last is not None
            and output.output_type == last.output_type == "stream"
            and output.name == last.name
        ):
            last.text += output.text
        else:
            result.append(output)
    return result


def tidy_output(output: NotebookNode) -> NotebookNode:
    """``output`` without the widget view where a static picture says the same."""
    data = output.get("data", {})
    if WIDGET_VIEW in data and ("text/html" in data or "image/svg+xml" in data):
        del data[WIDGET_VIEW]
    return output


def tags(cell: NotebookNode) -> set[str]:
    """The cell's tags."""
    return set(cell.metadata.get("tags", ()))


def code_cells(nb: NotebookNode) -> Iterator[NotebookNode]:
    """The code cells, in order."""
    return (cell for cell in nb.cells if cell.cell_type == "code")


def title(nb: NotebookNode, default: str) -> str:
    """The text of the first heading of level 1."""
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            for line in cell.source.splitlines():
                if line.startswith("# "):
                    return line[2:].strip()
    return default


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type's name."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
