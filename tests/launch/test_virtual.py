"""Virtual time gives the closed forms, exactly, whatever the machine is busy with."""

import subprocess
import sys
import threading
import time
from fractions import Fraction

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from aiinfra import comm
from aiinfra.launch import (
    Link,
    RankError,
    Ranks,
    VirtualClock,
    compute,
    launch,
    now,
    span,
    virtual,
)
from aiinfra.trace import Trace

# Functions travel by value: ranks need not import pytest and hypothesis, which takes
# longer than most tests here.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

# 8 Gb/s is 1e9 bytes/s: one byte is one nanosecond. Latency 10 us.
LINK = Link(gbps=8, us=10)
CLOCK = VirtualClock(link=LINK, flops=2e12)
ALPHA, RATE = Fraction(10, 10**6), Fraction(10**9)
MS = Fraction(1, 1000)


@pytest.fixture(scope="module")
def ranks_of():
    """Live ranks under CLOCK, one set per world size, shared by the tests.

    With ``traced=True``: the ranks and the trace of their next calls, emptied.
    """
    alive = {}

    def get(n, traced=False):
        if n not in alive:
            trace = Trace()
            alive[n] = Ranks(n, clock=CLOCK, trace=trace, timeout_s=60), trace
        ranks, trace = alive[n]
        trace.clear()
        return (ranks, trace) if traced else ranks

    yield get
    for ranks, _ in alive.values():
        ranks.close()


def exactly(*seconds):
    """The clock shows the closed form, rounded once to a float."""
    return [float(s) for s in seconds]


# ------------------------------------------------------------- point to point


def ping_pong(rounds, n_floats):
    x = torch.zeros(n_floats)
    peer = 1 - dist.get_rank()
    for _ in range(rounds):
        for sender in (0, 1):
            if dist.get_rank() == sender:
                dist.send(x, peer)
            else:
                dist.recv(x, peer)
    return now()


@pytest.mark.parametrize("n_floats", [1, 250, 30_001])
def test_ping_pong(ranks_of, n_floats):
    message = ALPHA + 4 * n_floats / RATE
    # The last send returns when its last byte has left, a latency before it arrives.
    assert ranks_of(2)(ping_pong, 7, n_floats) == exactly(
        14 * message, 14 * message - ALPHA
    )


def ring_all_reduce(x):
    """Sums x over the ranks in place; x has world_size equal chunks."""
    rank, n = dist.get_rank(), dist.get_world_size()
    chunks, buffer = list(x.chunk(n)), torch.empty_like(x.chunk(n)[0])
    for step in range(2 * (n - 1)):
        outgoing, incoming = chunks[(rank - step) % n], chunks[(rank - step - 1) % n]
        ops = [
            dist.P2POp(dist.isend, outgoing, (rank + 1) % n),
            dist.P2POp(dist.irecv, buffer, (rank - 1) % n),
        ]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        incoming.copy_(incoming + buffer if step < n - 1 else buffer)


def both_all_reduces(chunk):
    rank, n = dist.get_rank(), dist.get_world_size()
    x = torch.arange(n * chunk, dtype=torch.float64) * (rank + 1)
    y = x.clone()
    ring_all_reduce(x)
    ours_s = now()
    dist.all_reduce(y)
    theirs_s = now() - ours_s
    expected = torch.arange(n * chunk, dtype=torch.float64) * n * (n + 1) / 2
    assert torch.equal(x, expected), "the ring's sum is wrong"
    assert torch.equal(y, expected), "the library's sum is wrong"
    return ours_s, theirs_s


@pytest.mark.parametrize("n", [2, 3, 4])
def test_ring_all_reduce(ranks_of, n):
    """From messages of the book's own ring, and charged for the library's: the same."""
    chunk = 1250
    closed = 2 * (n - 1) * (ALPHA + 8 * chunk / RATE)
    assert closed == comm.ring_all_reduce_s(8 * chunk * n, n, ALPHA, RATE)
    for ours_s, theirs_s in ranks_of(n)(both_all_reduces, chunk):
        assert ours_s == float(closed)
        assert theirs_s == pytest.approx(float(closed), rel=1e-12)  # a difference


def exchange(n_floats):
    peer = 1 - dist.get_rank()
    x, y = torch.full((n_floats,), float(dist.get_rank())), torch.zeros(n_floats)
    sent = dist.isend(x, peer)
    issued = now()
    dist.recv(y, peer)
    received = now()
    sent.wait()
    assert y[0] == peer
    return issued, received, now()


def test_link_is_full_duplex_and_isend_returns_at_once(ranks_of):
    message = ALPHA + 4000 / RATE
    expected = tuple(exactly(0, message, message))
    assert ranks_of(2)(exchange, 1000) == [expected, expected]


def two_sends():
    x = torch.zeros(1000)
    if dist.get_rank() == 0:
        works = [dist.isend(x, 1), dist.isend(x, 2)]
        left = []
        for work in works:
            work.wait()
            left.append(now())
        return left
    dist.recv(x, 0)
    return now()


def test_outgoing_link_is_serial(ranks_of):
    byte_s = 4000 / RATE
    left, first, second = ranks_of(3)(two_sends)
    assert left == exactly(byte_s, 2 * byte_s)
    assert [first, second] == exactly(ALPHA + byte_s, ALPHA + 2 * byte_s)


def incast(delay_s, order):
    """All others send 1,000 floats to rank 0, rank r after delay_s[r]."""
    rank = dist.get_rank()
    if rank > 0:
        compute(delay_s[rank])
        dist.send(torch.full((1000,), float(rank)), 0)
        return None
    works = {}
    for source in order:
        x = torch.zeros(1000)
        works[source] = (dist.irecv(x, source), x)
    arrived = []
    for source, (work, x) in works.items():
        work.wait()
        assert x[0] == source
        arrived.append(now())
    return arrived


def test_incast_shares_the_receivers_link(ranks_of):
    byte_s = 4000 / RATE
    arrived = ranks_of(4)(incast, [0, 0, 0, 0], (1, 2, 3))[0]
    assert arrived == exactly(*[ALPHA + k * byte_s for k in (1, 2, 3)])


def test_a_late_message_does_not_hold_up_an_early_one(ranks_of):
    """Rank 1 sends 5 ms after rank 2; waiting for 1 first must not delay 2's bytes."""
    late = 5 * MS + ALPHA + 4000 / RATE
    arrived = ranks_of(3)(incast, [0, 0.005, 0], (1, 2))[0]
    assert arrived == exactly(late, late)


def test_overlapping_messages_interleave(ranks_of):
    """4 us each, the second-received began 1 us earlier: both done after 4 + 4 us."""
    start = ALPHA + 10 * MS
    arrived = ranks_of(3)(incast, [0, 0.010001, 0.01], (1, 2))[0]
    assert arrived == exactly(start + MS / 1000 * 5, start + MS / 1000 * 8)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), min_size=1, max_size=12)
)
def test_incoming_link_wastes_no_time_and_is_used_once(messages):
    """Against a second-by-second model: each message takes the first free seconds."""
    incoming, taken = virtual._Incoming(), set()
    for start, duration in messages:
        free = (t for t in range(start, 1000) if t not in taken)
        mine = [next(free) for _ in range(duration)]
        taken.update(mine)
        first, last = incoming.take(Fraction(start), Fraction(duration))
        assert (first, last) == ((mine[0], mine[-1] + 1) if mine else (start, start))
    intervals = [t for begin, end in incoming.busy for t in range(int(begin), int(end))]
    assert intervals == sorted(taken)


def messages_in_order():
    """Two tags and two sizes between the same ranks, received in another order."""
    if dist.get_rank() == 0:
        works = [
            dist.isend(torch.zeros(1000), 1, tag=7),
            dist.isend(torch.ones(3000), 1, tag=8),
            dist.isend(torch.full((500,), 2.0), 1, tag=7),
        ]
        for work in works:
            work.wait()
        return None
    a, b, c = torch.empty(1000), torch.empty(3000), torch.empty(500)
    times = []
    for x, tag in ((b, 8), (a, 7), (c, 7)):
        dist.recv(x, 0, tag=tag)
        times.append(now())
    assert (a[0], b[0], c[0]) == (0, 1, 2)
    return times


def test_tags(ranks_of):
    byte_s = 1 / RATE
    # b leaves after a, so it arrives after 4,000 + 12,000 bytes; a was there by then.
    b, c = ALPHA + 16_000 * byte_s, ALPHA + 18_000 * byte_s
    assert ranks_of(2)(messages_in_order)[1] == exactly(b, b, c)


# ------------------------------------------------------------------ collectives

N_FLOATS = 1200  # divisible by 2, 3 and 4


def every_collective():
    """Each library collective once: seconds charged, and whether the values are right.

    The barrier before each puts all ranks at the same time.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    whole = torch.arange(N_FLOATS, dtype=torch.float64)
    share = whole.chunk(n)[rank].clone()
    out = {}

    def timed(name, function, got, expected):
        dist.barrier()
        start = now()
        function()
        out[name] = now() - start
        assert torch.equal(got, expected), f"{name} moved wrong values"

    x = whole * (rank + 1)
    total = whole * (n * (n + 1) / 2)
    timed("all_reduce", lambda: dist.all_reduce(x), x, total)
    x = whole * (rank + 1)
    timed("broadcast", lambda: dist.broadcast(x, 1), x, whole * 2)
    x = whole * (rank + 1)
    expected = total if rank == 1 else None
    dist.barrier()
    start = now()
    dist.reduce(x, 1)
    out["reduce"] = now() - start
    assert expected is None or torch.equal(x, expected)
    parts = [torch.empty_like(share) for _ in range(n)]
    timed("all_gather", lambda: dist.all_gather(parts, share), share, share)
    assert torch.equal(torch.cat(parts), whole)
    y = torch.empty_like(whole)
    single = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
    timed("all_gather_single", lambda: single(y, share), y, whole)
    mine = total.chunk(n)[rank]
    z = torch.empty_like(share)
    inputs = [c.clone() for c in (whole * (rank + 1)).chunk(n)]
    timed("reduce_scatter", lambda: dist.reduce_scatter(z, inputs), z, mine)
    single = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
    z = torch.empty_like(share)
    x = whole * (rank + 1)
    timed("reduce_scatter_single", lambda: single(z, x), z, mine)
    y = torch.empty_like(whole)
    x = whole + 10_000 * rank
    expected = torch.cat([share + 10_000 * r for r in range(n)])
    timed("all_to_all_single", lambda: dist.all_to_all_single(y, x), y, expected)
    parts = [torch.empty_like(share) for _ in range(n)] if rank == 0 else None
    timed("gather", lambda: dist.gather(share, parts, 0), share, share)
    assert parts is None or torch.equal(torch.cat(parts), whole)
    z = torch.empty_like(share)
    parts = [c.clone() for c in whole.chunk(n)] if rank == 0 else None
    timed("scatter", lambda: dist.scatter(z, parts, 0), z, share)
    timed("barrier", dist.barrier, x, x)
    return out


@pytest.mark.parametrize("n", [2, 3, 4])
def test_library_collectives(ranks_of, n):
    size = 8 * N_FLOATS
    hop = ALPHA + size / n / RATE
    closed = {
        "all_reduce": 2 * (n - 1) * hop,
        "broadcast": comm.broadcast_s(size, n, ALPHA, RATE),
        "reduce": comm.broadcast_s(size, n, ALPHA, RATE),
        "all_gather": (n - 1) * hop,
        "all_gather_single": (n - 1) * hop,
        "reduce_scatter": (n - 1) * hop,
        "reduce_scatter_single": (n - 1) * hop,
        "all_to_all_single": (n - 1) * hop,
        "gather": ALPHA + (n - 1) * size / n / RATE,
        "scatter": ALPHA + (n - 1) * size / n / RATE,
        "barrier": 2 * (n - 1) * ALPHA,
    }
    for seconds in ranks_of(n)(every_collective):
        assert seconds.keys() == closed.keys()
        for name in closed:
            # 1e-12: a difference of two clock readings.
            assert seconds[name] == pytest.approx(float(closed[name]), rel=1e-9), name


def uneven_all_to_all():
    """Rank r sends r+1 rows of 80 B to each rank; the busiest link sets the time."""
    rank, n = dist.get_rank(), dist.get_world_size()
    send, receive = [rank + 1] * n, [r + 1 for r in range(n)]
    x = torch.full((sum(send), 10), float(rank), dtype=torch.float64)
    y = torch.empty(sum(receive), 10, dtype=torch.float64)
    dist.all_to_all_single(y, x, receive, send)
    assert y[:, 0].tolist() == [0.0, 1.0, 1.0, 2.0, 2.0, 2.0]
    return now()


def test_uneven_all_to_all(ranks_of):
    # Rank 2 sends 3 rows to each of 2 others: 480 bytes, more than any other load.
    assert ranks_of(3)(uneven_all_to_all) == exactly(*[2 * ALPHA + 480 / RATE] * 3)


def late_ranks():
    compute((dist.get_rank() + 1) * 0.001)
    dist.all_reduce(torch.zeros(500))
    return now()


def test_a_collective_starts_with_its_last_rank(ranks_of):
    ranks, trace = ranks_of(3, traced=True)
    times = ranks(late_ranks)
    cost = comm.ring_all_reduce_s(2000, 3, ALPHA, RATE)
    assert times == exactly(*[3 * MS + cost] * 3)
    for rank in range(3):
        exposed = (2 - rank) * MS + cost
        assert trace.exposed_comm_s(rank) == pytest.approx(float(exposed), rel=1e-12)
        assert trace.compute_s(rank) == float((rank + 1) * MS)
    assert trace.total_s == float(3 * MS + cost)


def send_then_all_reduce():
    """Rank 0's long message occupies its link, so the collective starts after it."""
    if dist.get_rank() == 0:
        work = dist.isend(torch.zeros(250_000), 1)
    else:
        work = dist.irecv(torch.zeros(250_000), 0)
    dist.all_reduce(torch.zeros(500))
    done = now()
    work.wait()
    return done, now()


def test_a_collective_waits_for_the_link(ranks_of):
    message = 1_000_000 / RATE
    done = message + comm.ring_all_reduce_s(2000, 2, ALPHA, RATE)
    # The message's last byte arrives while the collective's first ones are under way.
    expected = tuple(exactly(done, done))
    assert ranks_of(2)(send_then_all_reduce) == [expected, expected]


# ---------------------------------------------------------------------- overlap


def buckets(n_buckets, compute_s, n_floats, overlap):
    """Backward of n layers; each layer's gradients are all-reduced when ready."""
    works = []
    for layer in range(n_buckets):
        compute(compute_s, name=f"layer {layer}")
        gradient = torch.full((n_floats,), float(layer))
        work = dist.all_reduce(gradient, async_op=True)
        works.append((work, gradient, layer))
        if not overlap:
            work.wait()
    for work, gradient, layer in works:
        work.wait()
        assert gradient[0] == layer * dist.get_world_size()
    return now()


@pytest.mark.parametrize("n_floats", [300, 300_000])  # faster, slower than compute
@pytest.mark.parametrize("n", [2, 4])
def test_overlapped_buckets(ranks_of, n, n_floats):
    k, layer = 5, MS
    bucket = comm.ring_all_reduce_s(4 * n_floats, n, ALPHA, RATE)
    assert (bucket < layer) == (n_floats == 300)
    # Only the first layer's compute, or only the last bucket, is not overlapped.
    overlapped = max(k * layer + bucket, layer + k * bucket)
    ranks = ranks_of(n)
    assert ranks(buckets, k, 0.001, n_floats, True) == exactly(*[overlapped] * n)
    serial = k * (layer + bucket)
    assert ranks(buckets, k, 0.001, n_floats, False) == exactly(*[serial] * n)


def wait_backwards():
    works = []
    for _ in range(3):
        works.append(dist.all_reduce(torch.zeros(1000), async_op=True))
        compute(1e-6)
    times = []
    for k in (2, 0, 1, 2):
        works[k].wait()
        times.append(now())
    return times


def test_order_of_waiting_does_not_change_the_collectives(ranks_of):
    bucket = comm.ring_all_reduce_s(4000, 2, ALPHA, RATE)
    assert ranks_of(2)(wait_backwards) == [exactly(*[3 * bucket] * 4)] * 2


def wait_for_the_first():
    works = [dist.all_reduce(torch.zeros(1000), async_op=True) for _ in range(2)]
    works[0].wait()
    first = now()
    compute(0.004)  # longer than the second one
    works[1].wait()
    return first, now()


def test_waiting_for_one_leaves_the_next_in_flight(ranks_of):
    bucket = comm.ring_all_reduce_s(4000, 2, ALPHA, RATE)
    expected = tuple(exactly(bucket, bucket + 4 * MS))
    assert ranks_of(2)(wait_for_the_first) == [expected] * 2


def train_with_hooks(n_layers, width):
    """A real backward pass: modules charge compute, parameters' hooks all-reduce."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        *[torch.nn.Linear(width, width, bias=False).double() for _ in range(n_layers)]
    )
    flops, works = 2 * 10 * width * width, []
    for layer in model:
        layer.register_forward_pre_hook(lambda m, a: compute(flops=flops))
        layer.register_full_backward_pre_hook(lambda m, g: compute(flops=2 * flops))

    def reduce(p):
        p.grad /= dist.get_world_size()
        works.append(dist.all_reduce(p.grad, async_op=True))

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(reduce)
    x = torch.randn(10, width, dtype=torch.float64)
    x *= dist.get_rank() + 1
    model(x).sum().backward()
    for work in works:
        work.wait()
    return now(), [p.grad for p in model.parameters()]


def test_overlap_from_autograd_hooks(ranks_of):
    n_layers, width = 3, 40
    forward = Fraction(2 * 10 * width * width) / (2 * 10**12)
    bucket = comm.ring_all_reduce_s(8 * width * width, 2, ALPHA, RATE)
    assert bucket > 2 * forward
    closed = n_layers * forward + 2 * forward + n_layers * bucket
    (t0, grads0), (t1, grads1) = ranks_of(2)(train_with_hooks, n_layers, width)
    assert [t0, t1] == exactly(closed, closed)
    assert all(torch.equal(a, b) for a, b in zip(grads0, grads1, strict=True))


def ddp(hooked):
    torch.manual_seed(0)
    model = torch.nn.Linear(50, 4, bias=False).double()
    ddp = torch.nn.parallel.DistributedDataParallel(model)

    def hook(_, bucket):
        flat = bucket.buffer().div_(dist.get_world_size())
        work = dist.all_reduce(flat, async_op=True)
        return work.get_future().then(lambda f: f.value()[0])

    if hooked:
        ddp.register_comm_hook(None, hook)
    x = torch.ones(3, 50, dtype=torch.float64) * (dist.get_rank() + 1)
    before = now()
    ddp(x).sum().backward()
    after = now()
    assert torch.allclose(model.weight.grad, torch.full((4, 50), 4.5).double())
    return before, after


def test_ddp_is_seen_through_a_python_hook_only(ranks_of):
    cost = comm.ring_all_reduce_s(8 * 200, 2, ALPHA, RATE)
    assert ranks_of(2)(ddp, True) == [(0.0, float(cost))] * 2
    assert ranks_of(2)(ddp, False) == [(0.0, 0.0)] * 2


# --------------------------------------------------------------------- pipeline


def gpipe(m, forward_s, backward_s, n_floats):
    """GPipe: m micro-batches forward through all stages, then back."""
    rank, p = dist.get_rank(), dist.get_world_size()
    sends, value = [], torch.zeros(n_floats)

    def stage(name, seconds, source, target, add):
        x = torch.zeros(n_floats)
        if 0 <= source < p:
            dist.recv(x, source)
        compute(seconds, name=name)
        x += add
        if 0 <= target < p:
            sends.append((dist.isend(x, target), x))
        return x

    for j in range(m):
        value = stage(f"F{j}", forward_s, rank - 1, rank + 1, rank + 1)
    for j in range(m):
        back = stage(f"B{j}", backward_s, rank + 1, rank - 1, 1)
    for work, _ in sends:
        work.wait()
    assert value[0] == sum(range(1, rank + 2)), "forward values"
    assert back[0] == p - rank, "backward values"
    return now()


@pytest.mark.parametrize("m", [1, 4, 9])
@pytest.mark.parametrize("n_floats", [1, 20_000])
def test_four_stage_pipeline(ranks_of, m, n_floats):
    """Fill, run, drain: (m+p-1)(f+b) + 2(p-1) hops, on the first stage."""
    p, f, b = 4, 2 * MS, 3 * MS
    hop = ALPHA + 4 * n_floats / RATE  # shorter than f: hidden but in fill and drain
    closed = (m + p - 1) * (f + b) + 2 * (p - 1) * hop
    ranks, trace = ranks_of(p, traced=True)
    times = ranks(gpipe, m, 0.002, 0.003, n_floats)
    assert times[0] == trace.total_s == float(closed)
    for rank in range(p):
        busy = m * (f + b)
        assert trace.compute_s(rank) == pytest.approx(float(busy), rel=1e-12)
    # The bubble of the first stage: it waits for all the rest.
    exposed = pytest.approx(float(closed - m * (f + b)), rel=1e-12)
    assert trace.exposed_comm_s(0) == exposed


# -------------------------------------------------------------------- subgroups


def two_teams():
    """Ranks 0 and 2, and 1 and 3, each with its own traffic; then all four."""
    rank = dist.get_rank()
    teams = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    team = teams[rank % 2]
    x = torch.full((1000 * (1 + rank % 2),), float(rank))
    dist.all_reduce(x, group=team)
    assert x[0] == (2 if rank % 2 == 0 else 4)
    in_team = now()
    y = torch.full((500,), float(rank))
    dist.broadcast(y, src=2 + rank % 2, group=team)  # src counts in the world
    assert y[0] == 2 + rank % 2
    if rank < 2:
        dist.send(y * 10, rank + 2, group=team)
    else:
        dist.recv(y, rank - 2, group=team)
        assert y[0] == 10 * (2 + rank % 2)
    alone = now()
    dist.all_reduce(torch.zeros(8))
    return in_team, alone, now()


def test_subgroups(ranks_of):
    message = ALPHA + 2000 / RATE
    alls = comm.ring_all_reduce_s(32, 4, ALPHA, RATE)
    expected = []
    for rank in range(4):
        in_team = 2 * (ALPHA + 2000 * (1 + rank % 2) / RATE)
        alone = in_team + message + message - (ALPHA if rank < 2 else 0)
        slowest = 2 * (ALPHA + 4000 / RATE) + 2 * message
        expected.append(tuple(exactly(in_team, alone, slowest + alls)))
    assert ranks_of(4)(two_teams) == expected


# --------------------------------------------------------- repeatable, in detail


def everything():
    """A bit of all: its timeline must be the same every time."""
    rank, n = dist.get_rank(), dist.get_world_size()
    with span("ring"):
        ring_all_reduce(torch.zeros(n * 77))
    works = []
    for k in range(3):
        compute(flops=1e9 * (k + rank), name=f"layer {k}")
        works.append(dist.all_reduce(torch.zeros(1001 * (k + 1)), async_op=True))
    for work in reversed(works):
        work.wait()
    incast([0, 0.001, 0, 0.00013], range(n - 1, 0, -1))
    gathered = [None] * n
    dist.all_gather_object(gathered, {"rank": rank, "t": now()})
    return [g["t"] for g in gathered], now()


def test_twenty_runs_under_load_are_identical(ranks_of):
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in "ab"]
    try:
        runs = []
        for number in range(20):
            if number == 10:  # and in new processes
                trace = Trace()
                results = launch(everything, world_size=4, clock=CLOCK, trace=trace)
            else:
                ranks, trace = ranks_of(4, traced=True)
                results = ranks(everything)
            runs.append((results, list(trace.events)))
    finally:
        for process in load:
            process.kill()
            process.wait()
    assert runs[0][1], "no events"
    for number, run in enumerate(runs[1:], start=2):
        assert run == runs[0], f"run {number} differs from run 1"


def test_debug_mode_gives_the_same_times(ranks_of):
    """Torch then wraps its process groups in others that check the arguments."""
    plain = ranks_of(2)(everything)
    assert launch(everything, world_size=2, clock=CLOCK, debug=True) == plain


def accumulate(steps):
    for _ in range(steps):
        compute(0.1)
    return now()


def test_clocks_are_exact():
    # 0.1 + ... + 0.1 in floating point is 99.9999999999986.
    assert launch(accumulate, 1000, world_size=1, clock=CLOCK) == [100.0]


def charged():
    compute(flops=3e9)
    first = now()
    compute(seconds=torch.tensor(0.25))
    return first, now()


def test_compute(ranks_of):
    assert ranks_of(2)(charged) == [(0.0015, 0.2515)] * 2
    # Each call starts at 0.
    assert ranks_of(2)(charged) == [(0.0015, 0.2515)] * 2


def one_rank():
    x = torch.arange(4.0)
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    dist.barrier()
    y = torch.empty_like(x)
    dist.all_to_all_single(y, x)
    return y.tolist(), now()


def test_one_rank_communicates_for_free():
    assert launch(one_rank, world_size=1, clock=CLOCK) == [([0.0, 1.0, 2.0, 3.0], 0.0)]


# -------------------------------------------------- the same program, no clock


def test_without_a_clock_the_same_functions_run():
    assert compute(1.0) is None and compute(flops=1e9) is None
    before = now()
    assert now() >= before
    times = launch(buckets, 2, 0.001, 1000, True, world_size=2)
    assert all(t > 0 for t in times)


def stamps(rounds):
    """Ping-pong of wall-clock readings."""
    peer, out = 1 - dist.get_rank(), []
    x = torch.zeros(1)
    for _ in range(rounds):
        for sender in (0, 1):
            if dist.get_rank() == sender:
                out.append(now())
                dist.send(x, peer)
            else:
                dist.recv(x, peer)
                out.append(now())
    return out


@pytest.mark.parametrize("trace", [None, Trace()])
def test_wall_clocks_are_aligned(trace):
    """No message arrives before it was sent, in either direction."""
    zero, one = launch(stamps, 30, world_size=2, trace=trace)
    pairs = list(zip(zero, one, strict=True))
    order = [t for i, (a, b) in enumerate(pairs) for t in ((a, b), (b, a))[i % 2]]
    assert order == sorted(order)
    assert order[0] > 0


def test_no_time_is_before_zero():
    def program():
        # Rank 0's arrival is time 0. Play the launcher's part again, rank 0 late.
        virtual.uninstall()
        if dist.get_rank() == 0:
            time.sleep(0.2)
        virtual.install(None, False, dist.get_rank(), 2)
        return now()

    assert all(t >= 0 for t in launch(program))


def traced():
    with span("step"):
        x = torch.ones(1000)
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        if dist.get_rank() == 0:
            dist.send(x, 1)
        else:
            dist.recv(x, 0)
        dist.all_reduce(x, async_op=True).get_future().wait()
    return x[0].item()


def test_trace_of_the_wall_clock():
    trace = Trace()
    assert launch(traced, world_size=2, trace=trace) == [4.0, 4.0]
    for rank, name in ((0, "send to 1"), (1, "receive from 0")):
        mine = [e for e in trace.events if e.rank == rank]
        link = [e.name for e in mine if e.lane == "link"]
        assert link == ["all_reduce", name, "all_reduce"]
        (step,) = (e for e in mine if e.kind == "span")
        for e in mine:
            assert 0 <= step.start_s <= e.start_s <= e.end_s
        waits = [e.name for e in mine if e.kind == "wait"]
        assert waits == ["wait all_reduce", f"wait {name}"]


# ---------------------------------------------------------------------- refusals


def any_source():
    if dist.get_rank() == 0:
        dist.recv(torch.zeros(1))
    else:
        dist.send(torch.zeros(1), 0)


def poll():
    work = dist.all_reduce(torch.zeros(1), async_op=True)
    try:
        work.is_completed()
    finally:
        work.wait()


def send_in_flight():
    work = dist.all_reduce(torch.zeros(1), async_op=True)
    if dist.get_rank() == 0:
        dist.isend(torch.zeros(1), 1)
    work.wait()


def receive_in_flight():
    if dist.get_rank() == 0:
        dist.send(torch.zeros(1), 1)
        dist.all_reduce(torch.zeros(1))
    else:
        received = dist.irecv(torch.zeros(1), 0)
        dist.all_reduce(torch.zeros(1), async_op=True)
        received.wait()


def two_groups_in_flight():
    other = dist.new_group([0, 1])
    works = [dist.all_reduce(torch.zeros(1), async_op=True)]
    works += [dist.all_reduce(torch.zeros(1), group=other, async_op=True)]
    for work in works:
        work.wait()


def never_waited():
    dist.all_reduce(torch.zeros(1), async_op=True)


def uneven():
    dist.all_gather([torch.zeros(1), torch.zeros(2)], torch.zeros(dist.get_rank() + 1))


def coalesced():
    with dist._coalescing_manager():
        dist.all_reduce(torch.zeros(1))


def future_outside_backward():
    work = dist.all_reduce(torch.zeros(1), async_op=True)
    try:
        work.get_future()
    finally:
        work.wait()


def from_a_thread():
    errors = []

    def body():
        try:
            compute(1.0)
        except virtual.VirtualTimeError as error:
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    raise errors[0]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (any_source, "name the source"),
        (poll, r"under a virtual clock call wait\(\)"),
        (send_in_flight, "send to 1 while all_reduce of group '0' is in flight"),
        (receive_in_flight, "receive from 0 while all_reduce of group"),
        (two_groups_in_flight, "all_reduce while all_reduce of group '0' is in"),
        (never_waited, r"never waited for \(all_reduce\)"),
        (uneven, "all_gather of tensors of different sizes"),
        (coalesced, "coalesced collectives have no virtual time"),
        (future_outside_backward, "works in a communication hook"),
        (from_a_thread, "belongs to the thread that runs the launched function"),
    ],
)
def test_refuses_what_it_cannot_time(program, words):
    with pytest.raises(RankError, match=words):
        launch(program, clock=CLOCK, timeout_s=20)
    if program not in (any_source, from_a_thread, uneven):
        launch(program, timeout_s=20)  # an ordinary program without a clock


def test_names_collectives_in_different_order():
    """gloo would hang or crash; a library that does not is told what is wrong."""
    rank = virtual._Rank(CLOCK, False, 0, dist.HashStore())
    mine = virtual._Collective("0", 3, 2, "all_reduce")
    for member, op in enumerate(["all_reduce", "broadcast"]):
        rank.put(virtual._collective_key(mine, member), op, 8, Fraction(0))
    with pytest.raises(virtual.VirtualTimeError, match="all_reduce on this rank and b"):
        rank.place(mine)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Link(0, 1), ValueError, r"gbps .* greater than 0, got 0"),
        (lambda: Link("400", 1), ValueError, r"gbps .* finite number .*, got '400'"),
        (lambda: Link(400, -1), ValueError, r"us .* 0 or more, got -1"),
        (lambda: Link(float("nan"), 1), ValueError, "finite"),
        (lambda: Link(1, 1).time_s(-1), ValueError, "n_bytes must be"),
        (lambda: VirtualClock(link=1e9), TypeError, r"link must be a Link\(gbps, us\)"),
        (lambda: VirtualClock(LINK, flops=0), ValueError, "flops .* greater than 0"),
        (lambda: compute(), ValueError, "exactly one"),
        (lambda: compute(1, flops=1), ValueError, "exactly one"),
        (lambda: compute(-1), ValueError, "seconds must be a finite number 0 or more"),
        (lambda: compute(flops=float("inf")), ValueError, "flops must be a finite"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_compute_needs_to_know_the_speed():
    clock = VirtualClock(link=LINK)
    with pytest.raises(RankError, match="needs the speed of a rank: VirtualClock"):
        launch(charged, world_size=1, clock=clock)
    with pytest.raises((RankError, TypeError), match="clock must be a VirtualClock"):
        launch(charged, world_size=1, clock=1.5)


def test_link():
    assert LINK.bytes_per_s == 1e9 and LINK.latency_s == 1e-5
    assert LINK.time_s(5000) == 1.5e-5
    assert Link(400, 2.5).bytes_per_s == 5e10  # bits, not bytes


def test_everything_is_restored():
    """After a call torch.distributed is its old self, also after an error."""
    group_class = dist.ProcessGroup
    before = dict(vars(group_class))
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        virtual.install(clock=CLOCK, trace=True, rank=0, world_size=1)
        assert vars(group_class)["allreduce"] is not before["allreduce"]
        dist.all_reduce(torch.zeros(1))
        compute(0.5)
        assert now() == 0.5
        events = virtual.uninstall()
        assert [e.name for e in events] == ["all_reduce", "compute"]
        assert dict(vars(group_class)) == before
        virtual.install(clock=CLOCK, trace=True, rank=0, world_size=1)
        virtual.install(clock=None, trace=False, rank=0, world_size=1)
        assert dict(vars(group_class)) == before
        dist.barrier()
        assert virtual.uninstall() == [] == virtual.uninstall()
    finally:
        dist.destroy_process_group()
