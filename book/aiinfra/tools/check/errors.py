"""No page shows an error that nobody meant: no error output, nothing on stderr."""

from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import cells, joined


def check(root: Path) -> list[Problem]:
    """Cells whose committed outputs hold an error or a line of stderr."""
    problems = []
    for cell in cells(root, "code"):
        for output in cell.outputs:
            if output.get("output_type") == "error":
                said = f"ends in {output.get('ename')}"
            elif output.get("name") == "stderr":
                first = (joined(output.get("text", "")).strip().splitlines() or [""])[0]
                said = f"writes to stderr: {first[:80]}"
            else:
                continue
            problems.append(Problem(cell.path, cell.line, f"cell {cell.id} {said}"))
    return problems
