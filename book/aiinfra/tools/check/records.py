"""Every recorded run says how it was made, and its record is the one made so."""

from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.errors import UserError
from aiinfra.tools.rerun import check_hash, load, manifests
from aiinfra.tools.root import relative


def check(root: Path) -> list[Problem]:
    """Manifests that lack a field, and records whose hash differs."""
    try:
        found = manifests(root)
    except UserError as error:
        return [Problem(".", 1, str(error))]
    problems = []
    for path in found.values():
        try:
            about = load(path)
            check_hash(root, about, path.parent / about["record"])
        except UserError as error:
            message = str(error).replace(f"{root}/", "")
            problems.append(Problem(relative(root, path), 1, message))
    return problems
