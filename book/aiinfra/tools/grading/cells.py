"""Run notebook cells, as a kernel would, in the process of a room."""

import contextlib
import os
import sys
import tempfile
import traceback
from dataclasses import dataclass
from typing import Any

from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from traitlets.config import Config

SHOWN_CHARACTERS = 10_000


@dataclass
class Trouble:
    """What went wrong in a cell: the exception, in a line, and where (0: unknown)."""

    text: str
    line: int


class Cells:
    """A shell without a terminal; what cells print goes to an unnamed file."""

    def __init__(self) -> None:
        self.file = unnamed_file()
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "NoColor"
        config.InteractiveShell.xmode = "Minimal"
        self.shell = InteractiveShell.instance(config=config)
        # Told in a line below; a traceback would show what is not the student's.
        self.shell._showtraceback = lambda *_: None

    @property
    def names(self) -> dict[str, Any]:
        """The global names of the cells."""
        return self.shell.user_ns

    def run(self, source: str) -> ExecutionResult:
        """Run one cell."""
        return self.shell.run_cell(source, store_history=True)

    def trouble(self, error: BaseException | None) -> Trouble | None:
        """``error`` as a person needs it; None if there is none."""
        if error is None:
            return None
        if isinstance(error, SyntaxError) and error.lineno:
            return Trouble(f"{one_line(error)} (line {error.lineno})", error.lineno)
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if self.is_cell(frame.filename):
                where = f" (line {frame.lineno}: {frame.line})" if frame.line else ""
                return Trouble(one_line(error) + where, frame.lineno or 0)
        return Trouble(one_line(error), 0)

    def is_cell(self, filename: str) -> bool:
        """Whether code with this file name is a cell's."""
        return self.shell.compile.format_code_name(filename) is not None

    def printed(self) -> str:
        """What has been printed since the last call, at most its first characters."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        size = os.fstat(self.file).st_size
        text = os.pread(self.file, SHOWN_CHARACTERS, 0).decode(errors="replace")
        os.ftruncate(self.file, 0)
        if size > SHOWN_CHARACTERS:
            text += f"\n… {size - SHOWN_CHARACTERS:,} more characters"
        return text


def unnamed_file() -> int:
    """A file in memory, where the system has them; it is there when disks are full."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("printed")
    else:
        file, name = tempfile.mkstemp()
        os.unlink(name)
    flags = os.O_APPEND
    with contextlib.suppress(ImportError):
        import fcntl

        fcntl.fcntl(file, fcntl.F_SETFL, flags)
    return file


def one_line(error: BaseException) -> str:
    """The type and the message of an exception."""
    message = " ".join(str(error).split())[:1000]
    name = type(error).__name__
    return f"{name}: {message}" if message else name
