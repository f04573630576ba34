"""A deck can be read from the last row, keeps to its hour, and retypes no lesson."""

import re
from collections.abc import Iterator
from pathlib import Path

from aiinfra.tools import decks
from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import prose
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import find_notebook, relative

MOST_WORDS = 60
FEWEST, MOST = 12, 20
SECTIONS = ("objectives", "exercise", "summary")  # each in a heading
# A number with a unit: it is some cell's or the registry's, never the deck's own.
# Llama 3 8B is a name.
QUANTITY = re.compile(
    r"(?<![\w.,])\d[\d.,]*"
    r"(?:\s?(?:[kMGTPE]i?(?:B|b|FLOP)|FLOP|[mµun]?s|%)|\sB)(?:/s)?(?!\w)"
)
LINK = re.compile(r"\{deck\}`(?:[^`<]*<)?(?P<target>[^`<>]+)>?`")


def check(root: Path) -> list[Problem]:
    """Decks with too many or too few slides, too many words, no plan of minutes, code,
    formulas or numbers typed in; references and links that lead nowhere.
    """
    problems = []
    for path in decks.find(root):
        where = relative(root, path)
        try:
            deck = decks.read(path)
        except UserError as error:
            problems.append(Problem(where, 1, str(error).removeprefix(f"{path}: ")))
            continue
        found = [*whole(root, deck), *slides(deck), *retyped(deck), *lost(root, deck)]
        problems += [Problem(where, line, message) for line, message in found]
    for where, line, text in prose(root):
        for link in LINK.finditer(text):
            part, _, name = link["target"].strip().partition("/")
            if not (root / part / "slides" / f"{name}.md").is_file():
                at = line + text.count("\n", 0, link.start()) * (line == 1)
                problems.append(Problem(where, at, f"no deck {link['target']}"))
    return problems


def whole(root: Path, deck: decks.Deck) -> Iterator[tuple[int, str]]:
    """(line, message) of what is wrong with a deck as a whole."""
    try:
        find_notebook(root, str(deck.meta.get("lesson", "")))
    except UserError as error:
        yield 1, f"front matter, lesson: {error}"
    if not deck.meta.get("description"):
        yield 1, "front matter has no description"
    count = len(deck.slides)
    if not FEWEST <= count <= MOST:
        yield 1, f"{count} slides, expected {FEWEST} to {MOST}"
    headings = [slide.title.lower() for slide in deck.slides]
    for word in SECTIONS:
        if not any(word in heading for heading in headings[1:]):
            yield 1, f"no slide with {word} in its heading"
    planned = sum(slide.minutes or 0 for slide in deck.slides)
    if planned != deck.meta.get("minutes"):
        wanted = deck.meta.get("minutes")
        yield 1, f"the notes plan {planned} minutes, the front matter says {wanted}"


def slides(deck: decks.Deck) -> Iterator[tuple[int, str]]:
    """(line, message) of what is wrong with single slides."""
    seen: set[str] = set()
    for slide in deck.slides:
        if slide.title in seen:
            yield slide.line, f"a second slide is called {slide.title!r}"
        seen.add(slide.title)
        if slide.words > MOST_WORDS:
            message = f"{slide.words} words on {slide.title!r}, at most {MOST_WORDS}"
            yield slide.line, message
        if slide.minutes is None:
            yield slide.line, f"the notes of {slide.title!r} do not begin with minutes"
        if "$" in "".join(slide.notes):
            yield slide.line, f"maths in the notes of {slide.title!r}, drawn nowhere"
        if any(line.startswith("###") for line in slide.text):
            yield slide.line, f"{slide.title!r} has headings below its own"


def retyped(deck: decks.Deck) -> Iterator[tuple[int, str]]:
    """(line, message) of what a lesson has and the deck types again."""
    for line, language in deck.typed:
        yield line, f"{language} typed in; use cell-code, cell-output or cell-math"
    for slide in deck.slides:
        said = "\n".join([*slide.text, *slide.notes])
        if "$$" in said:
            yield slide.line, f"a formula typed on {slide.title!r}; use cell-math"
        plain = decks.LOOKED_UP.sub(" ", said)
        for number in QUANTITY.finditer(re.sub(r"`[^`]*`", " ", plain)):
            message = f"{number[0]!r} typed on {slide.title!r}; use value or registry"
            yield slide.line, message


def lost(root: Path, deck: decks.Deck) -> Iterator[tuple[int, str]]:
    """(line, message) of references that lead nowhere."""
    for reference in deck.references:
        try:
            reference.resolve(root)
        except UserError as error:
            yield reference.line, str(error)
        except TypeError:
            options = ", ".join(reference.options)
            yield reference.line, f"{reference.kind} has no such option: {options}"
