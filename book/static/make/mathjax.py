"""Make static/vendor/mathjax from the npm package, in a third of its own bundle's size.

    npm pack mathjax@3.2.2
    python book/static/make/mathjax.py mathjax-3.2.2.tgz

MathJax's ready-made bundles carry a context menu, a speech engine and loaders for
files from elsewhere; a page of this book uses none of them. This joins the package's
own components, unchanged but for the font format, into one script, and recompresses
all glyphs of its fonts as WOFF2. Needs fonttools and brotli (the extra `test`).
"""

import io
import sys
import tarfile
from pathlib import Path

from fontTools import subset

VENDOR = Path(__file__).resolve().parents[1] / "vendor" / "mathjax"
# `startup` comes first: it defines the global object, and typesets only after the
# rest of the script has run.
COMPONENTS = [
    "startup",
    "core",
    "input/tex-base",
    "input/tex/extensions/ams",
    "input/tex/extensions/boldsymbol",
    "input/tex/extensions/enclose",  # cancel draws with it
    "input/tex/extensions/cancel",
    "input/tex/extensions/color",
    "input/tex/extensions/newcommand",
    "input/tex/extensions/configmacros",  # after newcommand, which it uses
    "output/chtml",
    "output/chtml/fonts/tex",
    "a11y/assistive-mml",
]
FONTS = "package/es5/output/chtml/fonts/woff-v2/"


def main(archive: str) -> None:
    """Write the bundle, its fonts and its licence."""
    with tarfile.open(archive) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}
    fonts = VENDOR / "output/chtml/fonts/woff-v2"
    fonts.mkdir(parents=True, exist_ok=True)
    parts = [files[f"package/es5/{name}.js"].decode() for name in COMPONENTS]
    script = ";\n".join(part.strip() for part in parts)
    script = script.replace('.woff") format("woff")', '.woff2") format("woff2")')
    (VENDOR / "tex-chtml.js").write_text(script + "\n", encoding="utf-8")
    for name, data in files.items():
        if name.startswith(FONTS):
            small_font(data, fonts / Path(name).with_suffix(".woff2").name)
    (VENDOR / "LICENSE").write_bytes(files["package/LICENSE"])


def small_font(data: bytes, target: Path) -> None:
    """Save the font as WOFF2 without hints, which no screen of today reads."""
    options = subset.Options(
        flavor="woff2", hinting=False, desubroutinize=True, name_IDs=[0]
    )
    options.drop_tables.append("FFTM")  # the font editor's own time stamp
    font = subset.load_font(io.BytesIO(data), options)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=font.getBestCmap())
    cutter.subset(font)
    subset.save_font(font, target, options)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
