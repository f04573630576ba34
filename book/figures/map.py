"""Draw map.html, the front page's map of the eight parts, from the parts' own pages.

    python book/figures/map.py

A part's name and question are the heading and the first bold line of its index page,
so the map can't say something else than the part does. Cards are HTML, so that text
wraps on a phone; their pictures are SVG in the colour of the text.
"""

import math
import re
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(__file__).with_suffix(".html")


def stroke(path: str) -> str:
    """An open line."""
    return f'<path d="{path}"/>'


def solid(path: str) -> str:
    """A filled shape in the part's colour."""
    return f'<path class="tint" d="{path}"/>'


def chip() -> str:
    """A die with its pins."""
    pins = "".join(f"M{at} 6v6M{at} 36v6M6 {at}h6M36 {at}h6" for at in range(16, 33, 8))
    return solid("M18 18h12v12h-12z") + stroke("M12 12h24v24h-24z" + pins)


def tree() -> str:
    """Two levels of switches over four hosts."""
    links = "M24 14L13 22M24 14L35 22M13 30L8 36M13 30L18 36M35 30L30 36M35 30L40 36"
    hosts = "".join(f"M{x} 36h6v6h-6z" for x in (5, 15, 27, 37))
    return solid("M18 6h12v8h-12z") + stroke(
        links + "M8 22h10v8h-10zM30 22h10v8h-10z" + hosts
    )


def ring() -> str:
    """Six ranks that pass messages round."""
    dots, arrows = "", ""
    for rank in range(6):
        turn = math.pi * (rank / 3 - 0.5)
        x, y = 24 + 16 * math.cos(turn), 24 + 16 * math.sin(turn)
        dots += f"M{x - 3:.1f} {y:.1f}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0"
        start, end = turn + 0.28, turn + math.pi / 3 - 0.28
        arrows += (
            f"M{24 + 16 * math.cos(start):.1f} {24 + 16 * math.sin(start):.1f}"
            f"A16 16 0 0 1 {24 + 16 * math.cos(end):.1f} {24 + 16 * math.sin(end):.1f}"
        )
    return solid(dots) + stroke(arrows)


def disks() -> str:
    """A stack of disks, one of them written."""
    lid = "a16 5 0 1 0 32 0a16 5 0 1 0 -32 0"
    sides = "M8 11v26a16 5 0 0 0 32 0v-26M8 24a16 5 0 0 0 32 0"
    return solid(f"M8 11{lid}") + stroke(f"M8 11{lid}{sides}")


def loss() -> str:
    """A loss that falls."""
    points = [(9 + 3 * i, 38 - 28 * math.exp(-i / 2.6)) for i in range(12)]
    curve = "L".join(f"{x} {y:.1f}" for x, y in points)
    return stroke(f"M6 6v36h36M{curve}") + solid("M37 33h7v7h-7z")


def tokens() -> str:
    """A prompt, and the tokens that follow it one by one."""
    prompt = "".join(f"M6 {y}h22v7h-22z" for y in (8, 20, 32))
    return stroke(prompt) + solid(
        "M31 8h5v7h-5zM31 20h5v7h-5zM38 20h5v7h-5zM31 32h5v7h-5z"
    )


def attention() -> str:
    """The causal mask of four tokens."""
    seen, unseen = "", ""
    for row in range(4):
        for column in range(4):
            cell = f"M{7 + 9 * column} {7 + 9 * row}h7v7h-7z"
            if column <= row:
                seen += cell
            else:
                unseen += cell
    return solid(seen) + stroke(unseen)


def pulse() -> str:
    """A heartbeat that stops once and goes on."""
    return stroke("M4 26h8l4 -12l6 24l4 -16l3 4h15") + solid("M37 8h6v6h-6z")


# Folder: (picture, colour of the palette). Grid places are in static/css/book.css.
PARTS = {
    "00Hardware": (chip, "blue"),
    "01Cluster": (tree, "sky"),
    "02Comm": (ring, "orange"),
    "03Storage": (disks, "yellow"),
    "04Train": (loss, "green"),
    "05Infer": (tokens, "vermilion"),
    "06AlgoData": (attention, "purple"),
    "07Ops": (pulse, "grey"),
}


def part_page(folder: str) -> tuple[str, str]:
    """Name and question of a part: its page's heading and first bold line."""
    text = (ROOT / folder / "index.md").read_text(encoding="utf-8")
    name = re.search(r"^# (.+)$", text, re.M)
    question = re.search(r"^\*\*(.+?)\*\*$", text, re.M | re.S)
    if not (name and question):
        raise SystemExit(f"{folder}/index.md has no heading or no question in bold")
    return name[1], " ".join(question[1].split())


def card(folder: str) -> str:
    """One part: a link with its number, name, question and picture."""
    picture, colour = PARTS[folder]
    name, question = part_page(folder)
    number = folder[:2]
    return (
        f'<li class="part part-{number} tint-{colour}">'
        f'<a href="{folder}/index.html">'
        f'<svg viewBox="0 0 48 48" width="48" height="48" aria-hidden="true">'
        f"{picture()}</svg>"
        f'<span class="part-name"><span class="part-number">{number}</span> '
        f"{escape(name)}</span> "
        f'<span class="part-question">{escape(question)}</span></a></li>'
    )


def draw() -> str:
    """The whole map."""
    cards = "\n".join(card(folder) for folder in PARTS)
    return f'<ol class="part-map">\n{cards}\n</ol>\n'


if __name__ == "__main__":
    TARGET.write_text(draw(), encoding="utf-8")
