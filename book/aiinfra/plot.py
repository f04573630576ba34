"""One visual style for every figure of the book, light and dark.

``subplots`` makes a figure, ``show`` displays it. On a page the figure is an inline
SVG whose text and axes take the colour of the page's text (``currentColor``), so one
output reads on a white and on a dark page; in a PDF or an ePub it is the same SVG in
black on white. Text stays text: it can be searched, copied and scaled.

Draw ink in black, matplotlib's own default, and data in ``PALETTE``: whatever is
black follows the page. matplotlib is imported at the first figure, not here.
"""

from __future__ import annotations

import hashlib
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PALETTE", "RANK_COLOURS", "save", "show", "subplots", "to_svg"]

# Okabe and Ito's palette: distinct to colour-blind readers (grey added).
# The light ones (orange, yellow, sky) are for areas and lines, not for text.
PALETTE = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "vermilion": "#D55E00",
    "purple": "#CC79A7",
    "sky": "#56B4E9",
    "yellow": "#F0E442",
    "grey": "#999999",
}

# Rank r is drawn in RANK_COLOURS[r % 6], in every figure.
RANK_COLOURS = tuple(
    PALETTE[name] for name in ("blue", "orange", "green", "purple", "vermilion", "sky")
)

# The page's own sans-serif. Sizes are computed with DejaVu Sans, which is wider than
# what browsers substitute, so no label outgrows its place.
FONT_STACK = "system-ui,-apple-system,'Segoe UI',Roboto,Arial,sans-serif"

# A figure is drawn at its own size and may grow by this factor on a wide page: its
# text is then as large as the page's, and still legible when a phone shrinks it.
GROWTH = 1.2


def _style() -> dict[str, Any]:
    from cycler import cycler

    return {
        "axes.axisbelow": True,
        "axes.facecolor": "none",
        "axes.grid": True,
        "axes.prop_cycle": cycler(color=[*RANK_COLOURS, PALETTE["grey"]]),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "figure.facecolor": "none",
        "font.family": ["sans-serif"],
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 10,
        "grid.alpha": 0.18,
        "grid.color": "black",
        "grid.linewidth": 0.8,
        "hatch.linewidth": 0.8,
        "lines.linewidth": 2.0,
        "mathtext.fontset": "dejavusans",
        "savefig.facecolor": "none",
        "svg.fonttype": "none",
        "svg.hashsalt": "aiinfra",
    }


def subplots(
    nrows: int = 1,
    ncols: int = 1,
    *,
    figsize: tuple[float, float] = (5.2, 3.0),
    **kwargs: Any,
) -> tuple[Figure, Any]:
    """Return ``(figure, axes)`` in the book's style, as ``pyplot.subplots`` does.

    ``figsize`` is (width, height) in inches; the width of a page's column is about 6.
    Further arguments (``sharex``, ``width_ratios``, ...) go to ``Figure.subplots``.
    The global state of matplotlib is left as it is.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_style()):
        fig = Figure(figsize=figsize, layout="constrained")
        axes = fig.subplots(nrows, ncols, **kwargs)
    return fig, axes


def show(fig: Figure, alt: str = "") -> None:
    """Display the figure in a notebook, with ``alt`` as its text for who can't see it.

    Displays ``text/html`` (inline SVG, for pages and JupyterLab) and
    ``image/svg+xml`` (black on white, for PDF and ePub). Outside a notebook it prints
    ``[figure] alt``.

    Raises ValueError when ``alt`` is missing.
    """
    page = to_svg(fig, alt, inline=True)  # also refuses a missing alt
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        get_ipython = None
    if get_ipython is None or get_ipython() is None:
        print(f"[figure] {alt}")
        return
    bundle = {
        "text/html": f'<div class="bookplot">{page}</div>',
        "image/svg+xml": to_svg(fig, alt),
        "text/plain": f"[figure] {alt}",
    }
    display(bundle, raw=True)


def save(fig: Figure, path: str | Path, alt: str = "", *, inline: bool = False) -> None:
    """Write the figure to ``path`` as SVG; arguments as for ``to_svg``."""
    Path(path).write_text(to_svg(fig, alt, inline=inline) + "\n", encoding="utf-8")


def to_svg(fig: Figure, alt: str = "", *, inline: bool = False) -> str:
    """Return the figure as SVG text: the same bytes for the same drawing.

    With ``inline``, for pasting into a page: transparent, ink in ``currentColor``,
    as wide as the column up to ``GROWTH`` times its own size. Otherwise a picture of
    its own: black on white, at its own size.

    Raises ValueError when ``alt`` is missing.
    """
    if not isinstance(alt, str) or not alt.strip():
        raise ValueError(
            "a figure needs alt text: pass alt='...', one or two sentences "
            "that say what the figure shows"
        )
    raw = _draw(fig)
    width_pt, height_pt = (72 * inches for inches in fig.get_size_inches())
    body = raw[raw.index(">", raw.index("<svg")) + 1 : raw.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.S)
    body = re.sub(r"<!--.*?-->", "", body, flags=re.S)
    # matplotlib's style sheet says "*": pasted into a page it would style the page.
    # The same two properties are inherited from the root element instead.
    body = re.sub(r"<style.*?</style>", "", body, count=1, flags=re.S)
    body = re.sub(r"<defs>\s*</defs>", "", body)
    ink = "currentColor" if inline else "#000000"
    body = re.sub(r"<[^>]*>", lambda tag: _clean_tag(tag[0], ink), body)
    body = re.sub(r">\s*\n\s*<", ">\n<", body).strip()
    digest = hashlib.sha256((body + alt).encode()).hexdigest()[:8]
    body = _own_ids(body, prefix=f"fig{digest}")

    alt = escape(" ".join(alt.split()), quote=True)
    css = f"font-family:{FONT_STACK};stroke-linejoin:round;stroke-linecap:butt"
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" '
        'xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="0 0 {width_pt:g} {height_pt:g}" role="img" aria-label="{alt}"'
    )
    width_px, height_px = width_pt * 96 / 72, height_pt * 96 / 72
    if inline:
        css += f";width:100%;max-width:{GROWTH * width_px:.0f}px;height:auto"
        return f'{head} fill="{ink}" style="{css}">\n{body}\n</svg>'
    return (
        f'{head} width="{width_px:g}" height="{height_px:g}" fill="{ink}" '
        f'style="{css}">\n<title>{alt}</title>\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{body}\n</svg>'
    )


def _draw(fig: Figure) -> str:
    """Return matplotlib's own SVG of the figure."""
    import io

    import matplotlib
    from matplotlib.legend import Legend

    for legend in fig.findobj(Legend):
        legend.set_frame_on(False)  # its box would be white on a dark page
    out = io.StringIO()
    metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context(_style()):
        fig.savefig(out, format="svg", metadata=metadata)
    return out.getvalue()


def _clean_tag(tag: str, ink: str) -> str:
    """Round coordinates, name the ink, and use the page's fonts, in one tag."""
    tag = re.sub(
        r"-?\d+\.\d{3,}(?![\w.])",
        lambda number: f"{round(float(number[0]), 2):g}",
        tag,
    )
    tag = tag.replace("#000000", ink)
    tag = re.sub(r"font-family: 'DejaVu Sans'[^;\"]*(; )?", "", tag)
    # matplotlib before 3.9 writes one "font" property, which must name a family.
    return re.sub(r"'DejaVu Sans'[^;\"]*", FONT_STACK, tag)


def _own_ids(body: str, prefix: str) -> str:
    """Keep the ids that something refers to, made unique to this figure."""
    used = set(re.findall(r"url\(#([^)]+)\)", body))
    used |= set(re.findall(r'href="#([^"]+)"', body))
    names: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        if match[1] not in used:
            return ""
        names[match[1]] = f"{prefix}-{len(names)}"
        return f' id="{names[match[1]]}"'

    body = re.sub(r' id="([^"]+)"', rename, body)
    for old, new in names.items():
        body = body.replace(f"url(#{old})", f"url(#{new})")
        body = body.replace(f'href="#{old}"', f'href="#{new}"')
    return body
