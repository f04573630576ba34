"""Pipeline schedules: valid, equal to torch's, and as long as the formulas say."""

import itertools
import json
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from aiinfra import pipeline
from aiinfra.pipeline import Op, Overlap

# How long an example takes depends on what else the machine does.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# (name, stages, micro_batches, virtual), of every schedule and awkward sizes.
SHAPES = [
    ("gpipe", 1, 1, 1),
    ("gpipe", 4, 7, 1),
    ("1f1b", 1, 3, 1),
    ("1f1b", 5, 2, 1),
    ("1f1b", 4, 9, 1),
    ("interleaved", 1, 3, 2),
    ("interleaved", 3, 3, 2),
    ("interleaved", 4, 12, 3),
    ("zb-h1", 4, 2, 1),
    ("zb-h1", 4, 9, 1),
    ("zb-h2", 4, 5, 1),
    ("zb-h2", 4, 9, 1),
    ("dualpipe", 2, 4, 1),
    ("dualpipe", 6, 14, 1),
    ("dualpipe", 8, 20, 1),
]
SECONDS = st.integers(1, 12).map(Fraction)


@st.composite
def shapes(draw, names=pipeline.SCHEDULES):
    """A shape for which the schedule exists."""
    name = draw(st.sampled_from(names))
    stages, more = draw(st.integers(1, 6)), draw(st.integers(1, 12))
    if name == "interleaved":
        return name, stages, stages * (1 + more % 3), draw(st.integers(2, 4))
    if name == "dualpipe":
        return name, 2 * stages, 4 * stages + 2 * more, 1
    return name, stages, more, 1


def flat(plan):
    """The kinds and micro-batches of each rank, overlaps in order: F0 F1 B0 ..."""
    return [
        [f"{op.stage}{op.kind}{op.micro_batch}" for x in ops for op in both(x)]
        for ops in plan
    ]


def both(item):
    return tuple(item) if isinstance(item, Overlap) else (item,)


def idle_s(timeline):
    """The longest that a rank stands idle within the step."""
    return timeline.step_s - min(timeline.busy_s)


# ---------------------------------------------------------------- the schedules


def test_1f1b_by_hand():
    """Three ranks, four micro-batches: at most p - r forwards ahead."""
    assert flat(pipeline.schedule("1f1b", 3, 4)) == [
        ["0F0", "0F1", "0F2", "0B0", "0F3", "0B1", "0B2", "0B3"],
        ["1F0", "1F1", "1B0", "1F2", "1B1", "1F3", "1B2", "1B3"],
        ["2F0", "2B0", "2F1", "2B1", "2F2", "2B2", "2F3", "2B3"],
    ]


def test_dualpipe_by_hand():
    """Two ranks: micro-batches 0 and 1 enter at rank 0, 2 and 3 at rank 1."""
    first, second = pipeline.schedule("dualpipe", 2, 4)
    assert [str(item) for item in first] == [
        "F0 of stage 0",
        "F2 of stage 1",
        "F1 of stage 0",
        "B2 of stage 1",
        "F3 of stage 1 with B0 of stage 0",
        "B3 of stage 1",
        "I1 of stage 0",
        "W1 of stage 0",
    ]
    mirror = {0: 2, 1: 3, 2: 0, 3: 1}
    assert [
        [(op.kind, op.stage, mirror[op.micro_batch]) for op in both(item)]
        for item in second
    ] == [[(op.kind, op.stage, op.micro_batch) for op in both(item)] for item in first]


@pytest.mark.parametrize(("name", "p", "m", "v"), SHAPES)
def test_every_schedule_is_valid(name, p, m, v):
    plan = pipeline.schedule(name, p, m, v)
    assert len(plan) == p
    pipeline.validate(plan)


@patient
@given(shape=shapes())
def test_every_shape_is_valid(shape):
    pipeline.validate(pipeline.schedule(*shape))


TORCH = """\
import json, sys, torch, torch.distributed as dist
from torch.distributed.pipelining import (PipelineStage, Schedule1F1B, ScheduleGPipe,
    ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble)
from torch.testing._internal.distributed.fake_pg import FakeStore
out = []
for name, p, m, v in json.load(sys.stdin):
    dist.init_process_group("fake", rank=0, world_size=p, store=FakeStore())
    stages = [
        PipelineStage(torch.nn.Linear(2, 2), s, p * v, torch.device("cpu"))
        for s in range(0, p * v, p)]
    schedule = {
        "gpipe": lambda: ScheduleGPipe(stages[0], m),
        "1f1b": lambda: Schedule1F1B(stages[0], m),
        "interleaved": lambda: ScheduleInterleaved1F1B(stages, m),
        "zb-h1": lambda: ScheduleInterleavedZeroBubble(stages, m),
    }[name]()
    order = schedule.pipeline_order
    out.append([
        [str(a) for a in order[r] if a is not None and "REDUCE" not in str(a)]
        for r in range(p)])
    dist.destroy_process_group()
print(json.dumps(out))
"""


def test_torch_makes_the_same_schedules():
    """torch.distributed.pipelining plans without running: one fake process group.

    Its interleaved zero-bubble schedule with one stage per rank is ZB-H1.
    """
    cases = [
        ("gpipe", 3, 5, 1),
        ("1f1b", 2, 4, 1),
        ("1f1b", 4, 8, 1),
        ("interleaved", 2, 4, 2),
        ("interleaved", 4, 8, 2),
        ("interleaved", 4, 12, 3),
        ("zb-h1", 2, 6, 1),
        ("zb-h1", 4, 8, 1),
    ]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TORCH],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for case, theirs in zip(cases, json.loads(done.stdout), strict=True):
        ours = flat(pipeline.schedule(*case))
        if case[0] == "1f1b":
            # torch 2.13 numbers the last rank's forwards from 1 (it has no F0);
            # kinds and their order are what can be compared there.
            kinds = [[op[:2] for op in plan[-1]] for plan in (ours, theirs)]
            assert kinds[0] == kinds[1], case
            ours, theirs = ours[:-1], theirs[:-1]
        assert ours == theirs, case


# ------------------------------------------------- what the checker must reject


def swap(plan, rank, a, b):
    plan[rank][a], plan[rank][b] = plan[rank][b], plan[rank][a]


def change(plan, rank, place, **fields):
    plan[rank][place] = plan[rank][place]._replace(**fields)


BROKEN = {
    "an operation is lost": (lambda p: p[1].pop(3), "F2 of stage 1 is missing"),
    "a backward is lost": (lambda p: p[0].pop(), "B3 of stage 0 is missing"),
    "an operation runs twice": (
        lambda p: p[0].append(p[0][0]),
        "F0 of stage 0 is listed twice",
    ),
    "backward before forward": (
        lambda p: swap(p, 2, 0, 1),
        "B0 of stage 2 must come after F0 of stage 2 on its rank",
    ),
    "backward where no activations are": (
        lambda p: p[0].append(p[1].pop()),
        "B3 of stage 1 is on rank 0, but F3 of stage 1 left what it needs on rank 1",
    ),
    "backwards out of order between ranks": (
        lambda p: swap(p, 2, 0, 4) or swap(p, 2, 1, 5),
        "deadlocks: rank 0 has B0 of stage 0 next and waits for the input gradient of "
        "stage 1 for micro-batch 0",
    ),
    "no kind of operation": (
        lambda p: change(p, 0, 0, kind="G"),
        r"kinds F, B, I and W; got Op\(kind='G'",
    ),
    "a stage below 0": (lambda p: change(p, 0, 0, stage=-1), "stage must be a whole"),
    "counted from 1": (
        lambda p: [
            change(p, r, i, micro_batch=p[r][i].micro_batch + 1)
            for r in range(3)
            for i in range(8)
        ],
        "F0 of stage 0 is missing",
    ),
    "nothing": (lambda p: [ops.clear() for ops in p], "the schedule is empty"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_schedules_are_rejected(fault):
    damage, words = BROKEN[fault]
    plan = pipeline.schedule("1f1b", 3, 4)
    damage(plan)
    with pytest.raises(ValueError, match=words):
        pipeline.validate(plan)
    with pytest.raises(ValueError, match=words):
        pipeline.simulate(plan, 1, 2)


def test_split_backwards_must_be_complete():
    plan = pipeline.schedule("zb-h1", 3, 4)
    whole = [*plan[0], Op("B", 0, 3)]
    with pytest.raises(
        ValueError, match="B3 of stage 0 is listed whole and also split"
    ):
        pipeline.validate([whole, *plan[1:]])
    with pytest.raises(ValueError, match="W3 of stage 0 is missing"):
        pipeline.validate([plan[0][:-1], *plan[1:]])
    place = [str(op) for op in plan[0]].index("W0 of stage 0")
    early = [Op("W", 0, 0), *plan[0][:place], *plan[0][place + 1 :]]
    with pytest.raises(ValueError, match="W0 of stage 0 must come after I0 of stage 0"):
        pipeline.validate([early, *plan[1:]])


@patient
@given(shape=shapes(), data=st.data())
def test_two_swapped_operations_never_pass_unnoticed(shape, data):
    """Whatever validate() lets through does run, with every operation once."""
    plan = pipeline.schedule(*shape)
    rank = data.draw(st.integers(0, len(plan) - 1))
    a, b = (data.draw(st.integers(0, len(plan[rank]) - 1)) for _ in "ab")
    swap(plan, rank, a, b)
    try:
        pipeline.validate(plan)
    except ValueError:
        with pytest.raises(ValueError):
            pipeline.simulate(plan, 1, 2)
    else:
        assert len(pipeline.simulate(plan, 1, 2).runs) == sum(map(len, plan))


@patient
@given(shape=shapes())
def test_synchronous_messages(shape):
    """GPipe, 1F1B and ZB-H1 need no receive ahead; the others one, DualPipe more."""
    plan = pipeline.schedule(*shape)
    ahead = {"interleaved": 1, "zb-h2": 1, "dualpipe": 50}.get(shape[0], 0)
    pipeline.validate(plan, synchronous=True, receives_ahead=ahead)


@pytest.mark.parametrize(
    ("shape", "ahead"),
    [
        (("interleaved", 4, 8, 2), 0),
        (("zb-h2", 4, 8), 0),
        (("dualpipe", 2, 4), 0),
        (("dualpipe", 6, 14), 2),
    ],
)
def test_synchronous_messages_can_deadlock(shape, ahead):
    plan = pipeline.schedule(*shape)
    with pytest.raises(ValueError, match="deadlocks with synchronous messages: rank 0"):
        pipeline.validate(plan, synchronous=True, receives_ahead=ahead)
    pipeline.validate(plan, synchronous=True, receives_ahead=ahead + 1)


def test_two_ranks_that_both_send_first_deadlock():
    """Rank 1 wants F1 before it gives B0's gradient, rank 0 wants that before F1."""
    plan = [
        [Op("F", 0, 0), Op("B", 0, 0), Op("F", 0, 1), Op("B", 0, 1)],
        [Op("F", 1, 0), Op("F", 1, 1), Op("B", 1, 0), Op("B", 1, 1)],
    ]
    with pytest.raises(ValueError, match=r"rank 0 has B0 .*, rank 1 has F1"):
        pipeline.validate(plan)


# --------------------------------------------------------------- what it holds


@patient
@given(shape=shapes())
def test_in_flight_is_what_the_schedule_holds(shape):
    name, p, m, v = shape
    counted = pipeline.peak_activations(pipeline.schedule(*shape))
    assert counted == [pipeline.in_flight(name, p, r, m, v) for r in range(p)]


def test_in_flight_rejects_gpipes_count_for_1f1b():
    assert pipeline.in_flight("gpipe", 4, 0, 32) == 32
    assert [pipeline.in_flight("1f1b", 4, r, 32) for r in range(4)] == [4, 3, 2, 1]
    # Interleaving costs memory: 1 + (p-1)/(pv) of 1F1B's first rank (Korthikanti).
    chunks = pipeline.in_flight("interleaved", 4, 0, 32, 2)
    assert Fraction(chunks, 2 * 4) == 1 + Fraction(3, 4 * 2)


def test_part_of_an_activation_may_wait_for_its_weights():
    plan = pipeline.schedule("zb-h1", 4, 8)
    assert pipeline.peak_activations(plan) == [4, 4, 4, 4]
    # If I freed everything, ZB-H1 would hold what 1F1B holds.
    assert pipeline.peak_activations(plan, 0) == [4, 3, 2, 1]
    with pytest.raises(ValueError, match=r"kept_for_weights must be .* at most 1"):
        pipeline.peak_activations(plan, 2)
    half = pipeline.peak_activations(plan, Fraction(1, 2))
    assert half == [4, Fraction(7, 2), 3, Fraction(5, 2)]


# ------------------------------------------------- the simulator, step by step


def test_unequal_stages_by_hand():
    """Two micro-batches, stages of 1 s and 3 s, 0.5 s between them.

    Rank 0: F0 0-1, F1 1-2. Rank 1: F0 1.5-4.5, B0 4.5-10.5, F1, B1 to 19.5.
    """
    plan = pipeline.schedule("1f1b", 2, 2)
    timeline = pipeline.simulate(plan, [1, 3], [2, 6], transfer_s=0.5)
    assert [(str(r.op)[:2], r.start_s, r.end_s) for r in timeline.runs] == [
        ("F0", 0, 1),
        ("F1", 1, 2),
        ("B0", 11, 13),
        ("B1", 20, 22),
        ("F0", 1.5, 4.5),
        ("B0", 4.5, 10.5),
        ("F1", 10.5, 13.5),
        ("B1", 13.5, 19.5),
    ]
    assert timeline.makespan_s == timeline.step_s == 22
    assert timeline.busy_s == [6, 18]
    assert timeline.span_s == [22, 18]
    assert timeline.bubble_share == (2 * 22 - 24) / 44
    assert timeline.bubble_overhead == (2 * 22 - 24) / 24
    assert timeline.peak_activations == [2, 1]
    sent = [(t.rank, t.target, str(t.op)[:2], t.start_s) for t in timeline.transfers]
    assert sorted(sent) == [
        (0, 1, "F0", 1),
        (0, 1, "F1", 2),
        (1, 0, "B0", 10.5),
        (1, 0, "B1", 19.5),
    ]


def test_a_link_carries_one_message_at_a_time():
    """Forwards of 1 s, 2 s on the link: the third message waits for the second."""
    timeline = pipeline.simulate(pipeline.schedule("gpipe", 2, 3), 1, 1, transfer_s=2)
    there = [(t.start_s, t.end_s) for t in timeline.transfers if t.rank == 0]
    assert there == [(1, 3), (3, 5), (5, 7)]


def test_transfers_of_their_own_at_each_boundary():
    plan = pipeline.schedule("gpipe", 3, 1)
    timeline = pipeline.simulate(plan, 1, 1, transfer_s=[10, 100])
    assert timeline.makespan_s == 6 + 2 * 110
    # A whole model on one rank sends nothing.
    alone = pipeline.schedule("interleaved", 1, 2, 2)
    assert pipeline.simulate(alone, 1, 2, transfer_s=100).makespan_s == 2 * 2 * 3


def longest_path_s(plan, forward_s, backward_s, transfer_s):
    """The makespan found another way: relax every constraint until none moves."""
    home = {op[1:]: rank for rank, ops in enumerate(plan) for op in ops}
    last = max(stage for stage, _ in home)
    end = {op: Fraction(0) for ops in plan for op in ops}
    moved = True
    while moved:
        moved = False
        for rank, ops in enumerate(plan):
            for before, op in itertools.pairwise([None, *ops]):
                kind, stage, k = op
                from_stage = stage + (-1 if kind == "F" else 1)
                start = end[before] if before else Fraction(0)
                if 0 <= from_stage <= last:
                    far = home[from_stage, k] != rank
                    start = max(start, end[kind, from_stage, k] + far * transfer_s)
                took = forward_s[stage] if kind == "F" else backward_s[stage]
                if end[op] < start + took:
                    end[op], moved = start + took, True
    return max(end.values())


@settings(patient, max_examples=40)
@given(shape=shapes(("gpipe", "1f1b", "interleaved")), data=st.data())
def test_makespan_is_the_longest_path(shape, data):
    """Unequal stages, transfers short enough that links never queue."""
    plan = pipeline.schedule(*shape)
    stages = shape[1] * shape[3]
    times = st.lists(st.integers(2, 9).map(Fraction), min_size=stages, max_size=stages)
    forward_s, backward_s = data.draw(times), data.draw(times)
    transfer_s = data.draw(st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(2)]))
    timeline = pipeline.simulate(plan, forward_s, backward_s, transfer_s=transfer_s)
    assert timeline.makespan_s == longest_path_s(
        plan, forward_s, backward_s, transfer_s
    )


@patient
@given(shape=shapes(), data=st.data(), transfer_s=st.integers(0, 3))
def test_what_holds_for_every_timeline(shape, data, transfer_s):
    plan = pipeline.schedule(*shape)
    stages = shape[1] * shape[3]
    times = [
        data.draw(st.lists(SECONDS, min_size=stages, max_size=stages)) for _ in "FIW"
    ]
    timeline = pipeline.simulate(
        plan, times[0], input_s=times[1], weight_s=times[2], transfer_s=transfer_s
    )
    assert max(timeline.busy_s) <= max(timeline.span_s) == timeline.step_s
    assert timeline.step_s <= timeline.makespan_s
    assert 0 <= timeline.bubble_share < 1
    share, overhead = timeline.bubble_share, timeline.bubble_overhead
    assert share == overhead / (1 + overhead)
    for before, after in itertools.pairwise(timeline.runs):
        if before.rank == after.rank:
            assert before.end_s <= after.start_s
    slower = pipeline.simulate(
        plan, times[0], input_s=times[1], weight_s=times[2], transfer_s=transfer_s + 1
    )
    assert slower.makespan_s >= timeline.makespan_s


# ------------------------------------------------------------ the closed forms


@patient
@given(
    shape=shapes(("gpipe", "1f1b", "interleaved")),
    forward_s=SECONDS,
    backward_s=SECONDS,
)
def test_bubble_of_whole_backwards_is_exact(shape, forward_s, backward_s):
    times = dict(forward_s=forward_s, backward_s=backward_s)
    timeline = pipeline.simulate(pipeline.schedule(*shape), *times.values())
    assert timeline.makespan_s == timeline.step_s
    assert pipeline.step_s(*shape, **times) == timeline.step_s
    assert pipeline.bubble_s(*shape, **times) == idle_s(timeline)
    assert pipeline.bubble_share(*shape, **times) == timeline.bubble_share
    assert pipeline.bubble_overhead(*shape, **times) == timeline.bubble_overhead
    _, p, m, v = shape
    assert timeline.bubble_share == Fraction(p - 1, v * m + p - 1)
    assert timeline.bubble_overhead == Fraction(p - 1, v * m)


@patient
@given(
    shape=shapes(("zb-h1", "zb-h2")),
    forward_s=SECONDS,
    input_s=SECONDS,
    weight_s=SECONDS,
)
def test_bubble_of_split_backwards_is_exact(shape, forward_s, input_s, weight_s):
    name, p, m, _ = shape
    if name == "zb-h2":
        assume(input_s >= min(forward_s, weight_s))
    times = dict(forward_s=forward_s, input_s=input_s, weight_s=weight_s)
    timeline = pipeline.simulate(pipeline.schedule(*shape), **times)
    assert pipeline.bubble_s(*shape, **times) == idle_s(timeline)
    assert pipeline.bubble_share(*shape, **times) == timeline.bubble_share
    # As published, where there are micro-batches enough and W is no longer than F.
    w = weight_s * (1 if name == "zb-h1" else 2)
    if weight_s <= forward_s and m >= (p if name == "zb-h1" else 2 * p - 1):
        assert idle_s(timeline) == (p - 1) * (forward_s + input_s - w)


@patient
@given(
    half=st.integers(1, 5),
    more=st.integers(0, 6),
    forward_s=SECONDS,
    weight_s=SECONDS,
    gain=st.fractions(0, 1),
)
def test_bubble_of_dualpipe_is_exact(half, more, forward_s, weight_s, gain):
    """(p/2 - 1)(F&B + B - 3W), for I = F >= W and an overlap of B to F + B."""
    assume(weight_s <= forward_s)
    p, m = 2 * half, 4 * half + 2 * more
    backward_s = forward_s + weight_s
    overlap_s = backward_s + gain * forward_s
    times = dict(
        forward_s=forward_s, input_s=forward_s, weight_s=weight_s, overlap_s=overlap_s
    )
    timeline = pipeline.simulate(pipeline.schedule("dualpipe", p, m), **times)
    published_s = (half - 1) * (overlap_s + backward_s - 3 * weight_s)
    assert pipeline.bubble_s("dualpipe", p, m, **times) == published_s
    assert idle_s(timeline) == published_s
    assert pipeline.step_s("dualpipe", p, m, **times) == timeline.step_s
    assert timeline.makespan_s == timeline.step_s


def test_zb_h2_has_no_bubble_but_a_longer_makespan():
    """Its ranks end one after another, so a step that ends with a barrier idles."""
    timeline = pipeline.simulate(
        pipeline.schedule("zb-h2", 4, 8), 1, input_s=1, weight_s=1
    )
    assert timeline.bubble_share == 0 and timeline.step_s == 3 * 8
    assert timeline.makespan_s == 3 * 8 + 3


@pytest.mark.parametrize(
    ("mistake", "wrong"),
    [
        (
            "GPipe's formula divided by v",
            lambda p, m, v: Fraction(p - 1, m + p - 1) / v,
        ),
        ("the overhead for the share", lambda p, m, v: Fraction(p - 1, v * m)),
        ("m virtual micro-batches", lambda p, m, v: Fraction(p - 1, m + v * (p - 1))),
        ("p instead of p - 1", lambda p, m, v: Fraction(p, v * m + p)),
    ],
)
def test_plausible_mistakes_differ(mistake, wrong):
    shape = ("interleaved", 4, 8, 3)
    timeline = pipeline.simulate(pipeline.schedule(*shape), Fraction(1), Fraction(2))
    assert timeline.bubble_share == Fraction(3, 27)
    assert wrong(*shape[1:]) != timeline.bubble_share, mistake


@patient
@given(shape=shapes(), forward_s=SECONDS, input_s=SECONDS, weight_s=SECONDS)
def test_share_and_overhead(shape, forward_s, input_s, weight_s):
    times = dict(forward_s=forward_s, input_s=input_s, weight_s=weight_s)
    share = pipeline.bubble_share(*shape, **times)
    overhead = pipeline.bubble_overhead(*shape, **times)
    assert 0 <= share < 1
    assert share == overhead / (1 + overhead)


def test_arrays_give_what_scalars_give():
    p, m = np.array([2, 4, 8]), np.array([16, 16, 32])
    for name in pipeline.SCHEDULES:
        v = 2 if name == "interleaved" else 1
        for function in (
            pipeline.bubble_s,
            pipeline.step_s,
            pipeline.bubble_share,
            pipeline.bubble_overhead,
        ):
            times = dict(forward_s=1.5, input_s=2.0, weight_s=0.5)
            swept = function(name, p, m, v, **times)
            each = [
                function(name, int(a), int(b), v, **times)
                for a, b in zip(p, m, strict=True)
            ]
            assert swept.tolist() == each, (name, function)


def test_default_times():
    """A backward of twice a forward, halved where it is split."""
    assert pipeline.bubble_s("1f1b", 4, 8) == 3 * 3
    assert pipeline.bubble_s("zb-h1", 4, 8) == 3 * (1 + 1 - 1)
    times = dict(forward_s=Fraction(1), backward_s=Fraction(3))
    assert pipeline.bubble_s("zb-h1", 4, 8, **times) == Fraction(9, 2)
    timeline = pipeline.simulate(pipeline.schedule("zb-h1", 4, 8), Fraction(1), 3)
    assert timeline.step_s - timeline.busy_s[0] == 4.5


# ------------------------------------------------------------------- drawing


def test_events_for_the_moving_figure():
    from aiinfra.figures import timeline as figure

    frames = [
        pipeline.simulate(pipeline.schedule(name, 4, 8), 1e-3, 2e-3).events()
        for name in ("1f1b", "zb-h1", "dualpipe")
    ]
    assert frames[0][0] == (0, "compute", "F0", 0.0, 1e-3, "forward")
    assert {e[5] for e in frames[1]} == {"forward", "backward", "weights"}
    drawn = figure(
        frames,
        labels=["1F1B", "ZB-H1", "DualPipe"],
        alt="Three schedules, each denser.",
    )
    assert "backward" in drawn._repr_mimebundle_()[0]["text/html"]


def test_trace_counts_the_bubble_as_waiting():
    plan = pipeline.schedule("1f1b", 4, 8)
    timeline = pipeline.simulate(plan, 1e-3, 2e-3, transfer_s=1e-4)
    trace = timeline.trace()
    assert trace.total_s == pytest.approx(timeline.makespan_s)
    for rank in range(4):
        assert trace.compute_s(rank) == pytest.approx(timeline.busy_s[rank])
        inside = timeline.span_s[rank] - timeline.busy_s[rank]
        assert trace.exposed_comm_s(rank) == pytest.approx(inside)
    assert sum(e.kind == "comm" for e in trace.events) == len(timeline.transfers)


def test_the_drawing(capsys):
    from aiinfra import plot

    shapes_drawn = [("1f1b", 3, 4, 1), ("interleaved", 2, 4, 2), ("dualpipe", 4, 8, 1)]
    for shape in shapes_drawn:
        timeline = pipeline.simulate(
            pipeline.schedule(*shape), 1, input_s=1, weight_s=1
        )
        fig, ax = timeline._draw("title")
        count = sum(len(both(run.op)) for run in timeline.runs)
        legend = [text.get_text() for text in ax.get_legend().get_texts()]
        assert len(ax.patches) == count + len(legend)
        assert "rank 1" in plot.to_svg(fig, "alt")
        assert ("lighter: every other stage" in legend) == (shape[0] == "interleaved")
    timeline = pipeline.simulate(pipeline.schedule("1f1b", 3, 4), 1, 2)
    timeline.plot()
    assert "3 ranks: 18 s in all, of which 33.3 % idle" in capsys.readouterr().out


# ----------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("1F1B", 4, 8), "schedule must be one of gpipe, 1f1b, .*; got '1F1B'"),
        (("1f1b", 0, 8), "stages must be a whole number, 1 or more, got 0"),
        (("1f1b", 4.5, 8), "stages must be a whole number, 1 or more, got 4.5"),
        (("1f1b", True, 8), "stages must be a whole number"),
        (("1f1b", 4, -1), "micro_batches must be a whole number, 1 or more, got -1"),
        (("1f1b", 4, math.nan), "micro_batches must be a whole number"),
        (("1f1b", 10**9, 8), "stages must be at most 1,000,000"),
        (("1f1b", 4, 8, 2), "virtual must be 1 in 1f1b, got .*virtual=2"),
        (("interleaved", 4, 8, 1), "virtual must be a whole number, 2 or more, got 1"),
        (("interleaved", 4, 6, 2), "micro_batches must be a multiple of stages"),
        (("dualpipe", 3, 8), "stages must be even in dualpipe"),
        (("dualpipe", 4, 9), "micro_batches must be even and at least 2"),
        (("dualpipe", 4, 6), "micro_batches must be even and at least 2"),
    ],
)
def test_bad_shapes(args, words):
    for function in (pipeline.schedule, pipeline.bubble_share, pipeline.step_s):
        with pytest.raises(ValueError, match=words):
            function(*args)


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (
            dict(forward_s=-1, backward_s=2),
            "forward_s must be a finite number 0 or more",
        ),
        (dict(forward_s=1, backward_s=math.nan), "backward_s must be a finite number"),
        (dict(forward_s="1", backward_s=2), "forward_s"),
        (dict(forward_s=1, input_s=1), "input_s and weight_s together"),
        (dict(forward_s=1, backward_s=2, overlap_s=-1), "overlap_s must be a finite"),
    ],
)
def test_bad_times(times, words):
    with pytest.raises(ValueError, match=words):
        pipeline.simulate(pipeline.schedule("1f1b", 2, 4), **times)
    with pytest.raises(ValueError, match=words):
        pipeline.bubble_s("1f1b", 2, 4, **times)


def test_bad_times_of_the_simulator():
    plan = pipeline.schedule("1f1b", 2, 4)
    with pytest.raises(ValueError, match="give backward_s, or input_s and weight_s"):
        pipeline.simulate(plan, 1)
    with pytest.raises(ValueError, match="one for each of the 2 stages, got 3"):
        pipeline.simulate(plan, [1, 2, 3], 2)
    with pytest.raises(ValueError, match=r"forward_s\[1\] must be a finite number"):
        pipeline.simulate(plan, [1, math.inf], 2)
    with pytest.raises(ValueError, match="each of the 1 pairs of stages, got 2"):
        pipeline.simulate(plan, 1, 2, transfer_s=[1, 1])
    with pytest.raises(ValueError, match="add up to 0: there is no step"):
        pipeline.bubble_share("1f1b", 2, 4, forward_s=0, backward_s=0)
    with pytest.raises(ValueError, match="stage must be from 0 to 3, got 4"):
        pipeline.in_flight("1f1b", 4, 4, 8)
