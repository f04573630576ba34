"""Notebooks are in the one form that every tool here expects."""

import re
from pathlib import Path

import nbformat

from aiinfra.tools import notebook
from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import cells_of, read_notebook
from aiinfra.tools.root import assignments, nearest, notebooks, relative

TAGS = {
    "check": "asserts; the mutants must fail here",
    "export": "goes into aiinfra.lessons",
    "hide-cell": "an exercise's solution, folded",
    "long-cell": "up to 40 lines",
    "nbval-ignore-output": "times, curves, facts of the machine",
    "setup": "imports and data that the checks need",
    "variant": "declares an assignment's numbers",
    "virtual-time": "prints times that are computed",
}
ID = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
RANDOM_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){0,3}(?:-[0-9a-f]{12})?")


def check(root: Path) -> list[Problem]:
    """Invalid notebooks, unspeakable cell ids, unknown tags, leftovers of an editor."""
    problems = []
    for path in [*notebooks(root), *assignments(root)]:
        name = relative(root, path)
        for line, message in flaws(root, path):
            problems.append(Problem(name, line, message))
    return problems


def flaws(root: Path, path: Path) -> list[tuple[int, str]]:
    """(line, message) for each flaw of one notebook."""
    raw = read_notebook(path)
    version = (raw.get("nbformat"), raw.get("nbformat_minor"))
    try:
        nbformat.validate(raw)
    except Exception as error:  # whatever is wrong with it
        return [
            (1, f"no valid notebook: {notebook.first_line(error)} (format {version})")
        ]
    found = []
    if version != (4, 5):
        found.append((1, f"format {version[0]}.{version[1]}, expected 4.5"))
    metadata = raw.get("metadata", {})
    if metadata.get("kernelspec", {}).get("name") != "python3":
        found.append((1, "kernel is not python3"))
    if "widgets" in metadata:
        found.append((1, "holds widget state; run `aiinfra execute`"))
    for cell in cells_of(root, path):
        if not ID.fullmatch(cell.id) or RANDOM_ID.fullmatch(cell.id):
            message = (
                f"cell id {cell.id!r}: expected words with hyphens, say what it does"
            )
            found.append((cell.line, message))
        for tag in sorted(cell.tags - set(TAGS)):
            message = f"cell {cell.id}: unknown tag {tag}; {nearest(tag, list(TAGS))}"
            found.append((cell.line, message))
        if any(key in cell.metadata for key in notebook.VOLATILE_CELL_METADATA):
            message = f"cell {cell.id} carries an editor's notes; run `aiinfra execute`"
            found.append((cell.line, message))
    return found
