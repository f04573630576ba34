"""One notebook's exam: the student's cells in one room, the tests in the other."""

import contextlib
import json
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.utils import is_grade, is_solution

from aiinfra.tools import grading
from aiinfra.tools.sandbox import Ended, Limits, OutOfTime, Sandbox

START_LIMIT_S = 60.0
GRACE_S = 5.0  # for the examiner to end a test after the student's room is gone
TEXT_LIMIT = 12_000
NO_ANSWER = "not answered"
HELLO = {
    "student": {"do": "run", "with": {"source": ""}},
    "examiner": {"source": "", "expected": []},
}


@dataclass(frozen=True)
class Rules:
    """What a submission may use; ``seconds`` is for one cell or one test."""

    seconds: float = 60.0
    limits: Limits = field(default_factory=Limits)
    unsafe: bool = False

    @property
    def notebook_s(self) -> float:
        """The bound on the whole notebook, in seconds."""
        return 10 * self.seconds


@dataclass(frozen=True)
class Plan:
    """What the tests need to know of an assignment's source.

    ``given`` has, for each test, the cells before it that are neither answers nor
    tests; ``expected`` the names that the answers of the source define; ``stubs`` what
    stands for each answer in the students' edition.
    """

    given: dict[str, list[str]]
    expected: list[str]
    stubs: dict[str, str]


@dataclass(frozen=True)
class Verdict:
    """The outcome of one test; ``score`` where the test gives part of its points."""

    passed: bool
    remark: str = ""
    score: float | None = None
    out_of_time: bool = False


class Room:
    """A sandboxed process of one of the two kinds, spoken to in JSON."""

    def __init__(self, kind: str, rules: Rules):
        command = [sys.executable, "-m", f"{grading.__name__}.{kind}"]
        self._sandbox = Sandbox(command, rules.limits, unsafe=rules.unsafe)
        self._hello: dict | None = HELLO[kind]

    def ask(self, message: dict | bytes, limit_s: float) -> bytes:
        """The answer, not read yet; Ended if there is none."""
        if self._hello is not None:  # the time to start is not the student's
            hello, self._hello = self._hello, None
            self.ask(hello, START_LIMIT_S)
        if isinstance(message, dict):
            message = json.dumps(message).encode()
        return self._sandbox.ask(message, limit_s)

    def close(self) -> None:
        """End it."""
        self._sandbox.close()


class Exam:
    """The exam of one notebook; its outputs are filled in."""

    def __init__(self, nb: NotebookNode, plan: Plan, rules: Rules):
        self.nb = nb
        self.plan = plan
        self.rules = rules
        self.verdicts: dict[str, Verdict] = {}
        self._began = time.monotonic()
        self._student: Room | None = None
        self._examiner: Room | None = None
        self._left_out: dict[int, Verdict] = {}  # cells that ended the room, and why
        self._errors: dict[int, str] = {}  # cells that raised an error, and which
        self._given_done = 0

    def run(self) -> dict[str, Verdict]:
        """Run everything, in order; the verdict on each test."""
        try:
            # Both start at once, as each takes seconds.
            self._student, self._examiner = self._room("student"), self._examine_room()
            for index, cell in enumerate(self.nb.cells):
                if cell.cell_type != "code":
                    continue
                if is_test(cell):
                    verdict = self._question(index)
                    self.verdicts[cell.metadata.nbgrader.grade_id] = verdict
                    cell.outputs = outputs_of(verdict)
                elif cell.source.strip():
                    cell.outputs = self._run_cell(index)
        finally:
            for room in (self._student, self._examiner):
                if room is not None:
                    room.close()
        return self.verdicts

    # ------------------------------------------------------------ the student's room

    def _run_cell(self, index: int) -> list[NotebookNode]:
        """Run one of the student's cells where the cells before it have run."""
        try:
            if self._student is None:
                self._student = self._replayed(filter(self._counts, range(index)))
            report = self._run_in(self._student, index)
        except Ended as why:
            # Later questions go on without this cell.
            self._left_out[index] = self._ended(why)
            self._drop_student()
            return outputs_of(self._left_out[index])
        outputs = []
        if report["printed"]:
            outputs.append(new_output("stream", name="stdout", text=report["printed"]))
        if report["error"]:
            self._errors[index] = report["error"]
            outputs.append(failure(report["error"]))
        return outputs

    def _run_in(self, room: Room, index: int) -> dict[str, str]:
        """Run a cell in a room; what it printed and what went wrong, as text."""
        message = {"do": "run", "with": {"source": self.nb.cells[index].source}}
        answer = room.ask(message, self._left_s())
        try:
            report = json.loads(answer)
            return {
                key: str(report.get(key) or "")[:TEXT_LIMIT]
                for key in ("printed", "error")
            }
        except (ValueError, RecursionError, AttributeError):
            return {"printed": "", "error": "the cell's outcome cannot be read"}

    def _replayed(self, indices: Iterable[int]) -> Room:
        """A new room for the student's code in which these cells have run."""
        room = self._room("student")
        try:
            for index in indices:
                cell = self.nb.cells[index]
                runs = cell.cell_type == "code" and not is_test(cell)
                if runs and cell.source.strip():
                    self._run_in(room, index)
        except BaseException:
            room.close()
            raise
        return room

    def _drop_student(self) -> None:
        if self._student is not None:
            self._student.close()
            self._student = None

    # ------------------------------------------------------------ questions

    def _question(self, index: int) -> Verdict:
        """The verdict on one test.

        If it fails where all cells have run, it is tried once more without the
        answers to other questions: what those break is not this one's fault.
        """
        answers = {i for i in range(index) if is_solution(self.nb.cells[i])}
        tests = [i for i in range(index) if is_test(self.nb.cells[i])]
        own = {i for i in answers if i > max(tests, default=-1)}
        others = answers - own
        if own and all(self._is_stub(i) for i in own):
            return Verdict(False, NO_ANSWER)
        ended = [self._left_out[i] for i in sorted(own & self._left_out.keys())]
        verdict = ended[0] if ended else self._attempt(index)
        for i in sorted(own & self._errors.keys()):
            if not verdict.passed:
                remark = f"{verdict.remark}; your cell: {self._errors[i]}"
                verdict = replace(verdict, remark=remark)
        if verdict.passed or verdict.out_of_time or not others:
            return verdict
        cells = [i for i in range(index) if i in own or self._counts(i, others)]
        with contextlib.suppress(Ended):
            alone = self._replayed(cells)
            try:
                again = self._examine(alone, index)
            finally:
                alone.close()
            if again.passed:
                return again
        return verdict

    def _is_stub(self, index: int) -> bool:
        """Whether an answer's cell is as it was handed out."""
        cell = self.nb.cells[index]
        stub = self.plan.stubs.get(cell.metadata.nbgrader.grade_id)
        return stub is not None and cell.source.strip() == stub.strip()

    def _counts(self, index: int, without: Iterable[int] = ()) -> bool:
        """Whether a cell takes part in what comes after it."""
        return index not in self._left_out and index not in without

    def _attempt(self, index: int) -> Verdict:
        """The verdict where all cells before the test have run."""
        try:
            if self._student is None:
                self._student = self._replayed(filter(self._counts, range(index)))
            return self._examine(self._student, index)
        except Ended as why:
            self._drop_student()
            return self._ended(why)

    def _examine(self, student: Room, index: int) -> Verdict:
        """The verdict on the code in ``student``; Ended if that room ended."""
        cell = self.nb.cells[index]
        given = self.plan.given[cell.metadata.nbgrader.grade_id]
        try:
            while self._given_done < len(given):
                self._given_done += 1
                self._converse(student, given[self._given_done - 1])
            verdict = self._converse(student, cell.source)
        except ExaminerEnded as why:
            self._examiner.close()
            self._examiner = self._examine_room()
            return Verdict(False, f"the test ended: {why}")
        if "gone" in verdict:  # said by the student's room, which is still there
            return Verdict(False, "stopped: it answered what it was not asked")
        if verdict["error"] is not None:
            return Verdict(False, str(verdict["error"])[:TEXT_LIMIT])
        return Verdict(True, score=verdict["score"])

    def _converse(self, student: Room, source: str) -> dict:
        """Let the examiner run a cell, and carry its questions to the student."""
        limit_s, began = self._left_s(), time.monotonic()
        message: dict | bytes = {"source": source, "expected": self.plan.expected}
        gone: Ended | None = None
        while True:
            left_s = limit_s - (time.monotonic() - began)
            try:
                answer = json.loads(self._examiner.ask(message, left_s + GRACE_S))
            except Ended as why:
                raise ExaminerEnded(self._ended(why).remark) from None
            if gone is not None:
                raise gone
            if "verdict" in answer:
                return answer["verdict"]
            try:
                message = student.ask(answer["ask"], left_s)
            except Ended as why:
                message, gone = b'{"gone": true}', why

    # ------------------------------------------------------------ rooms and time

    def _room(self, kind: str) -> Room:
        return Room(kind, self.rules)

    def _examine_room(self) -> Room:
        self._given_done = 0
        return self._room("examiner")

    def _ended(self, why: Ended) -> Verdict:
        """The verdict on what ended a room."""
        if not isinstance(why, OutOfTime):
            return Verdict(False, f"stopped: {why}")
        seconds, what = self.rules.seconds, "not"
        if time.monotonic() > self._began + self.rules.notebook_s:
            seconds, what = self.rules.notebook_s, "the whole notebook not"
        return Verdict(False, f"{what} finished within {seconds:g} s", out_of_time=True)

    def _left_s(self) -> float:
        """The seconds that the next cell may take."""
        left_s = self._began + self.rules.notebook_s - time.monotonic()
        return max(0.0, min(self.rules.seconds, left_s))


class ExaminerEnded(Exception):  # noqa: N818 (told as the test's outcome)
    """The examiner's room ended, or was ended."""


def is_test(cell: NotebookNode) -> bool:
    """Whether a cell is graded by running it."""
    return cell.cell_type == "code" and is_grade(cell) and not is_solution(cell)


def outputs_of(verdict: Verdict) -> list[NotebookNode]:
    """A test's outputs as nbgrader reads them: an error is no points."""
    if not verdict.passed:
        return [failure(verdict.remark)]
    if verdict.score is None:
        return []
    data = {"text/plain": repr(verdict.score)}
    return [new_output("execute_result", data=data, execution_count=1)]


def failure(text: str) -> NotebookNode:
    """An error as a cell's output."""
    return new_output("error", ename="Failed", evalue=text, traceback=[text])
