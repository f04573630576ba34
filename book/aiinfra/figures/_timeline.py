"""What each rank did when: a timeline whose frames a slider or buttons choose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import traitlets

from aiinfra.plot import PALETTE

from . import _draw as d
from ._base import (
    PRINTED_FRAMES,
    STATIC_WIDTH,
    Figure,
    check_alt,
    check_texts,
    module,
    sheet,
)

# Kind of event -> (word in the legend, colour, pattern). Patterns tell kinds apart
# without colour.
KINDS = {
    "compute": ("compute", PALETTE["blue"], "solid"),
    "comm": ("on the link", PALETTE["orange"], "rising"),
    "wait": ("waiting", PALETTE["grey"], "outline"),
    "span": ("named span", PALETTE["purple"], "bracket"),
}
_MORE = [
    (PALETTE["green"], "falling"),
    (PALETTE["sky"], "upright"),
    (PALETTE["vermilion"], "level"),
]
_UNITS = [(1.0, "s"), (1e3, "ms"), (1e6, "µs"), (1e9, "ns")]


def _time(data: dict[str, Any], seconds: float) -> str:
    return f"{d.reading(seconds * data['per_s'])} {data['unit']}"


def _event_text(data: dict[str, Any], event: Sequence[Any]) -> str:
    row, _, name, start, end, kind = event
    rank, lane, _ = data["rows"][row]
    key, word = data["kinds"][kind][:2]
    what = "" if key in ("compute", "comm") else f" ({word})"
    return (
        f"{rank}, {lane}: {data['names'][name]}{what}, "
        f"from {_time(data, start)}, for {_time(data, end - start)}"
    )


def _summary(data: dict[str, Any], frame: int, event: int) -> str:
    shown = data["frames"][frame]
    label = f"{shown['label']}: " if shown["label"] else ""
    text = f"{label}{_time(data, shown['total_s'])} in all."
    if event >= 0:
        text += f" {_event_text(data, shown['events'][event])}."
    return text


def layout(data: dict[str, Any], width: float, still: bool) -> dict[str, Any]:
    """Where everything goes at this width, in px."""
    narrow = width < 520
    rank_width = max(d.text_width(row[0], 12) for row in data["rows"]) + 12
    lanes = {row[1] for row in data["rows"]}
    lane_width = max(d.text_width(lane, 11) for lane in lanes) + 10
    if len(lanes) == 1:
        lane_width = 0
    left = lane_width if narrow else rank_width + lane_width
    right = width - 2
    top = 24 if still and data["frames"][0]["label"] else 0
    legend, x = [], 0.0
    y = top
    for _, word, _, _ in data["kinds"]:
        wide = 28 + d.text_width(word, 12) + 16
        if x and x + wide - 16 > width:
            x, y = 0.0, y + 20
        legend.append([x, y + 13])
        x += wide
    y += 20 + 20  # the total's label stands above the first row
    plot_top = y
    tracks = sum(row[2] for row in data["rows"])
    lane_height = 22 if tracks <= 20 else 14
    rows, before = [], None
    for rank, _, count in data["rows"]:
        head = before != rank
        if head and before is not None:
            y += 8
        if head and narrow:
            y += 16
        rows.append([y, lane_height * count, head])
        y += lane_height * count + 3
        before = rank
    bottom = y + 1
    return {
        "narrow": narrow,
        "left": left,
        "right": right,
        "rank_width": 0 if narrow else rank_width,
        "legend": legend,
        "plot_top": plot_top,
        "rows": rows,
        "lane_height": lane_height,
        "bottom": bottom,
        "height": bottom + 38,
    }


def bar(
    x: float, y: float, w: float, h: float, colour: str, pattern: str, name: str
) -> str:
    """One event: a bar with its kind's pattern, and its name where there is room."""
    w = max(w, 1)
    if pattern == "bracket":
        parts = [
            d.rect(x, y + h - 3, w, 3, f' fill="{colour}"'),
        ]
        if d.text_width(name, 11) + 2 <= w:
            parts.append(d.label(x + 1, y + h - 6, name, 11))
        return "".join(parts)
    if pattern == "outline":
        shape = (
            f' fill="{colour}" fill-opacity="0.12" stroke="{colour}"'
            ' stroke-dasharray="3 2"'
        )
        parts = [d.rect(x + 0.5, y + 0.5, max(w - 1, 0.5), h - 1, shape)]
        ink = ' fill-opacity="0.75"'
    else:
        parts = [d.rect(x, y, w, h, f' fill="{colour}"')]
        ink = ' fill="#fff"' if pattern == "solid" else ' fill="#000"'
    path = ""
    gap = 6
    if pattern in ("rising", "falling") and w >= 2:
        s = math.ceil((x - h) / gap) * gap
        while s < x + w:
            x1, x2 = max(s, x), min(s + h, x + w)
            y1, y2 = (x1 - s), (x2 - s)
            if pattern == "rising":
                y1, y2 = h - y1, h - y2
            path += f"M{d.fixed(x1)} {d.fixed(y + y1)}L{d.fixed(x2)} {d.fixed(y + y2)}"
            s += gap
    elif pattern == "upright":
        s = math.ceil((x + 1) / gap) * gap
        while s < x + w:
            path += f"M{d.fixed(s)} {d.fixed(y)}v{d.fixed(h)}"
            s += gap
    elif pattern == "level" and w >= 2:
        s = 3
        while s < h:
            path += f"M{d.fixed(x)} {d.fixed(y + s)}h{d.fixed(w)}"
            s += gap
    if path:
        parts.append(f'<path d="{path}" stroke="#000" stroke-opacity="0.3"/>')
    if h >= 14 and d.text_width(name, 11) + 8 <= w:
        middle = y + h / 2 + 4
        parts.append(d.label(x + w / 2, middle, name, 11, "middle", ink))
    return "".join(parts)


def scene(
    data: dict[str, Any],
    frame: int,
    event: int,
    time_s: float,
    width: float,
    still: bool,
) -> str:
    """The whole picture as SVG text; ``still`` adds what the controls would say."""
    box = layout(data, width, still)
    shown = data["frames"][frame]
    left, right, top, bottom = (
        box[key] for key in ("left", "right", "plot_top", "bottom")
    )
    per_s = data["per_s"]

    def place(seconds: float) -> float:
        return d.position(seconds, 0, data["end_s"], left, right, False)

    parts = []
    muted = ' fill-opacity="0.75"'
    if still:
        title = d.shorten(shown["label"], width, 13)
        parts.append(d.label(0, 13, title, 13, "start", ' font-weight="600"'))
    for (_, word, colour, pattern), (x, y) in zip(
        data["kinds"], box["legend"], strict=True
    ):
        parts.append(bar(x, y - 10, 22, 12, colour, pattern, ""))
        parts.append(d.label(x + 28, y, word, 12))
    ticks = d.linear_ticks(0, data["end_s"] * per_s, math.floor((right - left) / 62))
    for value, text in ticks:
        x = place(value / per_s)
        half = d.text_width(text, 11) / 2
        parts.append(d.line(x, top, x, bottom + 4, ' stroke-opacity="0.13"'))
        middle = min(x, width - half)
        parts.append(d.label(middle, bottom + 17, text, 11, "middle", muted))
    for (rank, lane, _), (y, h, head) in zip(data["rows"], box["rows"], strict=True):
        shade = ' fill-opacity="0.05"'
        parts.append(d.rect(left, y, right - left, h, shade))
        if head and box["narrow"]:
            parts.append(d.label(0, y - 5, rank, 12, "start", ' font-weight="600"'))
        elif head:
            parts.append(d.label(0, y + 15, rank, 12, "start", ' font-weight="600"'))
        if left > box["rank_width"]:
            middle = y + h / 2 + 4
            parts.append(d.label(left - 8, middle, lane, 11, "end", muted))
    for row, track, name, start, end, kind in shown["events"]:
        _, _, colour, pattern = data["kinds"][kind]
        y = box["rows"][row][0] + track * box["lane_height"]
        x = place(start)
        w = place(end) - x - 0.6
        text = data["names"][name]
        inset = box["lane_height"] - 2
        parts.append(bar(x, y + 1, w, inset, colour, pattern, text))
    parts.append(d.line(left, bottom, right, bottom, ' stroke-opacity="0.6"'))
    axis = f"{data['x_name']} ({data['unit']})"
    parts.append(d.label(right, bottom + 33, axis, 11, "end", muted))
    x = place(shown["total_s"])
    text = f"total {_time(data, shown['total_s'])}"
    anchor = "end" if x - d.text_width(text, 12) > 0 else "start"
    parts.append(
        d.line(x, top - 6, x, bottom, ' stroke-opacity="0.7" stroke-dasharray="4 3"')
    )
    at = min(x, width) if anchor == "end" else 0
    parts.append(d.label(at, top - 9, text, 12, anchor, ' font-weight="600"'))
    if event >= 0:
        row, track, _, start, end, _ = shown["events"][event]
        y = box["rows"][row][0] + track * box["lane_height"]
        x = place(start)
        ring = ' fill="none" stroke="currentColor" stroke-width="2"'
        w = max(place(end) - x, 1)
        parts.append(d.rect(x - 0.5, y, w + 0.4, box["lane_height"], ring))
    if time_s > 0:
        x = place(time_s)
        text = _time(data, time_s)
        half = d.text_width(text, 11) / 2 + 4
        middle = min(max(x, half), width - half)
        parts.append(d.line(x, top, x, bottom, ' stroke-opacity="0.7"'))
        plate = ' rx="3" fill="currentColor"'
        parts.append(d.rect(middle - half, bottom + 4, 2 * half, 18, plate))
        ink = ' style="fill:var(--aifig-bg,#fff)"'
        parts.append(d.label(middle, bottom + 17, text, 11, "middle", ink))
    summary = _summary(data, frame, event)
    return d.picture(width, box["height"], data["alt"], summary, parts)


class Timeline(Figure):
    """Ranks over time, one frame of several; made by :func:`timeline`.

    ``frame`` is the frame shown, ``event`` the event read (-1: none) and ``time_s``
    the time cursor in seconds; all three follow the reader and can be set.
    """

    _esm = module("timeline")
    fig: ClassVar[str] = "timeline"
    live: ClassVar[tuple[str, ...]] = ("frame", "event", "time_s")

    frame = traitlets.Int(0).tag(sync=True)
    event = traitlets.Int(-1).tag(sync=True)
    time_s = traitlets.Float(0.0).tag(sync=True)

    @traitlets.validate("frame")
    def _frame_exists(self, proposal: dict) -> int:
        return self._index(proposal, len(self.data["frames"]))

    @property
    def label(self) -> str:
        """The label of the frame shown."""
        return self.data["frames"][self.frame]["label"]

    def svg(self) -> str:
        return scene(
            self.data, self.frame, self._event(), self.time_s, STATIC_WIDTH, True
        )

    def print_svg(self) -> str:
        frames = self.data["frames"]
        if not 1 < len(frames) <= PRINTED_FRAMES:
            return self.svg()
        height = layout(self.data, STATIC_WIDTH, True)["height"]
        scenes = [
            scene(self.data, i, -1, 0.0, STATIC_WIDTH, True) for i in range(len(frames))
        ]
        return sheet(scenes, [height] * len(frames), 1, self.data["alt"])

    def summary(self) -> str:
        return _summary(self.data, self.frame, self._event())

    def _event(self) -> int:
        # While a new frame arrives, the old frame's event may not exist in it.
        count = len(self.data["frames"][self.frame]["events"])
        return self.event if self.event < count else -1

    def _advice(self) -> str:
        count = sum(len(frame["events"]) for frame in self.data["frames"])
        return (
            f"It holds {count} events in {len(self.data['frames'])} frames: show fewer "
            "frames, ranks or events."
        )


def _events(source: Any, number: int) -> list[tuple]:
    """The events of one frame as tuples (rank, lane, name, start_s, end_s, kind)."""
    out = []
    for event in getattr(source, "events", source):
        try:
            fields = (
                event
                if isinstance(event, tuple | list)
                else (
                    event.rank,
                    event.lane,
                    event.name,
                    event.start_s,
                    event.end_s,
                    event.kind,
                )
            )
            rank, lane, name, start, end, kind = fields
            start, end = float(start), float(end)
        except (AttributeError, TypeError, ValueError):
            raise ValueError(
                f"frame {number}: {event!r} is not an event; expected a "
                "trace.Event or (rank, lane, name, start_s, end_s, kind)"
            ) from None
        if not (0 <= start <= end < math.inf):
            raise ValueError(
                f"frame {number}: {name!r} of rank {rank} runs from {start:g} s to "
                f"{end:g} s; expected 0 <= start_s <= end_s"
            )
        out.append((rank, str(lane), str(name), start, end, str(kind)))
    if not out:
        raise ValueError(
            f"frame {number} has no events: pass the trace to launch(trace=...) first"
        )
    return out


def _frames_of(frames: Any) -> list[Any]:
    if hasattr(frames, "events"):
        return [frames]
    frames = list(frames)
    if not frames:
        raise ValueError("timeline needs at least one trace or list of events")
    first = frames[0]
    if hasattr(first, "rank") or (isinstance(first, tuple) and len(first) == 6):
        return [frames]  # one frame, given as its events
    return frames


def _lane_order(lane: str) -> tuple[int, str]:
    known = ("span", "compute", "link")
    return (known.index(lane) if lane in known else len(known), lane)


def timeline(
    frames: Any,
    *,
    labels: Sequence[str] | None = None,
    name: str = "version",
    x_label: str = "time",
    alt: str,
) -> Timeline:
    """What each rank did when, one frame of several at a time, on one time axis.

    Args:
        frames: a ``trace.Trace``, a list of them, or lists of events: objects with
            ``rank, lane, name, start_s, end_s, kind`` or tuples in that order (times
            in s). The known kinds are compute, comm, wait and span; up to three more
            get their own colour and pattern.
        labels: one text per frame; "frame 1" ... if None (a single frame needs none).
        name: what the frames are, written beside the slider: "version".
        x_label: what the time is, without unit: "virtual time". The unit (s, ms, µs
            or ns) follows from the longest frame.
        alt: what the figure shows, for readers who can't see it.

    Returns:
        The figure; ``frame``, ``event`` and ``time_s`` move with it.

    Raises:
        ValueError: if a frame is empty, an event makes no sense, or the figure is
            too large.
    """
    alt = check_alt(alt)
    lists = [_events(f, i + 1) for i, f in enumerate(_frames_of(frames))]
    if labels is not None:
        texts = check_texts(labels, "labels")
    elif len(lists) == 1:
        texts = [""]  # a single frame needs no label
    else:
        texts = [f"frame {i + 1}" for i in range(len(lists))]
    if len(texts) != len(lists):
        raise ValueError(f"{len(texts)} labels for {len(lists)} frames")
    kinds = sorted({e[5] for events in lists for e in events})
    more = [kind for kind in kinds if kind not in KINDS]
    if len(more) > len(_MORE):
        raise ValueError(f"at most {len(_MORE)} kinds besides {list(KINDS)}: {more}")
    styles = KINDS | {k: (k, *s) for k, s in zip(more, _MORE, strict=False)}
    order = [kind for kind in styles if kind in kinds]

    # Events of one lane that overlap go to separate tracks; the rows are the same in
    # every frame, so that the eye can compare.
    counts: dict[tuple, int] = {}
    placed = []
    for events in lists:
        ends: dict[tuple, list[float]] = {}
        out = []
        for rank, lane, event_name, start, end, kind in sorted(
            events, key=lambda e: (e[3], -e[4])
        ):
            row = (rank, "span" if kind == "span" else lane)
            tracks = ends.setdefault(row, [])
            track = next(
                (i for i, last in enumerate(tracks) if last <= start + 1e-15),
                len(tracks),
            )
            if track == len(tracks):
                tracks.append(end)
            tracks[track] = end
            counts[row] = max(counts.get(row, 0), len(tracks))
            out.append((row, track, event_name, start, end, kind))
        placed.append(out)
    rows = sorted(counts, key=lambda row: (row[0], _lane_order(row[1])))
    names = sorted({e[2] for events in lists for e in events})
    end_s = max(e[4] for events in lists for e in events)
    if end_s <= 0:
        raise ValueError("every event ends at 0 s: there is no time to draw")
    per_s, unit = next((u for u in _UNITS if end_s * u[0] >= 1), _UNITS[-1])
    row_at = {row: i for i, row in enumerate(rows)}
    name_at = {event_name: i for i, event_name in enumerate(names)}
    kind_at = {kind: i for i, kind in enumerate(order)}

    def short(seconds: float) -> float:
        return float(f"{seconds:.9g}")

    data = {
        "alt": alt,
        "slider": name,
        "x_name": x_label,
        "unit": unit,
        "per_s": per_s,
        "end_s": short(end_s),
        "rows": [
            [f"rank {rank}" if isinstance(rank, int) else str(rank), lane, counts[row]]
            for row in rows
            for rank, lane in [row]
        ],
        "names": names,
        "kinds": [[kind, *styles[kind]] for kind in order],
        "frames": [
            {
                "label": text,
                "total_s": short(max(e[4] for e in out)),
                "events": [
                    [
                        row_at[row],
                        track,
                        name_at[event_name],
                        short(start),
                        short(end),
                        kind_at[kind],
                    ]
                    for row, track, event_name, start, end, kind in sorted(
                        out, key=lambda e: (row_at[e[0]], e[3], e[1])
                    )
                ],
            }
            for text, out in zip(texts, placed, strict=True)
        ],
    }
    return Timeline(data)
