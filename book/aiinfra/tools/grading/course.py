"""nbgrader's autograder, with the exam in two rooms in place of its kernel.

nbgrader keeps the assignment's cells with their checksums, puts the original tests
back, hidden ones too, and turns outcomes into points. What it is given is not the
submitted file but a notebook made anew from the student's own cells: no metadata, no
output and no cell type of a submission counts.
"""

import ast
import contextlib
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import LimitOutput, NbGraderPreprocessor, SaveAutoGrades
from nbgrader.utils import is_grade, is_locked, is_solution, is_task
from sqlalchemy.exc import SAWarning
from traitlets.config import Config

from aiinfra.tools.errors import UserError
from aiinfra.tools.grading.exam import Exam, Plan, Rules, Verdict, is_test

BY_HAND = "to be graded by a person"
ERROR = re.compile(r"[\w.]*(Error|Exception): ")


@dataclass(frozen=True)
class Row:
    """The points for one question; None until a person has graded it."""

    question: str
    points: float | None
    max_points: float
    remark: str


@dataclass(frozen=True)
class Result:
    """One graded submission: its questions, and the notebook as it ran."""

    rows: list[Row]
    nb: NotebookNode | None = None


class Course:
    """An nbgrader course in a folder of its own."""

    def __init__(self, folder: Path, rules: Rules):
        self.folder = folder
        self.rules = rules
        self.sources: dict[str, NotebookNode] = {}
        self.releases: dict[str, NotebookNode] = {}
        self._n_students = 0

    def add(self, name: str, source: NotebookNode) -> None:
        """Take an assignment's source notebook into the course.

        Raises UserError when nbgrader refuses it.
        """
        self._write(self.folder / "source" / name / f"{name}.ipynb", source)
        with in_nbgrader() as log:
            try:
                GenerateAssignment(coursedir=self._directory(name), log=log).start()
            except NbGraderException:
                raise UserError(f"assignment {name}: {reason(log)}") from None
        release = self.folder / "release" / name / f"{name}.ipynb"
        self.sources[name] = source
        self.releases[name] = nbformat.read(release, as_version=4)

    def prove(self, name: str) -> None:
        """Grade the assignment's own solution.

        Raises UserError when it does not get all points here.
        """
        for row in self.grade(name, self.sources[name]).rows:
            if row.points is not None and row.points < row.max_points:
                raise UserError(
                    f"assignment {name}: its own solution gets {row.points:g} of "
                    f"{row.max_points:g} points for {row.question} ({row.remark}); "
                    "mend the assignment, or raise the limits, before grading with it"
                )

    def grade(self, name: str, submitted: NotebookNode) -> Result:
        """Run nbgrader's autograder on one submission."""
        self._n_students += 1
        student = f"student{self._n_students}"
        nb = rebuilt(submitted, self.releases[name])
        self._write(self.folder / "submitted" / student / name / f"{name}.ipynb", nb)
        run = RunInRooms(plan(self.sources[name], self.releases[name]), self.rules)
        directory = self._directory(name, student)
        with in_nbgrader() as log:
            grader = Autograde(coursedir=directory, log=log)
            grader.autograde_preprocessors = [run, LimitOutput, SaveAutoGrades]
            try:
                grader.start()
            except NbGraderException:
                return self.nothing(name, f"not graded: {reason(log)}")
        return Result(self._rows(name, student, run.verdicts), run.nb)

    def nothing(self, name: str, why: str) -> Result:
        """The result of a submission that cannot be run at all."""
        return Result(
            [
                Row(grade_id, 0.0, points, why)
                for grade_id, points in questions(self.releases[name])
            ]
        )

    def _rows(self, name: str, student: str, verdicts: dict[str, Verdict]) -> list[Row]:
        points: dict[str, float | None] = {}
        with Gradebook(self._directory(name).db_url) as gradebook:
            notebook = gradebook.find_submission_notebook(name, name, student)
            for grade in notebook.grades:
                by_hand = grade.needs_manual_grade
                points[grade.name] = None if by_hand else float(grade.score)
        rows = []
        for grade_id, most in questions(self.releases[name]):
            verdict = verdicts.get(grade_id)
            score = points.get(grade_id, 0.0)
            remark = verdict.remark if verdict else BY_HAND if score is None else ""
            rows.append(Row(grade_id, score, most, remark))
        return rows

    def _directory(self, name: str, student: str = "*") -> CourseDirectory:
        config = Config()
        config.CourseDirectory.root = str(self.folder)
        config.CourseDirectory.assignment_id = name
        config.CourseDirectory.student_id = student
        return CourseDirectory(config=config)

    def _write(self, path: Path, nb: NotebookNode) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(nb, path)


class RunInRooms(NbGraderPreprocessor):
    """Runs a notebook in two rooms; takes the place of nbgrader's Execute."""

    def __init__(self, plan: Plan, rules: Rules):
        super().__init__()
        self.plan = plan
        self.rules = rules
        self.nb: NotebookNode | None = None
        self.verdicts: dict[str, Verdict] = {}

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple:
        """Fill in the outputs."""
        self.verdicts = Exam(nb, self.plan, self.rules).run()
        self.nb = nb
        return nb, resources


def rebuilt(submitted: NotebookNode, release: NotebookNode) -> NotebookNode:
    """The student's cells in the places of the release, and nothing else of theirs.

    Of a cell only its text counts. Cells are known by their grade id; of several with
    one id the last is the answer, as in nbgrader, and the others are cells like any.
    A cell without an id follows the one it followed.
    """
    official = {
        cell.metadata.nbgrader.grade_id: cell for cell in release.cells if has_id(cell)
    }
    ids = [submitted_id(cell) for cell in submitted.cells]
    last = {grade_id: place for place, grade_id in enumerate(ids)}
    texts: dict[str, str] = {}
    followers: dict[str | None, list[NotebookNode]] = {None: []}
    current = None
    for place, cell in enumerate(submitted.cells):
        grade_id = ids[place]
        if grade_id in official and last[grade_id] == place:
            current = grade_id
            texts[current] = str(cell.source)
            followers.setdefault(current, [])
        else:
            followers[current].append(plain_cell(cell))
    cells = list(followers[None])
    for grade_id, cell in official.items():
        if grade_id in texts or is_locked(cell) or is_grade(cell) or is_task(cell):
            cell = nbformat.from_dict(cell)
            if is_solution(cell):
                cell.source = texts.get(grade_id, "")
            cells.append(cell)
        cells += followers.get(grade_id, [])
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    return nbformat.v4.new_notebook(cells=cells, metadata=release.metadata)


def plain_cell(cell: NotebookNode) -> NotebookNode:
    """A cell of the student's own: its text, and whether it is code."""
    if cell.cell_type == "code":
        return nbformat.v4.new_code_cell(str(cell.source))
    return nbformat.v4.new_markdown_cell(str(cell.source))


def has_id(cell: NotebookNode) -> bool:
    """Whether a cell of a release is one that nbgrader knows."""
    return is_grade(cell) or is_solution(cell) or is_locked(cell) or is_task(cell)


def submitted_metadata(cell: NotebookNode) -> dict:
    """What a submitted cell claims to nbgrader; anything may stand there."""
    metadata = cell.get("metadata", {}).get("nbgrader", {})
    return metadata if isinstance(metadata, dict) else {}


def submitted_id(cell: NotebookNode) -> str | None:
    """The grade id that a submitted cell claims."""
    grade_id = submitted_metadata(cell).get("grade_id")
    return grade_id if isinstance(grade_id, str) else None


def is_other(submitted: NotebookNode, release: NotebookNode) -> bool:
    """Whether a submission was made from another edition of the assignment.

    Tells from the course that the edition names, and from the checksums that nbgrader
    wrote into it: students change cells, but not the checksums of the originals. The
    teacher's edition has none; handed in, it is a solution like any other.
    """
    if edition(submitted) not in (None, edition(release)):
        return True
    claimed = {
        submitted_id(cell): submitted_metadata(cell).get("checksum")
        for cell in submitted.cells
    }
    same = [
        claimed[cell.metadata.nbgrader.grade_id] == cell.metadata.nbgrader.checksum
        for cell in release.cells
        if has_id(cell) and claimed.get(cell.metadata.nbgrader.grade_id)
    ]
    return bool(same) and sum(same) < len(same) / 2


def edition(nb: NotebookNode) -> str | None:
    """The assignment and the course that an edition was made for, if it says so."""
    stamp = nb.metadata.get("aiinfra")
    if not isinstance(stamp, dict) or "assignment" not in stamp:
        return None
    course = stamp.get("course")
    return f"{stamp['assignment']} " + (
        f"--seed {course}" if course else "without seed"
    )


def questions(release: NotebookNode) -> list[tuple[str, float]]:
    """The graded cells of an assignment, and their points."""
    return [
        (cell.metadata.nbgrader.grade_id, float(cell.metadata.nbgrader.points))
        for cell in release.cells
        if is_grade(cell) or is_task(cell)
    ]


def plan(source: NotebookNode, release: NotebookNode) -> Plan:
    """What the tests need to know of an assignment."""
    given: dict[str, list[str]] = {}
    expected: set[str] = set()
    so_far: list[str] = []
    for cell in source.cells:
        if cell.cell_type != "code":
            continue
        if is_solution(cell):
            expected |= defined_names(cell.source)
        elif is_test(cell):
            given[cell.metadata.nbgrader.grade_id] = list(so_far)
        else:
            so_far.append(cell.source)
    stubs = {
        cell.metadata.nbgrader.grade_id: cell.source
        for cell in release.cells
        if is_solution(cell)
    }
    return Plan(given, sorted(expected), stubs)


def defined_names(source: str) -> set[str]:
    """The names that a cell defines at its top level; imports are not definitions."""
    try:
        statements = ast.parse(source).body
    except SyntaxError:  # a cell magic: what it defines lives elsewhere
        return set()
    names: set[str] = set()
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            names.add(statement.name)
        elif not isinstance(statement, ast.Import | ast.ImportFrom):
            names |= {
                node.id
                for node in ast.walk(statement)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
    return names


class Messages(logging.Handler):
    """Keeps what nbgrader logs, for the one line that a person needs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message."""
        self.lines += record.getMessage().strip().splitlines()


@contextlib.contextmanager
def in_nbgrader() -> Iterator[logging.Logger]:
    """A logger for nbgrader that prints nothing and keeps everything.

    Meanwhile nbgrader finds the commands beside this Python: it calls alembic by name.
    """
    log = logging.getLogger(f"{__name__}.nbgrader")
    log.propagate = False
    handler = Messages()
    log.addHandler(handler)
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SAWarning)
            yield log
    finally:
        os.environ["PATH"] = before
        log.removeHandler(handler)


def reason(log: logging.Logger) -> str:
    """The line of the log that names the first error."""
    handler = next(each for each in log.handlers if isinstance(each, Messages))
    errors = [line for line in handler.lines if ERROR.match(line)]
    return (errors or handler.lines or ["nbgrader gives no reason"])[0]
