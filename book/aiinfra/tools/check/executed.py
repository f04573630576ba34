"""Every notebook was run from its first cell to its last: counts are 1 … n."""

from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import cells_of
from aiinfra.tools.root import notebooks


def check(root: Path) -> list[Problem]:
    """Code cells that are empty, were never run, or were run out of order.

    nbval compares nothing on a cell without a count, so this gate is its floor.
    """
    problems = []
    for path in notebooks(root):
        expected = 0
        for cell in cells_of(root, path):
            if cell.kind != "code":
                continue
            if not cell.source.strip():
                problems.append(
                    Problem(cell.path, cell.line, f"cell {cell.id} is empty")
                )
                continue
            expected += 1
            if cell.count != expected:
                was = "was never executed" if cell.count is None else "is out of order"
                message = (
                    f"cell {cell.id} {was}: count {cell.count}, expected {expected}; "
                    f"run `aiinfra execute {cell.path}`"
                )
                problems.append(Problem(cell.path, cell.line, message))
                break  # what follows is wrong for the same reason
    return problems
