"""Where the book lies, and what its parts are."""

import re
import subprocess
from pathlib import Path

from aiinfra.tools.errors import UserError

PART = re.compile(r"\d\d[A-Z][A-Za-z]+$")
MARKER = ".aiinfra-part.json"  # at the top of one part, unpacked from a release
EXERCISES = "exercises"  # a part's folder of assignments
NO_PAGES = {".ipynb_checkpoints", "_build", EXERCISES}


def is_root(folder: Path) -> bool:
    """Whether ``folder`` is the top of a checkout, or of one part unpacked alone."""
    checkout = (folder / "book/aiinfra").is_dir() and (
        folder / "pyproject.toml"
    ).is_file()
    return checkout or (folder / MARKER).is_file()


def find_root(start: Path | None = None) -> Path:
    """The top of the checkout: the nearest one above ``start``, else this package's.

    Raises UserError when neither is a checkout, as after installing a wheel.
    """
    start = (start or Path.cwd()).resolve()
    for folder in [start, *start.parents, Path(__file__).resolve().parents[3]]:
        if is_root(folder):
            return folder
    raise UserError(
        f"no book found in {start} or above it; "
        "run the command inside a clone of the repository"
    )


def part_folders(root: Path) -> list[Path]:
    """The part folders (``00Hardware`` …) in part order."""
    return sorted(
        folder
        for folder in root.iterdir()
        if folder.is_dir() and PART.fullmatch(folder.name)
    )


def notebooks(root: Path) -> list[Path]:
    """Every notebook that is a page of the book, in reading order."""
    places = [*part_folders(root), root / "book"]
    return [
        path
        for place in places
        if place.is_dir()
        for path in sorted(place.rglob("*.ipynb"))
        if not NO_PAGES & set(path.relative_to(root).parts)
    ]


def assignments(root: Path, part: str = "") -> list[Path]:
    """The assignments' source notebooks, of one part or of all; nobody has run them."""
    return [
        path
        for folder in part_folders(root)
        if part in ("", folder.name)
        for path in sorted((folder / EXERCISES).glob("*.ipynb"))
    ]


def find_notebook(root: Path, name: str) -> Path:
    """The notebook that ``name`` means: a path, or ``04Train/02-ddp``.

    Raises UserError naming the nearest notebooks.
    """
    for candidate in (Path(name), root / name, root / f"{name}.ipynb"):
        if candidate.is_file() and candidate.suffix == ".ipynb":
            return candidate.resolve()
    known = [lesson_name(root, path) for path in notebooks(root)]
    raise UserError(f"no notebook {name!r}; {nearest(name, known)}")


def lesson_name(root: Path, path: Path) -> str:
    """``04Train/02-ddp`` for ``ROOT/04Train/02-ddp.ipynb``."""
    return relative(root, path).removesuffix(".ipynb")


def relative(root: Path, path: Path) -> str:
    """``path`` as the book writes it: from the top, with forward slashes."""
    try:
        return path.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        return path.as_posix()


def committed_at(root: Path) -> int:
    """When the tree was last committed, in Unix seconds; 0 where git can't say."""
    words = ["git", "-C", str(root), "log", "-1", "--format=%ct"]
    try:
        return int(subprocess.check_output(words, stderr=subprocess.DEVNULL))
    except (OSError, subprocess.CalledProcessError, ValueError):
        return 0


def nearest(name: str, known: list[str]) -> str:
    """``did you mean …?``, or the list of what there is."""
    import difflib

    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"there are: {', '.join(known)}" if known else "there are none yet"
