"""Take the README's picture of the front page from the built site.

    python book/static/make/screenshot.py

Needs `aiinfra build` and a Chromium (the extra `test`).
"""

import io
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from aiinfra.tools.browser import find_chromium
from aiinfra.tools.root import find_root
from aiinfra.tools.serve import serving

TARGET = Path(__file__).resolve().parents[1] / "img" / "screenshot.png"
WINDOW = {"width": 1440, "height": 1240}
COLOURS = 160  # few enough for 100 kB, enough for smooth letters


def main() -> None:
    """Write the picture."""
    with serving(find_root() / "_build/html") as address, sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport=WINDOW, color_scheme="light")
        page.goto(address, wait_until="load")
        picture = Image.open(io.BytesIO(page.screenshot()))
        browser.close()
    few_colours(picture.convert("RGB")).save(TARGET, optimize=True)
    print(f"{TARGET.name}: {TARGET.stat().st_size} B")


def few_colours(picture: Image.Image) -> Image.Image:
    """The picture in its own most frequent colours, so that every tint stays exact."""
    counts = sorted(picture.getcolors(1 << 24), reverse=True)[:COLOURS]
    palette = Image.new("P", (1, 1))
    palette.putpalette([value for _, colour in counts for value in colour])
    return picture.quantize(palette=palette, dither=Image.Dither.NONE)


if __name__ == "__main__":
    main()
