"""The room of the tests: run them, with stand-ins for what the student defined.

A test cell runs as it would in the student's notebook, except that a name which the
student was asked to define is a plain value, or a stand-in whose calls are made in the
student's room. What `launch` and `Ranks` run, they run there too: tests that need to
be beside the student's code, for autograd, for classes or among ranks, do so in a
function given to `launch`, and compare what it returns.
"""

import ast
import base64
import builtins
import importlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import cloudpickle

from aiinfra.tools.grading.cells import Cells, Trouble, one_line
from aiinfra.tools.grading.wire import (
    Line,
    objects_in,
    own_module,
    put_back,
    restore,
)

RUN_BESIDE_STUDENT = ("launch", "Ranks")
LAUNCH = "aiinfra.launch"
BEGIN_HIDDEN, END_HIDDEN = "BEGIN HIDDEN TESTS", "END HIDDEN TESTS"


class Gone(BaseException):
    """The student's room ended during a call; no test can catch this as an error."""


class StudentError(RuntimeError):
    """The student's code raised an exception of a class that is not known here."""


class StandIn:
    """Stands for an object in the student's room; equal to nothing but itself."""

    def __init__(self, pid: int | tuple[str, str], desk: "Desk"):
        self._pid = pid
        self._desk = desk

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._desk.use("call", self, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._desk.use("attribute", self, (name,))

    def __getitem__(self, key: Any) -> Any:
        return self._desk.use("item", self, (key,))

    def __len__(self) -> int:
        return self._desk.use("length", self)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(self._desk.use("list", self))

    def __enter__(self) -> Any:
        return self._desk.use("attribute", self, ("__enter__",))()

    def __exit__(self, *_) -> None:
        self._desk.use("attribute", self, ("__exit__",))(None, None, None)

    def __repr__(self) -> str:
        return "<an object of the student's>"


class Pickler(cloudpickle.Pickler):
    """Sends stand-ins as the objects that they stand for."""

    def persistent_id(self, obj: Any) -> int | tuple[str, str] | None:
        """What the student's room knows the object by."""
        return obj._pid if type(obj) is StandIn else None


class Desk:
    """Where the examiner asks the student's room."""

    def __init__(self, line: Line):
        self.line = line

    def ask(self, do: str, **details: Any) -> dict:
        """The student's room's answer to one message."""
        self.line.send({"ask": {"do": do, "with": details}})
        try:
            answer = self.line.receive()
        except (ValueError, RecursionError):
            answer = {"failed": "an answer that cannot be read"}
        if answer is None or "gone" in answer:
            raise Gone
        if "failed" in answer:
            raise StudentError(str(answer["failed"]))
        return answer

    def use(self, operation: str, what: StandIn, args=(), kwargs=None) -> Any:
        """Do something with an object in the student's room."""
        kwargs = kwargs or {}
        buffer = io.BytesIO()
        Pickler(buffer).dump((operation, what, args, kwargs))
        pickled = base64.b64encode(buffer.getvalue()).decode()
        answer = self.ask("use", pickled=pickled)
        if "raised" in answer:
            error = known_error(*answer["raised"], str(answer["message"]))
            error.add_note(str(answer["told"]))
            raise error
        given = objects_in((tuple(args), kwargs))
        value = self.read(answer["value"], given)
        put_back([list(args), kwargs], self.read(answer["arguments"], given))
        return value

    def get(self, name: str) -> tuple[bool, Any]:
        """Whether the student defined ``name``, and its value."""
        answer = self.ask("get", name=name)
        if "missing" in answer:
            return False, None
        return True, self.read(answer["value"])

    def read(self, text: Any, given: Sequence[Any] = ()) -> Any:
        """A value from its description; ``given`` are objects that came from here."""

        def find(kind: str, number: int) -> Any:
            return given[number] if kind == "given" else StandIn(number, self)

        return restore(text, find)


def known_error(module: str, name: str, message: str) -> BaseException:
    """An exception of the class named, if it is Python's own or this package's."""
    kind: Any = None
    if module == "builtins":
        kind = getattr(builtins, name, None)
    elif own_module(module):
        kind = getattr(importlib.import_module(module), name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except TypeError:
            pass
    return StudentError(f"{name}: {message}")


class Examiner:
    """The tests' notebook, running."""

    def __init__(self, cells: Cells, desk: Desk):
        self.cells = cells
        self.desk = desk

    def examine(self, source: str, expected: list[str]) -> dict:
        """Run one cell; its verdict.

        ``expected`` are the names that students were asked to define.
        """
        try:
            for name in sorted(used_names(self.cells, source) & set(expected)):
                self.cells.names.pop(name, None)
                there, value = self.desk.get(name)
                if there:
                    self.cells.names[name] = value
        except Gone:
            return {"gone": True}
        except Exception as error:
            return {"error": one_line(error)}
        if LAUNCH in source:
            importlib.import_module(LAUNCH)
        self.move_launch()
        result = self.cells.run(source)
        self.cells.printed()
        self.move_launch()
        error = result.error_before_exec or result.error_in_exec
        if isinstance(error, Gone):
            return {"gone": True}
        trouble = self.cells.trouble(error)
        if trouble is not None:
            return {"error": told(error, trouble, source)}
        score = result.result
        partial = type(score) in (int, float)
        return {"error": None, "score": float(score) if partial else None}

    def move_launch(self) -> None:
        """Once `launch` is imported, let it run in the student's room."""
        module = sys.modules.get(LAUNCH)
        if module is None:
            return
        for name in RUN_BESIDE_STUDENT:
            stand_in = StandIn((LAUNCH, name), self.desk)
            real = getattr(module, name)
            if type(real) is StandIn:
                continue
            setattr(module, name, stand_in)
            for key, value in self.cells.names.items():
                if value is real:
                    self.cells.names[key] = stand_in


def used_names(cells: Cells, source: str) -> set[str]:
    """The names that a cell reads."""
    try:
        tree = ast.parse(cells.shell.transform_cell(source))
    except SyntaxError:
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def told(error: BaseException, trouble: Trouble, source: str) -> str:
    """What the student is told of a failed test: of a hidden one, its message only."""
    if notes := getattr(error, "__notes__", None):  # from the student's room
        return notes[0]
    if isinstance(error, AssertionError) and str(error):
        return str(error)
    hidden = False
    for number, line in enumerate(source.splitlines(), 1):
        if BEGIN_HIDDEN in line:
            hidden = True
        elif END_HIDDEN in line:
            hidden = False
        if number == trouble.line:
            break
    if not hidden:
        return trouble.text
    if isinstance(error, AssertionError):
        return "a hidden test failed"
    return f"in a hidden test: {one_line(error)}"


def main() -> None:
    """Serve until there are no more messages."""
    # No ranks run here, so none are made ready when `launch` is imported.
    os.environ["AIINFRA_LAUNCH_START"] = "spawn"
    cells = Cells()
    line = Line(cells.file)
    examiner = Examiner(cells, Desk(line))
    while (message := line.receive()) is not None:
        line.send({"verdict": examiner.examine(**message)})


if __name__ == "__main__":
    main()
