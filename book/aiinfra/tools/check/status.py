"""Every notebook has a recorded run of its code as it is now."""

from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import lesson_name, notebooks, relative
from aiinfra.tools.status_page import orphans, outdated


def check(root: Path) -> list[Problem]:
    """Notebooks without a run, or changed since; runs of notebooks that are gone."""
    problems = []
    for path in notebooks(root):
        try:
            why = outdated(root, path)
        except UserError as error:
            problems.append(Problem(relative(root, path), 1, str(error)))
            continue
        if why:
            message = f"{why}; run `aiinfra status {lesson_name(root, path)}`"
            problems.append(Problem(relative(root, path), 1, message))
    for path in orphans(root):
        message = "records runs of a notebook that is not there; remove it"
        problems.append(Problem(relative(root, path), 1, message))
    return problems
