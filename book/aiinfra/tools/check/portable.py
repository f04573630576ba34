"""Compared outputs say nothing of one machine or one run.

nbval compares the outputs of every cell without the tag ``nbval-ignore-output``: no
path, host, process id, date, time or address may stand there. A time that is computed
(virtual time, a cost model) is the same everywhere: its cell says ``virtual-time``.
"""

import platform
import re
from collections.abc import Iterator
from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import Cell, cells, joined

IGNORED, VIRTUAL = "nbval-ignore-output", "virtual-time"
NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
PATTERNS = {
    "a path": re.compile(
        r"(?<![\w.:/<])/(?:home|root|tmp|Users|usr|opt|var|mnt|private|proc|dev)/"
        r"[\w.+-]+|(?<![\w.:/<])/(?:[\w.+-]+/){2,}[\w.+-]*|\b[A-Za-z]:\\\w+"
    ),
    "a memory address": re.compile(r"\b0x[0-9a-fA-F]{7,16}\b"),
    "a network address": re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b|\blocalhost:\d+"),
    "a process id": re.compile(r"\bpid\b\W{0,3}\d+", re.IGNORECASE),
    "a date": re.compile(r"\b20\d\d-\d\d-\d\d\b"),
    "a time of day": re.compile(r"\b\d\d:\d\d:\d\d\b"),
    "a time": re.compile(
        rf"(?<![\w.]){NUMBER}\s?(?:ns|us|µs|μs|ms|s|sec|secs|seconds?|min|minutes?)\b"
        r"(?!\^|⁻)",
    ),
}


def check(root: Path) -> list[Problem]:
    """Compared outputs that would differ on another machine or in another run."""
    problems = []
    for cell in cells(root, "code"):
        if IGNORED in cell.tags:
            continue
        for text in texts(cell):
            for what, found in finds(text, VIRTUAL in cell.tags):
                message = (
                    f"cell {cell.id} prints {what}, {found!r}, and is compared; "
                    f"print something else, or tag it {IGNORED}"
                )
                if what == "a time":
                    message += f" ({VIRTUAL} if it is computed)"
                problems.append(Problem(cell.path, cell.line, message))
    return problems


def texts(cell: Cell) -> Iterator[str]:
    """What a reader sees of a cell's outputs as text, without drawings."""
    for output in cell.outputs:
        if output.get("output_type") == "stream":
            yield joined(output.get("text", ""))
        data = output.get("data", {})
        if "text/plain" in data:
            yield joined(data["text/plain"])


def finds(text: str, virtual: bool) -> Iterator[tuple[str, str]]:
    """(what, where) for each kind of fact about a machine or a run in ``text``."""
    host = platform.node()
    if len(host) > 3 and re.search(rf"\b{re.escape(host)}\b", text):
        yield "the host's name", host
    for what, pattern in PATTERNS.items():
        if what == "a time" and virtual:
            continue
        if found := pattern.search(text):
            yield what, found.group(0)
