"""_toc.yml and the tree agree, both ways."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import yaml

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import markdown_pages
from aiinfra.tools.root import notebooks, part_folders, relative

TOC = "_toc.yml"
NAME = re.compile(r"(?:index|\d\d-[a-z0-9]+(?:-[a-z0-9]+)*)")
# What a part holds beside its pages: sources of other products.
BESIDE = {"exercises", "slides", "figures", "data"}


def check(root: Path) -> list[Problem]:
    """Pages listed but absent, present but unlisted, listed twice, misnamed, or out
    of part order.
    """
    path = root / TOC
    if not path.is_file():
        return [Problem(TOC, 1, "missing")]
    text = path.read_text("utf-8")
    try:
        listed = list(entries(yaml.safe_load(text)))
    except yaml.YAMLError as error:
        return [Problem(TOC, 1, f"no YAML: {' '.join(str(error).split())}")]
    problems = []

    def tell(entry: str, message: str) -> None:
        lines = text.splitlines()
        at = next((n for n, line in enumerate(lines, 1) if entry in line.split()), 1)
        problems.append(Problem(TOC, at, f"{entry} {message}"))

    present = pages(root)
    for page in markdown_pages(root):
        if page.with_suffix(".ipynb").exists():
            message = "is a page and a notebook of one name; keep one"
            problems.append(Problem(relative(root, page), 1, message))
    for entry in sorted({entry for entry in listed if listed.count(entry) > 1}):
        tell(entry, "is listed twice")
    for entry in dict.fromkeys(listed):
        if entry not in present:
            tell(entry, "is listed, and there is no such page")
    for entry, path in present.items():
        name = relative(root, path)
        if entry not in listed:
            problems.append(Problem(name, 1, f"is not listed in {TOC}"))
        in_part = any(folder in path.parents for folder in part_folders(root))
        if in_part and not NAME.fullmatch(path.stem):
            message = (
                "expected index or NN-name in lower case with hyphens: it is a URL"
            )
            problems.append(Problem(name, 1, message))
    order = [entry.split("/")[0] for entry in listed if entry[:2].isdigit()]
    for before, after in pairwise(order):
        if after < before:
            tell(after + "/index", f"comes after {before}; parts go in order")
    return problems


def entries(node: object) -> Iterator[str]:
    """Every page that the table of contents names."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("file", "root"):
                yield re.sub(r"\.(md|ipynb)$", "", str(value))
            else:
                yield from entries(value)
    elif isinstance(node, list):
        for item in node:
            yield from entries(item)


def pages(root: Path) -> dict[str, Path]:
    """Every page of the tree, by the name that _toc.yml would give it."""
    found = {}
    for path in [*markdown_pages(root), *notebooks(root)]:
        inside = path.relative_to(root).parts[1:-1]
        if not BESIDE & set(inside) and "README" not in path.stem:
            found[relative(root, path.with_suffix(""))] = path
    return found
