"""The room of the student's code: run its cells, and call what they define."""

import base64
import importlib
import io
import operator
import pickle
from collections.abc import Callable
from typing import Any

from aiinfra.tools.grading.cells import Cells, one_line
from aiinfra.tools.grading.wire import Line, describe, objects_in

OPERATIONS: dict[str, Callable] = {
    "attribute": getattr,
    "call": lambda kept, *args, **kwargs: kept(*args, **kwargs),
    "item": operator.getitem,
    "length": len,
    "list": list,
}


class Student:
    """The student's notebook, running; it answers one message at a time."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self.kept: list[Any] = []

    def answer(self, message: dict) -> dict:
        """Do what ``message`` asks."""
        return getattr(self, f"do_{message['do']}")(**message["with"])

    def do_run(self, source: str) -> dict:
        """Run a cell: what it printed, and what went wrong."""
        result = self.cells.run(source)
        error = result.error_before_exec or result.error_in_exec
        trouble = self.cells.trouble(error)
        return {
            "error": trouble and trouble.text,
            "printed": self.cells.printed(),
        }

    def do_get(self, name: str) -> dict:
        """The value of a global name."""
        if name not in self.cells.names:
            return {"missing": True}
        return {"value": describe(self.cells.names[name], self.keep)}

    def do_use(self, pickled: str) -> dict:
        """Call, or look into, an object that is kept here."""
        data = io.BytesIO(base64.b64decode(pickled))
        try:
            operation, kept, args, kwargs = Unpickler(data, self.kept).load()
            objects = objects_in((args, kwargs))
            given = {id(each): number for number, each in enumerate(objects)}
            result = OPERATIONS[operation](kept, *args, **kwargs)
            answer = {"value": describe(result, self.keep, given)}
            # A call may have changed its arguments in place: containers are described
            # anew, and objects that the examiner has go back by their number.
            answer["arguments"] = describe(
                [list(args), kwargs],
                lambda part: (
                    ["given", given[id(part)]] if id(part) in given else self.keep(part)
                ),
            )
        except BaseException as error:
            return self.raised(error)
        self.cells.printed()
        return answer

    def raised(self, error: BaseException) -> dict:
        """An exception in a message."""
        trouble, kind = self.cells.trouble(error), type(error)
        return {
            "raised": [kind.__module__, kind.__qualname__],
            "message": str(error),
            "told": trouble.text,
        }

    def keep(self, value: Any) -> list:
        """Keep ``value`` here; a number stands for it."""
        self.kept.append(value)
        return ["kept", len(self.kept) - 1]


class Unpickler(pickle.Unpickler):
    """Finds the objects that stand-ins stand for."""

    def __init__(self, file: io.BytesIO, kept: list[Any]):
        super().__init__(file)
        self.kept = kept

    def persistent_load(self, pid: int | tuple[str, str]) -> Any:
        """A kept object by its number, or an attribute of a module by name."""
        if isinstance(pid, int):
            return self.kept[pid]
        module, name = pid
        return getattr(importlib.import_module(module), name)


def main() -> None:
    """Serve until there are no more messages."""
    cells = Cells()
    line = Line(cells.file)
    student = Student(cells)
    while (message := line.receive()) is not None:
        try:
            answer = student.answer(message)
        except BaseException as error:
            answer = {"failed": one_line(error)}
        line.send(answer)


if __name__ == "__main__":
    main()
