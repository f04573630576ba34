"""Make static/vendor/fontawesome: the icon font cut to the icons that pages show.

    python book/static/make/icons.py

Reads the fonts of the installed theme. Kept are the icons named below and every icon
that the theme's style sheet draws by its code point (admonitions, arrows). Needs
fonttools and brotli (the extra `test`).
"""

import re
from pathlib import Path

import pydata_sphinx_theme
from fontTools import subset

# Icons named in templates (the theme's and ours) and in the theme's scripts.
ICONS = (
    "angle-left",
    "angle-right",
    "bars",
    "chevron-down",
    "circle-half-stroke",
    "code",
    "download",
    "lightbulb",
    "list",
    "magnifying-glass",
    "moon",
    "outdent",
    "sun",
    "xmark",
)
FONT_RULE = re.compile(r'((?:\.fa-[a-z0-9-]+:before,?)+)\{content:"\\([0-9a-f]+)"\}')
THEME = Path(pydata_sphinx_theme.__file__).parent / "theme/pydata_sphinx_theme/static"
VENDOR = Path(__file__).resolve().parents[1] / "vendor" / "fontawesome"
FONT = "fa-solid-900.woff2"


def code_points(css: str) -> set[int]:
    """Code points of ICONS, and of all icons drawn outside Font Awesome's own rules."""
    wanted = set()
    for selectors, code in FONT_RULE.findall(css):
        if any(f".fa-{name}:before" in selectors for name in ICONS):
            wanted.add(int(code, 16))
    rest = FONT_RULE.sub("", css)
    wanted |= {int(code, 16) for code in re.findall(r'"\\([ef][0-9a-f]{3})"', rest)}
    wanted |= {ord(char) for char in rest if "\ue000" <= char <= "\uf8ff"}
    return wanted


def main() -> None:
    """Write the subset font."""
    css = (THEME / "styles/pydata-sphinx-theme.css").read_text(encoding="utf-8")
    (VENDOR / "webfonts").mkdir(parents=True, exist_ok=True)
    options = subset.Options(flavor="woff2", layout_features=[])
    font = subset.load_font(THEME / f"vendor/fontawesome/webfonts/{FONT}", options)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=code_points(css))
    cutter.subset(font)
    target = VENDOR / "webfonts" / FONT
    subset.save_font(font, target, options)
    print(f"{FONT}: {len(font.getBestCmap())} icons, {target.stat().st_size} B")


if __name__ == "__main__":
    main()
