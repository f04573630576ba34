"""The cost formulas against step-by-step counts, limits and nccl-tests' definitions."""

from fractions import Fraction
from math import ceil, log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiinfra import comm

ALPHA, RATE = Fraction(5, 10**6), Fraction(10**9)  # 5 us, 1 GB/s one way
WORLDS = st.integers(2, 12)
SIZES = st.integers(1, 10**9)


@given(n=WORLDS, size=SIZES)
def test_ring_counted_step_by_step(n, size):
    """Every rank sends one chunk per step; all steps take as long as one message."""
    chunk = Fraction(size, n)
    one_step_s = comm.point_to_point_s(chunk, ALPHA, RATE)
    assert one_step_s == ALPHA + chunk / RATE
    steps = n - 1
    size = Fraction(size)
    for name in ("ring_reduce_scatter", "ring_all_gather", "all_to_all"):
        seconds = getattr(comm, f"{name}_s")(size, n, ALPHA, RATE)
        per_rank = getattr(comm, f"{name}_bytes_per_rank")(size, n)
        assert seconds == sum([one_step_s] * steps), name
        assert per_rank == sum([chunk] * steps), name
    seconds = comm.ring_all_reduce_s(size, n, ALPHA, RATE)
    assert seconds == sum([one_step_s] * 2 * steps)
    per_rank = comm.ring_all_reduce_bytes_per_rank(size, n)
    assert per_rank == sum([chunk] * 2 * steps)


def test_worked_examples():
    # 7 MB over 4 ranks, 5 us, 1 GB/s: 6 messages of 1.75 MB.
    seconds = comm.ring_all_reduce_s(7e6, 4, 5e-6, 1e9)
    assert seconds == pytest.approx(6 * (5e-6 + 1.75e-3), rel=1e-12)
    assert comm.ring_all_reduce_bytes_per_rank(7e6, 4) == 10.5e6
    # A gather to one root: one latency, then 3 shares of 1.75 MB through its link.
    seconds = comm.gather_s(7e6, 4, 5e-6, 1e9)
    assert seconds == pytest.approx(5e-6 + 5.25e-3, rel=1e-12)
    assert comm.gather_bytes_per_rank(7e6, 4) == 5.25e6
    assert comm.broadcast_bytes_per_rank(7e6, 4) == 7e6


def chain_s(size, n, chunks):
    """Simulate the chain: rank r has chunk c one hop after r-1 has it, in order."""
    hop_s = ALPHA + Fraction(size, chunks) / RATE
    have = [Fraction(0)] * chunks  # the root has everything at 0
    for _ in range(n - 1):
        free, arrivals = Fraction(0), []
        for ready in have:
            free = max(free, ready) + hop_s
            arrivals.append(free)
        have = arrivals
    return have[-1]


@given(n=WORLDS, size=SIZES, chunks=st.integers(1, 40))
def test_broadcast_chain_simulated(n, size, chunks):
    formula = comm.broadcast_s(Fraction(size), n, ALPHA, RATE, n_chunks=chunks)
    assert formula == chain_s(size, n, chunks)


@settings(max_examples=25)
@given(n=WORLDS, size=st.integers(1, 3_000_000))
def test_broadcast_takes_the_best_number_of_chunks(n, size):
    best = min(
        comm.broadcast_s(Fraction(size), n, ALPHA, RATE, n_chunks=c)
        for c in range(1, 100)
    )
    assert comm.broadcast_s(Fraction(size), n, ALPHA, RATE) == best


def test_broadcast_limits():
    assert comm.broadcast_s(8e6, 2, 5e-6, 1e9) == 5e-6 + 8e-3  # one message
    assert comm.broadcast_s(8e6, 5, 0, 1e9) == 8e-3  # chunks without end
    assert comm.broadcast_s(0, 5, 5e-6, 1e9) == pytest.approx(4 * 5e-6)  # hops alone


@given(n=st.integers(1, 1000))
def test_tree_broadcast_doubles_the_holders(n):
    seconds = comm.tree_broadcast_s(Fraction(800), n, ALPHA, RATE)
    assert seconds == ceil(log2(n)) * (ALPHA + 800 / RATE)


TIMES = {
    "all_reduce": comm.ring_all_reduce_s,
    "reduce_scatter": comm.ring_reduce_scatter_s,
    "all_gather": comm.ring_all_gather_s,
    "all_to_all": comm.all_to_all_s,
    "broadcast": comm.broadcast_s,
}


@pytest.mark.parametrize("op", TIMES)
@given(n=WORLDS, size=SIZES)
def test_bus_bandwidth_is_the_links_when_latency_is_nothing(op, n, size):
    """What bus bandwidth is for: the same on every number of ranks."""
    seconds = TIMES[op](Fraction(size), n, Fraction(0), RATE)
    assert comm.bus_bandwidth(size, seconds, n, op) == pytest.approx(1e9, rel=1e-12)


def test_bus_bandwidth_factors_of_nccl_tests():
    # 8 ranks, 1 GB in 10 ms: algorithm bandwidth 100 GB/s.
    factors = {
        "all_reduce": 14 / 8,
        "reduce_scatter": 7 / 8,
        "all_gather": 7 / 8,
        "all_to_all": 7 / 8,
        "broadcast": 1,
        "reduce": 1,
        "point_to_point": 1,
    }
    for op, factor in factors.items():
        bandwidth = comm.bus_bandwidth(1e9, 0.01, 8, op)
        assert bandwidth == pytest.approx(100e9 * factor), op


NEED_TWO_RANKS = ("bus_bandwidth", "point_to_point_s")


@pytest.mark.parametrize("name", [n for n in comm.__all__ if n not in NEED_TWO_RANKS])
def test_one_rank_sends_nothing(name):
    function = getattr(comm, name)
    args = (8e6, 1) if name.endswith("bytes_per_rank") else (8e6, 1, 5e-6, 1e9)
    assert function(*args) == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((-1, 4, 0, 1), "n_bytes must be a finite number 0 or more, got -1"),
        ((float("nan"), 4, 0, 1), "n_bytes must be a finite number"),
        (("8", 4, 0, 1), "n_bytes must be a finite number"),
        ((8, 0, 0, 1), "world_size must be a whole number of ranks, 1 or more, got 0"),
        ((8, 2.5, 0, 1), "world_size must be a whole number"),
        ((8, True, 0, 1), "world_size must be a whole number"),
        ((8, 4, -1e-6, 1), "alpha_s must be a finite number 0 or more"),
        ((8, 4, 0, 0), "bytes_per_s must be a finite number greater than 0, got 0"),
        ((8, 4, 0, float("inf")), "bytes_per_s must be a finite number"),
    ],
)
@pytest.mark.parametrize("name", ["ring_all_reduce_s", "broadcast_s", "gather_s"])
def test_bad_input(name, args, words):
    with pytest.raises(ValueError, match=words):
        getattr(comm, name)(*args)


def test_bad_bus_bandwidth():
    with pytest.raises(ValueError, match=r"one of all_reduce, .*; got 'allreduce'"):
        comm.bus_bandwidth(8, 1, 4, "allreduce")
    with pytest.raises(ValueError, match="seconds must be a finite number greater"):
        comm.bus_bandwidth(8, 0, 4, "all_reduce")
    with pytest.raises(ValueError, match="n_chunks must be a whole number >= 1"):
        comm.broadcast_s(8, 4, 0, 1, n_chunks=0)
