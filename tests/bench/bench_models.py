"""How fast the cost models answer: simulators, and sweeps of closed forms."""

import statistics
import time
from collections.abc import Callable

import numpy as np

from aiinfra import comm, pipeline, reliability

DAY = 86400


def seconds(call: Callable[[], object], times: int = 5) -> float:
    """Median seconds of a call, after a first one that isn't counted."""
    call()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def run() -> list[dict[str, object]]:
    """Milliseconds of each, and how many things a second that is."""
    rows: list[dict[str, object]] = []

    def row(what: str, call: Callable[[], object], count: int, things: str) -> None:
        took = seconds(call)
        rows.append(
            {"model": what, "ms": 1e3 * took, "per s": count / took, "of": things}
        )

    for name, stages, micro_batches, virtual in (
        ("1f1b", 16, 512, 1),
        ("interleaved", 16, 128, 6),
        ("zb-h1", 16, 512, 1),
        ("dualpipe", 16, 512, 1),
    ):
        plan = pipeline.schedule(name, stages, micro_batches, virtual)
        count = sum(len(ops) for ops in plan)
        shape = f"{name}, {stages} ranks, {micro_batches} micro-batches"
        shape += f", {virtual} stages each" if virtual > 1 else ""
        row(shape, lambda plan=plan: pipeline.simulate(plan, 1.0, 2.0), count, "ops")

    micro_batches = 16 * np.arange(1, 50_001)
    row(
        "bubble in closed form, a sweep",
        lambda: pipeline.bubble_share("interleaved", 16, micro_batches, 4),
        micro_batches.size,
        "layouts",
    )
    sizes = np.logspace(0, 10, 100_000)
    for name, all_reduce_s in comm.ALL_REDUCE_S.items():
        if name in ("ring", "halving and doubling"):
            row(
                f"all-reduce, {name}, a sweep",
                lambda f=all_reduce_s: f(sizes, 1024, 5e-6, 50e9),
                sizes.size,
                "sizes",
            )
    part_mtbf_s = 16384 * 54 * DAY / 419
    row(
        "failures of 16,384 parts in 54 days, each on its clock",
        lambda: reliability.failure_times(16384, part_mtbf_s, 54 * DAY, shape=0.8),
        16384,
        "parts",
    )
    job = dict(interval_s=800, checkpoint_s=30, restart_s=300, down_s=600)
    failed_s = reliability.failure_times(16384, part_mtbf_s, 54 * DAY).time_s
    row(
        "their job, replayed",
        lambda: reliability.replay(failed_s, 54 * DAY, **job),
        1,
        "jobs",
    )
    row(
        "1,000 such jobs at once",
        lambda: reliability.simulate(54 * DAY, mtbf_s=54 * DAY / 419, **job),
        1000,
        "jobs",
    )
    checkpoints_s = np.logspace(0, 3, 100_000)
    row(
        "best interval and its goodput, a sweep",
        lambda: reliability.goodput(
            reliability.best_interval_s(checkpoints_s, 11_000.0),
            checkpoints_s,
            11_000.0,
        ),
        checkpoints_s.size,
        "jobs",
    )
    return rows
