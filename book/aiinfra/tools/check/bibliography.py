"""Every work in the bibliography is cited on a page, and says where it can be found."""

import re
from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import prose

BIB = Path("book/reference/references.bib")
ENTRY = re.compile(r"^@(?P<kind>\w+)\{(?P<key>[^,\s]+),(?P<fields>.*?)^\}", re.M | re.S)
FIELD = re.compile(r"^\s*(?P<name>\w+)\s*=\s*\{(?P<value>.*)\},?\s*$", re.M)
CITED = re.compile(r"\{cite(?::\w+)?\}`(?P<keys>[^`]+)`")
ADDRESSES = ("doi", "eprint", "url")
NEEDED = {"author", "title", "year"}


def check(root: Path) -> list[Problem]:
    """Works that no page cites, listed twice, or without author, title, year, address.

    A page that gives a work's address cites it too, as the sources of the registry do.
    (A key that is cited and missing is a warning of the build, which fails on it.)
    """
    if not (root / BIB).is_file():
        return []
    pages = "\n".join(text for _, _, text in prose(root))
    cited = {
        key.strip()
        for citation in CITED.finditer(pages)
        for key in citation["keys"].split(",")
    }
    text, problems, seen = (root / BIB).read_text("utf-8"), [], set()
    for entry in ENTRY.finditer(text):
        key, fields = entry["key"], dict(FIELD.findall(entry["fields"]))
        addresses = [fields[name] for name in ADDRESSES if name in fields]
        wrong = []
        if key in seen:
            wrong.append("is listed twice")
        if key not in cited and not any(address in pages for address in addresses):
            wrong.append("is cited on no page; cite it or remove it")
        if missing := sorted(NEEDED - set(fields)):
            wrong.append(f"has no {', no '.join(missing)}")
        if not addresses:
            wrong.append(f"has none of {', '.join(ADDRESSES)}")
        seen.add(key)
        line = 1 + text.count("\n", 0, entry.start())
        problems += [Problem(BIB.as_posix(), line, f"{key} {what}") for what in wrong]
    return problems
