"""What every moving figure is: one ES module, a widget, and a static picture.

In JupyterLab a figure is a live widget and its traits follow the slider. On the site
its HTML carries its data, and ``js/host.js`` runs the same module without a kernel. In
a PDF or an ePub it is its SVG, drawn here for the state it was left in.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, ClassVar

try:
    import anywidget
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "aiinfra.figures needs anywidget; install it with: pip install 'aiinfra[lab]'"
    ) from error
import traitlets

from aiinfra import plot

from . import _draw as d

JS = Path(__file__).parent / "js"

# What one figure may add to a page, picture and data together. A page's own budget is
# 120 kB compressed, and tables of numbers hardly compress.
LIMIT_BYTES = 200_000

# The width the static picture is drawn for, in px; a page's column is about this wide.
STATIC_WIDTH = 680

# A printed page shows every frame or step of a figure up to this many, else the one
# it was left in.
PRINTED_FRAMES = 8

COLOURS = list(plot.RANK_COLOURS)


def module(name: str) -> str:
    """The figure's ES module as one file: ``common.js`` in place of its import.

    The site serves the two files as they are; a widget's module must be one text.
    """
    source = (JS / f"{name}.js").read_text(encoding="utf-8")
    shared = (JS / "common.js").read_text(encoding="utf-8")
    pattern = r'import \{[^}]*\} from "\./common\.js";\n'
    whole, count = re.subn(pattern, lambda _: shared, source)
    if count != 1:
        raise RuntimeError(f"{name}.js must import ./common.js exactly once")
    return whole


def split_unit(text: str) -> tuple[str, str]:
    """``"time [ms]"`` or ``"time (ms)"`` -> ``("time", "ms")``."""
    match = re.fullmatch(r"\s*(.*?)\s*[\[(]([^\[\]()]*)[\])]\s*", text)
    return (match[1], match[2].strip()) if match else (text.strip(), "")


def check_alt(alt: str | None) -> str:
    """The alt text, or the error that says what one is."""
    if not isinstance(alt, str) or len(alt.split()) < 3:
        raise ValueError(
            f"alt must say in words what the figure shows (got {alt!r}); for example "
            'alt="Exposed time against bucket size: a valley near 25 MB"'
        )
    return " ".join(alt.split())


def check_texts(values: Any, what: str) -> list[str]:
    """A list of non-empty texts, or an error that names it."""
    texts = [values] if isinstance(values, str) else [str(v) for v in values]
    if not all(text.strip() for text in texts):
        raise ValueError(f"{what} must be non-empty texts, got {texts}")
    return texts


def sheet(scenes: list[str], heights: list[float], columns: int, alt: str) -> str:
    """Several pictures on one, for paper: row by row in equal columns."""
    width = (STATIC_WIDTH - 40 * (columns - 1)) / columns
    parts, y = [], 0.0
    for first in range(0, len(scenes), columns):
        for i, scene in enumerate(scenes[first : first + columns]):
            x = d.fixed(i * (width + 40))
            parts.append(scene.replace("<svg ", f'<svg x="{x}" y="{d.fixed(y)}" ', 1))
        y += max(heights[first : first + columns]) + 24
    return d.picture(STATIC_WIDTH, y - 24, alt, alt, parts)


class Figure(anywidget.AnyWidget):
    """A moving figure; the subclasses are Sweep, Timeline and Holds."""

    fig: ClassVar[str] = ""  # name of the ES module
    live: ClassVar[tuple[str, ...]] = ()  # traits that the reader moves

    data = traitlets.Dict(read_only=True).tag(sync=True)

    def __init__(self, data: dict[str, Any], **state: Any) -> None:
        super().__init__()
        self.set_trait("data", data)
        for name, value in state.items():
            setattr(self, name, value)
        size = len(self._html().encode())
        if size > LIMIT_BYTES:
            raise ValueError(
                f"this {self.fig} would add {size / 1e3:.0f} kB to the page; a figure "
                f"may have {LIMIT_BYTES / 1e3:.0f} kB. {self._advice()}"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self.data.get('alt', '')}"

    def svg(self) -> str:
        """The static picture of the present state."""
        raise NotImplementedError

    def print_svg(self) -> str:
        """The picture for paper, where nothing moves: all frames, if they are few."""
        return self.svg()

    def summary(self) -> str:
        """The present state in words, as a screen reader hears it."""
        raise NotImplementedError

    def _advice(self) -> str:
        raise NotImplementedError

    def _index(self, proposal: dict, count: int) -> int:
        """Validates a trait that counts positions on a slider."""
        if not 0 <= proposal["value"] < count:
            raise traitlets.TraitError(
                f"{proposal['trait'].name} must be from 0 to {count - 1}, "
                f"got {proposal['value']}"
            )
        return proposal["value"]

    def _html(self) -> str:
        state = {"data": self.data} | {name: getattr(self, name) for name in self.live}
        text = json.dumps(state, ensure_ascii=False, separators=(",", ":"))
        # "<" would end the script element if a label held "</script>".
        text = text.replace("<", "\\u003c")
        return (
            f'<div class="bookfig" data-fig="{self.fig}">'
            f'<div class="bookfig-fallback">{self.svg()}</div>'
            f'<script type="application/json">{text}</script></div>'
        )

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict, dict]:
        data, metadata = super()._repr_mimebundle_(**kwargs)
        data = dict(data, **{"text/plain": repr(self), "text/html": self._html()})
        data["image/svg+xml"] = self.print_svg()
        return data, metadata
