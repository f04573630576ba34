"""Grade a class: run each submission's own code behind walls, and write the points.

SUBMISSIONS holds one folder per student, and in it their notebooks under the names of
the assignments: anna/ring-bytes.ipynb. Points, remarks and one feedback page per
notebook go to the folder OUT; nothing else is written.
"""

import argparse
import logging
import math
import os
import stat
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from aiinfra.tools import notebook, sandbox
from aiinfra.tools.errors import UserError
from aiinfra.tools.grading.course import Course, Result, edition, is_other
from aiinfra.tools.grading.exam import Rules
from aiinfra.tools.grading.report import csv_text, feedback, points, summary
from aiinfra.tools.root import find_root, nearest, part_folders

SIZE_LIMIT_BYTES = 20 * 10**6
LEAST_GIB = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("part", metavar="PART", help="for example 04Train")
    parser.add_argument("submissions", metavar="SUBMISSIONS", type=Path)
    parser.add_argument(
        "--seed",
        metavar="COURSE",
        default="",
        help="the seed that the students' edition was made with",
    )
    parser.add_argument(
        "--out",
        metavar="OUT",
        type=Path,
        help="where the grades go (default: beside SUBMISSIONS, named …-graded)",
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=float,
        default=60.0,
        help="longest time for one cell or test (default 60); a notebook has 10 times",
    )
    parser.add_argument(
        "--memory",
        metavar="GiB",
        type=float,
        default=4.0,
        help="most memory for one submission (default 4)",
    )
    parser.add_argument(
        "--unsafe",
        action="store_true",
        help="run without walls where they cannot be put up: submissions can then "
        "read and change this machine's files",
    )


def run(args: argparse.Namespace) -> int:
    """Grade every submission; 0 when all were graded, whatever their points."""
    root = find_root()
    if not args.seconds > 0 or math.isinf(args.seconds):
        raise UserError(f"--seconds {args.seconds:g}: expected more than 0")
    if not args.memory >= LEAST_GIB or math.isinf(args.memory):
        raise UserError(
            f"--memory {args.memory:g}: expected at least {LEAST_GIB:g} GiB; Python "
            "with torch needs about that much before it has done anything"
        )
    folder = args.submissions.resolve()
    found = collect(folder)
    out = (args.out or folder.with_name(f"{folder.name}-graded")).resolve()
    if out.is_relative_to(folder):
        raise UserError(f"--out {out} lies among the submissions; choose another")
    sources = editions(root, args.part, args.seed)
    submissions = [named(submission, list(sources)) for submission in found]
    if not any(submission.assignment for submission in submissions):
        raise UserError(f"{folder}: {submissions[0].problem}")
    if args.unsafe:
        print(f"--unsafe: {sandbox.NOT_PROTECTED}", file=sys.stderr, flush=True)
    else:
        sandbox.require([folder, root / args.part, out])
    limits = sandbox.Limits(memory_gib=args.memory)
    rules = Rules(seconds=args.seconds, limits=limits, unsafe=args.unsafe)
    return grade(submissions, sources, out, rules)


def editions(root: Path, part: str, seed: str) -> dict[str, NotebookNode]:
    """The source notebook of each of the part's assignments, in this course's edition.

    Raises UserError when there is no such part, or it has no assignments.
    """
    from aiinfra.tools import exercises

    parts = [folder.name for folder in part_folders(root)]
    if part not in parts:
        raise UserError(f"no part {part!r}; {nearest(part, parts)}")
    paths = exercises.assignments(root, part)
    if not paths:
        raise UserError(f"{part} has no assignments to grade")
    return {path.stem: exercises.seeded(path, seed) for path in paths}


# ------------------------------------------------------------------ what was handed in


@dataclass(frozen=True)
class Submission:
    """A file that a student handed in; ``problem`` says why it cannot be run."""

    student: str
    path: Path
    assignment: str = ""
    problem: str = ""

    @property
    def name(self) -> str:
        """How the file is called to the teacher."""
        return f"{self.student}/{self.path.name}"


def collect(folder: Path) -> list[Submission]:
    """The notebooks in the students' folders, by student.

    Raises UserError when there are none. Links are not followed: what a student hands
    in must not make this machine read another file.
    """
    if not folder.is_dir():
        raise UserError(f"no folder {folder}; expected one with a folder per student")
    found = []
    for student in sorted(folder.iterdir(), key=lambda path: path.name.casefold()):
        if student.name.startswith("."):
            continue
        if not student.name.isprintable():
            print(f"{student.name!r}: not a readable name; rename it", file=sys.stderr)
        elif student.is_symlink():
            print(f"{student.name}: a link, not a folder; left out", file=sys.stderr)
        elif student.is_dir():
            found += [
                Submission(student.name, path)
                for path in sorted(student.iterdir())
                if path.suffix == ".ipynb" and not path.name.startswith(".")
            ]
    if not found:
        loose = next(folder.glob("*.ipynb"), None)
        where = f" ({loose.name} lies in no student's folder)" if loose else ""
        raise UserError(
            f"no submissions in {folder}{where}; "
            "expected STUDENT/ASSIGNMENT.ipynb, for example anna/ring-bytes.ipynb"
        )
    return found


def named(submission: Submission, known: list[str]) -> Submission:
    """The submission with its assignment, or with why it is none."""
    stem = submission.path.stem
    if stem in known:
        return Submission(submission.student, submission.path, stem)
    problem = f"{submission.name!r}: no assignment {stem!r}; {nearest(stem, known)}"
    return Submission(submission.student, submission.path, problem=problem)


def read(path: Path) -> NotebookNode:
    """The notebook that was handed in; ValueError says why it is none."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        link = " (a link)" if path.is_symlink() else ""
        raise ValueError(f"cannot be read{link}: {error.strerror}") from None
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("not a file")
        if status.st_size > SIZE_LIMIT_BYTES:
            raise ValueError(f"larger than {SIZE_LIMIT_BYTES // 10**6} MB")
        data = opened.read(SIZE_LIMIT_BYTES)
    logging.getLogger("nbformat").setLevel(logging.CRITICAL)
    try:
        nb = nbformat.reads(data.decode("utf-8"), as_version=4)
        if not isinstance(nb, NotebookNode) or not isinstance(nb.cells, list):
            raise TypeError("no list of cells")
        for cell in nb.cells:
            if not isinstance(cell.source, str) or not isinstance(cell.cell_type, str):
                raise TypeError("a cell without text")
    except Exception as error:  # whatever a file can hold
        raise ValueError(
            f"not a notebook: {notebook.first_line(error)[:200]}"
        ) from None
    return nb


# ------------------------------------------------------------------ grading


def grade(
    submissions: list[Submission],
    sources: dict[str, NotebookNode],
    out: Path,
    rules: Rules,
) -> int:
    """Grade the submissions and write what came of it."""
    todo = [each for each in submissions if each.assignment]
    for each in submissions:
        if each.problem:
            print(f"left out: {each.problem}", file=sys.stderr, flush=True)
    notebooks = {each: attempt(each) for each in todo}
    wanted = {each.assignment for each in todo}
    results: dict[tuple[str, str], Result] = {}
    with tempfile.TemporaryDirectory(prefix="aiinfra-course-") as folder:
        course = Course(Path(folder).resolve(), rules)
        for name in filter(wanted.__contains__, sources):
            course.add(name, sources[name])
        notebooks |= other_editions(course, notebooks)
        for name in course.sources:
            print(f"{name}: trying its own solution …", flush=True)
            course.prove(name)
        out.mkdir(mode=0o700, parents=True, exist_ok=True)  # grades are nobody else's
        for number, (each, found) in enumerate(notebooks.items(), 1):
            label = f"[{number}/{len(todo)}] {each.student}  {each.assignment}  "
            print(label, end="", flush=True)
            began = time.monotonic()
            if isinstance(found, str):
                result = course.nothing(each.assignment, found)
            else:
                result = course.grade(each.assignment, found)
            seconds = time.monotonic() - began
            print(f"{points(result.rows)}  ({seconds:.0f} s)", flush=True)
            page = out / "feedback" / each.student / f"{each.assignment}.html"
            text = feedback(each.student, each.assignment, result)
            notebook.write_text(page, text)
            results[each.student, each.assignment] = result
        table = {
            (student, name): results.get((student, name))
            or course.nothing(name, "not handed in")
            for student in dict.fromkeys(each.student for each in submissions)
            for name in course.releases
        }
    notebook.write_text(out / "grades.csv", csv_text(table))
    print(summary(table))
    print(f"\n{out / 'grades.csv'}\n{out / 'feedback'}")
    return 0


def attempt(submission: Submission) -> NotebookNode | str:
    """The notebook handed in, or why it cannot be run."""
    try:
        return read(submission.path)
    except ValueError as error:
        return str(error)


def other_editions(
    course: Course, notebooks: dict[Submission, NotebookNode | str]
) -> dict[Submission, str]:
    """The submissions made from another edition than this course's, and that.

    Raises UserError when all those of an assignment are: then the seed is wrong.
    """
    found: dict[Submission, str] = {}
    for name, release in course.releases.items():
        readable = {
            each: nb
            for each, nb in notebooks.items()
            if each.assignment == name and not isinstance(nb, str)
        }
        strange = [each for each, nb in readable.items() if is_other(nb, release)]
        for each in strange:
            own, wanted = edition(readable[each]), edition(release)
            if own == wanted:
                own = f"another text of {own}" if own else None
            found[each] = (
                f"made from {own or 'another text'}, not from {wanted or 'this one'}"
            )
            print(f"{each.name}: {found[each]}", file=sys.stderr, flush=True)
        if strange and len(strange) == len(readable):
            raise UserError(
                f"{strange[0].name} is {found[strange[0]]}, and so for all of {name}; "
                "grade with the --seed, and the text, that they were handed out with"
            )
    return found
