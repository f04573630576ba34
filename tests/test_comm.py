"""The cost formulas against step-by-step counts, limits and nccl-tests' definitions."""

import inspect
import itertools
from fractions import Fraction
from math import ceil, comb, inf, log2, nan

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiinfra import comm

# How long an example takes depends on what else the machine does.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
ALPHA, RATE = Fraction(5, 10**6), Fraction(10**9)  # 5 us, 1 GB/s one way
WORLDS = st.integers(2, 12)
SIZES = st.integers(1, 10**9)


@patient
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


@patient
@given(n=WORLDS, size=SIZES, chunks=st.integers(1, 40))
def test_broadcast_chain_simulated(n, size, chunks):
    formula = comm.broadcast_s(Fraction(size), n, ALPHA, RATE, n_chunks=chunks)
    assert formula == chain_s(size, n, chunks)


@settings(patient, max_examples=25)
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


@patient
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
@patient
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


def takes(function, *names):
    return tuple(inspect.signature(function).parameters)[: len(names)] == names


FUNCTIONS = {name: getattr(comm, name) for name in comm.__all__ if name[0].islower()}
TIMED = [
    name
    for name, f in FUNCTIONS.items()
    if takes(f, "n_bytes", "world_size", "alpha_s", "bytes_per_s")
]
COUNTED = [name for name in FUNCTIONS if name.endswith("_bytes_per_rank")]
TORUS = ("torus_all_gather_s", "torus_reduce_scatter_s", "torus_all_reduce_s")
TWO_LEVELS = [name for name in FUNCTIONS if name.startswith("hierarchical")]


@pytest.mark.parametrize("name", [*TIMED, *COUNTED, *TORUS, *TWO_LEVELS])
def test_one_rank_sends_nothing(name):
    args = (8e6, 1, 5e-6, 1e9)
    if name in COUNTED:
        args = (8e6, 1)
    elif name in TORUS:
        args = (8e6, (1, 1), 5e-6, 1e9)
    elif name in TWO_LEVELS:
        args = (8e6, 1, 1, 5e-6, 1e9, 9e-6, 1e8)
    assert FUNCTIONS[name](*args) == 0


@pytest.mark.parametrize("name", TIMED)
@patient
@given(n=st.sampled_from([2, 4, 8, 64]), size=SIZES, more=SIZES)
def test_costs_rise_with_bytes_and_fall_with_bandwidth(name, n, size, more):
    """At most alpha plus a line through 0, except the chain's choice of chunks."""
    function = FUNCTIONS[name]
    size, more = Fraction(size), Fraction(more)
    cost = function(size, n, ALPHA, RATE)
    assert 0 < cost <= function(size + more, n, ALPHA, RATE)
    assert function(size, n, ALPHA, 2 * RATE) <= cost
    assert cost <= function(size, n, 2 * ALPHA, RATE)
    if name != "broadcast_s":
        nothing = function(Fraction(0), n, ALPHA, RATE)
        double = function(2 * size, n, ALPHA, RATE)
        assert double - nothing == 2 * (cost - nothing)


@pytest.mark.parametrize("name", TIMED)
def test_arrays_give_what_scalars_give(name):
    function = FUNCTIONS[name]
    n = np.array([1, 2, 4, 8, 64, 1024])
    size = np.array([[1, 10**6, 10**14]]).T
    swept = function(size, n, 5e-6, np.full(6, 1e9))
    assert swept.shape == (3, 6) and swept.dtype == float
    each = [[function(float(s), int(ranks), 5e-6, 1e9) for ranks in n] for (s,) in size]
    np.testing.assert_allclose(swept, each, rtol=1e-14)
    if name == "recursive_doubling_all_gather_s" or "halving_reduce" in name:
        return  # powers of two only
    odd = np.arange(1, 40)
    each = [function(1e6, int(ranks), 5e-6, 1e9) for ranks in odd]
    np.testing.assert_allclose(function(1e6, odd, 5e-6, 1e9), each, rtol=1e-14)


@pytest.mark.parametrize("name", COUNTED)
def test_arrays_of_counts(name):
    swept = FUNCTIONS[name](np.array([8, 9]), np.array([1, 4]))
    assert swept.tolist() == [FUNCTIONS[name](8, 1), FUNCTIONS[name](9, 4)]


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
    with pytest.raises(ValueError, match="bus_bytes_per_s must be a finite number"):
        comm.bus_bandwidth_s(8, 0, 4, "all_reduce")
    with pytest.raises(ValueError, match="seconds must be a finite number greater"):
        comm.bus_bandwidth(8, 0, 4, "all_reduce")
    with pytest.raises(ValueError, match="n_chunks must be a whole number >= 1"):
        comm.broadcast_s(8, 4, 0, 1, n_chunks=0)


@patient
@given(n=WORLDS, size=SIZES)
def test_bus_bandwidth_and_back(n, size):
    for op in TIMES:
        bandwidth = comm.bus_bandwidth(size, 0.25, n, op)
        assert comm.bus_bandwidth_s(size, bandwidth, n, op) == pytest.approx(0.25)


# ------------------------------------- other algorithms, step by step on real sets


def gather(n, step):
    """Run steps of an all-gather; the size of the largest message in each.

    ``step(have, k)`` gives (from, to, shards) for step k, or nothing at the end.
    """
    have = [{rank} for rank in range(n)]
    largest = []
    while moves := list(step(have, len(largest))):
        largest.append(max(len(shards) for *_, shards in moves))
        for _, target, shards in [(a, b, set(s)) for a, b, s in moves]:
            have[target] |= shards
    assert all(len(shards) == n for shards in have)
    return largest


@patient
@given(n=st.integers(1, 17), size=SIZES)
def test_bidirectional_ring_by_steps(n, size):
    def step(have, k):
        if k < n // 2:
            for rank in range(n):
                yield rank, (rank + 1) % n, {(rank - k) % n}
                yield rank, (rank - 1) % n, {(rank + k) % n}

    shard = Fraction(size, n)
    counted = sum(ALPHA + shards * shard / RATE for shards in gather(n, step))
    args = (Fraction(size), n, ALPHA, RATE)
    assert comm.bidirectional_ring_all_gather_s(*args) == counted
    assert comm.bidirectional_ring_reduce_scatter_s(*args) == counted
    assert comm.bidirectional_ring_all_reduce_s(*args) == 2 * counted


@patient
@given(n=st.integers(1, 17), size=SIZES)
def test_bruck_by_steps(n, size):
    def step(have, k):
        if 2**k < n:
            for rank in range(n):
                target = (rank - 2**k) % n
                yield rank, target, have[rank] - have[target]

    counted = sum(ALPHA + s * Fraction(size, n) / RATE for s in gather(n, step))
    assert comm.bruck_all_gather_s(Fraction(size), n, ALPHA, RATE) == counted


@patient
@given(log=st.integers(0, 5), size=SIZES)
def test_recursive_doubling_by_steps(log, size):
    n = 2**log

    def step(have, k):
        if 2**k < n:
            for rank in range(n):
                yield rank, rank ^ 2**k, have[rank]

    messages = gather(n, step)
    assert messages == [2**k for k in range(log)]
    counted = sum(ALPHA + s * Fraction(size, n) / RATE for s in messages)
    args = (Fraction(size), n, ALPHA, RATE)
    assert comm.recursive_doubling_all_gather_s(*args) == counted
    assert comm.recursive_halving_reduce_scatter_s(*args) == counted
    assert comm.halving_doubling_all_reduce_s(*args) == 2 * counted


@patient
@given(n=st.integers(1, 17), size=SIZES)
def test_all_reduce_by_exchanging_sums(n, size):
    """Real sums; ranks beyond a power of two are folded into their neighbours."""
    inner = 2 ** (n.bit_length() - 1)
    values = [rank + 1 for rank in range(n)]
    steps = 0
    if n > inner:
        steps += 1
        for rank in range(inner, n):
            values[rank - inner] += values[rank]
    for k in range(inner.bit_length() - 1):
        steps += 1
        values[:inner] = [values[r] + values[r ^ 2**k] for r in range(inner)]
    if n > inner:
        steps += 1
        values[inner:] = values[: n - inner]
    assert set(values) == {n * (n + 1) // 2}
    counted = steps * (ALPHA + size / RATE)
    args = (Fraction(size), n, ALPHA, RATE)
    assert comm.recursive_doubling_all_reduce_s(*args) == counted
    assert comm.tree_all_reduce_s(*args) == 2 * ceil(log2(n)) * (ALPHA + size / RATE)


@patient
@given(n=st.integers(1, 40), size=SIZES)
def test_rabenseifner_by_halves(n, size):
    """S/2, S/4, ... there and back, between as many ranks as a power of two has."""
    part, seconds, taking_part = Fraction(size), Fraction(0), 1
    while 2 * taking_part <= n:
        taking_part *= 2
        part /= 2
        seconds += 2 * (ALPHA + part / RATE)
    if taking_part < n:
        seconds += 2 * (ALPHA + size / RATE)
    args = (Fraction(size), n, ALPHA, RATE)
    assert comm.halving_doubling_all_reduce_s(*args) == seconds


@patient
@given(n=st.integers(1, 200))
def test_double_binary_trees(n):
    """Trees that reach all ranks in few hops; nobody sends more than 2 S."""
    trees = comm.double_binary_trees(n)
    children = [0] * n
    sent = [Fraction(0)] * n  # in units of S
    for parents in trees:
        assert sum(parent is None for parent in parents) == 1
        for rank, parent in enumerate(parents):
            hops = 0
            while parents[rank] is not None:
                rank, hops = parents[rank], hops + 1
            assert hops <= ceil(log2(n))
            if parent is not None:
                children[parent] += 1
        for rank, parent in enumerate(parents):
            if parent is not None:
                sent[rank] += Fraction(1, 2)  # up
                sent[parent] += Fraction(1, 2)  # down
    assert max(children) <= 2
    no_latency_s = comm.double_binary_tree_all_reduce_s(Fraction(1), n, 0, 1)
    assert max(sent) <= no_latency_s
    if n > 6:
        assert max(sent) == no_latency_s == 2


def test_double_binary_trees_of_eight():
    first, second = comm.double_binary_trees(8)
    assert first == [None, 2, 4, 2, 0, 6, 4, 6]
    assert second == [1, 3, 1, 7, 5, 3, 5, None]


def test_when_which_all_reduce_wins():
    """Few bytes: the fewest steps. Many: the fewest bytes."""
    few = {n: f(1e3, 64, 5e-6, 5e10) for n, f in comm.ALL_REDUCE_S.items()}
    many = {n: f(1e9, 64, 5e-6, 5e10) for n, f in comm.ALL_REDUCE_S.items()}
    on_a_switch = ("SHARP", "NVLink SHARP", "bidirectional ring")
    for times in (few, many):
        for name in on_a_switch:
            del times[name]
    assert min(few, key=few.get) == "recursive doubling"
    assert min(many, key=many.get) == "halving and doubling"
    assert few["double binary tree"] < few["ring"] / 5
    assert many["tree"] > 5 * many["ring"] > 4.5 * many["double binary tree"]


def test_switches_that_add_up():
    """A ring sends 2(N-1)/N S, an NVSwitch wants (N+1)/N S, SHARP S."""
    n, size = 8, Fraction(800)
    assert comm.ring_all_reduce_bytes_per_rank(size, n) == 1400
    assert comm.nvls_all_reduce_bytes_per_rank(size, n) == 900
    assert comm.sharp_all_reduce_bytes_per_rank(size, n) == 800
    assert comm.nvls_all_reduce_s(size, n, ALPHA, RATE) == 2 * ALPHA + 900 / RATE
    assert comm.sharp_all_reduce_s(size, n, ALPHA, RATE) == 2 * ALPHA + 800 / RATE
    # Bus bandwidth, which assumes a ring's bytes, exceeds the rate.
    seconds = comm.nvls_all_reduce_s(1e9, n, 0, 1e9)
    assert comm.bus_bandwidth(1e9, seconds, n, "all_reduce") == pytest.approx(14e9 / 9)


# ------------------------------------------------------------------- the torus


@patient
@given(n=st.integers(1, 12), size=SIZES)
def test_a_torus_of_one_axis_is_a_ring(n, size):
    args = (ALPHA, RATE)
    ring_s = comm.bidirectional_ring_all_gather_s(Fraction(size), n, *args)
    for name in TORUS[:2]:
        assert FUNCTIONS[name](Fraction(size), (n,), *args) == ring_s
    assert comm.torus_all_reduce_s(Fraction(size), (n,), *args) == 2 * ring_s


def test_two_axes_by_hand():
    """12 shards of 100 B on 3 by 4: two parts of 600 B, 50 B of each on every chip.

    Phase 1: part A along 3 chips (1 hop of 50 B), part B along 4 (2 hops of 50 B).
    Phase 2: A has 150 B and goes along 4 (2 hops), B has 200 B and along 3 (1 hop).
    """
    seconds = comm.torus_all_gather_s(Fraction(1200), (3, 4), ALPHA, RATE)
    first = max(ALPHA + 50 / RATE, 2 * (ALPHA + 50 / RATE))
    second = max(2 * (ALPHA + 150 / RATE), ALPHA + 200 / RATE)
    assert seconds == first + second


@patient
@given(n=st.integers(1, 6).map(lambda k: 2 * k), k=st.integers(1, 3), size=SIZES)
def test_equal_axes_share_the_work(n, k, size):
    """Without latency: (S - S/n^k) / k over two directions, times n/(n-1)."""
    seconds = comm.torus_all_gather_s(Fraction(size), (n,) * k, 0, RATE)
    ideal = (size - Fraction(size, n**k)) / k / (2 * RATE)
    assert seconds == ideal * n / (n - 1)


@patient
@given(axes=st.lists(st.integers(1, 6), min_size=1, max_size=3), size=SIZES)
def test_no_torus_beats_its_links(axes, size):
    """What must arrive, over all incoming links; more axes never hurt one part."""
    ranks = int(np.prod(axes))
    seconds = comm.torus_all_gather_s(Fraction(size), axes, ALPHA, RATE)
    assert seconds >= (size - Fraction(size, ranks)) / (2 * len(axes) * RATE)


def hops_by_search(source, target, axes, wrap):
    """Breadth-first distance on the grid."""
    seen, edge, hops = {source}, [source], 0
    while target not in seen:
        hops += 1
        grown = []
        for place in edge:
            for axis, size in enumerate(axes):
                for move in (-1, 1):
                    at = place[axis] + move
                    if not wrap and not 0 <= at < size:
                        continue
                    to = (*place[:axis], at % size, *place[axis + 1 :])
                    if to not in seen:
                        seen.add(to)
                        grown.append(to)
        edge = grown
    return hops


@patient
@given(
    axes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    wrap=st.booleans(),
    data=st.data(),
)
def test_torus_point_to_point(axes, wrap, data):
    place = st.tuples(*(st.integers(0, size - 1) for size in axes))
    source, target = data.draw(place), data.draw(place)
    seconds = comm.torus_point_to_point_s(
        Fraction(600), source, target, axes, ALPHA, RATE, wrap=wrap
    )
    hops = hops_by_search(source, target, axes, wrap)
    ports = sum(a != b for a, b in zip(source, target, strict=True))
    assert seconds == (hops * ALPHA + Fraction(600, ports) / RATE if ports else 0)


# ------------------------------------------------------------------ two levels

SLOW = (Fraction(20, 10**6), Fraction(10**8))


def test_two_levels_by_hand():
    """4 ranks a node, 3 nodes, 1200 B: 900 B inside, then 200 B of 300 outside."""
    args = (Fraction(1200), 4, 3, ALPHA, RATE, *SLOW)
    inner = 3 * (ALPHA + 300 / RATE)
    outer = 2 * (SLOW[0] + 100 / SLOW[1])
    assert comm.hierarchical_reduce_scatter_s(*args) == inner + outer
    assert comm.hierarchical_all_gather_s(*args) == inner + outer
    assert comm.hierarchical_all_reduce_s(*args) == 2 * (inner + outer)
    exchange = 2 * (SLOW[0] + 400 / SLOW[1])
    assert comm.hierarchical_all_to_all_s(*args) == inner + exchange


@patient
@given(n=WORLDS, size=SIZES)
def test_one_level_of_two_is_a_ring(n, size):
    size = Fraction(size)
    for two, one in (
        (comm.hierarchical_all_reduce_s, comm.ring_all_reduce_s),
        (comm.hierarchical_all_gather_s, comm.ring_all_gather_s),
        (comm.hierarchical_all_to_all_s, comm.all_to_all_s),
    ):
        assert two(size, n, 1, ALPHA, RATE, *SLOW) == one(size, n, ALPHA, RATE)
        assert two(size, 1, n, ALPHA, RATE, *SLOW) == one(size, n, *SLOW)


@patient
@given(g=st.integers(2, 8), nodes=st.integers(2, 8))
def test_two_levels_spare_the_network(g, nodes):
    """No latency, network only: an all-reduce carries S/g where a flat ring does S."""
    fast = Fraction(10**30)
    two = comm.hierarchical_all_reduce_s(Fraction(800), g, nodes, 0, fast, 0, RATE)
    inside = comm.hierarchical_all_reduce_s(Fraction(800), g, 1, 0, fast, 0, RATE)
    network = comm.ring_all_reduce_bytes_per_rank(Fraction(800, g), nodes)
    assert two - inside == network / RATE


@patient
@given(g=st.integers(1, 4), nodes=st.integers(1, 4))
def test_two_level_all_to_all_delivers(g, nodes):
    """Follow every shard: (from, to), from rank (node, place) to all others."""
    ranks = list(itertools.product(range(nodes), range(g)))
    have = {rank: {(rank, to) for to in ranks} for rank in ranks}
    sent = {"inside": 0, "outside": 0}
    for where in sent:
        moved = {rank: set() for rank in ranks}
        for rank in ranks:
            for shard in have[rank]:
                node, place = shard[1]
                to = (rank[0], place) if where == "inside" else (node, place)
                moved[to].add(shard)
                sent[where] += rank == ranks[0] and to != rank
        have = moved
    assert all(to == rank for rank in ranks for _, to in have[rank])
    n = g * nodes
    seconds = comm.hierarchical_all_to_all_s(Fraction(n), g, nodes, 0, RATE, 0, SLOW[1])
    assert seconds == sent["inside"] / RATE + sent["outside"] / SLOW[1]


# ------------------------------------------------ what each parallelism sends


def test_zero_by_stage():
    """10 parameters, 4 ranks, 3 micro-batches; fp32 gradients, bf16 weights."""
    sent = [comm.zero_bytes_per_step(Fraction(10), 4, s, 3, 4, 2) for s in range(4)]
    share = Fraction(3, 4)
    assert sent == [
        share * 2 * 40,  # ring all-reduce
        share * (40 + 20),  # scatter gradients once, gather weights once
        share * (3 * 40 + 20),  # scatter gradients after each micro-batch
        share * 3 * (40 + 2 * 20),  # and gather weights twice in each
    ]
    assert sent[0] == comm.data_parallel_bytes_per_step(Fraction(10), 4, 4)
    # The mistakes: optimizer state gathered; ZeRO-2 as ZeRO-1; no (N-1)/N.
    assert sent[1] != share * (40 + 120) and sent[2] != sent[1] and sent[1] != 60


@patient
@given(psi=st.integers(1, 10**12), dp=WORLDS, m=st.integers(1, 20))
def test_zero_never_sends_less_with_the_stage(psi, dp, m):
    sent = [comm.zero_bytes_per_step(psi, dp, stage, m) for stage in range(4)]
    assert sent == sorted(sent)


def test_zero_plus_plus_part_by_part():
    flags = dict(
        quantized_weights=False, secondary_partition=False, quantized_gradients=False
    )
    sizes = []
    for flag in (None, *flags):
        if flag:
            flags[flag] = True
        sizes.append(comm.zero_plus_plus_bytes_per_step(Fraction(8), 2, **flags))
    # Half of 16 B per buffer: 3 buffers, then 2.5, 1.5, 0.75.
    assert sizes == [24, 20, 12, 6]
    assert comm.zero_plus_plus_bytes_per_step(8.0, 2) == 6.0
    assert sizes[0] == comm.zero_bytes_per_step(Fraction(8), 2, 3)


def test_tensor_parallel_by_collectives():
    """5 tokens of width 6, 2 B: 60 B per activation, over 4 ranks."""
    args = (Fraction(5), 6, 4)
    half = Fraction(3, 4) * 60  # an all-gather or a reduce-scatter
    sent = comm.tensor_parallel_bytes_per_layer
    assert sent(*args, backward=False) == 2 * 2 * half
    assert sent(*args) == 4 * 2 * half
    assert sent(*args, recompute="selective") == 4 * 2 * half
    assert sent(*args, recompute="full") == 6 * 2 * half
    assert sent(*args, sequence_parallel=True) == 10 * half
    assert sent(*args, sequence_parallel=True, backward=False) == 4 * half
    assert sent(Fraction(5), 6, 1) == 0


def test_pipeline_message():
    assert comm.pipeline_bytes_per_micro_batch(2048, 12288) == 2048 * 12288 * 2
    assert comm.pipeline_bytes_per_micro_batch(2048, 12288, 2, 8) == 2048 * 12288 / 4


@pytest.mark.parametrize("cp", [1, 2, 5])
def test_ring_attention_by_hops(cp):
    """30 tokens, 3 KV heads of 4: each rank's block of K and V is 2 * 12 * 30/N."""
    block = Fraction(30, cp) * 3 * 4 * 2 * 2
    gradients = Fraction(30, cp) * 3 * 4 * 2 * 4 * (cp if cp > 1 else 0)
    args = (Fraction(30), 3, 4, cp)
    sent = comm.ring_attention_bytes_per_layer
    assert sent(*args) == (cp - 1) * block
    both = sent(*args, backward=True, bytes_per_gradient=4)
    assert both == 2 * (cp - 1) * block + gradients


def test_least_block_balances_computing_and_passing():
    flops, rate = 400e12, 50e9
    for each, share in ((2, 1), (2, 0.125), (1, 0.25)):
        c = comm.ring_attention_least_block_tokens(flops, rate, each, share)
        d = 4096
        compute_s = 4 * d * c**2 / flops
        assert compute_s == pytest.approx(2 * d * c * share * each / rate)


@pytest.mark.parametrize("cp", [1, 2, 3, 8])
def test_causal_work_by_counting_pairs(cp):
    """Every (query, key) with key <= query, the diagonal as a half."""
    tokens = 4 * cp
    work = [2 * i + 1 for i in range(tokens)]  # in halves

    def share(rank, chunks, mine):
        length = tokens // chunks
        places = (c * length + i for c in mine(rank) for i in range(length))
        return Fraction(sum(work[i] for i in places), sum(work))

    plain = [share(r, cp, lambda r: [r]) for r in range(cp)]
    assert comm.causal_work_shares(cp, zigzag=False) == plain
    zigzag = [share(r, 2 * cp, lambda r: [r, 2 * cp - 1 - r]) for r in range(cp)]
    assert comm.causal_work_shares(cp) == zigzag == [Fraction(1, cp)] * cp
    assert max(plain) == Fraction(2 * cp - 1, cp**2)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "ranks"), [(8, 8, 4), (8, 2, 4), (8, 2, 2), (6, 3, 1)]
)
def test_ulysses_by_elements(heads, kv_heads, ranks):
    """Follow each element of Q, K, V from token owner to head owner, O back."""
    tokens, width = 4 * ranks, 5
    copies = max(kv_heads, ranks)  # KV heads, with copies
    sent = total = 0
    for count in (heads, copies, copies, heads):
        for token in range(tokens):
            for head in range(count):
                owner, user = token * ranks // tokens, head * ranks // count
                total += width * (owner == 0)
                sent += width * (owner == 0 and user != 0)
    args = (Fraction(tokens), heads, kv_heads, width, ranks)
    assert comm.ulysses_buffer_bytes_per_layer(*args) == 2 * total
    assert comm.ulysses_bytes_per_layer(*args) == 2 * sent


def test_expert_parallel_bytes():
    sent = comm.expert_parallel_bytes_per_layer
    assert sent(32, 100, 9, 1, 2) == 32 * 100 * 9 * 3
    assert sent(32, 100, Fraction(7, 2)) == 32 * 100 * 14


@pytest.mark.parametrize(("experts", "k", "groups"), [(6, 2, 3), (8, 3, 4), (6, 6, 3)])
def test_expert_destinations_by_enumeration(experts, k, groups):
    each = experts // groups
    choices = list(itertools.combinations(range(experts), k))
    met = sum(len({e // each for e in chosen}) for chosen in choices)
    expected = Fraction(met, comb(experts, k))
    assert comm.expert_destinations(experts, k, groups) == expected
    limited = comm.expert_destinations(experts, k, groups, limit=groups)
    assert limited == expected


def test_node_limited_routing():
    """DeepSeek-V3 on 8 nodes: 8 of 256 experts meet 5.3 nodes, at most 4 if limited."""
    free = comm.expert_destinations(256, 8, 8)
    limited = comm.expert_destinations(256, 8, 8, limit=4)
    assert float(free) == pytest.approx(5.3, abs=0.05)
    assert 3.5 < limited < 4 < free
    assert comm.expert_destinations(256, 8, 1) == 1
    assert free != 8 * (1 - Fraction(7, 8) ** 8)  # drawn with replacement


@patient
@given(k=st.integers(1, 8), groups=st.sampled_from([1, 2, 4, 8]))
def test_destinations_stay_in_bounds(k, groups):
    met = comm.expert_destinations(16, k, groups)
    assert 1 <= met <= min(k, groups)


def test_volumes_take_arrays():
    p = np.array([7e9, 70e9])
    swept = comm.zero_bytes_per_step(p, np.array([8, 64]), 3, np.array([1, 4]))
    each = [
        comm.zero_bytes_per_step(7e9, 8, 3, 1),
        comm.zero_bytes_per_step(70e9, 64, 3, 4),
    ]
    assert swept.tolist() == each
    assert comm.zero_plus_plus_bytes_per_step(p, 64).dtype == float
    tp = np.array([1, 2, 8])
    swept = comm.tensor_parallel_bytes_per_layer(4096, 8192, tp)
    assert swept.tolist() == [
        comm.tensor_parallel_bytes_per_layer(4096, 8192, int(t)) for t in tp
    ]
    swept = comm.ring_attention_bytes_per_layer(8192, 8, 128, tp, backward=True)
    assert swept.tolist() == [
        comm.ring_attention_bytes_per_layer(8192, 8, 128, int(t), backward=True)
        for t in tp
    ]
    seconds = comm.torus_all_gather_s(np.array([1e6, 1e9]), (4, 8), 1e-6, 5e10)
    assert seconds.tolist() == [
        comm.torus_all_gather_s(s, (4, 8), 1e-6, 5e10) for s in (1e6, 1e9)
    ]
    bus = comm.bus_bandwidth(p, 1.0, np.array([8, 8]), "all_reduce")
    assert bus.tolist() == [comm.bus_bandwidth(s, 1.0, 8, "all_reduce") for s in p]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: comm.ring_all_reduce_s(np.array([1, nan]), 4, 0, 1), "n_bytes .* nan"),
        (lambda: comm.ring_all_reduce_s(8, np.array([4, 0]), 0, 1), "world_size .* 0"),
        (lambda: comm.ring_all_reduce_s(8, np.array([4, 2.5]), 0, 1), "whole .* 2.5"),
        (lambda: comm.ring_all_reduce_s(np.array(["8"]), 4, 0, 1), "n_bytes must be"),
        (lambda: comm.ring_all_reduce_s(np.array([True]), 4, 0, 1), "n_bytes must be"),
        (lambda: comm.ring_all_reduce_s(10**400, 4, 0, 1), "n_bytes must be at most"),
        (lambda: comm.ring_all_reduce_s(8, 10**13, 0, 1), "world_size must be at most"),
        (lambda: comm.recursive_doubling_all_gather_s(8, 6, 0, 1), "a power of two"),
        (lambda: comm.torus_all_gather_s(8, (), 0, 1), "axes must be sizes"),
        (
            lambda: comm.torus_all_gather_s(8, (4, 0), 0, 1),
            r"axes\[1\] must be a whole",
        ),
        (lambda: comm.torus_all_gather_s(8, (10**6,) * 3, 0, 1), "product of axes"),
        (
            lambda: comm.torus_point_to_point_s(8, (0,), (0, 4), (4, 4), 0, 1),
            "source must have 2 coordinates",
        ),
        (
            lambda: comm.torus_point_to_point_s(8, (0, 0), (0, 4), (4, 4), 0, 1),
            r"target\[1\] must be below 4, got 4",
        ),
        (
            lambda: comm.hierarchical_all_reduce_s(8, 4, 0, 0, 1, 0, 1),
            "nodes must be a whole number of nodes, 1 or more, got 0",
        ),
        (
            lambda: comm.hierarchical_all_reduce_s(8, 4, 2, 0, 1, 0, inf),
            "inter_bytes_per_s must be a finite number greater than 0",
        ),
        (lambda: comm.zero_bytes_per_step(8, 4, 4), "stage must be one of 0, 1, 2, 3"),
        (lambda: comm.zero_bytes_per_step(8, 4, True), "stage must be one of"),
        (lambda: comm.zero_bytes_per_step(-8, 4, 1), "parameters must be a finite"),
        (
            lambda: comm.tensor_parallel_bytes_per_layer(8, 4, 2, recompute="all"),
            "recompute must be one of none, selective, full; got 'all'",
        ),
        (
            lambda: comm.ulysses_bytes_per_layer(8, 6, 6, 4, 4),
            "ulysses must divide heads, got 4 ranks for 6 heads",
        ),
        (lambda: comm.expert_destinations(256, 8, 7), "groups must divide experts"),
        (
            lambda: comm.expert_destinations(256, 8, 8, 9),
            "limit must be at most groups",
        ),
        (lambda: comm.expert_destinations(8, 5, 8, 4), "at most the 4 experts"),
        (
            lambda: comm.ring_attention_least_block_tokens(1, 1, 2, 8),
            "at most 1, got 8",
        ),
        (lambda: comm.causal_work_shares(0), "cp must be a whole number of ranks"),
        (lambda: comm.bus_factor(8, ["ring"]), "op must be one of"),
    ],
)
def test_bad_input_elsewhere(call, words):
    with pytest.raises(ValueError, match=words):
        call()
