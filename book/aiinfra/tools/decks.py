"""A deck's source, read without building it: its slides, words, notes and references.

A deck is Markdown: a title (``#``), slides (``##``), ``{notes}`` for the speaker, and
what it takes from lessons by the directives and roles below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from aiinfra.tools import excerpts
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import part_folders, relative

OPENING = re.compile(r"(?P<mark>`{3,}|:{3,}|~{3,})(?P<rest>.*)")
DIRECTIVE = re.compile(r"\{(?P<name>[\w-]+)\}\s*(?P<argument>.*)")
OPTION = re.compile(r":(?P<name>[\w-]+):\s*(?P<value>.*)")
LOOKED_UP = re.compile(r"\{(?P<name>value|registry)\}`(?P<argument>[^`]+)`")
OF_THE_DIRECTIVE = {"class"}  # an option that asks the lesson for nothing
# Their lines are no text of the slide.
LITERAL = {"raw", "bibliography", "cell-code", "cell-output", "cell-math"}
MINUTES = re.compile(r"(?P<minutes>\d+) min\b")


@dataclass
class Reference:
    """What a deck asks of a lesson or of the registry, and where."""

    kind: str
    argument: str
    line: int
    options: dict[str, str] = field(default_factory=dict)

    def resolve(self, root: Path) -> object:
        """What is asked for; UserError tells why there is no such thing."""
        return RESOLVERS[self.kind](root, self.argument, **self.options)


RESOLVERS = {
    "cell-code": excerpts.code,
    "cell-output": excerpts.outputs,
    "cell-math": excerpts.formula,
    "value": excerpts.value,
    "registry": lambda root, text: excerpts.constant(text),
}


@dataclass
class Slide:
    """One slide: its heading, its lines of text, its notes, where it begins."""

    title: str
    line: int
    text: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def words(self) -> int:
        """Words on the slide, heading included; code, maths and sources are none."""
        return count_words("\n".join([self.title, *self.text]))

    @property
    def minutes(self) -> int | None:
        """The minutes that the notes plan, in their first words."""
        found = MINUTES.match(" ".join(self.notes).strip())
        return int(found["minutes"]) if found else None


@dataclass
class Deck:
    """A deck: its front matter, its slides (the first is the title), its references."""

    path: Path
    meta: dict
    slides: list[Slide]
    references: list[Reference]
    typed: list[tuple[int, str]]  # (line, language) of code that is typed in

    @property
    def title(self) -> str:
        """The heading of the first slide."""
        return self.slides[0].title


def find(root: Path, parts: list[str] | None = None) -> list[Path]:
    """The decks of the parts named, or of all, in part order."""
    return [
        path
        for folder in part_folders(root)
        if parts is None or folder.name in parts
        for path in sorted((folder / "slides").glob("*.md"))
    ]


def name(root: Path, path: Path) -> str:
    """``04Train/ddp`` for ``ROOT/04Train/slides/ddp.md``."""
    return relative(root, path).removesuffix(".md").replace("/slides/", "/")


def read(path: Path) -> Deck:
    """Read a deck; UserError when it does not begin with front matter and a title."""
    import yaml

    lines = path.read_text(encoding="utf-8").splitlines()
    if not lines or lines[0] != "---" or "---" not in lines[1:]:
        raise UserError(f"{path}: a deck begins with front matter: ---, lesson:, ---")
    end = lines.index("---", 1)
    try:
        meta = yaml.safe_load("\n".join(lines[1:end]))
    except yaml.YAMLError as error:
        raise UserError(f"{path}: the front matter is no YAML") from error
    deck = Deck(path, meta if isinstance(meta, dict) else {}, [], [], [])
    fences: list[tuple[str, str]] = []  # (mark, directive) from the outermost
    for number, line in enumerate(lines[end + 1 :], end + 2):
        take(deck, fences, number, line)
    if not deck.slides:
        raise UserError(f"{path}: no title; a deck begins with # and its name")
    text = "\n".join(blanked(lines))
    for found in LOOKED_UP.finditer(text):
        line = 1 + text.count("\n", 0, found.start())
        argument = " ".join(found["argument"].split())
        deck.references.append(Reference(found["name"], argument, line))
    return deck


def take(deck: Deck, fences: list[tuple[str, str]], number: int, line: str) -> None:
    """Add one line of the source to ``deck``; ``fences`` are those still open."""
    stripped = line.strip()
    inside = [directive for _, directive in fences]
    if fences and closes(stripped, fences[-1][0]):
        fences.pop()
        return
    literal = bool(LITERAL & set(inside)) or "" in inside
    opening = OPENING.fullmatch(stripped)
    if opening and not literal:
        directive = DIRECTIVE.fullmatch(opening["rest"].strip())
        fences.append((opening["mark"], directive["name"] if directive else ""))
        if directive and directive["name"] in RESOLVERS:
            argument = directive["argument"].strip()
            deck.references.append(Reference(directive["name"], argument, number))
        elif not directive or directive["name"] in ("code-block", "code", "math"):
            deck.typed.append((number, opening["rest"].strip() or "text"))
        return
    option = OPTION.fullmatch(stripped) if fences else None
    if option:
        asked = option["name"] not in OF_THE_DIRECTIVE
        if fences[-1][1] in RESOLVERS and asked:
            deck.references[-1].options[option["name"]] = option["value"].strip()
        return
    heading = re.fullmatch(r"(#{1,2}) (.+)", line) if not fences else None
    if heading:
        deck.slides.append(Slide(heading[2].strip(), number))
    elif deck.slides and not literal:
        slide = deck.slides[-1]
        (slide.notes if "notes" in inside else slide.text).append(line)


def closes(line: str, mark: str) -> bool:
    """Whether ``line`` ends a fence that ``mark`` began."""
    return len(line) >= len(mark) and set(line) == {mark[0]}


def blanked(lines: list[str]) -> Iterator[str]:
    """The lines, but those of plain code empty."""
    fence = ""
    for line in lines:
        stripped = line.strip()
        opening = OPENING.fullmatch(stripped)
        if fence:
            fence = "" if closes(stripped, fence) else fence
            yield ""
        elif opening and opening["mark"][0] == "`":
            fence = opening["mark"]
            yield ""
        else:
            yield line


def count_words(text: str) -> int:
    """Words in Markdown; a number by reference is one, code and maths are none."""
    text = LOOKED_UP.sub(" 1 ", text)
    text = re.sub(r"\{cite[^}]*\}`[^`]+`", " ", text)
    text = re.sub(r"\{[\w-]+\}`([^`<]+?)(?:\s*<[^`]*>)?`", r"\1", text)
    text = re.sub(r"`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|<!--.*?-->", " ", text, flags=re.S)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return sum(bool(re.search(r"\w", word)) for word in text.split())
