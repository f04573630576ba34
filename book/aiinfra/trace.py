"""What each rank did when: events, a timeline picture, Chrome trace files.

Pass a :class:`Trace` to ``launch(..., trace=trace)``; after the call it holds every
rank's events on one clock: virtual seconds if the ranks had a virtual clock, else
seconds of the wall clock, aligned between ranks.

A rank has two lanes. *compute* is what the rank's own thread does: computing,
waiting for communication, and the spans you name. *link* is what its link carries.
The link is full duplex, so a send and a receive may overlap there.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

__all__ = ["Event", "Trace", "span"]

LANES = ("compute", "link")
KINDS = ("compute", "comm", "wait", "span")


@dataclass(frozen=True)
class Event:
    """Something one rank did from ``start_s`` to ``end_s`` (seconds).

    ``lane`` is "compute" or "link"; ``kind`` is "compute" (work), "comm" (bytes on
    the link), "wait" (the rank stands still until communication is done) or "span"
    (a named stretch of the program, see :func:`span`).
    """

    rank: int
    lane: str
    name: str
    start_s: float
    end_s: float
    kind: str

    def __post_init__(self) -> None:
        if self.lane not in LANES or self.kind not in KINDS:
            raise ValueError(
                f"lane must be one of {LANES} and kind one of {KINDS}, "
                f"got {self.lane!r} and {self.kind!r}"
            )
        if not self.end_s >= self.start_s:
            raise ValueError(f"event {self.name!r} ends before it starts: {self}")

    @property
    def duration_s(self) -> float:
        """Seconds from start to end."""
        return self.end_s - self.start_s


# Set by aiinfra.launch.virtual while a launched function runs in this process: an
# object with now() and record(lane, name, start_s, end_s, kind).
_recorder = None


@contextlib.contextmanager
def span(name: str) -> Iterator[None]:
    """Name a stretch of this rank's timeline: ``with span("forward"): ...``.

    Spans nest. Outside a traced launch nothing is recorded.
    """
    recorder = _recorder
    if recorder is None:
        yield
        return
    start = recorder.now()
    try:
        yield
    finally:
        recorder.record("compute", name, start, recorder.now(), "span")


class Trace:
    """The events of all ranks of the launches it was passed to."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events: list[Event] = []
        self.extend(events)

    def extend(self, events: Iterable[Event]) -> None:
        """Add one call's events (of all ranks), after what is already there.

        Each call's clock starts at 0; the events are moved to begin where the trace
        ends so far, so that calls follow one another on the timeline.
        """
        offset_s = self.total_s
        if offset_s:
            events = [
                replace(e, start_s=e.start_s + offset_s, end_s=e.end_s + offset_s)
                for e in events
            ]
        self.events.extend(events)
        self.events.sort(key=lambda e: (e.rank, e.lane, e.start_s, -e.end_s))

    def clear(self) -> None:
        """Forget all events."""
        self.events.clear()

    @property
    def ranks(self) -> list[int]:
        """The ranks that have an event, in order."""
        return sorted({e.rank for e in self.events})

    @property
    def total_s(self) -> float:
        """The latest end of any event: how long the traced calls took."""
        return max((e.end_s for e in self.events), default=0.0)

    def _sum_s(self, rank: int, lane: str, kind: str) -> float:
        if rank not in self.ranks:
            raise ValueError(f"no events of rank {rank}; the trace has {self.ranks}")
        return sum(
            e.duration_s
            for e in self.events
            if (e.rank, e.lane, e.kind) == (rank, lane, kind)
        )

    def compute_s(self, rank: int) -> float:
        """Seconds that ``rank`` computed."""
        return self._sum_s(rank, "compute", "compute")

    def exposed_comm_s(self, rank: int) -> float:
        """Seconds that ``rank`` stood still waiting for communication.

        Communication that runs while the rank computes is hidden and not counted.
        """
        return self._sum_s(rank, "compute", "wait")

    def table(self) -> str:
        """A text summary, one line per rank, in milliseconds.

        "idle" is what is left of the total: the rank neither computes nor waits,
        because it has finished or because nothing was recorded.
        """
        total_s = self.total_s
        lines = ["rank  compute ms  exposed comm ms  idle ms  total ms"]
        for rank in self.ranks:
            compute_s, wait_s = self.compute_s(rank), self.exposed_comm_s(rank)
            idle_s = max(total_s - compute_s - wait_s, 0.0)
            lines.append(
                f"{rank:4d}  {1e3 * compute_s:10.4g}  {1e3 * wait_s:15.4g}  "
                f"{1e3 * idle_s:7.4g}  {1e3 * total_s:8.4g}"
            )
        return "\n".join(lines)

    def to_chrome(self, path: str | os.PathLike[str]) -> None:
        """Write the Chrome trace event format: open it in Perfetto (ui.perfetto.dev).

        One process per rank, one thread per lane; times in microseconds. Events that
        overlap on the link (full duplex) get a second thread, since one thread's
        events must nest.
        """
        out: list[dict] = []
        for rank in self.ranks:
            out.append(
                {
                    "ph": "M",
                    "name": "process_name",
                    "pid": rank,
                    "tid": 0,
                    "args": {"name": f"rank {rank}"},
                }
            )
            tid = 0
            for lane in LANES:
                for number, row in enumerate(self._rows(rank, lane)):
                    name = lane if number == 0 else f"{lane} {number + 1}"
                    out.append(
                        {
                            "ph": "M",
                            "name": "thread_name",
                            "pid": rank,
                            "tid": tid,
                            "args": {"name": name},
                        }
                    )
                    out.extend(
                        {
                            "ph": "X",
                            "name": e.name,
                            "cat": e.kind,
                            "pid": rank,
                            "tid": tid,
                            "ts": 1e6 * e.start_s,
                            "dur": 1e6 * e.duration_s,
                        }
                        for e in row
                    )
                    tid += 1
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": out, "displayTimeUnit": "ms"}, file, indent=1)
            file.write("\n")

    def _rows(self, rank: int, lane: str) -> list[list[Event]]:
        """The lane's events in as few rows as keep overlapping ones apart.

        Spans enclose other events of the compute lane by design and stay with them.
        """
        events = [e for e in self.events if (e.rank, e.lane) == (rank, lane)]
        if lane == "compute":
            return [events]
        rows: list[list[Event]] = []
        for event in events:
            row = next((r for r in rows if r[-1].end_s <= event.start_s), None)
            if row is None:
                rows.append([event])
            else:
                row.append(event)
        return rows or [[]]

    def plot(self, alt: str | None = None, title: str | None = None) -> None:
        """Draw the timeline, a pair of lanes per rank, and show it as SVG.

        Args:
            alt: what the figure shows, for readers who cannot see it. Without it a
                plain description is made from the events.
            title: printed above the figure.
        """
        from aiinfra import plot

        fig, _ = self._draw(title)
        plot.show(fig, alt=alt or self._alt())

    def _alt(self) -> str:
        total = _scaled(self.total_s)
        waits = "; ".join(
            f"rank {r} computes {_scaled(self.compute_s(r))} and waits "
            f"{_scaled(self.exposed_comm_s(r))}"
            for r in self.ranks
        )
        return f"Timeline of {len(self.ranks)} ranks over {total}: {waits}."

    def _draw(self, title: str | None):
        from aiinfra import plot

        if not self.events:
            raise ValueError(
                "the trace is empty: pass it as trace= to launch and call compute(), "
                "span() or torch.distributed in the function"
            )
        scale, unit = _unit(self.total_s)
        ranks = self.ranks
        fig, ax = plot.subplots(figsize=(7.2, 0.55 + 0.62 * len(ranks)))
        colour = {
            "compute": plot.PALETTE["blue"],
            "comm": plot.PALETTE["orange"],
            "wait": plot.PALETTE["grey"],
            "span": plot.PALETTE["purple"],
        }
        width = self.total_s * scale or 1.0
        ticks, labels = [], []
        for place, rank in enumerate(ranks):
            for lane_number, lane in enumerate(LANES):
                y = place + 0.44 * lane_number
                ticks.append(y)
                labels.append(f"rank {rank} {lane}" if lane_number == 0 else lane)
                rows = self._rows(rank, lane)
                height = 0.38 / len(rows)
                for number, row in enumerate(rows):
                    centre = y - 0.19 + height * (number + 0.5)
                    for e in row:
                        start, length = e.start_s * scale, e.duration_s * scale
                        if e.kind == "span":
                            line = dict(linewidth=1.5, solid_capstyle="butt")
                            ends = [start, start + length]
                            ax.plot(ends, [y - 0.22] * 2, color=colour["span"], **line)
                            continue
                        edge = "none" if length < 0.004 * width else "white"
                        box = dict(height=height, edgecolor=edge, linewidth=0.4)
                        ax.barh(centre, length, left=start, color=colour[e.kind], **box)
                        # About 1 % of the width per character at this size.
                        fits = len(e.name) * 0.0105 * width < length
                        if fits and len(rows) == 1 and e.kind != "wait":
                            # Not black on orange: black follows the page into the dark.
                            ink = "white" if e.kind == "compute" else "#1a1a1a"
                            text = dict(ha="center", va="center", fontsize=7, color=ink)
                            ax.text(start + length / 2, centre, e.name, **text)
        ax.set_yticks(ticks, labels)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", visible=False)
        ax.set_ylim(len(ranks) - 0.25, -0.35)
        ax.set_xlim(0, width)
        ax.set_xlabel(f"time [{unit}]")
        self._legend(ax, colour)
        if title:
            ax.set_title(title)
        return fig, ax

    def _legend(self, ax, colour: dict) -> None:
        kinds = {e.kind for e in self.events}
        words = {"compute": "compute", "comm": "on the link", "wait": "waiting"}
        for kind, label in words.items():
            if kind in kinds:
                ax.barh([-9], [0], color=colour[kind], label=label)
        if "span" in kinds:
            ax.plot([], [], color=colour["span"], label="span")
        ax.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1.0),
            ncols=4,
            frameon=False,
            fontsize=8,
        )


def _unit(seconds: float) -> tuple[float, str]:
    """Factor and unit that show ``seconds`` as a number between 1 and 1000."""
    if seconds < 1e-3:
        return 1e6, "µs"
    return (1e3, "ms") if seconds < 1 else (1.0, "s")


def _scaled(seconds: float) -> str:
    scale, unit = _unit(seconds)
    return f"{seconds * scale:.3g} {unit}"
