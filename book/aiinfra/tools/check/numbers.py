"""The registry rule: one number, one place.

In code, a literal that repeats a constant of ``aiinfra.registry`` is refused: four or
more significant digits, or at least 1e9. What is equal by chance passes: powers of two
and of ten, small counts, numbers of tokens, and one digit in other units (2e9 beside
2 TB/s).

In prose, a quantity beside a registry name must equal the registry's value, to the
digits printed: "H100 SXM, 989 TFLOP/s" passes, "H100 SXM, 1979 TFLOP/s" passes only
where the sentence says sparse or fp8: a rate is that of the formats the sentence
names, or of bf16. What is checked: FLOP/s, bytes or bits per second,
watts, parameters, memory said to be a card's, latency said to be a link's; not what a
sentence calls measured, achieved, sustained, observed, effective, or MFU.

A number that differs on purpose is marked, with the reason: in code on its line, as
``# registry: exempt, layer sizes``; in prose as
``<!-- registry: exempt, the vendor's figure -->``, on its line or, on a line of its
own, before the paragraph or table.
"""

import io
import json
import math
import os
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from aiinfra.registry import FILES, Entry, Figure, entries
from aiinfra.tools.check.problem import Problem

PER_LINK = "one_way_link_bytes_per_s"  # a part of what the card has
EXEMPT = re.compile(r"registry:\s*exempt\W+\w")
SKIPPED_FOLDERS = {
    ".git",
    ".ipynb_checkpoints",
    ".venv",
    "_build",
    "build",
    "dist",
    "lessons",  # generated from notebooks, which are checked
    "node_modules",
    "registry",
    "tests",
    "vendor",
}


def check(root: Path) -> list[Problem]:
    """Every place under ``root`` that breaks the rule, in order of path and line."""
    problems: list[Problem] = []
    for path in _files(root):
        where = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            problems += check_code(text, where)
        elif path.suffix == ".md":
            problems += check_prose(text, where)
        else:
            problems += _check_notebook(text, where)
    return problems


def _files(root: Path) -> list[Path]:
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        found += [
            Path(folder, n) for n in names if n.endswith((".py", ".md", ".ipynb"))
        ]
    return sorted(found)


def _check_notebook(text: str, path: str) -> Iterator[Problem]:
    for number, cell in enumerate(json.loads(text).get("cells", [])):
        source = "".join(cell["source"])
        where = f"{path}[{cell.get('id', number)}]"
        if cell["cell_type"] == "code":
            yield from check_code(source, where)
        elif cell["cell_type"] == "markdown":
            yield from check_prose(source, where)


# Code


def check_code(source: str, path: str) -> list[Problem]:
    """Literals in Python source (magics allowed) that repeat a registry value."""
    problems = []
    lines = source.splitlines()
    for line, literal in _literals(lines):
        if EXEMPT.search(lines[line - 1]):
            continue
        found = _constant(literal)
        if found:
            entry, figure = found
            problems.append(
                Problem(
                    path,
                    line,
                    f"{literal} is {entry.name}'s {figure.name} ({figure.text}): write "
                    f'{entry.kind}("{entry.name}").{figure.name}, '
                    "or mark the line # registry: exempt, REASON",
                )
            )
    return problems


def _literals(lines: list[str]) -> Iterator[tuple[int, str]]:
    """(line, text) of each number, also in what isn't plain Python (magics)."""
    plain = [
        "" if line.lstrip().startswith(("%", "!", "?")) else line for line in lines
    ]
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO("\n".join(plain)).readline))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return
    for token in tokens:
        if token.type == tokenize.NUMBER:
            yield token.start[0], token.string


def _constant(literal: str) -> tuple[Entry, Figure] | None:
    """The registry's figure that ``literal`` repeats, if any."""
    text = literal.replace("_", "").lower()
    if text.startswith(("0x", "0o", "0b")) or text.endswith("j"):
        return None
    value = float(text)
    digits = text.split("e")[0].replace(".", "").strip("0")
    if "." not in text and "e" not in text:
        digits = text.strip("0")
    if len(digits) < 4 and value < 1e9:
        return None
    if value <= 0 or _is_power(value, 2) or _is_power(value, 10):
        return None
    for entry in _entries():
        for figure in entry.figures.values():
            if figure.unit == "tokens" or (figure.unit == "count" and figure < 1e4):
                continue  # small or round: equal by chance
            if figure.name == PER_LINK:
                continue
            scalings = _scalings(figure)
            if len(digits) == 1:
                scalings = iter([float(figure), 8 * figure])
            if any(math.isclose(value, v, rel_tol=1e-9) for v in scalings):
                return entry, figure
    return None


def _is_power(value: float, base: int) -> bool:
    return math.isclose(value, float(base) ** round(math.log(value, base)))


def _scalings(figure: Figure) -> Iterator[float]:
    """The figure as people write it: in G, T, bits, GiB, microseconds."""
    bases = [float(figure)]
    if figure.unit == "B/s":
        bases.append(8 * figure)
    if figure.unit == "B":
        yield from (figure / 2**power for power in (10, 20, 30, 40))
    powers = (0, 3, 6, 9) if figure.unit == "s" else range(0, -16, -3)
    for base in bases:
        yield from (base * 10.0**power for power in powers)


# Prose


@dataclass(frozen=True)
class _Quantity:
    start: int
    end: int
    text: str
    value: float  # in base units
    error: float  # half a unit of the last digit printed
    family: str  # FLOP/s, B/s, b/s, B, W, s, parameters


_NUMBER = r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
_UNITS = (
    ("FLOP/s", r"(?P<scale>[kMGTPE]?)FLOP(?:/s|S\b|s\b)"),
    ("B/s", r"(?P<scale>[kMGTP]?)B(?:/s|ps\b)"),
    ("b/s", r"(?P<scale>[kMGTP]?)b(?:it)?(?:/s|ps\b)"),
    ("B", r"(?P<scale>(?:[KMGT]i|[kMGT]))B\b"),
    ("W", r"(?P<scale>[kM]?)W\b"),
    ("s", r"(?P<scale>[µμun])s\b"),
    ("parameters", r"(?P<scale>billion|million|trillion|[BMT])\s+parameters\b"),
)
_SCALES = {
    "": 1.0,
    "n": 1e-9,
    "u": 1e-6,
    "µ": 1e-6,
    "μ": 1e-6,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
    "million": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
}
_QUANTITY = [
    (family, re.compile(rf"(?<![\w.,]){_NUMBER}\s*{unit}(?!/)"))
    for family, unit in _UNITS
]
_BESIDE = 60  # characters between a name and its number
_NOT_THE_SPEC = re.compile(
    r"\b(?:measur\w+|achiev\w+|sustain\w+|observ\w+|effective\w*|MFU|busbw|"
    r"bus bandwidth)\b",
    re.I,
)
_TWO_WAY = re.compile(r"two-way|both ways|both directions|bidirectional|duplex", re.I)
_SPARSE = re.compile(r"\bspars", re.I)
_FORMAT = re.compile(r"\b(?:mx|nv)?(bf16|fp16|fp8|fp4|tf32|fp32|int8)\b", re.I)
_ONE_LINK = re.compile(r"\b(?:per|each|every|one|a|single) (?:link|peer)\b", re.I)
_LATENCY = re.compile(r"latenc|\\alpha|α|\balpha\b", re.I)
# Between a card and "80 GiB", where the bytes are the card's own.
_CAPACITY = re.compile(
    r"(?:\s|[(),:=–—|*'’]|\b(?:a|an|and|as|card|capacity|each|every|GPU|has|have|HBM\w*|"
    r"in|is|its|memory|much|of|on|one|only|per|s|the|with)\b)*"
)
_COUNT = re.compile(r"(?P<count>[\d,]+|[a-z]+)\s*[×x]?\s*(?:NVIDIA\s+)?$", re.I)
_WORDS = {"two": 2, "three": 3, "four": 4, "six": 6, "eight": 8, "sixteen": 16}


def check_prose(source: str, path: str) -> list[Problem]:
    """Quantities in Markdown that contradict the registry name beside them."""
    lines = source.splitlines()
    exempt = set(_exempt_lines(lines))
    problems = []
    for start_line, block in _blocks(lines):
        for start, sentence in _sentences(block):
            for quantity, message in _contradictions(sentence):
                at = block.count("\n", 0, start + quantity.start)
                line = start_line + at
                if line not in exempt:
                    problems.append(Problem(path, line, message))
    return problems


def _exempt_lines(lines: list[str]) -> Iterator[int]:
    """Lines with the mark; after a mark on its own, those of the next paragraph."""
    for number, line in enumerate(lines, 1):
        if not EXEMPT.search(line):
            continue
        yield number
        if line.strip().startswith("<!--") and line.strip().endswith("-->"):
            following = number
            while following < len(lines) and not lines[following].strip():
                following += 1
            while following < len(lines) and lines[following].strip():
                yield following + 1
                following += 1


def _blocks(lines: list[str]) -> Iterator[tuple[int, str]]:
    """(first line, text) of each paragraph, list item, table row or heading.

    What isn't prose is blanked out at the same length, so that places stay right.
    """
    block: list[str] = []
    first = 1
    fence = ""
    front_matter = bool(lines) and lines[0].strip() == "---"
    for number, line in enumerate([*lines, ""], 1):
        stripped = line.strip()
        if front_matter:
            front_matter = number == 1 or stripped != "---"
            stripped = ""
        elif fence:
            fence = (
                ""
                if stripped.startswith(fence) and set(stripped) <= {"`", "~"}
                else fence
            )
            stripped = ""
        elif opening := re.match(r"(`{3,}|~{3,})(.*)", stripped):
            if not re.match(r"\{(?!code|raw|math|eval|mermaid|bibl)", opening[2]):
                fence = opening[1]
            stripped = ""
        elif stripped.startswith((":::", "% ")) or set(stripped) <= {"`", "~", ":"}:
            stripped = ""
        starts = re.match(r"(?:[-*+|#>]|\d+[.)])", stripped)
        if block and (not stripped or starts):
            yield first, _blank("\n".join(block))
            block = []
        if stripped:
            if not block:
                first = number
            block.append(line)


def _blank(text: str) -> str:
    """Blank out inline code, maths in display, comments and link targets."""
    for pattern in (
        r"<!--.*?-->",
        r"\{[\w:-]+\}`[^`]*`",
        r"`[^`]*`",
        r"\$\$.*?\$\$",
        r"(?<=\])\([^)\s]*\)",
        r"<[a-z/][^>]*>",
    ):
        text = re.sub(
            pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S | re.I
        )
    return text.replace("$", " ").replace("*", " ").replace("_", " ")


def _sentences(block: str) -> Iterator[tuple[int, str]]:
    start = 0
    for end in re.finditer(r"(?:[.!?;](?=\s+[^a-z\s])|\Z)", block):
        yield start, block[start : end.end()]
        start = end.end()


def _contradictions(sentence: str) -> Iterator[tuple[_Quantity, str]]:
    """(quantity, message) for each quantity that no name beside it can account for."""
    names = list(_names_in(sentence))
    if not names or _NOT_THE_SPEC.search(sentence):
        return
    spans = [(start, end) for start, end, _ in names]
    for quantity in _quantities(sentence, spans):
        beside = []
        for start, end, entry in names:
            before = end <= quantity.start
            gap = (
                sentence[end : quantity.start]
                if before
                else sentence[quantity.end : start]
            )
            if len(gap) <= _BESIDE and _is_said_of(entry, quantity, gap, sentence):
                beside.append((len(gap), start, entry))
        beside.sort(key=lambda item: item[0])
        if not beside:
            continue
        if any(_agrees(quantity, entry, sentence, start) for _, start, entry in beside):
            continue
        entry = beside[0][2]
        values = " or ".join(
            _said(owner, figure, quantity.family)
            for owner, figure in _figures(entry, quantity.family)
        )
        yield (
            quantity,
            f"{quantity.text} beside {entry.name}: the registry says {values}; a "
            "number meant to differ takes <!-- registry: exempt, REASON -->",
        )


def _said(owner: Entry, figure: Figure, family: str) -> str:
    text = f"{8 * figure / 1e9:g} Gb/s" if family == "b/s" else figure.text
    return f"{text} ({owner.name}, {figure.name})"


def _is_said_of(entry: Entry, quantity: _Quantity, gap: str, sentence: str) -> bool:
    """Whether the sentence gives ``quantity`` as a property of ``entry``."""
    if not _figures(entry, quantity.family):
        return False
    if quantity.family == "B":
        return _CAPACITY.fullmatch(gap) is not None
    if quantity.family == "s":
        return entry.kind == "link" and _LATENCY.search(sentence) is not None
    return True


def _agrees(quantity: _Quantity, entry: Entry, sentence: str, start: int) -> bool:
    factors = [1.0]
    count = _COUNT.search(sentence[:start])
    if count:
        word = count["count"].lower().replace(",", "")
        many = _WORDS.get(word) or (int(word) if word.isdigit() else 1)
        factors.append(float(many))
    if quantity.family in ("B/s", "b/s") and _TWO_WAY.search(sentence):
        factors += [2 * factor for factor in factors]
    if quantity.family == "FLOP/s" and _SPARSE.search(sentence):
        factors += [2 * factor for factor in factors]
    return any(
        abs(factor * figure * (8 if quantity.family == "b/s" else 1) - quantity.value)
        <= quantity.error * (1 + 1e-6)
        for owner, figure in _figures(entry, quantity.family)
        if _is_meant(figure, owner, sentence)
        for factor in factors
    )


def _is_meant(figure: Figure, entry: Entry, sentence: str) -> bool:
    """Whether the sentence may be about this figure rather than one of its siblings."""
    if figure.name == PER_LINK:
        return _ONE_LINK.search(sentence) is not None
    if figure.unit not in ("FLOP/s", "OP/s"):
        return True
    formats = {match[1].lower() for match in _FORMAT.finditer(sentence)}
    if "fp16" in formats and "fp16_dense_flops" not in entry.figures:
        formats.add("bf16")  # the same rate, but on Huawei's chips
    if not formats:
        return figure is next(f for f in entry.figures.values() if f.dense)
    return figure.name.partition("_")[0] in formats


def _figures(entry: Entry, family: str) -> list[tuple[Entry, Figure]]:
    """(owner, figure) that a quantity may mean: of ``entry`` or what it refers to."""
    unit = "B/s" if family == "b/s" else family
    related = [entry, *(getattr(entry, ref) for ref in entry.refs)]
    if family in ("b/s", "s"):  # only networks are quoted in bits
        related = [entry, getattr(entry, "scale_out", entry)]
        related = [e for e in dict.fromkeys(related) if e.kind == "link"]
    if family == "B":
        related = [entry]
    return [(e, f) for e in related for f in e.figures.values() if f.unit == unit]


def _quantities(sentence: str, taken: list[tuple[int, int]]) -> Iterator[_Quantity]:
    for family, pattern in _QUANTITY:
        for match in pattern.finditer(sentence):
            if any(match.start() < end and start < match.end() for start, end in taken):
                continue  # part of a name, as in A100 SXM 80GB
            number = match["number"].replace(",", "")
            scale = match["scale"]
            if family == "parameters" and scale == "B":
                scale = "billion"
            factor = _SCALES[scale]
            decimals = len(number.partition(".")[2])
            yield _Quantity(
                match.start(),
                match.end(),
                " ".join(match[0].split()),
                float(number) * factor,
                0.5 * 10.0**-decimals * factor,
                family,
            )


def _names_in(sentence: str) -> Iterator[tuple[int, int, Entry]]:
    for match in _name_pattern().finditer(sentence):
        yield match.start(), match.end(), _by_name()[_plain(match["name"])]


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "", name).lower()


def _entries() -> list[Entry]:
    return [entry for kind in FILES for entry in entries(kind)]


@lru_cache
def _by_name() -> dict[str, Entry]:
    return {
        _plain(name): entry
        for entry in _entries()
        for name in (entry.name, *entry.aliases)
    }


@lru_cache
def _name_pattern() -> re.Pattern[str]:
    names: Iterable[str] = (
        name for entry in _entries() for name in (entry.name, *entry.aliases)
    )
    spelled = (
        r"[\s-]+".join(map(re.escape, name.split()))
        for name in sorted(names, key=len, reverse=True)
    )
    # An H100 PCIe is another card than the H100 SXM.
    return re.compile(
        rf"(?<![\w-])(?P<name>{'|'.join(spelled)})s?(?![\w-])(?!\s+(?:PCIe|NVL|CNX)\b)"
    )
