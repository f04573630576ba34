"""Code, in files and in notebooks, is formatted and linted by ruff."""

import json
import re
import subprocess
import sys
from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import cells_of
from aiinfra.tools.root import relative

RUFF = [sys.executable, "-m", "ruff"]


def check(root: Path) -> list[Problem]:
    """What `ruff check` and `ruff format --check` find."""
    return [*linted(root), *formatted(root)]


def linted(root: Path) -> list[Problem]:
    """What the linter finds."""
    done = run(root, "check", "--output-format=json", "--no-cache", ".")
    try:
        found = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return [Problem("pyproject.toml", 1, f"ruff failed: {last}")]
    problems = []
    for each in found:
        path, line = Path(each["filename"]), each["location"]["row"]
        message = f"{each['code']} {each['message']}"
        if each.get("cell"):
            cell = cells_of(root, path)[each["cell"] - 1]
            message = f"cell {cell.id}, line {line}: {message}"
            line = cell.line
        problems.append(Problem(relative(root, path), line, message))
    return problems


def formatted(root: Path) -> list[Problem]:
    """What `ruff format` would change, file by file and cell by cell.

    Read off the diff, whose form is older than ruff and will outlive its messages.
    """
    done = run(root, "format", "--diff", "--no-cache", ".")
    problems = []
    # A cell that stays as it is has a head too, and no hunk.
    heads = r"^--- (.+?)(?::cell (\d+))?\n\+\+\+ .*\n@@"
    for found in re.finditer(heads, done.stdout, re.MULTILINE):
        path, cell_number, at, message = found[1], found[2], 1, "run `ruff format`"
        if cell_number:
            cell = cells_of(root, root / path)[int(cell_number) - 1]
            at, message = cell.line, f"cell {cell.id}: {message}"
        problems.append(Problem(path, at, message))
    if done.returncode and not problems:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        problems.append(Problem("pyproject.toml", 1, f"ruff format failed: {last}"))
    return problems


def run(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run ruff on the tree."""
    return subprocess.run(
        [*RUFF, *words], cwd=root, capture_output=True, text=True, check=False
    )
