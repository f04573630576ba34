"""What slides take from lessons: code, outputs, formulas, numbers. Nothing is retyped.

A reference names a lesson and the id of one of its cells: ``04Train/02-ddp#ring-step``.
Whatever it asks for and does not get raises UserError in one line, so that a deck can't
say something else than its lesson.
"""

from __future__ import annotations

import ast
import base64
import html
import json
import re
import textwrap
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from aiinfra.tools.check.tree import Cell, cells_of, joined
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import find_notebook, nearest

FORMULA = re.compile(r"\$\$(.+?)\$\$", re.S)
# A formula in a sentence has its punctuation; on a slide it stands alone.
STOP = re.compile(r"\s*[.,;](?=\s*(?:\\end\{\w+\}\s*)?$)")
STATE = re.compile(r'<script type="application/json">(.*?)</script>', re.S)
KIND = re.compile(r'data-fig="(\w+)"')
CONSTANTS = ("hardware", "link", "model")


@dataclass(frozen=True)
class Shown:
    """One output of a cell: ``kind`` is text or html."""

    kind: str
    content: str


def cell(root: Path, reference: str) -> Cell:
    """The cell that ``04Train/02-ddp#ring-step`` means; UserError names the nearest."""
    lesson, mark, name = reference.strip().partition("#")
    if not (lesson and mark and name):
        raise UserError(
            f"{reference!r} is not LESSON#CELL, as 04Train/02-ddp#ring-step"
        )
    path = find_notebook(root, lesson)
    known = cells_in(root, path, path.stat().st_mtime_ns)
    if name not in known:
        near = nearest(name, list(known))
        raise UserError(f"{lesson} has no cell {name!r}; {near}")
    return known[name]


@lru_cache(maxsize=64)
def cells_in(root: Path, path: Path, _: int) -> dict[str, Cell]:
    """The cells of a notebook by id, read once for each time it was written."""
    return {found.id: found for found in cells_of(root, path)}


def code(root: Path, reference: str, lines: str = "") -> str:
    """A code cell's source, or some of its lines (``1,7-20``) without their indent.

    The lines must be whole statements: a lesson that has moved on is noticed.
    """
    source = of_kind(root, reference, "code").source.rstrip()
    if not lines:
        return source
    fragment = textwrap.dedent(chosen(source, lines, reference))
    try:
        ast.parse(fragment)
    except SyntaxError as error:
        raise UserError(
            f"lines {lines} of {reference} are not whole statements "
            f"({error.msg}: {(error.text or '').strip()!r})"
        ) from error
    return fragment


def outputs(
    root: Path, reference: str, lines: str = "", state: str = "", still: str = ""
) -> list[Shown]:
    """What a cell printed or drew, as the page shows it.

    ``lines`` picks lines of what was printed. ``state`` (``frame=2``) is where a moving
    figure starts, ``still`` what its picture on paper shows, else the same.
    """
    source = of_kind(root, reference, "code")
    found = [shown for output in source.outputs if (shown := read(output, source))]
    if not found:
        raise UserError(f"{reference} has no output to show")
    if lines:
        printed = [shown for shown in found if shown.kind == "text"]
        if len(printed) != 1:
            raise UserError(f"{reference} printed nothing to take lines {lines} from")
        found = [Shown("text", chosen(printed[0].content, lines, reference))]
    if state or still:
        moving = [shown for shown in found if KIND.search(shown.content)]
        if len(moving) != 1:
            raise UserError(f"{reference} shows no moving figure to set to a state")
        found = [Shown("html", posed(moving[0].content, reference, state, still))]
    return found


def read(output: dict, source: Cell) -> Shown | None:
    """One output in the form that a page shows; None for what it does not show."""
    if output.get("output_type") == "stream":
        text = joined(output.get("text", "")).rstrip("\n")
        return Shown("text", text) if text.strip() else None
    data = {kind: joined(value) for kind, value in output.get("data", {}).items()}
    for kind in ("text/html", "image/svg+xml"):
        if kind in data:
            return Shown("html", data[kind])
    if "image/png" in data:
        alt = source.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
        picture = "".join(data["image/png"].split())
        base64.b64decode(picture, validate=True)
        return Shown(
            "html",
            f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{picture}">',
        )
    return Shown("text", data["text/plain"]) if "text/plain" in data else None


def posed(figure: str, reference: str, state: str, still: str) -> str:
    """A moving figure's HTML, started at ``state``, its picture drawn for ``still``."""
    from aiinfra import figures

    name = KIND.search(figure)[1]
    stored = json.loads(STATE.search(figure)[1])
    data = stored.pop("data")
    kind = getattr(figures, name.capitalize())
    try:
        begun = kind(data, **stored | numbers(state))
        picture = kind(data, **stored | numbers(still or state)).svg()
    except Exception as error:  # a trait's own complaint, or a wrong index
        raise UserError(
            f"{reference} can't be set to {state} {still}: {error}"
        ) from error
    before = f'<div class="bookfig-fallback">{begun.svg()}</div>'
    return begun._html().replace(
        before, f'<div class="bookfig-fallback">{picture}</div>'
    )


def numbers(text: str) -> dict[str, int]:
    """``step=3, cell=1`` as a dictionary."""
    pairs = dict(re.findall(r"(\w+)=(-?\d+)", text))
    if text.strip() and not pairs:
        raise UserError(f"{text!r} is not a state such as frame=2")
    return {name: int(value) for name, value in pairs.items()}


def formula(root: Path, reference: str, number: str = "") -> str:
    """The displayed formula of a Markdown cell; ``number`` says which of several."""
    source = of_kind(root, reference, "markdown").source
    found = [STOP.sub("", each).strip() for each in FORMULA.findall(source)]
    if not found:
        raise UserError(f"{reference} displays no formula")
    if not number and len(found) > 1:
        raise UserError(f"{reference} displays {len(found)} formulas; say which")
    at = int(number or 1) if (number or "1").isdigit() else 0
    if not 1 <= at <= len(found):
        raise UserError(f"{reference} displays {len(found)} formulas, not {number!r}")
    return found[at - 1]


def value(root: Path, text: str) -> str:
    """One word that a lesson's cell prints: ``LESSON#CELL: laptop link _ {}``.

    After the cell come the words around it: ``{}`` is the word wanted, ``_`` stands
    for any word. In a Markdown cell its text is searched.
    """
    reference, colon, wanted = text.partition(": ")
    if not colon or wanted.count("{}") != 1:
        raise UserError(f"{text!r} is not LESSON#CELL: words around {{}}")
    source = cell(root, reference)
    places = [source.source]
    if source.kind == "code":
        shown = (read(output, source) for output in source.outputs)
        places = [each.content for each in shown if each and each.kind == "text"]
    found = {match[1] for place in places for match in words(wanted).finditer(place)}
    if len(found) != 1:
        said = " and ".join(sorted(found)[:3]) or "nothing like it"
        raise UserError(
            f"{wanted.strip()!r}: {reference} says {said}, expected one word"
        )
    return found.pop()


def words(wanted: str) -> re.Pattern[str]:
    """A pattern for ``wanted``: any white space is one, its group 1 is the ``{}``."""
    pieces = [
        r"\S+" if word == "_" else re.escape(word).replace(r"\{\}", r"(\S+?)")
        for word in wanted.split()
    ]
    return re.compile(r"(?<!\S)" + r"\s+".join(pieces) + r"(?!\S)")


def constant(text: str) -> str:
    """A figure of the registry with its unit: ``H100 SXM.bf16_dense_flops``."""
    from aiinfra import registry

    name, dot, figure = text.strip().rpartition(".")
    if not dot:
        raise UserError(f"{text!r} is not NAME.figure, as H100 SXM.bf16_dense_flops")
    for kind in CONSTANTS:
        if name in registry.names(kind):
            entry = getattr(registry, kind)(name)
            if figure not in entry.figures:
                near = nearest(figure, list(entry.figures))
                raise UserError(f"{name} has no figure {figure!r}; {near}")
            return entry.figures[figure].text
    known = [each for kind in CONSTANTS for each in registry.names(kind)]
    raise UserError(f"no {name!r} in the registry; {nearest(name, known)}")


def of_kind(root: Path, reference: str, kind: str) -> Cell:
    """The cell, if it is a code or a markdown cell as expected."""
    found = cell(root, reference)
    if found.kind != kind:
        raise UserError(f"{reference} is a {found.kind} cell, expected a {kind} cell")
    return found


def chosen(text: str, lines: str, reference: str) -> str:
    """Some lines of a text, from 1: ``3``, ``3-9``, ``1,7-20``."""
    have = text.splitlines()
    picked = []
    for piece in lines.split(","):
        span = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", piece)
        if not span:
            raise UserError(f"lines {lines!r} of {reference}: expected 3-9 or 1,7-20")
        first, last = int(span[1]), int(span[2] or span[1])
        if not 1 <= first <= last <= len(have):
            raise UserError(
                f"{reference} has {len(have)} lines, not lines {piece.strip()}"
            )
        picked += have[first - 1 : last]
    return "\n".join(picked)
