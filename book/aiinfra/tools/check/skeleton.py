"""Nothing is left of the skeleton that ``aiinfra new-lesson`` writes."""

import re
from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import cells, files
from aiinfra.tools.root import part_folders, relative

PLACEHOLDER = re.compile(r"«[^»]*»")
SUFFIXES = (".md", ".py", ".yaml")  # beside notebooks, of which only what people wrote
LONGEST = 50  # characters of a placeholder that are shown


def check(root: Path) -> list[Problem]:
    """Placeholders in «guillemets», in the parts and their planted mistakes."""
    problems = []
    for cell in cells(root):
        for found in PLACEHOLDER.finditer(cell.source):
            message = f"cell {cell.id}: {to_fill(found[0])}"
            problems.append(Problem(cell.path, cell.line, message))
    places = [*part_folders(root), root / "tests/mutants"]
    for path in files(root):
        if path.suffix in SUFFIXES and any(place in path.parents for place in places):
            text = path.read_text("utf-8")
            for found in PLACEHOLDER.finditer(text):
                line = 1 + text.count("\n", 0, found.start())
                problems.append(Problem(relative(root, path), line, to_fill(found[0])))
    return problems


def to_fill(placeholder: str) -> str:
    """What to say of a placeholder."""
    words = " ".join(placeholder.split())
    if len(words) > LONGEST:
        words = words[: LONGEST - 2] + "…»"
    return f"{words} is still to be filled in"
