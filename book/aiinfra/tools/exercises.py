"""Make assignments: the students' edition, or the teachers' with the solutions.

An assignment is an nbgrader notebook in a part's folder ``exercises``. Its cell tagged
``variant`` declares the numbers that differ from course to course,

    N_RANKS = 5  # in the ring; one of 5, 6, 7

of which the first is the committed one, and the prose marks where it repeats them:
``on 5<!-- N_RANKS --> ranks``. The name of a course picks one value for each, always
the same. Students get the notebook as nbgrader's generate_assignment leaves it: without
solutions and hidden tests.
"""

import argparse
import ast
import hashlib
import logging
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from aiinfra.tools import notebook
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import (
    MARKER,
    assignments,
    find_root,
    nearest,
    part_folders,
    relative,
)

__all__ = [
    "assignments",
    "instructor_edition",
    "questions",
    "seeded",
    "student_edition",
]

VARIANT = "variant"  # the tag of the cell that declares a course's numbers
DECLARED = re.compile(
    r"^(?P<name>[A-Z][A-Z0-9_]*) = (?P<value>\S+)  "
    r"# (?P<what>.+); one of (?P<values>.+)$",
    re.MULTILINE,
)
MARK = re.compile(r"(?P<number>\d[\d.,]*)?<!-- (?P<name>[A-Z][A-Z0-9_]*) -->")
COURSE = re.compile(r"[^\W_][\w .-]{0,60}")
OUT = Path("_build/exercises")


@dataclass(frozen=True)
class Question:
    """One question: the id of its answer's cell, and the cell of tests behind it."""

    name: str
    test: str
    points: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("part", nargs="?", metavar="PART", help="for example 04Train")
    parser.add_argument(
        "--seed",
        default="",
        metavar="COURSE",
        help="the course, such as autumn-2026: it gets numbers of its own",
    )
    parser.add_argument(
        "--instructor",
        action="store_true",
        help="with solutions, run, and what wrong answers look like",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help=f"default: one in {OUT}"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="run stubs, solutions and wrong answers of PART, or of all parts",
    )


def run(args: argparse.Namespace) -> int:
    """Make one edition of a part's assignments, or check them."""
    root = find_root()
    if (root / MARKER).is_file():
        raise UserError("this is one released part; assignments are made from a clone")
    if args.check:
        if args.seed or args.instructor or args.out:
            raise UserError("--check makes nothing; leave the other options out")
        from aiinfra.tools import answers

        return answers.run(root, choose(root, args.part))
    if args.part is None:
        raise UserError(f"name a part; {nearest('', choose(root, None))}")
    (part,) = choose(root, args.part)
    course = checked(args.seed)
    words = [part, *course.split(), *["instructor"] * args.instructor]
    out = args.out or root / OUT / "-".join(words)
    if args.out is None:
        shutil.rmtree(out, ignore_errors=True)
    refuse_to_overwrite(out, [path.name for path in assignments(root, part)])
    make = instructor_edition if args.instructor else student_edition
    for path in make(root, part, course, out):
        print(path)
    for path in assignments(root, part):
        numbers = draw(notebook.read(path), path, course)
        listed = ", ".join(f"{name} {text}" for name, text in numbers.items())
        print(f"{path.stem}: {listed}")
    return 0


def choose(root: Path, part: str | None) -> list[str]:
    """The part meant, or all that have assignments.

    Raises UserError for one that has none.
    """
    known = [f.name for f in part_folders(root) if assignments(root, f.name)]
    if part is None:
        return known
    name = part.strip("/")
    if name not in known:
        raise UserError(f"no assignments in {part!r}; {nearest(name, known)}")
    return [name]


def refuse_to_overwrite(out: Path, names: list[str]) -> None:
    """Raise UserError where a file, perhaps somebody's answers, would be lost."""
    if out.exists() and not out.is_dir():
        raise UserError(f"--out {out} is a file; name a folder")
    for name in names:
        if (out / name).exists():
            raise UserError(
                f"{out / name} exists and may hold somebody's answers; "
                "name another folder or move it away"
            )


def checked(seed: str) -> str:
    """The course's name, without spaces around it.

    Raises UserError when it is no name.
    """
    seed = seed.strip()
    if seed and not COURSE.fullmatch(seed):
        raise UserError(
            f"--seed {seed!r}: expected the name of a course: letters, digits, spaces, "
            "dots and hyphens, such as autumn-2026"
        )
    return seed


# Numbers that differ from course to course


def declared(nb: NotebookNode) -> dict[str, list[str]]:
    """The numbers that each name may stand for, as written, the committed one first."""
    return {
        found["name"]: [text.strip() for text in found["values"].split(", ")]
        for cell in nb.cells
        if VARIANT in notebook.tags(cell)
        for found in DECLARED.finditer(cell.source)
    }


def draw(nb: NotebookNode, path: Path, seed: str) -> dict[str, str]:
    """The numbers of one course; without a seed the committed ones.

    By a hash, so that a course's numbers are the same on every Python for ever.
    """
    numbers = {}
    for name, texts in declared(nb).items():
        words = "\n".join([seed, path.parent.parent.name, path.stem, name])
        number = int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big")
        numbers[name] = texts[number % len(texts) if seed else 0]
    return numbers


def seeded(path: Path, seed: str = "") -> NotebookNode:
    """The source notebook with the numbers of the course ``seed``, marks removed.

    Solutions and hidden tests are in it. Its metadata say under ``aiinfra`` which
    ``assignment`` it is, and of which ``course``.

    Raises UserError when the file is missing, or marks a number it does not declare.
    """
    nb, seed = notebook.read(path), checked(seed)
    numbers = draw(nb, path, seed)

    def in_code(found: re.Match[str]) -> str:
        return f"{found['name']} = {numbers[found['name']]}  # {found['what']}"

    def in_prose(found: re.Match[str]) -> str:
        if found["name"] not in numbers:
            raise UserError(f"{path}: {found['name']} is marked and not declared")
        return as_prose(numbers[found["name"]])

    for cell in nb.cells:
        if VARIANT in notebook.tags(cell):
            cell.source = DECLARED.sub(in_code, cell.source)
        elif cell.cell_type == "markdown":
            cell.source = MARK.sub(in_prose, cell.source)
    assignment = f"{path.parent.parent.name}/{path.stem}"
    nb.metadata["aiinfra"] = {"assignment": assignment, "course": seed}
    return nb


def as_prose(text: str) -> str:
    """A number as prose writes it: 1_003 is 1,003."""
    return f"{ast.literal_eval(text):,}"


# Questions


def questions(nb: NotebookNode) -> list[Question]:
    """The questions of an assignment, in order: a solution cell, and its tests."""
    points = {
        cell.metadata.nbgrader.grade_id: cell.metadata.nbgrader.points
        for cell in nb.cells
        if cell.metadata.get("nbgrader", {}).get("grade")
    }
    return [
        Question(name, f"test-{name}", points.get(f"test-{name}", 0))
        for cell in nb.cells
        if cell.metadata.get("nbgrader", {}).get("solution")
        for name in [cell.metadata.nbgrader.grade_id]
    ]


# Editions


def student_edition(root: Path, part: str, seed: str, out: Path) -> list[Path]:
    """Write what students get of ``part`` into ``out``; return the notebooks.

    Raises UserError when the part has no assignments or one is malformed.
    """
    return [
        save(nb, out / f"{name}.ipynb")
        for name, nb in released(root, part, seed).items()
    ]


def instructor_edition(root: Path, part: str, seed: str, out: Path) -> list[Path]:
    """Write, for each assignment, its solutions as run and a key; return the files.

    The notebooks are nbgrader's source edition for this course: hidden tests stay.
    Raises UserError when the part has no assignments or a solution fails.
    """
    from aiinfra.tools import answers
    from aiinfra.tools.execute import execute

    made = []
    for path in sources(root, part):
        target = save(seeded(path, seed), out / path.name)
        if not execute(target, relative(root, path)):
            raise UserError(
                f"{relative(root, path)}: its own solution fails; see above"
            )
        key = out / f"{path.stem}.md"
        notebook.write_text(key, answers.key(root, path, checked(seed)))
        made += [target, key]
    return made


def sources(root: Path, part: str) -> list[Path]:
    """The assignments of a part; UserError when there are none or one is malformed."""
    from aiinfra.tools.check.assignments import flaws

    (part,) = choose(root, part)
    for path in assignments(root, part):
        for line, flaw in flaws(root, path):
            raise UserError(f"{relative(root, path)}:{line}: {flaw}")
    return assignments(root, part)


def released(root: Path, part: str, seed: str) -> dict[str, NotebookNode]:
    """A part's assignments as nbgrader's generate_assignment releases them, by name."""
    from nbgrader.converters import GenerateAssignment
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config import Config

    with tempfile.TemporaryDirectory(prefix="aiinfra-") as folder:
        for path in sources(root, part):
            save(seeded(path, seed), Path(folder, "source", part, path.name))
        config = Config()
        config.CourseDirectory.root = folder
        config.CourseDirectory.assignment_id = part
        config.GenerateAssignment.no_database = True
        config.SaveCells.enabled = False  # that is the database, too
        course = CourseDirectory(config=config)
        # It would tell of every file that it reads and writes.
        logging.getLogger("traitlets").setLevel(logging.WARNING)
        GenerateAssignment(coursedir=course, config=config).start()
        return {
            path.stem: notebook.read(path)
            for path in sorted(Path(folder, "release", part).glob("*.ipynb"))
        }


def save(nb: NotebookNode, path: Path) -> Path:
    """Write a notebook in the book's form, which two runs give byte for byte."""
    notebook.write(notebook.normalise(nb), path)
    return path
