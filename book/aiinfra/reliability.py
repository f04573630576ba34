"""Failures, checkpoints and goodput of a long job: closed forms, and simulated.

One model throughout. A job computes for ``interval_s`` (τ), then stands still for
``checkpoint_s`` (δ) to save its state, and so on. It fails on average every ``mtbf_s``
(M). It is then down for ``down_s`` (D): until the failure is noticed and parts are
replaced, during which nothing more can fail. Then it needs ``restart_s`` (R) to load
and start, which another failure can cut short, and goes on from the last state that
was saved. With asynchronous checkpoints δ is the pause alone and the state is safe
``write_s`` (w) after it.

*Goodput* is useful time over all time (Meta calls it the effective training time
ratio, ETTR): computing that was neither lost nor repeated, in wall-clock seconds.

Functions take numbers or NumPy arrays. All times are in seconds.

Sources: Young 1974; Daly 2006 (the complete model and the higher-order optimum);
Kokolis et al. 2025, arXiv:2410.21680 (job MTBF, ETTR); Llama Team 2024,
arXiv:2407.21783, 3.3.4 (what fails).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from aiinfra._numbers import least, number, whole

__all__ = [
    "Failures",
    "Ledger",
    "best_interval_s",
    "binomial_spares",
    "checkpoint_write_s",
    "daly_interval_s",
    "ettr",
    "expected_s",
    "failure_times",
    "failures_per_1000_node_days",
    "goodput",
    "mtbf_bounds_s",
    "mtbf_s",
    "node_mtbf_s",
    "part_mtbf_s",
    "poisson_spares",
    "replay",
    "simulate",
    "survival",
    "system_mtbf_s",
    "unavailability",
    "young_interval_s",
    "young_waste",
]

DAY_S = 86400
MOST_EVENTS = 2 * 10**7  # that a simulation may be expected to draw

# A number or an array of numbers.
Number = Any


def _real(name: str, value: Number, **limits: Any) -> Number:
    """A checked number as a float, an array as one of floats."""
    value = number(name, value, **limits)
    return value if isinstance(value, np.ndarray) else float(value)


def _plain(value: Number) -> Number:
    """An array of no dimensions as a float."""
    return value if isinstance(value, np.ndarray) and value.ndim else float(value)


# ------------------------------------------------------------------- how often


def mtbf_s(duration_s: Number, failures: Number) -> Number:
    """Observed mean time between failures: ``duration_s / failures``."""
    duration_s = _real("duration_s", duration_s, above_zero=True)
    return duration_s / whole("failures", failures)


def mtbf_bounds_s(
    duration_s: float, failures: int, confidence: float = 0.95
) -> tuple[float, float]:
    """What the mean time between failures may really be, from counting them.

    Exact bounds (Garwood 1936): the count is Poisson, and means are left out under
    which a count as high, or as low, has less than half of 1 - confidence. Without a
    failure the upper bound is infinite.
    """
    duration_s = _real("duration_s", duration_s, above_zero=True)
    failures = whole("failures", failures, low=0, high=10**7)
    confidence = _real("confidence", confidence, above_zero=True, high=1)
    if confidence == 1:
        raise ValueError("confidence must be below 1, got 1")
    tail = (1 - confidence) / 2
    # The mean count at which P(count <= failures) is the tail, and its mirror image.
    most = _bisect(lambda mean: _poisson_cdf(failures, mean) > tail)
    fewest = 0.0
    if failures:
        fewest = _bisect(lambda mean: _poisson_cdf(failures - 1, mean) > 1 - tail)
    return duration_s / most, duration_s / fewest if fewest else math.inf


def _bisect(below: Callable[[float], bool]) -> float:
    """Where ``below`` turns from true to false, for a mean of 0 or more."""
    low, high = 0.0, 1.0
    while below(high):
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return high


def _log_sum(logs: np.ndarray) -> float:
    top = float(np.max(logs))
    return top + math.log(float(np.sum(np.exp(logs - top))))


def _poisson_cdf(count: int, mean: float) -> float:
    """P(at most ``count``) for a Poisson number of this mean."""
    if mean == 0:
        return 1.0
    steps = math.log(mean) - np.log(np.arange(1, count + 1))
    logs = np.concatenate([[0.0], np.cumsum(steps)]) - mean
    return min(math.exp(_log_sum(logs)), 1.0)


def _binomial_cdf(count: int, trials: int, chance: float) -> float:
    """P(at most ``count`` of ``trials``), each with ``chance``."""
    if count >= trials or chance == 0:
        return 1.0
    k = np.arange(1, count + 1)
    odds = math.log(chance) - math.log1p(-chance)
    steps = np.log((trials - k + 1) / k) + odds
    first = trials * math.log1p(-chance)
    logs = first + np.concatenate([[0.0], np.cumsum(steps)])
    return min(math.exp(_log_sum(logs)), 1.0)


def system_mtbf_s(part_mtbf_s: Number, parts: Number) -> Number:
    """Mean time between failures of ``parts`` parts, any of which stops the job.

    Rates add up: M of one part over their number. For several kinds of parts give two
    sequences of equal length, mean times and numbers: one over the sum of
    parts / mtbf.

    That failures come at a constant rate (exponential times) is exact for one kind of
    many parts of mixed ages, whatever wears them out, and an approximation for a few.
    """
    if isinstance(part_mtbf_s, list | tuple):
        if not isinstance(parts, list | tuple) or len(parts) != len(part_mtbf_s):
            raise ValueError(
                "part_mtbf_s and parts must be sequences of equal length, got "
                f"{part_mtbf_s!r} and {parts!r}"
            )
        if not parts:
            raise ValueError("part_mtbf_s and parts must not be empty")
        pairs = zip(part_mtbf_s, parts, strict=True)
        return 1 / sum(1 / system_mtbf_s(one_s, count) for one_s, count in pairs)
    part_mtbf_s = _real("part_mtbf_s", part_mtbf_s, above_zero=True)
    return part_mtbf_s / whole("parts", parts, what="parts")


def part_mtbf_s(job_mtbf_s: Number, parts: Number) -> Number:
    """Mean time between failures of one of ``parts`` equal parts, from a job's."""
    job_mtbf_s = _real("job_mtbf_s", job_mtbf_s, above_zero=True)
    return job_mtbf_s * whole("parts", parts, what="parts")


def failures_per_1000_node_days(
    duration_s: Number, failures: Number, nodes: Number
) -> Number:
    """Failures per 1000 nodes and days, the unit in which clusters are compared."""
    duration_s = _real("duration_s", duration_s, above_zero=True)
    failures = whole("failures", failures, low=0)
    nodes = whole("nodes", nodes, what="nodes")
    return 1000 * failures * DAY_S / (nodes * duration_s)


def node_mtbf_s(per_1000_node_days: Number) -> Number:
    """Mean time between failures of a node, from failures per 1000 node-days."""
    rate = _real("per_1000_node_days", per_1000_node_days, above_zero=True)
    return 1000 * DAY_S / rate


def survival(duration_s: Number, mtbf_s: Number) -> Number:
    """Probability of no failure in ``duration_s``: exp(-duration / M)."""
    duration_s = _real("duration_s", duration_s)
    return _plain(np.exp(-duration_s / _real("mtbf_s", mtbf_s, above_zero=True)))


# ------------------------------------------------------- how often to checkpoint


def checkpoint_write_s(
    n_bytes: Number,
    storage_bytes_per_s: Number,
    writers: Number | None = None,
    writer_bytes_per_s: Number | None = None,
) -> Number:
    """At least how long a checkpoint takes: its bytes over the narrowest place.

    ``storage_bytes_per_s`` is what the storage takes in all; ``writers`` ranks send
    ``writer_bytes_per_s`` each.
    """
    rate = _real("storage_bytes_per_s", storage_bytes_per_s, above_zero=True)
    if (writers is None) != (writer_bytes_per_s is None):
        raise ValueError("give writers and writer_bytes_per_s together, or neither")
    if writers is not None:
        each = _real("writer_bytes_per_s", writer_bytes_per_s, above_zero=True)
        rate = least(rate, whole("writers", writers, what="writers") * each)
    return _real("n_bytes", n_bytes) / rate


def _cost_and_mtbf(checkpoint_s: Number, mtbf_s: Number) -> tuple[Number, Number]:
    return (
        _real("checkpoint_s", checkpoint_s, above_zero=True),
        _real("mtbf_s", mtbf_s, above_zero=True),
    )


def young_interval_s(checkpoint_s: Number, mtbf_s: Number) -> Number:
    """Young's interval between checkpoints, sqrt(2 δ M).

    To first order a checkpoint costs δ/τ of the time and a failure, on average half
    an interval late, τ/(2M); their sum is least here.
    """
    cost_s, mtbf_s = _cost_and_mtbf(checkpoint_s, mtbf_s)
    return _plain(np.sqrt(2.0 * cost_s * mtbf_s))


def young_waste(checkpoint_s: Number, mtbf_s: Number) -> Number:
    """Part of the time that Young's interval wastes, to first order: sqrt(2 δ / M)."""
    cost_s, mtbf_s = _cost_and_mtbf(checkpoint_s, mtbf_s)
    return _plain(np.sqrt(2.0 * cost_s / mtbf_s))


def daly_interval_s(checkpoint_s: Number, mtbf_s: Number) -> Number:
    """Daly's higher-order interval of computing between checkpoints.

    sqrt(2 δ M) (1 + sqrt(δ / 2M) / 3 + (δ / 2M) / 9) - δ for δ < 2M, else M. The -δ is
    there because Young's interval counts the checkpoint in.
    """
    cost_s, mtbf_s = _cost_and_mtbf(checkpoint_s, mtbf_s)
    small = np.sqrt(cost_s / (2.0 * mtbf_s))
    higher = np.sqrt(2.0 * cost_s * mtbf_s) * (1 + small / 3 + small**2 / 9) - cost_s
    return _plain(np.where(small < 1, higher, 1.0 * mtbf_s))


def best_interval_s(checkpoint_s: Number, mtbf_s: Number) -> Number:
    """The interval of computing that makes :func:`goodput` greatest, exactly.

    It solves (1 - τ/M) exp((τ + δ)/M) = 1, that is τ = M (1 + W(-exp(-δ/M - 1))) with
    Lambert's W, and depends neither on R nor on D or w.
    """
    cost_s, mtbf_s = _cost_and_mtbf(checkpoint_s, mtbf_s)
    d = np.asarray(cost_s / mtbf_s, dtype=float)
    # With y = τ/M: -log(1 - y) - y = d, whose left side is at least y^2 / 2. Newton's
    # steps from above the root of a convex function fall towards it.
    y = np.minimum(np.sqrt(2 * d), -np.expm1(-1 - d))
    for _ in range(60):
        # The difference of two nearly equal numbers, as a series where y is small.
        series = y**2 * (1 / 2 + y * (1 / 3 + y * (1 / 4 + y * (1 / 5 + y / 6))))
        excess = np.where(y < 1e-2, series, -np.log1p(-y) - y) - d
        y = np.maximum(y - excess * (1 - y) / y, 1e-300)
    return _plain(mtbf_s * y)


def _job(
    interval_s: Number,
    checkpoint_s: Number,
    mtbf_s: Number,
    restart_s: Number,
    down_s: Number,
    write_s: Number,
) -> tuple[Number, ...]:
    return (
        _real("interval_s", interval_s, above_zero=True),
        _real("checkpoint_s", checkpoint_s),
        _real("mtbf_s", mtbf_s, above_zero=True),
        _real("restart_s", restart_s),
        _real("down_s", down_s),
        _real("write_s", write_s),
    )


def goodput(
    interval_s: Number,
    checkpoint_s: Number,
    mtbf_s: Number,
    restart_s: Number = 0,
    down_s: Number = 0,
    write_s: Number = 0,
) -> Number:
    """Useful time over all time, exactly, under exponential failures.

    A cycle runs from one failure to the next. Its length is M + D on average. It saves
    a j-th interval if the failure comes R + j(τ + δ) + w after the start or later, so
    exp(-(R + w)/M) / (exp((τ + δ)/M) - 1) intervals on average, and

        goodput = τ exp(-(R + w)/M) / ((M + D) (exp((τ + δ)/M) - 1)).

    With D = w = 0 this is Daly's complete model.
    """
    tau, delta, mtbf_s, restart_s, down_s, write_s = _job(
        interval_s, checkpoint_s, mtbf_s, restart_s, down_s, write_s
    )
    with np.errstate(over="ignore"):  # exp() without bound: nothing is ever saved
        saved = np.exp(-(restart_s + write_s) / mtbf_s)
        saved = saved / np.expm1(np.asarray((tau + delta) / mtbf_s, dtype=float))
    return _plain(tau * saved / (mtbf_s + down_s))


def expected_s(
    work_s: Number,
    interval_s: Number,
    checkpoint_s: Number,
    mtbf_s: Number,
    restart_s: Number = 0,
    down_s: Number = 0,
    write_s: Number = 0,
) -> Number:
    """Expected wall-clock seconds of a job of ``work_s`` seconds of computing.

    ``work_s / goodput``, Daly's total wall time, for a job of many intervals.
    """
    part = goodput(interval_s, checkpoint_s, mtbf_s, restart_s, down_s, write_s)
    with np.errstate(divide="ignore"):
        return _plain(_real("work_s", work_s) / np.asarray(part, dtype=float))


def ettr(
    interval_s: Number, checkpoint_s: Number, mtbf_s: Number, restart_s: Number = 0
) -> Number:
    """Goodput to first order, as Kokolis et al. estimate it.

    (1 - (R + τ/2)/M) / (1 + δ/τ): each failure costs a restart and half an interval,
    each interval a checkpoint. A good approximation of :func:`goodput` as long as an
    interval is far shorter than M; below 0 it is meaningless, and given as 0.
    """
    tau, delta, mtbf_s, restart_s, _, _ = _job(
        interval_s, checkpoint_s, mtbf_s, restart_s, 0, 0
    )
    kept = 1 - (restart_s + tau / 2) / mtbf_s
    return _plain(np.maximum(kept, 0.0) / (1 + delta / tau))


# ------------------------------------------------------------------------ spares


def unavailability(part_mtbf_s: Number, repair_s: Number) -> Number:
    """Part of the time that a part is out: repair / (mtbf + repair)."""
    part_mtbf_s = _real("part_mtbf_s", part_mtbf_s, above_zero=True)
    repair_s = _real("repair_s", repair_s)
    return repair_s / (part_mtbf_s + repair_s)


def poisson_spares(expected_failures: float, probability: float = 0.99) -> int:
    """The fewest spares that suffice with ``probability``, for a Poisson number.

    For failures within a time without repair: its length over the system's MTBF. For
    parts that are out at one moment: that of the repair time (an unlimited repair
    shop, so any distribution of repair times).
    """
    mean = _real("expected_failures", expected_failures, high=10**6)
    probability = _probability(probability)
    return _fewest(lambda spares: _poisson_cdf(spares, mean) >= probability)


def _fewest(enough: Callable[[int], bool]) -> int:
    """The least whole number of 0 or more that is enough; so are all above it."""
    if enough(0):
        return 0
    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def binomial_spares(
    parts: int, unavailability: float, probability: float = 0.99
) -> int:
    """The fewest spares with which ``parts`` work at once with ``probability``.

    All parts and spares run, wear out and are repaired alike, each out with
    probability ``unavailability``, independently: the smallest s with
    P(Binomial(parts + s, unavailability) <= s) >= probability.
    """
    parts = whole("parts", parts, what="parts", high=10**6)
    chance = _real("unavailability", unavailability, high=0.5)
    probability = _probability(probability)
    return _fewest(lambda s: _binomial_cdf(s, parts + s, chance) >= probability)


def _probability(value: float) -> float:
    value = _real("probability", value, above_zero=True, high=1)
    if value > 1 - 1e-9:
        raise ValueError(f"probability must be below 1 - 1e-9, got {value!r}")
    return value


# --------------------------------------------------------------------- simulated


class Failures(NamedTuple):
    """When something failed, in order, and which part it was."""

    time_s: np.ndarray  # [F]
    part: np.ndarray  # [F]


def failure_times(
    parts: int,
    part_mtbf_s: float,
    duration_s: float,
    shape: float = 1.0,
    seed: int = 0,
) -> Failures:
    """Every part on a clock of its own: when which of them fails.

    Lifetimes are Weibull with mean ``part_mtbf_s``: with ``shape`` 1 exponential, below
    1 early failures (burn-in), above 1 wear. All parts are new at 0; one that fails is
    replaced by a new one at once.
    """
    parts = whole("parts", parts, what="parts", high=10**7)
    part_mtbf_s = _real("part_mtbf_s", part_mtbf_s, above_zero=True)
    duration_s = _real("duration_s", duration_s, above_zero=True)
    shape = _real("shape", shape, low=0.3, high=100)
    _check_events(parts * (1 + duration_s / part_mtbf_s), "parts and duration_s")
    rng = np.random.default_rng(whole("seed", seed, low=0))
    scale_s = part_mtbf_s / math.gamma(1 + 1 / shape)
    times, ids = [], []
    alive = np.arange(parts)
    now_s = np.zeros(parts)
    while alive.size:
        now_s = now_s + scale_s * rng.weibull(shape, alive.size)
        failed = now_s < duration_s
        alive, now_s = alive[failed], now_s[failed]
        times.append(now_s)
        ids.append(alive)
    time_s, part = np.concatenate(times), np.concatenate(ids)
    order = np.argsort(time_s, kind="stable")
    return Failures(time_s[order], part[order])


def _check_events(expected: float, names: str) -> None:
    if expected > MOST_EVENTS:
        raise ValueError(
            f"{names} ask for about {float(expected):.1e} events; "
            f"at most {MOST_EVENTS:.0e} are simulated"
        )


@dataclass(frozen=True)
class Ledger:
    """Where a job's time went, in seconds, per replica; the parts add up to it all."""

    useful_s: np.ndarray
    checkpoint_s: np.ndarray  # pauses to save state
    lost_s: np.ndarray  # computing that failures threw away
    restart_s: np.ndarray
    down_s: np.ndarray
    failures: np.ndarray  # that stopped the running (or restarting) job

    @property
    def total_s(self) -> np.ndarray:
        """All of the time."""
        return (
            self.useful_s
            + self.checkpoint_s
            + self.lost_s
            + self.restart_s
            + self.down_s
        )

    @property
    def goodput(self) -> np.ndarray:
        """Useful time over all time."""
        return self.useful_s / self.total_s


def _account(
    run_s: np.ndarray,  # [replicas, cycles] from one start to the next failure
    duration_s: float,
    tau: float,
    delta: float,
    restart_s: float,
    down_s: float,
    write_s: float,
) -> Ledger:
    """Divide each cycle's time; what is unsaved at the very end counts as useful."""
    begin_s = np.zeros_like(run_s)
    np.cumsum(run_s[:, :-1] + down_s, axis=1, out=begin_s[:, 1:])
    left_s = np.maximum(duration_s - begin_s, 0.0)
    failed = run_s < left_s
    run_s = np.minimum(run_s, left_s)
    restart = np.minimum(run_s, restart_s)
    restart[:, 0] = 0.0  # the job starts once without
    working = run_s - restart
    done = np.floor(working / (tau + delta))
    rest = working - done * (tau + delta)
    computed = done * tau + np.minimum(rest, tau)
    safe = np.floor(np.maximum(working - write_s, 0.0) / (tau + delta))
    useful = np.where(failed, safe * tau, computed)
    down = np.where(failed, np.clip(left_s - run_s, 0.0, down_s), 0.0)
    return Ledger(
        useful_s=useful.sum(axis=1),
        checkpoint_s=(working - computed).sum(axis=1),
        lost_s=(computed - useful).sum(axis=1),
        restart_s=restart.sum(axis=1),
        down_s=down.sum(axis=1),
        failures=failed.sum(axis=1),
    )


def simulate(
    duration_s: float,
    interval_s: float,
    checkpoint_s: float,
    mtbf_s: float,
    restart_s: float = 0,
    down_s: float = 0,
    write_s: float = 0,
    replicas: int = 1000,
    seed: int = 0,
) -> Ledger:
    """Play ``replicas`` jobs of ``duration_s`` under exponential failures.

    All at once: a failure forgets the past, so what a cycle saves depends on its own
    length alone, and no event has to wait for another.
    """
    duration_s = _real("duration_s", duration_s, above_zero=True)
    tau, delta, mtbf_s, restart_s, down_s, write_s = _job(
        interval_s, checkpoint_s, mtbf_s, restart_s, down_s, write_s
    )
    replicas = whole("replicas", replicas, what="replicas", high=10**7)
    expected = duration_s / (mtbf_s + down_s)
    _check_events(replicas * (expected + 10), "replicas and duration_s / mtbf_s")
    rng = np.random.default_rng(whole("seed", seed, low=0))
    cycles = int(expected + 4 * math.sqrt(expected) + 10)
    run_s = rng.exponential(mtbf_s, (replicas, cycles))
    while np.min(run_s.sum(axis=1)) + run_s.shape[1] * down_s < duration_s:
        more = rng.exponential(mtbf_s, (replicas, 10 + cycles // 10))
        run_s = np.concatenate([run_s, more], axis=1)
    return _account(run_s, duration_s, tau, delta, restart_s, down_s, write_s)


def replay(
    failure_s: np.ndarray,
    duration_s: float,
    interval_s: float,
    checkpoint_s: float,
    restart_s: float = 0,
    down_s: float = 0,
    write_s: float = 0,
) -> Ledger:
    """Play one job against given times of failures: recorded, or from parts' clocks.

    A failure while the job is down is mended in the same stop and costs nothing more.
    The ledger's arrays have one entry.
    """
    duration_s = _real("duration_s", duration_s, above_zero=True)
    tau, delta, _, restart_s, down_s, write_s = _job(
        interval_s, checkpoint_s, 1, restart_s, down_s, write_s
    )
    times = _real("failure_s", np.asarray(failure_s, dtype=float))
    if times.ndim != 1 or np.any(np.diff(times) < 0):
        raise ValueError("failure_s must be one list of times in ascending order")
    runs, up_s = [], 0.0
    for time_s in times[times < duration_s].tolist():
        if time_s >= up_s:
            runs.append(time_s - up_s)
            up_s = time_s + down_s
    runs.append(np.inf)
    return _account(
        np.array([runs]), duration_s, tau, delta, restart_s, down_s, write_s
    )
