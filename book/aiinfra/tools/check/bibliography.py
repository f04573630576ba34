"""Every work in the bibliography is cited on a page, and says where it can be found."""

import re
from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import prose

BIB = Path("book/reference/references.bib")
ENTRY = re.compile(r"^@(?P<kind>\w+)\{(?P<key>[^,\s]+),(?P<fields>.*?)^\}", re.M | re.S)
FIELD = re.compile(r"^\s*(?P<name>\w+)\s*=", re.M)
CITED = re.compile(r"\{cite(?::\w+)?\}`(?P<keys>[^`]+)`")
ADDRESSES = {"doi", "url", "eprint"}
NEEDED = {"author", "title", "year"}


def check(root: Path) -> list[Problem]:
    """Works that no page cites, listed twice, or without author, title, year, address.

    (A key that is cited and missing is a warning of the build, which fails on it.)
    """
    if not (root / BIB).is_file():
        return []
    cited = {
        key.strip()
        for _, _, text in prose(root)
        for citation in CITED.finditer(text)
        for key in citation["keys"].split(",")
    }
    text, problems, seen = (root / BIB).read_text("utf-8"), [], set()
    for entry in ENTRY.finditer(text):
        key, fields = entry["key"], set(FIELD.findall(entry["fields"].lower()))
        wrong = []
        if key in seen:
            wrong.append("is listed twice")
        if key not in cited:
            wrong.append("is cited on no page; cite it or remove it")
        if missing := sorted(NEEDED - fields):
            wrong.append(f"has no {', no '.join(missing)}")
        if not ADDRESSES & fields:
            wrong.append(f"has none of {', '.join(sorted(ADDRESSES))}")
        seen.add(key)
        line = 1 + text.count("\n", 0, entry.start())
        problems += [Problem(BIB.as_posix(), line, f"{key} {what}") for what in wrong]
    return problems
