"""Begin a lesson: a notebook, its planted mistakes and its picture, to be filled.

They run as they are, and no gate that guards content lets them pass before every
«placeholder» is replaced. CONTRIBUTING.md goes through the steps.
"""

import argparse
import contextlib
import keyword
import re
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from aiinfra.tools import export, mutants, notebook, skeleton
from aiinfra.tools.check.toc import NAME
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import find_root, nearest, notebooks, part_folders, relative

NEXT = """\
Next:
  write    replace every «…»; `aiinfra check skeleton` lists those that are left
  list     {lesson} in _toc.yml and in {part}/index.md
  run      aiinfra execute {lesson}
  export   aiinfra export
  break    aiinfra mutants {lesson}
  record   aiinfra status {lesson}
  check    make test
CONTRIBUTING.md says what each is for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("part", metavar="PART", help="for example 04Train")
    parser.add_argument("name", metavar="NN-name", help="for example 03-zero")
    parser.add_argument("--title", help="default: the name in words")


def run(args: argparse.Namespace) -> int:
    """Write the files of a new lesson, all or none, and say what comes next."""
    root = find_root()
    part = choose_part(root, args.part)
    name = free_name(root, part, args.name)
    title = args.title if args.title is not None else in_words(name)
    if not title.strip() or "\n" in title:
        raise UserError(f"--title {title!r}: expected one line of words")
    lesson = f"{part.name}/{name}"
    create(root, files(root, part, name, title.strip()))
    print(NEXT.format(lesson=lesson, part=part.name))
    return 0


def choose_part(root: Path, name: str) -> Path:
    """The folder of the part called ``name``; UserError names the nearest."""
    parts = {folder.name: folder for folder in part_folders(root)}
    if name.rstrip("/") not in parts:
        raise UserError(f"no part {name!r}; {nearest(name, list(parts))}")
    return parts[name.rstrip("/")]


def free_name(root: Path, part: Path, name: str) -> str:
    """``name`` if a lesson of ``part`` can be called so; UserError says why not."""
    if not NAME.fullmatch(name) or name == "index":
        raise UserError(
            f"{name!r} is no name for a lesson: expected two digits and words in lower "
            "case, all joined by hyphens, for example 03-zero; it will be its URL"
        )
    module = export.module_name(Path(name))
    if keyword.iskeyword(module):
        raise UserError(
            f"{name!r} is no name for a lesson: {module!r} is a word of Python's own, "
            "and the lesson's code goes to a module called so"
        )
    pages = [p for p in sorted(part.iterdir()) if p.suffix in (".md", ".ipynb")]
    numbers = {page.stem[:2]: page for page in pages if NAME.fullmatch(page.stem)}
    if name in [page.stem for page in pages]:
        raise UserError(f"there is a {part.name}/{name} already; choose another name")
    if taken := numbers.get(name[:2]):
        free = next(n for n in (f"{i:02}" for i in range(1, 100)) if n not in numbers)
        raise UserError(
            f"{relative(root, taken)} has the number {name[:2]}; {free} is free"
        )
    for other in notebooks(root):
        if NAME.fullmatch(other.stem) and export.module_name(other) == module:
            raise UserError(
                f"{relative(root, other)} would export to aiinfra.lessons.{module} "
                "too; choose another name"
            )
    return name


def in_words(name: str) -> str:
    """``Tensor parallel`` for ``05-tensor-parallel``."""
    words = re.sub(r"^\d+-", "", name).replace("-", " ")
    return words[0].upper() + words[1:]


def files(root: Path, part: Path, name: str, title: str) -> dict[Path, str]:
    """What a new lesson consists of: text by path."""
    module, lesson = export.module_name(Path(name)), f"{part.name}/{name}"
    words = {"TITLE": title, "LESSON": lesson, "MODULE": module}

    def fill(text: str) -> str:
        return re.sub("TITLE|LESSON|MODULE", lambda found: words[found[0]], text)

    cells = []
    for cell_id, tags, source in skeleton.CELLS:
        if tags is None:
            cells.append(new_markdown_cell(fill(source), id=cell_id))
        else:
            metadata = {"tags": list(tags)} if tags else {}
            cells.append(new_code_cell(fill(source), id=cell_id, metadata=metadata))
    nb = notebook.normalise(new_notebook(cells=cells))
    return {
        root / f"{lesson}.ipynb": nbformat.writes(nb, version=4) + "\n",
        root / mutants.FOLDER / f"{lesson}.yaml": fill(skeleton.MUTANTS),
        part / "figures" / f"{module}.py": fill(skeleton.FIGURE),
    }


def create(root: Path, wanted: dict[Path, str]) -> None:
    """Write all files, or none: UserError if one exists or cannot be written."""
    for path in wanted:
        if path.exists():
            raise UserError(
                f"{relative(root, path)} exists already; remove it or choose another "
                "name"
            )
    written: list[Path] = []
    try:
        for path, text in wanted.items():
            written.append(path)
            notebook.write_text(path, text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                path.parent.rmdir()  # if it was made for this file
        where = relative(root, written[-1])
        raise UserError(
            f"cannot write {where}: {error.strerror}; nothing was written"
        ) from error
    for path in written:
        print(f"{relative(root, path)}: written")
