"""Curves over x that a slider moves: computed in Python, for every slider position."""

from __future__ import annotations

import base64
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import traitlets

from . import _draw as d
from ._base import COLOURS, STATIC_WIDTH, Figure, check_alt, check_texts, module
from ._base import split_unit as _split

DASHES = ["", "7 4", "2 3", "10 3 2 3", "12 5", "5 2 1 2 1 2"]
# Keeps a text legible where a curve runs behind it.
_HALO = (
    ' style="paint-order:stroke;stroke:var(--aifig-bg,transparent);stroke-width:3px"'
)
_GAP = -32768  # int16 code of "no value"


@functools.lru_cache(maxsize=8)
def _decode(table: str, dtype: str, low: float, step: float, log: bool) -> np.ndarray:
    raw = base64.b64decode(table)
    if dtype == "float32":
        return np.frombuffer(raw, "<f4").astype(float)
    codes = np.frombuffer(raw, "<i2").astype(float)
    values = np.where(codes == _GAP, np.nan, low + (codes + 32767) * step)
    return 10.0**values if log else values


def _values(data: dict[str, Any]) -> np.ndarray:
    flat = _decode(data["table"], data["dtype"], *data["code"], data["log_y"])
    return flat.reshape(data["shape"])


def _setting(data: dict[str, Any], k: int, k2: int) -> str:
    parts = [
        f"{slider['name']} {slider['texts'][i]}"
        for slider, i in zip(data["sliders"], (k, k2), strict=False)
    ]
    return ", ".join(parts)


def _at(data: dict[str, Any], at: int) -> str:
    return f"{data['x_name']} {d.with_unit(d.num(data['x'][at]), data['x_unit'])}"


def _summary(data: dict[str, Any], k: int, k2: int, at: int) -> str:
    values = _values(data)[k, k2, :, at]
    read = "; ".join(
        f"{name} {d.with_unit(d.reading(float(v)), data['y_unit'])}"
        for name, v in zip(data["labels"], values, strict=True)
    )
    return f"{_setting(data, k, k2)}. At {_at(data, at)}: {read}."


def layout(data: dict[str, Any], width: float, still: bool) -> dict[str, Any]:
    """Where everything goes at this width, in px."""
    names = max(d.text_width(name, 13) for name in data["labels"])
    value = d.text_width(d.with_unit("00,000", data["y_unit"]), 13)
    column = 34 + names + 10 + value + 18
    columns = max(1, min(len(data["labels"]), math.floor((width + 18) / column)))
    rows = math.ceil(len(data["labels"]) / columns)
    top = 24 if still else 0
    legend = top + 22
    y_name = legend + rows * 20 + 16
    low, high = data["y_range"]
    height = math.floor(min(320, max(210, width * 0.46)))
    ticks = (d.log_ticks if data["log_y"] else d.linear_ticks)(low, high, 6)
    left = math.ceil(max(d.text_width(text, 11) for _, text in ticks)) + 10
    right = width - 8
    marks, ends = [], []
    for name, at in data["x_marks"]:
        x = d.position(at, data["x"][0], data["x"][-1], left, right, data["log_x"])
        wide = d.text_width(name, 11)
        start = x + 4 if x + 4 + wide <= width else x - 4 - wide
        row = 0
        while row < len(ends) and ends[row] > start:
            row += 1
        if row == len(ends):
            ends.append(0)
        ends[row] = start + wide + 10
        marks.append([x, start, row])
    plot_top = y_name + 10 + len(ends) * 15
    bottom = plot_top + height
    return {
        "column": column,
        "columns": columns,
        "top": top,
        "legend": legend,
        "y_name": y_name,
        "y_ticks": ticks,
        "left": left,
        "right": right,
        "plot_top": plot_top,
        "bottom": bottom,
        "marks": marks,
        "height": bottom + 40,
    }


def curve(data: dict[str, Any], row: Sequence[float], box: dict[str, Any]) -> str:
    """The path of one series inside its plot; a gap lifts the pen."""
    low, high = data["y_range"]
    parts, pen = [], "M"
    for x, y in zip(data["x"], row, strict=True):
        if math.isnan(y):
            pen = "M"
            continue
        px = d.position(
            x, data["x"][0], data["x"][-1], 0, box["right"] - box["left"], data["log_x"]
        )
        py = d.position(y, low, high, box["bottom"] - box["plot_top"], 0, data["log_y"])
        parts.append(f"{pen}{d.fixed(px)} {d.fixed(py)}")
        pen = "L"
    return "".join(parts)


def scene(
    data: dict[str, Any], k: int, k2: int, at: int, width: float, still: bool
) -> str:
    """The whole picture as SVG text; ``still`` adds what the controls would say."""
    box = layout(data, width, still)
    values = _values(data)[k, k2]
    left, right, top, bottom = (
        box[key] for key in ("left", "right", "plot_top", "bottom")
    )
    low, high = data["y_range"]
    x_low, x_high = data["x"][0], data["x"][-1]
    parts = []
    if still:
        setting = d.shorten(_setting(data, k, k2), width, 13)
        parts.append(d.label(0, 13, setting, 13, "start", ' font-weight="600"'))
    at_text = f"at {_at(data, at)}"
    parts.append(
        d.label(0, box["top"] + 13, at_text, 12, "start", ' fill-opacity="0.75"')
    )
    for i, name in enumerate(data["labels"]):
        x = (i % box["columns"]) * box["column"]
        y = box["legend"] + (i // box["columns"]) * 20 + 13
        value = d.with_unit(d.reading(float(values[i, at])), data["y_unit"])
        parts.append(
            f'<path d="M{d.fixed(x)} {d.fixed(y - 4)}h26" fill="none"'
            f' stroke="{data["colours"][i]}" stroke-width="2.5"'
            f' stroke-dasharray="{data["dashes"][i]}"/>'
        )
        room = width - 34 - 10 - d.text_width(value, 13)
        parts.append(d.label(x + 34, y, d.shorten(name, room, 13), 13))
        end = min(x + box["column"] - 18, width)
        parts.append(d.label(end, y, value, 13, "end", ' font-weight="600"'))
    muted = ' fill-opacity="0.75"'
    y_text = d.with_unit(data["y_name"], data["y_unit"] and f"({data['y_unit']})")
    parts.append(d.label(0, box["y_name"], y_text, 11, "start", muted))
    for value, text in box["y_ticks"]:
        y = d.position(value, low, high, bottom, top, data["log_y"])
        parts.append(d.line(left, y, right, y, ' stroke-opacity="0.13"'))
        parts.append(d.label(left - 6, y + 4, text, 11, "end", muted))
    most = math.floor((right - left) / 62)
    x_ticks = (d.log_ticks if data["log_x"] else d.linear_ticks)(x_low, x_high, most)
    for value, text in x_ticks:
        x = d.position(value, x_low, x_high, left, right, data["log_x"])
        half = d.text_width(text, 11) / 2
        parts.append(d.line(x, bottom, x, bottom + 4, ' stroke-opacity="0.6"'))
        middle = min(x, width - half)
        parts.append(d.label(middle, bottom + 17, text, 11, "middle", muted))
    parts.append(d.line(left, bottom, right, bottom, ' stroke-opacity="0.6"'))
    x_text = d.with_unit(data["x_name"], data["x_unit"] and f"({data['x_unit']})")
    parts.append(d.label(right, bottom + 34, x_text, 11, "end", muted))
    dotted = ' stroke-opacity="0.55" stroke-dasharray="1 3" stroke-linecap="round"'
    for (name, _), (x, start, row) in zip(data["x_marks"], box["marks"], strict=True):
        y = top - 5 - row * 15
        parts.append(d.line(x, y - 9, x, bottom, dotted))
        parts.append(d.label(start, y, name, 11, "start", muted))
    for _, value in data["y_marks"]:
        y = d.position(value, low, high, bottom, top, data["log_y"])
        parts.append(d.line(left, y, right, y, dotted))
    # A nested svg clips the curves to the plot without needing an id.
    parts.append(
        f'<svg x="{d.fixed(left)}" y="{d.fixed(top)}" width="{d.fixed(right - left)}"'
        f' height="{d.fixed(bottom - top)}" overflow="hidden">'
    )
    for i in range(len(data["labels"])):
        parts.append(
            f'<path d="{curve(data, values[i].tolist(), box)}" fill="none"'
            f' stroke="{data["colours"][i]}" stroke-width="2.5"'
            f' stroke-dasharray="{data["dashes"][i]}" stroke-linejoin="round"/>'
        )
    parts.append("</svg>")
    for name, value in data["y_marks"]:
        y = d.position(value, low, high, bottom, top, data["log_y"])
        parts.append(d.label(right, y - 5, name, 11, "end", muted + _HALO))
    x = d.position(data["x"][at], x_low, x_high, left, right, data["log_x"])
    parts.append(d.line(x, top, x, bottom, ' stroke-opacity="0.7"'))
    for i in range(len(data["labels"])):
        value = float(values[i, at])
        if low <= value <= high:
            y = d.position(value, low, high, bottom, top, data["log_y"])
            parts.append(
                f'<circle cx="{d.fixed(x)}" cy="{d.fixed(y)}" r="4.5"'
                f' fill="{data["colours"][i]}" stroke-width="1.5"'
                ' style="stroke:var(--aifig-bg,#fff)"/>'
            )
    return d.picture(
        width, box["height"], data["alt"], _summary(data, k, k2, at), parts
    )


class Sweep(Figure):
    """Curves over x with one or two sliders; made by :func:`sweep`.

    ``k`` and ``k2`` are the sliders' positions, ``at`` the index in x at which the
    values are read; all three follow the reader and can be set.
    """

    _esm = module("sweep")
    fig: ClassVar[str] = "sweep"
    live: ClassVar[tuple[str, ...]] = ("k", "k2", "at")

    k = traitlets.Int(0).tag(sync=True)
    k2 = traitlets.Int(0).tag(sync=True)
    at = traitlets.Int(0).tag(sync=True)

    @traitlets.validate("k", "k2", "at")
    def _in_range(self, proposal: dict) -> int:
        shape = self.data["shape"]
        axis = {"k": 0, "k2": 1, "at": 3}[proposal["trait"].name]
        return self._index(proposal, shape[axis])

    @property
    def value(self) -> float | str:
        """The first slider's value."""
        return self.data["sliders"][0]["values"][self.k]

    @property
    def value2(self) -> float | str | None:
        """The second slider's value; None if there is none."""
        sliders = self.data["sliders"]
        return sliders[1]["values"][self.k2] if len(sliders) > 1 else None

    @property
    def reading(self) -> dict[str, float]:
        """The value of each curve at the reading line."""
        row = _values(self.data)[self.k, self.k2, :, self.at]
        return dict(zip(self.data["labels"], row.tolist(), strict=True))

    def svg(self) -> str:
        return scene(self.data, self.k, self.k2, self.at, STATIC_WIDTH, True)

    def summary(self) -> str:
        return _summary(self.data, self.k, self.k2, self.at)

    def _advice(self) -> str:
        k, k2, series, n = self.data["shape"]
        half = "" if self.data["dtype"] == "int16" else ', or pass dtype="int16"'
        return (
            f"The table holds {k} x {k2} slider positions x {series} curves x {n} "
            f"points: use fewer positions or points{half}."
        )


def _slider(grid: Sequence[Any], name: str, unit: str, what: str) -> dict[str, Any]:
    values = [v if isinstance(v, str) else float(v) for v in grid]
    if not values:
        raise ValueError(f"{what} is empty: give the slider at least one position")
    texts = [v if isinstance(v, str) else d.with_unit(d.num(v), unit) for v in values]
    return {"name": name, "unit": unit, "values": values, "texts": texts}


def _marks(marks: Mapping[str, float] | None, low: float, high: float, what: str):
    out = []
    for name, value in (marks or {}).items():
        if not low <= value <= high:
            raise ValueError(
                f"{what}: {name!r} is at {value:g}, outside the axis ({low:g} to "
                f"{high:g}); widen the axis or drop the mark"
            )
        out.append([str(name), float(value)])
    return out


def _encode(table: np.ndarray, dtype: str, log: bool) -> tuple[str, float, float]:
    if dtype == "float32":
        return base64.b64encode(table.astype("<f4").tobytes()).decode(), 0.0, 1.0
    if dtype != "int16":
        raise ValueError(f'dtype must be "float32" or "int16", got {dtype!r}')
    values = np.log10(table) if log else table
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    step = (high - low) / 65534 or 1.0
    codes = np.rint((values - low) / step) - 32767
    codes = np.where(np.isnan(codes), _GAP, codes).astype("<i2")
    return base64.b64encode(codes.tobytes()).decode(), low, step


def _y_range(table: np.ndarray, log: bool, given: Sequence[float] | None):
    if given is not None:
        low, high = (float(v) for v in given)
        if not low < high or (log and low <= 0):
            raise ValueError(
                f"y_range must be (low, high) with low < high"
                f"{' and low > 0' if log else ''}, got {tuple(given)}"
            )
        return [low, high]
    low, high = float(np.nanmin(table)), float(np.nanmax(table))
    if log:
        pad = (high / low) ** 0.05 if high > low else 2.0
        return [low / pad, high * pad]
    low = min(low, 0.0)
    high = max(high, 0.0)
    pad = 0.05 * (high - low) or 1.0
    return [low - pad if low < 0 else 0.0, high + pad if high > 0 else 0.0]


def sweep(
    fn: Callable[..., Any],
    *,
    x: Sequence[float],
    grid: Sequence[Any],
    name: str,
    unit: str = "",
    grid2: Sequence[Any] | None = None,
    name2: str = "",
    unit2: str = "",
    labels: Sequence[str] | str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    y_range: Sequence[float] | None = None,
    x_marks: Mapping[str, float] | None = None,
    y_marks: Mapping[str, float] | None = None,
    start: int | None = None,
    start2: int | None = None,
    at: int | None = None,
    dtype: str = "float32",
    alt: str,
) -> Sweep:
    """Curves over ``x`` that one slider moves, or two.

    Args:
        fn: ``fn(g)``, or ``fn(g, g2)`` with two sliders, returns the curves, shape
            ``[series, len(x)]`` (``[len(x)]`` for one curve). NaN leaves a gap. It is
            called once for every slider position, here and now.
        x: increasing values of the horizontal axis, in the unit of ``x_label``.
        grid, name, unit: the slider's positions (numbers, or texts such as names of
            links), what they are, their unit. ``grid2`` ... for a second slider.
        labels: one name per curve, at most six.
        x_label, y_label: axis names with their units: ``"time [ms]"``.
        log_x, log_y: logarithmic axes.
        y_range: (low, high) of the vertical axis; all slider positions share it.
        x_marks, y_marks: reference lines, name to position:
            ``{"InfiniBand NDR": 50}``.
        start, start2: slider positions (indices) to begin with; the middle if None.
        at: index in ``x`` at which the values are read at first; the middle if None.
        dtype: "float32", or "int16" (half the size, 65 534 steps of the value range).
        alt: what the figure shows, for readers who can't see it.

    Returns:
        The figure: ``k``, ``k2``, ``at`` move with it; ``value``, ``value2`` and
        ``reading`` say where it stands.

    Raises:
        ValueError: if the arguments don't fit together, or the figure is too large.
    """
    alt = check_alt(alt)
    xs = np.asarray(x, dtype=float)
    if xs.ndim != 1 or len(xs) < 2 or not np.all(np.diff(xs) > 0):
        raise ValueError("x must be one increasing row of at least 2 numbers")
    if log_x and xs[0] <= 0:
        raise ValueError(f"log_x needs x > 0, but x starts at {xs[0]:g}")
    names = check_texts(labels, "labels")
    if not 1 <= len(names) <= len(DASHES):
        raise ValueError(
            f"{len(names)} curves: a reader can tell 1 to {len(DASHES)} apart; "
            "split the figure"
        )
    sliders = [_slider(grid, name, unit, "grid")]
    if grid2 is not None:
        sliders.append(_slider(grid2, name2, unit2, "grid2"))
    if not all(slider["name"] for slider in sliders):
        raise ValueError("each slider needs a name (name=, name2=)")
    points = [(g,) if grid2 is None else (g, g2) for g in grid for g2 in grid2 or [0]]
    rows = []
    for point in points:
        curves = np.asarray(fn(*point), dtype=float)
        if curves.ndim == 1:
            curves = curves[None]
        if curves.shape != (len(names), len(xs)):
            raise ValueError(
                f"fn{point if len(point) > 1 else f'({point[0]!r})'} returned shape "
                f"{curves.shape}; expected (len(labels), len(x)) = "
                f"({len(names)}, {len(xs)})"
            )
        rows.append(curves)
    table = np.stack(rows)
    if np.isinf(table).any():
        raise ValueError("fn returned an infinite value; use NaN to leave a gap")
    if np.isnan(table).all():
        raise ValueError("fn returned only NaN: there is nothing to draw")
    if log_y and np.nanmin(table) <= 0:
        raise ValueError(
            f"log_y needs values > 0, but fn returned {np.nanmin(table):g}; "
            "use log_y=False, or NaN to leave a gap"
        )
    shape = [len(sliders[0]["values"]), 1, len(names), len(xs)]
    if grid2 is not None:
        shape[1] = len(sliders[1]["values"])
    text, low, step = _encode(table, dtype, log_y)
    y_low, y_high = _y_range(table, log_y, y_range)
    x_name, x_unit = _split(x_label)
    y_name, y_unit = _split(y_label)
    data = {
        "alt": alt,
        "shape": shape,
        "dtype": dtype,
        "code": [low, step],
        "table": text,
        "x": xs.tolist(),
        "sliders": sliders,
        "labels": names,
        "colours": COLOURS[: len(names)],
        "dashes": DASHES[: len(names)],
        "x_name": x_name,
        "x_unit": x_unit,
        "y_name": y_name,
        "y_unit": y_unit,
        "log_x": log_x,
        "log_y": log_y,
        "y_range": [y_low, y_high],
        "x_marks": _marks(x_marks, float(xs[0]), float(xs[-1]), "x_marks"),
        "y_marks": _marks(y_marks, y_low, y_high, "y_marks"),
    }
    return Sweep(
        data,
        k=shape[0] // 2 if start is None else start,
        k2=shape[1] // 2 if start2 is None else start2,
        at=len(xs) // 2 if at is None else at,
    )
