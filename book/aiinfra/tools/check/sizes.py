"""Files and the repository stay small enough for a phone and a clone."""

from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import files
from aiinfra.tools.root import relative

MB = 1_000_000
FILE, REPOSITORY = 1 * MB, 60 * MB


def check(root: Path) -> list[Problem]:
    """Files over 1 MB outside static/vendor and data; a tree over 60 MB."""
    problems, total = [], 0
    for path in files(root):
        size = path.stat().st_size
        total += size
        name = relative(root, path)
        free = name.startswith("book/static/vendor/") or "/data/" in name
        if size > FILE and not free:
            message = f"{size / MB:.1f} MB, at most {FILE / MB:.0f} MB"
            problems.append(Problem(name, 1, message))
    if total > REPOSITORY:
        message = f"the tree has {total / MB:.0f} MB, at most {REPOSITORY / MB:.0f} MB"
        problems.append(Problem(".", 1, message))
    return problems
