"""Cells fit on a screen, and lines in a column.

An assignment's hidden tests don't count: who reads the assignment doesn't see them.
"""

import re
from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import cells

LINE, CELL, LONGEST_CELL = 88, 25, 40
TAG = "long-cell"
HIDDEN = re.compile(r"^### BEGIN HIDDEN TESTS$.*?^### END HIDDEN TESTS$", re.M | re.S)


def check(root: Path) -> list[Problem]:
    """Code cells over 25 lines (40 with the tag ``long-cell``), lines over 88."""
    problems = []
    for cell in cells(root, "code"):
        lines = cell.source.rstrip().splitlines()
        n_seen = len(HIDDEN.sub("", cell.source).rstrip().splitlines())
        limit = LONGEST_CELL if TAG in cell.tags else CELL
        if n_seen > limit:
            message = f"cell {cell.id} has {n_seen} lines, at most {limit}"
            problems.append(Problem(cell.path, cell.line, message))
        for number, line in enumerate(lines, 1):
            if len(line) > LINE:
                message = (
                    f"cell {cell.id}, line {number} has {len(line)} characters, "
                    f"at most {LINE}"
                )
                problems.append(Problem(cell.path, cell.line, message))
    return problems
