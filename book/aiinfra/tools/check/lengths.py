"""Cells fit on a screen, and lines in a column."""

from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import cells

LINE, CELL, LONGEST_CELL = 88, 25, 40
TAG = "long-cell"


def check(root: Path) -> list[Problem]:
    """Code cells over 25 lines (40 with the tag ``long-cell``), lines over 88."""
    problems = []
    for cell in cells(root, "code"):
        lines = cell.source.rstrip().splitlines()
        limit = LONGEST_CELL if TAG in cell.tags else CELL
        if len(lines) > limit:
            message = f"cell {cell.id} has {len(lines)} lines, at most {limit}"
            problems.append(Problem(cell.path, cell.line, message))
        for number, line in enumerate(lines, 1):
            if len(line) > LINE:
                message = (
                    f"cell {cell.id}, line {number} has {len(line)} characters, "
                    f"at most {LINE}"
                )
                problems.append(Problem(cell.path, cell.line, message))
    return problems
