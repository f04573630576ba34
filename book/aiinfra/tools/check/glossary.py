"""The glossary is in order, and each entry says what it means, in four languages."""

import re
from itertools import pairwise
from pathlib import Path

from aiinfra.tools.check.problem import Problem

GLOSSARY = Path("book/reference/glossary.md")
DIRECTIVE = re.compile(r"^(:{3,})\{glossary\}\n(?P<entries>.*?)^\1\s*$", re.M | re.S)
# Names at the margin, then lines that are indented.
ENTRY = re.compile(r"(?P<names>(?:^\S.*\n)+)(?P<body>(?:^ .*\n|^\n)*)", re.M)
LANGUAGES = ("ja", "de", "zh")


def check(root: Path) -> list[Problem]:
    """Entries out of order, named twice, without words or without an equivalent.

    An entry with several names stands at the first that is plain ASCII.
    """
    if not (root / GLOSSARY).is_file():
        return []
    text = (root / GLOSSARY).read_text("utf-8")
    problems, places, seen = [], [], set()

    def tell(at: int, message: str) -> None:
        line = 1 + text.count("\n", 0, at)
        problems.append(Problem(GLOSSARY.as_posix(), line, message))

    for directive in DIRECTIVE.finditer(text):
        for entry in ENTRY.finditer(directive["entries"]):
            at = directive.start("entries") + entry.start()
            names = entry["names"].splitlines()
            places.append((at, sort_key(names)))
            for name in names:
                if name.lower() in seen:
                    tell(at, f"{name} is in the glossary twice")
                seen.add(name.lower())
            if not meaning(entry["body"]):
                tell(at, f"{names[0]} is not explained")
            for language in LANGUAGES:
                said = rf'<span lang="{language}">[^<]*\S[^<]*</span>'
                if len(re.findall(said, entry["body"])) != 1:
                    message = (
                        f"{names[0]} needs one equivalent in {language}: "
                        f'<span lang="{language}">…</span>'
                    )
                    tell(at, message)
    for (_, before), (at, after) in pairwise(places):
        if after < before:
            tell(at, f"{after!r} comes after {before!r}; the order is alphabetical")
    return problems


def sort_key(names: list[str]) -> str:
    """Where an entry stands."""
    return next((name for name in names if name.isascii()), names[0]).lower()


def meaning(body: str) -> str:
    """What an entry says in English."""
    return re.sub(r"<span .*?</span>|[·\s]", "", body)
