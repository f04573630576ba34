"""Wrong answers to assignments, and whether the tests tell them from right ones.

Beside an assignment lies a list of plausible wrong answers: the question, a name, why
somebody would write it, and the code that stands where the solution stood. For the
committed numbers and for those of as many courses as use every declared number, all in
one process: the solution passes, the empty answer fails every question, and each wrong
answer fails its question's tests by an assertion.
"""

import contextlib
import gc
import io
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import yaml
from nbformat import NotebookNode

from aiinfra.tools import notebook
from aiinfra.tools.check.assignments import HIDDEN, SOLUTION, flaws
from aiinfra.tools.errors import UserError
from aiinfra.tools.exercises import (
    assignments,
    declared,
    draw,
    questions,
    released,
    seeded,
)
from aiinfra.tools.mutants import Lesson, OvertimeError, time_limit
from aiinfra.tools.root import nearest, relative

KEYS = {"question", "name", "why", "code"}
AT_LEAST = 3  # wrong answers to a question
CELL_LIMIT_S = 60.0
LEAST_COURSES = 3


@dataclass(frozen=True)
class Answer:
    """A plausible wrong answer: ``code`` stands where the solution stood."""

    question: str
    name: str
    why: str
    code: str


@dataclass(frozen=True)
class Ran:
    """How one cell ran: its error, what it wrote to stderr, the value it ends with."""

    error: BaseException | None
    stderr: str
    value: object = None

    @property
    def told(self) -> str:
        """The error in one line."""
        if self.error is None:
            return "no error"
        return f"{type(self.error).__name__}: {notebook.first_line(self.error)}"


@dataclass(frozen=True)
class Verdict:
    """``killed``, ``survived``, ``stale`` or ``wrong``, and what was said.

    ``seen``: the tests that students see said it; otherwise only grading does.
    """

    kind: str
    told: str
    seen: bool = False


def load(path: Path) -> list[Answer]:
    """The wrong answers to the assignment at ``path``.

    Raises UserError naming the entry that is not as it should be.
    """
    listing = path.with_suffix(".yaml")
    known = [question.name for question in questions(notebook.read(path))]
    try:
        entries = yaml.safe_load(listing.read_text("utf-8"))
    except FileNotFoundError as error:
        raise UserError(
            f"{path.stem} has no wrong answers; list plausible ones in {listing}"
        ) from error
    except yaml.YAMLError as error:
        raise UserError(f"{listing}: {' '.join(str(error).split())}") from error
    if not isinstance(entries, list):
        raise UserError(f"{listing}: expected a list of wrong answers")
    found = []
    for number, entry in enumerate(entries, 1):
        keys = set(entry) if isinstance(entry, dict) else set()
        if keys != KEYS or not all(isinstance(entry[key], str) for key in KEYS):
            raise UserError(
                f"{listing}: answer {number} must have exactly the texts "
                f"{', '.join(sorted(KEYS))}"
            )
        answer = Answer(**entry)
        if answer.question not in known:
            raise UserError(
                f"{listing}: answer {answer.name!r} is to no question "
                f"{answer.question!r}; {nearest(answer.question, known)}"
            )
        found.append(answer)
    names = [(answer.question, answer.name) for answer in found]
    if len(set(names)) < len(names):
        raise UserError(f"{listing}: two answers to a question have the same name")
    for name in known:
        count = sum(answer.question == name for answer in found)
        if count < AT_LEAST:
            raise UserError(
                f"{listing}: {count} wrong answers to {name}, expected {AT_LEAST} or "
                "more"
            )
    return found


def courses(path: Path) -> list[str]:
    """The seed "", and others that together use every number declared."""
    nb = notebook.read(path)
    left = {name: set(texts[1:]) for name, texts in declared(nb).items()}
    seeds, number = [""], 0
    while len(seeds) < LEAST_COURSES or any(left.values()):
        number += 1
        seed = f"course {number}"
        drawn = draw(nb, path, seed)
        if all(drawn[name] in texts for name, texts in left.items() if texts):
            seeds.append(seed)
            for name, texts in left.items():
                texts.discard(drawn[name])
    return seeds


def run(root: Path, parts: list[str]) -> int:
    """Check the assignments of these parts; 1 if a test is not as it should be."""
    if len(parts) == 1:
        return check_part(root, parts[0])
    status = 0
    for part in parts:  # a process each: one part's ranks must not meet the next one's
        words = [sys.executable, "-m", "aiinfra.tools.cli", "exercises", part]
        done = subprocess.run([*words, "--check"], cwd=root, check=False)
        status |= bool(done.returncode)
    if not parts:
        print("exercises: no part has assignments yet")
    return status


def check_part(root: Path, part: str) -> int:
    """Check one part's assignments in this process, printing each verdict."""
    good = True
    for path in assignments(root, part):
        for line, flaw in flaws(root, path):
            print(f"  broken    {relative(root, path)}:{line}: {flaw}")
            good = False
    if not good:
        return 1
    seeds = {path: courses(path) for path in assignments(root, part)}
    stubs = {seed: released(root, part, seed) for seed in {*chain(*seeds.values())}}
    for path in assignments(root, part):
        good &= check_assignment(
            root, path, {s: stubs[s][path.stem] for s in seeds[path]}
        )
    return 0 if good else 1


def check_assignment(root: Path, path: Path, stubs: dict[str, NotebookNode]) -> bool:
    """Check one assignment, given its students' edition for each course to try."""
    began = time.perf_counter()
    name = relative(root, path).removesuffix(".ipynb")
    wrong = load(path)
    asked = questions(notebook.read(path))
    print(f"{name}: {len(asked)} questions, numbers of {len(stubs)} courses")
    verdicts: dict[Answer, list[Verdict]] = {answer: [] for answer in wrong}
    good = True
    for seed, stub in stubs.items():
        course = seed or "as committed"
        faults = list(empty(stub))
        # What has been imported stays. Else each sheet's end looks through all of it.
        gc.freeze()
        with Sheet(seeded(path, seed)) as sheet:
            faults += sheet.solve(stub)
            for answer in () if faults else wrong:
                verdict = sheet.judge(answer)
                verdicts[answer].append(verdict)
                if verdict.kind != "killed":
                    where = f"{course}: {answer.question}, {answer.name}"
                    print(f"  {verdict.kind:<8}  {where}: {verdict.told}", flush=True)
        for fault in faults:
            print(f"  broken    {course}: {fault}", flush=True)
            good = False
        if not faults:
            text = f"{course}: the solution, and no empty answer"
            print(f"  passes    {text}", flush=True)
    killed = 0
    for answer, each in verdicts.items():
        if each and all(verdict.kind == "killed" for verdict in each):
            by = "" if all(verdict.seen for verdict in each) else ", by hidden tests"
            told = each[0].told
            print(f"  killed    {answer.question}, {answer.name}{by}: {told}")
            killed += 1
    took = time.perf_counter() - began
    print(f"{name}: {killed} of {len(wrong)} wrong answers killed ({took:.0f} s)")
    return good and killed == len(wrong)


class Sheet:
    """An assignment in a shell of this process, with its solutions filled in."""

    def __init__(self, nb: NotebookNode) -> None:
        self.cells = {cell.id: cell.source for cell in notebook.code_cells(nb)}
        self.tests = {question.test for question in questions(nb)}

    def __enter__(self) -> "Sheet":
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="aiinfra-"))
            self.lesson = stack.enter_context(Lesson(Path(folder)))
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    def run(self, source: str) -> Ran:
        """Run one cell in the names that earlier cells defined."""
        out, err = io.StringIO(), io.StringIO()
        try:
            with (
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
                time_limit(CELL_LIMIT_S),
            ):
                done = self.lesson.shell.run_cell(source, store_history=False)
        except OvertimeError as error:
            return Ran(error, err.getvalue())
        error = done.error_before_exec or done.error_in_exec
        return Ran(error, err.getvalue(), done.result)

    def solve(self, stub: NotebookNode | None = None) -> Iterator[str]:
        """Run all cells with the solutions in them; what fails, or would cost points.

        With ``stub`` also the tests that students see, which are a part of all tests.
        """
        visible = {cell.id: cell.source for cell in stub.cells} if stub else {}
        for cell, source in self.cells.items():
            for text in {source, visible.get(cell, source)}:
                if cell not in self.tests and text != source:
                    continue
                ran = self.run(text)
                if ran.error is not None:
                    yield f"cell {cell} fails with the solution: {ran.told}"
                    return
                if cell in self.tests and (ran.stderr or ran.value is not None):
                    said = ran.stderr.strip() or repr(ran.value)
                    yield f"cell {cell} says {said!r}, which nbgrader counts as points"

    def judge(self, answer: Answer) -> Verdict:
        """Run a wrong answer and its question's tests, then undo it."""
        right, tests = (
            self.cells[answer.question],
            self.cells[f"test-{answer.question}"],
        )
        source = filled(right, answer.code)
        if source == right:
            return Verdict("stale", "is the solution")
        try:
            ran = self.run(source)
            if ran.error is not None:
                return Verdict("stale", f"no longer applies: {ran.told}")
            ran = self.run(HIDDEN.sub("", tests))
            seen = ran.error is not None
            if not seen:
                ran = self.run(tests)
        finally:
            self.run(right)
        if ran.error is None:
            return Verdict("survived", f"no test failed; {answer.why}")
        if not isinstance(ran.error, AssertionError):
            return Verdict("wrong", f"expected a failing assertion, got {ran.told}")
        return Verdict("killed", notebook.first_line(ran.error), seen)


def filled(source: str, code: str) -> str:
    """A cell with ``code`` where its solution stood, as deep as that."""
    region = SOLUTION.search(source)
    indent = region[0][: len(region[0]) - len(region[0].lstrip(" "))]
    code = textwrap.indent(textwrap.dedent(code).strip("\n"), indent)
    return source[: region.start()] + code + source[region.end() :]


def empty(stub: NotebookNode) -> Iterator[str]:
    """What an assignment handed in as it was handed out does that it should not."""
    with Sheet(stub) as sheet:
        for cell, source in sheet.cells.items():
            ran = sheet.run(source)
            if cell in sheet.tests and ran.error is None:
                yield f"cell {cell} passes with no answer"
            elif ran.error is not None and not unanswered(ran.error):
                yield f"cell {cell} fails with no answer for another reason: {ran.told}"


def unanswered(error: BaseException) -> bool:
    """Whether ``error`` comes of an empty answer, here or on a rank."""
    return isinstance(
        error, NotImplementedError | AssertionError
    ) or "NotImplementedError" in str(error)


def key(root: Path, path: Path, seed: str) -> str:
    """The key to one assignment as Markdown: numbers, points, wrong answers."""
    nb = notebook.read(path)
    listed, numbers = questions(nb), draw(nb, path, seed)
    course = f"course *{seed}*" if seed else "the committed numbers"
    title = notebook.title(nb, default=path.stem)
    lines = [f"# Key: {title}", "", f"For {course}.", "", "| number | value |"]
    lines += ["| --- | --- |", *(f"| `{n}` | {text} |" for n, text in numbers.items())]
    lines += ["", f"The solutions, run, are in `{path.name}`. Below is what the first"]
    lines += ["failing test says to some wrong answers.", ""]
    with Sheet(seeded(path, seed)) as sheet:
        for fault in sheet.solve():
            raise UserError(f"{relative(root, path)}: {fault}")
        for question in listed:
            lines += [f"## {question.name} ({question.points:g} points)", ""]
            for answer in load(path):
                if answer.question == question.name:
                    lines += note(answer, sheet.judge(answer))
    return "\n".join(lines)


def note(answer: Answer, verdict: Verdict) -> list[str]:
    """A wrong answer in the key: why somebody writes it, and what the tests say."""
    why = " ".join(answer.why.split())
    who = "A test in the notebook says" if verdict.seen else "Only grading says"
    code = textwrap.dedent(answer.code).strip("\n")
    return [
        *(f"### {answer.name}", "", f"{why[0].upper()}{why[1:].rstrip('.')}.", ""),
        *("```python", code, "```", "", f"{who}:", ""),
        *("```text", *textwrap.wrap(verdict.told, 88), "```", ""),
    ]
