"""Every notebook runs within a minute, most within twenty seconds, and says how
long it takes to read.
"""

import hashlib
import json
import re
import statistics
from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import Skip, cells_of
from aiinfra.tools.root import notebooks, relative

RECORD = Path("_build/test/notebooks.json")  # written by `aiinfra test notebooks`
LONGEST_S, MEDIAN_S = 60.0, 20.0
MINUTES = re.compile(r"\b\d+\s*(?:minutes|min)\b", re.IGNORECASE)


def check(root: Path) -> list[Problem]:
    """Lessons without minutes in their head; run times over budget, as last measured.

    A time measured before the notebook last changed counts for nothing.
    """
    problems = []
    for path in notebooks(root):
        prose = [cell for cell in cells_of(root, path) if cell.kind == "markdown"]
        if not any(MINUTES.search(cell.source) for cell in prose[:2]):
            message = "the head does not say how many minutes the lesson takes"
            problems.append(Problem(relative(root, path), 1, message))
    times = measured(root)
    for name, seconds in times.items():
        if seconds > LONGEST_S:
            message = f"ran for {seconds:.0f} s, at most {LONGEST_S:.0f}"
            problems.append(Problem(name, 1, message))
    if len(times) > 1 and (middle := statistics.median(times.values())) > MEDIAN_S:
        message = f"median run time is {middle:.0f} s, at most {MEDIAN_S:.0f}"
        problems.append(Problem("_toc.yml", 1, message))
    if notebooks(root) and not times and not problems:
        raise Skip("no run times; `aiinfra test notebooks` measures them")
    return problems


def measured(root: Path) -> dict[str, float]:
    """Seconds by notebook, for those that are as they were when measured."""
    try:
        record = json.loads((root / RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return {
        name: entry["seconds"]
        for name, entry in record.items()
        if (root / name).is_file() and digest(root / name) == entry["sha256"]
    }


def digest(path: Path) -> str:
    """The hash of a file, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
