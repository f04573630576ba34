"""The failure index quotes messages that are really printed, and misses no lesson."""

import re
from collections.abc import Iterator
from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import cells_of, joined
from aiinfra.tools.root import notebooks, relative

INDEX = Path("book/reference/failures.md")
PROVOKED = Path("tests/launch/test_failure_texts.py")  # messages no lesson shows
ENTRY = re.compile(r"^### (?P<title>.+?)$(?P<body>.*?)(?=^##|\Z)", re.M | re.S)
MESSAGES = re.compile(r"^```text\n(?P<lines>.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\((?P<target>[^)#\s]+\.ipynb)#[^)\s]+\)")
CONTINUED = re.compile(r"\"\s*\n\s*f?\"")  # one text written as two literals
BREAKS = re.compile(r"^##+ When it breaks", re.M)


def check(root: Path) -> list[Problem]:
    """Messages that neither the lesson they lead to nor a test has; entries that lead
    to no section; lessons that break something and are not in the index.
    """
    if not (root / INDEX).is_file():
        return []
    text = (root / INDEX).read_text("utf-8")
    provoked = root / PROVOKED
    test = provoked.read_text("utf-8") if provoked.is_file() else ""
    problems, lessons = [], set()
    for entry in ENTRY.finditer(text):
        line = 1 + text.count("\n", 0, entry.start())
        linked = {
            (root / INDEX).parent.joinpath(link["target"]).resolve()
            for link in LINK.finditer(entry["body"])
        }
        if not linked:
            message = f"{entry['title']!r} leads to no section of a lesson"
            problems.append(Problem(INDEX.as_posix(), line, message))
        lessons |= linked
        places = [test, *(shown(root, path) for path in linked if path.is_file())]
        for message in messages(entry["body"]):
            if not any(pattern(message).search(place) for place in places):
                said = (
                    f"{message!r} is in no lesson that it leads to, nor in {PROVOKED}"
                )
                problems.append(Problem(INDEX.as_posix(), line, said))
    for path in notebooks(root):
        prose = (c.source for c in cells_of(root, path) if c.kind == "markdown")
        if path.resolve() not in lessons and any(map(BREAKS.search, prose)):
            message = f"breaks something that {INDEX} does not lead to"
            problems.append(Problem(relative(root, path), 1, message))
    return problems


def messages(body: str) -> Iterator[str]:
    """The messages that an entry quotes, one a line."""
    for block in MESSAGES.finditer(body):
        yield from (
            line.strip() for line in block["lines"].splitlines() if line.strip()
        )


def pattern(message: str) -> re.Pattern[str]:
    """What ``message`` matches: … is anything, and every white space is one."""
    pieces = (re.escape(" ".join(piece.split())) for piece in message.split("…"))
    return re.compile(".*?".join(pieces).replace("\\ ", r"\s+"), re.S)


def shown(root: Path, path: Path) -> str:
    """All that a lesson says: its cells' sources and what they printed."""
    pieces = []
    for cell in cells_of(root, path):
        pieces.append(CONTINUED.sub("", cell.source))
        for output in cell.outputs:
            data = output.get("data", {}).get("text/plain", "")
            pieces.append(joined(output.get("text", data)))
    return "\n".join(pieces)
