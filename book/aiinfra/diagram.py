"""Draw the book's hand-made diagrams as SVG: boxes, arrows, bars, log axes.

A diagram is set inline in a page, so its text and strokes use ``currentColor`` and
follow the page from light to dark; colour only tints, and never carries a meaning
that a label doesn't. The canvas is 360 units wide, the width of a small phone, and
no text is set below 13 units, so nothing needs zooming there.

    d = Diagram("ladder", 360, 120, title="Two links", description="A and B.")
    d.box(10, 10, 120, 40, "GPU", colour="blue")
    d.arrow(130, 30, 230, 30)
    d.save(__file__)        # writes ladder.svg beside the script
"""

from __future__ import annotations

import math
from html import escape
from pathlib import Path

from aiinfra.plot import FONT_STACK, PALETTE

SMALL, NORMAL, LARGE = 13, 14, 16  # in canvas units: >= 11 px on a 360 px screen
ANCHORS = ("start", "middle", "end")


def number(value: float) -> str:
    """Shortest decimal of a coordinate at a tenth of a unit, so bytes are stable."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def _paint(colour: str) -> str:
    if colour not in PALETTE:
        raise ValueError(f"colour {colour!r} is not one of {', '.join(PALETTE)}")
    return PALETTE[colour]


class LogScale:
    """Map [low, high] on a logarithmic scale to [start, end] on the canvas."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        if not 0 < low < high:
            raise ValueError(f"a log scale needs 0 < low < high, got {low}, {high}")
        self.low, self.high, self.start, self.end = low, high, start, end

    def __call__(self, value: float) -> float:
        """Canvas coordinate of ``value``; ValueError if it is not positive."""
        if value <= 0:
            raise ValueError(f"a log scale has no place for {value}; use a value > 0")
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def decades(self, step: int = 1) -> list[float]:
        """The powers of ten within the scale, every ``step``-th of them."""
        first = math.ceil(math.log10(self.low) - 1e-9)
        last = math.floor(math.log10(self.high) + 1e-9)
        return [10.0**power for power in range(first, last + 1, step)]


class Diagram:
    """An SVG under construction; coordinates in canvas units, y downwards.

    ``title`` and ``description`` are its text alternative: what the figure is, and
    what it shows. ``colour`` arguments are names of ``aiinfra.plot.PALETTE``.
    """

    def __init__(
        self, name: str, width: float, height: float, *, title: str, description: str
    ) -> None:
        if not (name and title and description):
            raise ValueError("a diagram needs a name, a title and a description")
        self.name, self.width, self.height = name, width, height
        self.title, self.description = title, description
        self.parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        content: str,
        *,
        size: float = SMALL,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        """One line of text with its baseline at ``y``."""
        if anchor not in ANCHORS:
            raise ValueError(f"anchor {anchor!r} is not one of {', '.join(ANCHORS)}")
        if size < SMALL:
            raise ValueError(f"text of {size} units is unreadable on a phone: >= 13")
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{number(x)}" y="{number(y)}" font-size="{number(size)}" '
            f'text-anchor="{anchor}"{weight}>{escape(content)}</text>'
        )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        label: str = "",
        *,
        colour: str | None = None,
        radius: float = 4,
        dashed: bool = False,
        bold: bool = False,
    ) -> None:
        """A tinted rectangle; ``label`` is centred, one line per ``\\n``."""
        stroke = _paint(colour) if colour else "currentColor"
        fill = f'fill="{stroke}" fill-opacity="0.22"' if colour else 'fill="none"'
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" '
            f'height="{number(height)}" rx="{number(radius)}" {fill} '
            f'stroke="{stroke}" stroke-width="1.5"{dash}/>'
        )
        lines = label.split("\n") if label else []
        top = y + height / 2 - (len(lines) - 1) * 8.5 + 4.8
        for i, line in enumerate(lines):
            self.text(x + width / 2, top + 17 * i, line, anchor="middle", bold=bold)

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """A filled rectangle for a quantity."""
        self.parts.append(
            f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" '
            f'height="{number(height)}" fill="{_paint(colour)}"/>'
        )

    def path(
        self,
        points: list[tuple[float, float]],
        *,
        colour: str | None = None,
        width: float = 2,
        dashed: bool = False,
        faint: bool = False,
    ) -> None:
        """Straight segments through ``points``."""
        stroke = _paint(colour) if colour else "currentColor"
        steps = "L".join(f"{number(x)} {number(y)}" for x, y in points)
        extra = ' stroke-dasharray="5 4"' if dashed else ""
        extra += ' stroke-opacity="0.35"' if faint else ""
        self.parts.append(
            f'<path d="M{steps}" fill="none" stroke="{stroke}" '
            f'stroke-width="{number(width)}"{extra}/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, **style: object) -> None:
        """A straight line, styled as :meth:`path`."""
        self.path([(x1, y1), (x2, y2)], **style)  # type: ignore[arg-type]

    def arrow(
        self, x1: float, y1: float, x2: float, y2: float, *, colour: str | None = None
    ) -> None:
        """A line with a head at its end."""
        angle = math.atan2(y2 - y1, x2 - x1)
        wings = [
            (x2 - 8 * math.cos(angle + turn), y2 - 8 * math.sin(angle + turn))
            for turn in (-0.45, 0.45)
        ]
        self.line(x1, y1, x2, y2, colour=colour, width=1.5)
        self.path([wings[0], (x2, y2), wings[1]], colour=colour, width=1.5)

    def dot(self, x: float, y: float, colour: str, radius: float = 5) -> None:
        """A point of a plot, outlined so that it shows on any line."""
        self.parts.append(
            f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" '
            f'fill="{_paint(colour)}" stroke="currentColor"/>'
        )

    def svg(self) -> str:
        """The finished SVG, the same bytes for the same calls."""
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="diagram" role="img" '
            f'viewBox="0 0 {number(self.width)} {number(self.height)}" width="100%" '
            f'style="max-width: 30rem" fill="currentColor" font-family="{FONT_STACK}" '
            f'aria-labelledby="{self.name}-title {self.name}-description">\n'
            f'<title id="{self.name}-title">{escape(self.title)}</title>\n'
            f'<desc id="{self.name}-description">{escape(self.description)}</desc>\n'
            f"{body}\n</svg>\n"
        )

    def save(self, script: str) -> Path:
        """Write ``<name>.svg`` beside the script that draws it."""
        target = Path(script).with_name(f"{self.name}.svg")
        target.write_text(self.svg(), encoding="utf-8")
        return target
