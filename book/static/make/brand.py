"""Draw the book's mark (logo and favicon) and the picture of link previews.

    python book/static/make/brand.py

The mark: eight parts in a ring, and the sign for "run". Blue and orange of the
palette stand out on white and on near-black alike, so one file serves both.
"""

import math
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Circle, Polygon

from aiinfra.plot import PALETTE

IMAGES = Path(__file__).resolve().parents[1] / "img"
PARTS = 8
RADIUS, DOT = 24, 5.2  # of the ring and of a part, in a mark of 64 units
TRIANGLE = [(25.5, 22), (25.5, 42), (43, 32)]
BLUE, ORANGE = PALETTE["blue"], PALETTE["orange"]
TITLE, TAGLINE = "AI Infrastructure,\nExecuted", "A textbook whose pages are programs"


def dots() -> list[tuple[float, float, str]]:
    """Centre and colour of each part's dot, the first one at the top."""
    turns = [2 * math.pi * part / PARTS - math.pi / 2 for part in range(PARTS)]
    return [
        (
            32 + RADIUS * math.cos(turn),
            32 + RADIUS * math.sin(turn),
            BLUE if part else ORANGE,
        )
        for part, turn in enumerate(turns)
    ]


def mark() -> str:
    """The mark as SVG."""
    circles = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{DOT}" fill="{colour}"/>'
        for x, y, colour in dots()
    )
    corners = " ".join(f"{x},{y}" for x, y in TRIANGLE)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" width="64" '
        f'height="64">{circles}<polygon points="{corners}" fill="{BLUE}" '
        f'stroke="{BLUE}" stroke-width="3" stroke-linejoin="round"/></svg>\n'
    )


def card(target: Path) -> None:
    """The preview picture, 1200 x 630 px."""
    axes = canvas(1200, 630)
    draw_mark(axes, scale=5.4, left=780, top=142)
    axes.text(80, 180, TITLE, size=44, weight="bold", linespacing=1.3, **LETTERS)
    axes.text(82, 400, TAGLINE, size=23, alpha=0.85, **LETTERS)
    save(axes, target)


def cover(target: Path) -> None:
    """The cover of the ePub, 900 x 1200 px."""
    axes = canvas(900, 1200)
    draw_mark(axes, scale=9, left=162, top=130)
    axes.text(90, 800, TITLE, size=44, weight="bold", linespacing=1.3, **LETTERS)
    axes.text(92, 1020, TAGLINE, size=23, alpha=0.85, **LETTERS)
    save(axes, target)


LETTERS = {"color": "white", "va": "top", "family": "DejaVu Sans"}


def canvas(width: int, height: int):
    """Dark axes whose units are pixels, the origin at the top left."""
    figure = plt.figure(
        figsize=(width / 100, height / 100), dpi=100, facecolor="#10151c"
    )
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    return axes


def draw_mark(axes, scale: float, left: float, top: float) -> None:
    """The mark at a size and place."""
    for x, y, colour in dots():
        place = (left + scale * x, top + scale * y)
        axes.add_patch(Circle(place, scale * DOT, color=colour))
    corners = [(left + scale * x, top + scale * y) for x, y in TRIANGLE]
    axes.add_patch(Polygon(corners, color=BLUE, joinstyle="round", linewidth=3 * scale))


def save(axes, target: Path) -> None:
    """Write a picture whose bytes repeat."""
    axes.figure.savefig(target, metadata={"Software": None})
    plt.close(axes.figure)


if __name__ == "__main__":
    (IMAGES / "mark.svg").write_text(mark(), encoding="utf-8")
    card(IMAGES / "card.png")
    cover(IMAGES / "cover.png")
    print(f"card.png: {(IMAGES / 'card.png').stat().st_size} B")
