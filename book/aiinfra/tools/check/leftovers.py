"""Nothing is left lying about: notes to self, promises, paths of one machine."""

import re
from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import files
from aiinfra.tools.root import relative

PATTERNS = {
    "a note to self": re.compile(r"\b(?:TODO|FIXME|XXX|TBD)\b"),
    "a promise": re.compile(
        r"coming soon|under construction|to be written|lorem ipsum|watch this space",
        re.IGNORECASE,
    ),
    "a path of one machine": re.compile(
        r"(?<![\w./-])(?:/home/\w+|/root/|/Users/\w+|/work/|/tmp/ipykernel)|\b[A-Z]:\\\\?Users"
    ),
    "a folder outside the book": re.compile(r"\.\./shared\b"),
    "a conflict of a merge": re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE),
}
PROSE = {".md", ".ipynb", ".html"}  # where a reader would meet a promise
# These name what they look for.
ABOUT_IT = ("book/aiinfra/tools/check/", "tests/check/", "book/static/vendor/")
FILES = {".DS_Store", "Thumbs.db"}
SUFFIXES = {".orig", ".rej", ".bak", ".swp", ".tmp"}


def check(root: Path) -> list[Problem]:
    """Files and lines that were meant to go before anyone reads the book."""
    problems = []
    for path in files(root):
        name = relative(root, path)
        if path.name in FILES or path.suffix in SUFFIXES or path.name.endswith("~"):
            problems.append(Problem(name, 1, "was left behind; remove it"))
            continue
        if name.startswith(ABOUT_IT):
            continue
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # a font, a picture
        for what, pattern in PATTERNS.items():
            if what == "a promise" and path.suffix not in PROSE:
                continue
            for found in pattern.finditer(text):
                line = 1 + text.count("\n", 0, found.start())
                problems.append(Problem(name, line, f"{what}: {found.group(0)!r}"))
    return problems
