"""Small figures that use every feature, for the tests of the figures."""

import numpy as np

from aiinfra.figures import Holds, Sweep, Timeline, holds, sweep, timeline

X_MB = np.geomspace(0.1, 1000, 41)


def exposed_ms(gb_per_s: float, latency_us: float) -> np.ndarray:
    messages = np.ceil(500 / X_MB)
    time_s = messages * 6e-6 * latency_us + 0.75 / gb_per_s
    left_over = np.where(time_s > 0.05, time_s - 0.05, np.nan)
    return 1e3 * np.stack([time_s, left_over, np.full_like(X_MB, 0.05)])


def make_sweep(**changes) -> Sweep:
    arguments = dict(
        x=X_MB,
        grid=[1, 5, 12.5, 50, 450],
        name="bandwidth",
        unit="GB/s",
        grid2=["near", "far"],
        name2="switch",
        labels=["all-reduce", "left over, with a rather long name", "backward"],
        x_label="bucket size [MB]",
        y_label="time (ms)",
        log_x=True,
        log_y=True,
        x_marks={"DDP default": 25, "one <tensor>": 900},
        y_marks={"backward & step": 60},
        alt="Time against bucket size, falling and then flat",
    )
    switch_us = {"near": 1.0, "far": 20.0}
    return sweep(
        lambda bandwidth, switch: exposed_ms(bandwidth, switch_us[switch]),
        **(arguments | changes),
    )


def make_waves() -> Sweep:
    x = np.linspace(-2, 2, 33)
    return sweep(
        lambda k: 1e-5 * np.sin(k * x),
        x=x,
        grid=range(1, 6),
        name="waves",
        labels="sine",
        x_label="angle",
        y_label="height [m]",
        dtype="int16",
        alt="A sine with more waves at every step",
    )


def events(buckets: int, overlapped: bool) -> list[tuple]:
    out = []
    for rank in range(3):
        out.append((rank, "compute", "forward", 0.0, 0.010, "compute"))
        out.append((rank, "compute", "backward", 0.010, 0.030, "span"))
        t, link, piece = 0.010, 0.0, 0.020 / buckets
        for i in range(buckets):
            out.append((rank, "compute", f"backward {i}", t, t + piece, "compute"))
            t += piece
            start = max(t if overlapped else 0.030, link)
            link = start + 0.9 * piece + 0.0005
            out.append((rank, "link", f"all-reduce {i}", start, link, "comm"))
        out.append((rank, "compute", "wait", t, link, "wait"))
        out.append((rank, "disk", "save", link, link + 0.002, "checkpoint"))
        out.append((rank, "disk", "log", link, link + 0.001, "logging"))
        out.append((rank, "disk", "sum", link + 0.001, link + 0.002, "hashing"))
    return out


def make_timeline(**changes) -> Timeline:
    arguments = dict(
        labels=["eight buckets, one after the other", "two buckets", "overlapped"],
        name="version",
        x_label="virtual time",
        alt="Three ranks: overlapped communication ends first",
    )
    frames = [events(8, False), events(2, False), events(4, True)]
    return timeline(frames, **(arguments | changes))


def ring(n: int) -> dict:
    """Ring all-reduce: states, messages and captions, step by step."""
    state = [[{rank} for _ in range(n)] for rank in range(n)]
    steps, messages, captions = [state], [[]], ["Every rank holds its own gradient."]
    for k in range(2 * (n - 1)):
        summing = k < n - 1
        new = [[set(cell) for cell in row] for row in steps[-1]]
        sent = []
        for rank in range(n):
            chunk = (rank - k) % n if summing else (rank + 1 - (k - n + 1)) % n
            to = (rank + 1) % n
            arrived = set(steps[-1][rank][chunk])
            new[to][chunk] = new[to][chunk] | arrived if summing else arrived
            sent.append((rank, to, chunk))
        steps.append(new)
        messages.append(sent)
        verb = "adds it to its own" if summing else "keeps it"
        captions.append(f"Each rank sends a chunk; the next one {verb}.")
    return dict(steps=steps, messages=messages, captions=captions)


def make_holds(n: int = 4, **changes) -> Holds:
    arguments = ring(n) | dict(alt="Ring all-reduce: sums build up, then go round")
    return holds(**(arguments | changes))


def make_gather() -> Holds:
    """Sixteen contributions in narrow cells, and messages that cross rows."""
    start = [[{4 * row + column} for column in range(4)] for row in range(4)]
    end = [[set(range(16)), set(), None, {3, 7}], *start[1:]]
    messages = [[], [(3, 0, 0), (1, 2, 0, 3), (0, 3, 2, 0)]]
    return holds([start, end], messages=messages, alt="Rank 0 gathers from all ranks")


def make_texts() -> Holds:
    return holds(
        [
            [["A0", "A1", None], ["B0", "B1", 2.5], ["C0", "C1", ""]],
            [["A0", "B0", None], ["A1", "B1", 2.5], ["C0", "C1", "a longer <text>"]],
        ],
        rows=["first", "second", "third"],
        columns="expert",
        messages=[[], [(0, 1, 1, 0), (1, 0, 0, 1), (2, 0, 2, 2)]],
        alt="Two ranks exchange tokens with each other",
    )
