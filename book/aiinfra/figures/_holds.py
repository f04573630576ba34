"""Who holds what, step by step: a grid of ranks and chunks, and the messages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import traitlets

from . import _draw as d
from ._base import (
    COLOURS,
    PRINTED_FRAMES,
    STATIC_WIDTH,
    Figure,
    check_alt,
    check_texts,
    module,
    sheet,
)


def _cell_text(data: dict[str, Any], cell: Any) -> str:
    if isinstance(cell, str):
        return cell or "nothing"
    return "+".join(data["sources"][i] for i in cell) or "nothing"


def _read(data: dict[str, Any], step: int, cell: int) -> str:
    row, column = divmod(cell, len(data["columns"]))
    text = _cell_text(data, data["steps"][step][row][column])
    return f"{data['rows'][row]}, {data['columns'][column]}: {text}"


def _summary(data: dict[str, Any], step: int, cell: int) -> str:
    text = f"Step {step} of {len(data['steps']) - 1}. {data['captions'][step]}".strip()
    if cell >= 0:
        text += f" {_read(data, step, cell)}."
    return text


def layout(data: dict[str, Any], width: float, still: bool, step: int) -> dict:
    """Where everything goes at this width, in px."""
    top = 0
    lines: list[str] = []
    if still:
        text = f"Step {step} of {len(data['steps']) - 1}. {data['captions'][step]}"
        lines = d.wrap(text.strip(), width, 13)
        top = 18 * len(lines) + 8
    legend, x, y = [], 0.0, top
    for i, source in enumerate(data["sources"]):
        head = d.text_width(data["legend"], 12) + 10 if i == 0 else 0
        wide = head + 18 + d.text_width(source, 12) + 12
        if x and x + wide - 12 > width:
            x, y = 0.0, y + 20
        legend.append([x + head, y + 13])
        x += wide
    if legend:
        y += 20 + 8
    columns, sources = len(data["columns"]), len(data["sources"])
    left = math.ceil(max(d.text_width(name, 12) for name in data["rows"])) + 16
    pitch = math.floor(min((width - left) / columns, 148))
    gap = math.floor(min(36, max(9, pitch * 0.26)))
    cell = pitch - gap
    lanes = 1
    while lanes < sources and (cell - 8) / math.ceil(sources / lanes) < 9:
        lanes += 1
    per_lane = math.ceil(sources / lanes) if sources else 1
    slot = min(20, math.floor((cell - 8) / per_lane))
    tall = max(32, lanes * slot + 12) if sources else 34
    names = [d.shorten(name, pitch - 2, 12) for name in data["columns"]]
    grid_top = y + 22
    step_y = tall + 16
    return {
        "lines": lines,
        "legend": legend,
        "top": top,
        "left": left,
        "pitch": pitch,
        "gap": gap,
        "cell": cell,
        "tall": tall,
        "slot": slot,
        "per_lane": per_lane,
        "names": names,
        "grid_top": grid_top,
        "step_y": step_y,
        "height": grid_top + step_y * len(data["rows"]) - 8,
    }


def arrow(box: dict[str, Any], message: Sequence[int]) -> dict[str, Any]:
    """The curve of one message: start, two controls, end, and the head's direction."""
    row, column, to_row, to_column = message

    def x(c: int) -> float:
        return box["left"] + c * box["pitch"]

    def y(r: int) -> float:
        return box["grid_top"] + r * box["step_y"] + box["tall"] / 2

    cell, gap = box["cell"], box["gap"]
    y0, y1 = y(row), y(to_row)
    shift = min(7, box["tall"] / 4)
    if to_row > row:
        y0, y1 = y0 + shift, y1 - shift
    elif to_row < row:
        y0, y1 = y0 - shift, y1 + shift
    if to_column > column:
        x0, x1 = x(column) + cell, x(to_column) - 1
        bend = max(gap, (x1 - x0) / 2)
        return {"points": [x0, y0, x0 + bend, y0, x1 - bend, y1, x1, y1], "head": -1}
    if to_column < column:
        x0, x1 = x(column), x(to_column) + cell + 1
        bend = max(gap, (x0 - x1) / 2)
        return {"points": [x0, y0, x0 - bend, y0, x1 + bend, y1, x1, y1], "head": 1}
    # Same column: an arc in the gap to the right, wider the farther it goes.
    far = min(1, (abs(to_row - row) - 1) / 2)
    bend = gap * (0.7 + 0.3 * far)
    x0, x1 = x(column) + cell, x(column) + cell + 1
    return {"points": [x0, y0, x0 + bend, y0, x1 + bend, y1, x1, y1], "head": 1}


def contents(data: dict[str, Any], box: dict[str, Any], x: float, y: float, cell: Any):
    """What one cell holds: a slot for each source, filled or not; or a text."""
    if isinstance(cell, str):
        text = d.shorten(cell, box["cell"] - 4, 13)
        middle = y + box["tall"] / 2 + 5
        return [d.label(x + box["cell"] / 2, middle, text, 13, "middle")]
    slot, per_lane = box["slot"], box["per_lane"]
    sources = data["sources"]
    lanes = math.ceil(len(sources) / per_lane)
    x0 = x + (box["cell"] - slot * per_lane) / 2
    y0 = y + (box["tall"] - slot * lanes) / 2
    parts = []
    for i, source in enumerate(sources):
        sx = x0 + (i % per_lane) * slot + 1
        sy = y0 + (i // per_lane) * slot + 1
        if i not in cell:
            parts.append(
                d.rect(sx + 0.5, sy + 0.5, slot - 3, slot - 3, _EMPTY),
            )
            continue
        colour = data["colours"][i]
        parts.append(d.rect(sx, sy, slot - 2, slot - 2, f' rx="2" fill="{colour}"'))
        if slot >= 15 and d.text_width(source, 11) <= slot - 2:
            ink = f' fill="{data["inks"][i]}" font-weight="600"'
            parts.append(
                d.label(sx + slot / 2 - 1, sy + slot / 2 + 3, source, 11, "middle", ink)
            )
    return parts


_EMPTY = ' rx="2" fill="none" stroke="currentColor" stroke-opacity="0.22"'


def scene(data: dict[str, Any], step: int, cell: int, width: float, still: bool) -> str:
    """The whole picture as SVG text; ``still`` adds what the controls would say."""
    box = layout(data, width, still, step)
    parts = []
    muted = ' fill-opacity="0.75"'
    for i, text in enumerate(box["lines"]):
        parts.append(d.label(0, 13 + 18 * i, text, 13))
    for i, (x, y) in enumerate(box["legend"]):
        if i == 0:
            parts.append(d.label(0, y, data["legend"], 12, "start", muted))
        colour = data["colours"][i]
        parts.append(d.rect(x, y - 10, 12, 12, f' rx="2" fill="{colour}"'))
        parts.append(d.label(x + 18, y, data["sources"][i], 12))
    for column, name in enumerate(box["names"]):
        x = box["left"] + column * box["pitch"] + box["cell"] / 2
        parts.append(d.label(x, box["grid_top"] - 8, name, 12, "middle", muted))
    grid = data["steps"][step]
    before = data["steps"][step - 1] if step else grid
    for row, name in enumerate(data["rows"]):
        y = box["grid_top"] + row * box["step_y"]
        middle = y + box["tall"] / 2 + 4
        parts.append(d.label(0, middle, name, 12, "start", ' font-weight="600"'))
        for column, held in enumerate(grid[row]):
            x = box["left"] + column * box["pitch"]
            full = not isinstance(held, str) and len(held) == len(data["sources"])
            fill = ' fill="currentColor" fill-opacity="0.09"' if full else _CLEAR
            new = before[row][column] != held
            edge = _NEW if new else _OLD
            parts.append(d.rect(x, y, box["cell"], box["tall"], f' rx="5"{fill}{edge}'))
            parts.extend(contents(data, box, x, y, held))
    for message in data["messages"][step]:
        shape = arrow(box, message)
        x0, y0, xa, ya, xb, yb, x1, y1 = shape["points"]
        head = shape["head"]
        parts.append(
            f'<path d="M{d.fixed(x0)} {d.fixed(y0)}C{d.fixed(xa)} {d.fixed(ya)}'
            f" {d.fixed(xb + 5 * head)} {d.fixed(yb)} {d.fixed(x1 + 5 * head)}"
            f' {d.fixed(y1)}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
        )
        parts.append(
            f'<path d="M{d.fixed(x1)} {d.fixed(y1)}l{7 * head} -4v8z"/>',
        )
    if cell >= 0:
        row, column = divmod(cell, len(data["columns"]))
        x = box["left"] + column * box["pitch"] - 3
        y = box["grid_top"] + row * box["step_y"] - 3
        ring = (
            ' rx="8" fill="none" stroke="currentColor" stroke-width="1.5"'
            ' stroke-dasharray="4 3"'
        )
        parts.append(d.rect(x, y, box["cell"] + 6, box["tall"] + 6, ring))
    return d.picture(
        width, box["height"], data["alt"], _summary(data, step, cell), parts
    )


_CLEAR = ' fill="none"'
_NEW = ' stroke="currentColor" stroke-width="2"'
_OLD = ' stroke="currentColor" stroke-opacity="0.3"'


class Holds(Figure):
    """Who holds what, step by step; made by :func:`holds`.

    ``step`` is the step shown and ``cell`` the cell read, counted along the rows
    (-1: none); both follow the reader and can be set.
    """

    _esm = module("holds")
    fig: ClassVar[str] = "holds"
    live: ClassVar[tuple[str, ...]] = ("step", "cell")

    step = traitlets.Int(0).tag(sync=True)
    cell = traitlets.Int(-1).tag(sync=True)

    @traitlets.validate("step")
    def _step_exists(self, proposal: dict) -> int:
        return self._index(proposal, len(self.data["steps"]))

    @property
    def caption(self) -> str:
        """What happens in the step shown."""
        return self.data["captions"][self.step]

    def svg(self) -> str:
        return scene(self.data, self.step, self.cell, STATIC_WIDTH, True)

    def print_svg(self) -> str:
        steps = range(len(self.data["steps"]))
        if not 1 < len(steps) <= PRINTED_FRAMES:
            return self.svg()
        width = (STATIC_WIDTH - 40) / 2
        scenes = [scene(self.data, i, -1, width, True) for i in steps]
        heights = [layout(self.data, width, True, i)["height"] for i in steps]
        return sheet(scenes, heights, 2, self.data["alt"])

    def summary(self) -> str:
        return _summary(self.data, self.step, self.cell)

    def _advice(self) -> str:
        steps, rows, columns = (len(self.data[k]) for k in ("steps", "rows", "columns"))
        return f"It holds {steps} steps of {rows} x {columns} cells: show fewer."


def _axis(names: Any, count: int, what: str) -> list[str]:
    """``"rank"`` -> rank 0, rank 1, ...; a list is taken as it is."""
    if isinstance(names, str):
        return [f"{names} {i}" for i in range(count)]
    texts = check_texts(names, what)
    if len(texts) != count:
        raise ValueError(f"{len(texts)} {what} labels for a grid with {count} {what}")
    return texts


def _is_set(cell: Any) -> bool:
    return isinstance(cell, set | frozenset | list | tuple)


def _ink(colour: str) -> str:
    """Black or white, whichever reads better on the colour (WCAG's luminance)."""
    rgb = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb
    )
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#fff" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "#000"


def holds(
    steps: Sequence[Sequence[Sequence[Any]]],
    *,
    rows: str | Sequence[str] = "rank",
    columns: str | Sequence[str] = "chunk",
    messages: Sequence[Iterable[Sequence[int]]] | None = None,
    captions: Sequence[str] | None = None,
    sources: Sequence[Any] | None = None,
    legend: str = "summed from rank",
    start: int = 0,
    alt: str,
) -> Holds:
    """Who holds what, step by step.

    Args:
        steps: one grid per step, ``steps[k][row][column]`` after k steps (``steps[0]``
            is the start). A cell is a set, list or tuple of contributions
            (``{0, 1}``: the sum of what ranks 0 and 1 had), drawn as one square per
            contribution, or a short text or number. None is an empty cell.
        rows, columns: "rank" gives rank 0, rank 1, ...; or a list of names.
        messages: per step the messages that led to it (so ``messages[0]`` is empty):
            ``(from_row, to_row, column)``, or ``(from_row, from_column, to_row,
            to_column)``.
        captions: per step one sentence that says what happens.
        sources: every contribution there can be, in order; gathered from the cells if
            None. A cell that holds all of them is shaded: it is complete.
        legend: what a coloured square stands for.
        start: the step to begin with.
        alt: what the figure shows, for readers who can't see it.

    Returns:
        The figure; ``step`` and ``cell`` move with it.

    Raises:
        ValueError: if the steps are ragged, a message leaves the grid, or the figure
            is too large.
    """
    alt = check_alt(alt)
    grids = [[list(row) for row in grid] for grid in steps]
    if not grids or not grids[0] or not grids[0][0]:
        raise ValueError("steps must hold at least one grid with at least one cell")
    height, width = len(grids[0]), len(grids[0][0])
    for k, grid in enumerate(grids):
        if [len(row) for row in grid] != [width] * height:
            raise ValueError(
                f"step {k} has rows of {[len(row) for row in grid]} cells; step 0 has "
                f"{height} rows of {width}: every step needs the same grid"
            )
    cells = [cell for grid in grids for row in grid for cell in row]
    found = {source for cell in cells if _is_set(cell) for source in cell}
    if sources is None:
        sources = sorted(found, key=lambda s: (isinstance(s, str), s))
    sources = list(sources)
    if missing := found - set(sources):
        raise ValueError(f"cells hold {sorted(missing, key=str)}, not in sources")
    if len(sources) > 16:
        raise ValueError(f"{len(sources)} contributions: a cell can show at most 16")

    def plain(cell: Any) -> Any:
        if _is_set(cell):
            return sorted(sources.index(source) for source in set(cell))
        if cell is None:
            return [] if sources else ""
        return d.num(float(cell)) if isinstance(cell, float) else str(cell)

    moves: list[list[list[int]]] = [[] for _ in grids]
    if messages is not None:
        given = [list(step) for step in messages]
        if len(given) != len(grids):
            raise ValueError(
                f"messages has {len(given)} steps, steps has {len(grids)}; "
                "messages[k] led to steps[k], so messages[0] is []"
            )
        for k, step in enumerate(given):
            for message in step:
                parts = [int(n) for n in message]
                if len(parts) == 3:
                    parts = [parts[0], parts[2], parts[1], parts[2]]
                ok = len(parts) == 4 and all(
                    0 <= n < limit
                    for n, limit in zip(parts, (height, width) * 2, strict=True)
                )
                if not ok or parts[:2] == parts[2:]:
                    raise ValueError(
                        f"step {k}: message {tuple(message)} must be (from_row, "
                        "to_row, column) or (from_row, from_column, to_row, to_column)"
                        f" between two cells of a {height} x {width} grid"
                    )
                moves[k].append(parts)
    texts = [""] * len(grids) if captions is None else [str(c) for c in captions]
    if len(texts) != len(grids):
        raise ValueError(f"{len(texts)} captions for {len(grids)} steps")
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(sources))]
    data = {
        "alt": alt,
        "rows": _axis(rows, height, "rows"),
        "columns": _axis(columns, width, "columns"),
        "sources": [str(source) for source in sources],
        "colours": colours,
        "inks": [_ink(colour) for colour in colours],
        "legend": legend,
        "steps": [[[plain(cell) for cell in row] for row in grid] for grid in grids],
        "messages": moves,
        "captions": texts,
    }
    return Holds(data, step=start)
