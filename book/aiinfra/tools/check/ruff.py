"""Code, in files and in notebooks, is formatted and linted by ruff."""

import json
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
    """Files that `ruff format` would change."""
    done = run(root, "format", "--check", "--no-cache", ".")
    return [
        Problem(line.removeprefix("Would reformat: ").strip(), 1, "run `ruff format`")
        for line in done.stdout.splitlines()
        if line.startswith("Would reformat: ")
    ]


def run(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run ruff on the tree."""
    return subprocess.run(
        [*RUFF, *words], cwd=root, capture_output=True, text=True, check=False
    )
