"""Pipeline schedules as data: made, checked, simulated, and priced in closed form.

A schedule is a list with one entry per rank: the operations of that rank, in the
order in which it runs them. An operation is an :class:`Op`, or an :class:`Overlap`
of a forward and a backward that run at the same time (DualPipe). Kinds:

    F  forward of one micro-batch through one stage
    B  its whole backward
    I  only the gradient with respect to the stage's input (Qi et al. call it B)
    W  only the gradient with respect to the stage's weights, any time after its I

A *stage* is a run of layers; p is the number of ranks ("stages" in the arguments), m
the number of micro-batches. Interleaved schedules cut the model into p*v stages and
rank r holds the stages r, r+p, r+2p, ... DualPipe keeps two copies of p stages: rank
r holds stage r for micro-batches that enter at rank 0 and stage p-1-r for those that
enter at rank p-1.

Two numbers are called "the bubble" and differ: the *share* is idle time over the
time of the step, as GPipe counts it; the *overhead* is idle time over busy time, as
Narayanan et al. count it. share = overhead / (1 + overhead).

Everything computes with the numbers it is given: ``fractions.Fraction`` times give
exact results.

Sources: Huang et al. 2019 (GPipe); Narayanan et al. 2021, arXiv:2104.04473 (1F1B as
it is used now, interleaving); Qi et al. 2024, arXiv:2401.10241 (ZB-H1, ZB-H2);
DeepSeek-AI 2024, arXiv:2412.19437, and the README of deepseek-ai/DualPipe.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aiinfra._numbers import least, most, number, one_of, whole

if TYPE_CHECKING:
    from aiinfra.trace import Trace

__all__ = [
    "SCHEDULES",
    "Op",
    "Overlap",
    "Run",
    "Timeline",
    "Transfer",
    "bubble_overhead",
    "bubble_s",
    "bubble_share",
    "in_flight",
    "peak_activations",
    "schedule",
    "simulate",
    "step_s",
    "validate",
]

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "dualpipe")


class Op(NamedTuple):
    """One operation: ``kind`` is "F", "B", "I" or "W"; stages count from 0."""

    kind: str
    stage: int
    micro_batch: int

    def __str__(self) -> str:
        return f"{self.kind}{self.micro_batch} of stage {self.stage}"


class Overlap(NamedTuple):
    """A forward and a backward of two micro-batches, run at the same time."""

    forward: Op
    backward: Op

    def __str__(self) -> str:
        return f"{self.forward} with {self.backward}"


Schedule = Sequence[Sequence[Op | Overlap]]


_MOST = 10**6  # ranks, micro-batches or stages per rank


def _check_shape(name: str, stages: Any, micro_batches: Any, virtual: Any) -> None:
    """Raise unless the schedule exists for this shape (arrays: everywhere)."""
    one_of("schedule", name, SCHEDULES)
    whole("stages", stages, high=_MOST)
    whole("micro_batches", micro_batches, high=_MOST)
    whole("virtual", virtual, low=2 if name == "interleaved" else 1, high=_MOST)

    def refuse(bad: Any, rule: str) -> None:
        if np.any(bad):
            raise ValueError(
                f"{rule}, got stages={stages!r}, micro_batches={micro_batches!r}, "
                f"virtual={virtual!r}"
            )

    if name == "interleaved":
        refuse(
            np.mod(micro_batches, stages) != 0,
            "micro_batches must be a multiple of stages in interleaved",
        )
    else:
        refuse(np.not_equal(virtual, 1), f"virtual must be 1 in {name}")
    if name == "dualpipe":
        refuse(np.mod(stages, 2) != 0, "stages must be even in dualpipe")
        refuse(
            (np.mod(micro_batches, 2) != 0) | np.less(micro_batches, 2 * stages),
            "micro_batches must be even and at least 2 * stages in dualpipe",
        )


def schedule(
    name: str, stages: int, micro_batches: int, virtual: int = 1
) -> list[list[Op | Overlap]]:
    """The operations of every rank, in order.

    Args:
        name: one of :data:`SCHEDULES`.
        stages: p, the number of ranks in the pipeline; even in "dualpipe".
        micro_batches: m; a multiple of p in "interleaved", even and at least 2p in
            "dualpipe" (half of them enter at each end).
        virtual: v, the stages each rank holds; at least 2 in "interleaved", else 1.

    Raises:
        ValueError: naming the argument, its value and what is allowed.
    """
    _check_shape(name, stages, micro_batches, virtual)
    make = _MAKERS[name]
    return [list(make(rank, stages, micro_batches, virtual)) for rank in range(stages)]


def _gpipe(rank: int, p: int, m: int, v: int) -> Iterator[Op]:
    """All forwards, then all backwards."""
    for k in range(m):
        yield Op("F", rank, k)
    for k in range(m):
        yield Op("B", rank, k)


def _one_f_one_b(rank: int, p: int, m: int, v: int) -> Iterator[Op]:
    """p-1-r forwards to fill the stages behind, then a backward per forward."""
    warm_up = min(p - 1 - rank, m)
    for k in range(warm_up):
        yield Op("F", rank, k)
    for k in range(m):
        if warm_up + k < m:
            yield Op("F", rank, warm_up + k)
        yield Op("B", rank, k)


def _interleaved_warm_up(rank: int, p: int, m: int, v: int) -> int:
    """Forwards of single stages before the first backward's own (Megatron-LM)."""
    return min(2 * (p - 1 - rank) + (v - 1) * p, m * v)


def _interleaved(rank: int, p: int, m: int, v: int) -> Iterator[Op]:
    """Megatron-LM's order: p micro-batches through a chunk, then the next chunk."""

    def forward(k: int) -> Op:
        chunk, within = k % (p * v) // p, k % p
        return Op("F", chunk * p + rank, k // (p * v) * p + within)

    def backward(k: int) -> Op:
        _, stage, micro_batch = forward(k)
        return Op("B", (v - 1) * p + 2 * rank - stage, micro_batch)  # chunks reversed

    warm_up, total = _interleaved_warm_up(rank, p, m, v), m * v
    for k in range(warm_up):
        yield forward(k)
    for k in range(total):
        if warm_up + k < total:
            yield forward(warm_up + k)
        yield backward(k)


def _zero_bubble(rank: int, m: int, warm_up: int, late: int) -> Iterator[Op]:
    """1F1B with split backwards; each W runs ``late`` micro-batches after its I."""
    for k in range(min(warm_up, m)):
        yield Op("F", rank, k)
    for k in range(m):
        if warm_up + k < m:
            yield Op("F", rank, warm_up + k)
        yield Op("I", rank, k)
        if k >= late:
            yield Op("W", rank, k - late)
    for k in range(max(m - late, 0), m):
        yield Op("W", rank, k)


def _zb_h1(rank: int, p: int, m: int, v: int) -> Iterator[Op]:
    """As many activations as 1F1B's first rank, on every rank."""
    return _zero_bubble(rank, m, warm_up=p - 1 - rank, late=rank)


def _zb_h2(rank: int, p: int, m: int, v: int) -> Iterator[Op]:
    """Twice the warm-up fills the wait for the first backward, too."""
    return _zero_bubble(rank, m, warm_up=2 * (p - 1 - rank), late=2 * rank)


def _dualpipe(rank: int, p: int, m: int, v: int) -> Iterator[Op | Overlap]:
    """DeepSeek's eight steps; both halves of the ranks mirror each other."""
    half = p // 2
    depth = min(rank, p - 1 - rank)  # 0 at both ends, half - 1 in the middle
    inner = half - 1 - depth
    mirrored = rank >= half
    forwards, backwards = [0, 0], [0, 0]
    late: deque[Op] = deque()  # input gradients whose weight gradients are to come

    def op(kind: str, side: int, counts: list[int]) -> Op:
        # Side 0 is the direction whose entry is nearer to this rank.
        direction = side ^ mirrored
        stage = p - 1 - rank if direction else rank
        counts[side] += 1
        return Op(kind, stage, direction * (m // 2) + counts[side] - 1)

    def forward(side: int) -> Op:
        return op("F", side, forwards)

    def backward(side: int) -> Op:
        return op("B", side, backwards)

    def input_only(side: int) -> Op:
        late.append(op("I", side, backwards))
        return late[-1]

    def weights() -> Op:
        return late.popleft()._replace(kind="W")

    for _ in range(2 * inner):
        yield forward(0)
    for _ in range(depth + 1):
        yield forward(0)
        yield forward(1)
    for _ in range(inner):
        yield input_only(1)
        yield weights()
        yield forward(1)
    for k in range(m // 2 - p + depth + 1):
        if k == 0 and inner == 0:  # the two middle ranks gain nothing from overlap
            yield forward(0)
            yield backward(1)
        else:
            yield Overlap(forward(0), backward(1))
        yield Overlap(forward(1), backward(0))
    for _ in range(inner):
        yield backward(1)
        yield Overlap(forward(1), backward(0))
    for k in range(2 * (depth + 1)):  # the second half leaves its weights for later
        yield (input_only if k > depth else backward)(1 - k % 2)
    for _ in range(inner):
        yield weights()
        yield input_only(0)
    while late:
        yield weights()


_MAKERS: dict[str, Callable[[int, int, int, int], Iterator[Op | Overlap]]] = {
    "gpipe": _gpipe,
    "1f1b": _one_f_one_b,
    "interleaved": _interleaved,
    "zb-h1": _zb_h1,
    "zb-h2": _zb_h2,
    "dualpipe": _dualpipe,
}


def in_flight(
    name: str, stages: int, stage: int, micro_batches: int, virtual: int = 1
) -> int:
    """The most activations that rank ``stage`` holds at once.

    Counted in (micro-batch, stage) pairs from the forward to the end of the backward
    (of W, where it is apart): one is what one micro-batch leaves behind on one stage.
    A stage of an interleaved schedule has 1/v of the rank's layers.

    ========== ===========================================================
    gpipe      m
    1f1b       min(p - r, m)
    interleaved min(2(p - 1 - r) + (v - 1)p + 1, mv)
    zb-h1      min(p, m) on every rank
    zb-h2      min(2p - 1, m) on every rank
    dualpipe   p + 1 on every rank
    ========== ===========================================================

    Raises:
        ValueError: as :func:`schedule`, and for a ``stage`` outside 0 ... p-1.
    """
    _check_shape(name, stages, micro_batches, virtual)
    whole("stage", stage, low=0)
    if stage >= stages:
        raise ValueError(f"stage must be from 0 to {stages - 1}, got {stage}")
    p, m = stages, micro_batches
    if name == "gpipe":
        return m
    if name == "1f1b":
        return min(p - stage, m)
    if name == "interleaved":
        return min(_interleaved_warm_up(stage, p, m, virtual) + 1, m * virtual)
    if name == "dualpipe":
        return p + 1
    return min(p if name == "zb-h1" else 2 * p - 1, m)


def _ops(item: Op | Overlap) -> tuple[Op, ...]:
    return item if type(item) is Overlap else (item,)


def peak_activations(plan: Schedule, kept_for_weights: Real = 1) -> list[Real]:
    """The most activations each rank holds at once, counted as by :func:`in_flight`.

    ``kept_for_weights`` is the part of an activation, 0 to 1, that stays in memory
    between a split backward's I and its W; 1 is the upper bound, Qi et al. report
    less.
    """
    kept = number("kept_for_weights", kept_for_weights, high=1)
    change = {"F": 1, "B": -1, "I": kept - 1, "W": -kept}
    peaks = []
    for ops in plan:
        held = peak = 0
        for item in ops:
            for op in _ops(item):
                held += change[op[0]]
                if held > peak:
                    peak = held
        peaks.append(peak)
    return peaks


def _check_complete(plan: Schedule) -> int:
    """Raise unless each operation is listed once, on one rank, after what it needs.

    Returns the number of stages, those of all ranks together.
    """
    where: dict[Op, tuple[int, int]] = {}  # to rank and place
    for rank, ops in enumerate(plan):
        for place, item in enumerate(ops):
            for op in _ops(item):
                if not isinstance(op, Op) or op.kind not in ("F", "B", "I", "W"):
                    raise ValueError(
                        f"rank {rank} must list Op or Overlap, with kinds F, B, I and "
                        f"W; got {op!r}"
                    )
                for name, value in zip(op._fields[1:], op[1:], strict=True):
                    if type(value) is not int or value < 0:  # whole() takes its time
                        whole(name, value, low=0)
                if op in where:
                    raise ValueError(f"{op} is listed twice")
                where[op] = (rank, place)
    if not where:
        raise ValueError("the schedule is empty: no rank has an operation")
    stages = 1 + max(op.stage for op in where)
    micro_batches = 1 + max(op.micro_batch for op in where)
    for stage in range(stages):
        for k in range(micro_batches):
            # Plain tuples find their Op, and are made in a fraction of its time.
            f, b, i, w = (
                ("F", stage, k),
                ("B", stage, k),
                ("I", stage, k),
                ("W", stage, k),
            )
            if f not in where:
                raise ValueError(f"{Op(*f)} is missing")
            if b in where:
                if i in where or w in where:
                    raise ValueError(
                        f"{Op(*b)} is listed whole and also split into I and W"
                    )
                order = (f, b)
            elif i in where and w in where:
                order = (f, i, w)
            else:
                lacking = w if i in where else i if w in where else b
                raise ValueError(f"{Op(*lacking)} is missing")
            for first, then in itertools.pairwise(order):
                (rank, place), (its_rank, its_place) = where[first], where[then]
                if rank != its_rank:
                    raise ValueError(
                        f"{Op(*then)} is on rank {its_rank}, but {Op(*first)} left "
                        f"what it needs on rank {rank}"
                    )
                if place >= its_place:
                    raise ValueError(
                        f"{Op(*then)} must come after {Op(*first)} on its rank"
                    )
    return stages


# What one stage sends another: its output ("F") or the gradient of its input ("G"),
# with the number of the stage that sends and of the micro-batch.
_Message = tuple[str, int, int]


def _named(message: _Message) -> str:
    kind, stage, micro_batch = message
    what = "output" if kind == "F" else "input gradient"
    return f"the {what} of stage {stage} for micro-batch {micro_batch}"


def _needs(op: Op, stages: int) -> _Message | None:
    kind, stage, micro_batch = op
    if kind == "F":
        return ("F", stage - 1, micro_batch) if stage else None
    if kind == "W" or stage == stages - 1:
        return None
    return "G", stage + 1, micro_batch


def _gives(op: Op, stages: int) -> tuple[_Message, int] | None:
    """The message that ``op`` makes, and the stage it is for."""
    kind, stage, micro_batch = op
    if kind == "F":
        return (op, stage + 1) if stage < stages - 1 else None
    if kind == "W" or not stage:
        return None
    return ("G", stage, micro_batch), stage - 1


def _homes(plan: Schedule) -> dict[tuple[int, int], int]:
    """The rank on which a stage runs for a micro-batch."""
    return {
        op[1:]: rank
        for rank, ops in enumerate(plan)
        for item in ops
        for op in _ops(item)
        if op[0] == "F"
    }


class Run(NamedTuple):
    """``rank`` ran ``op`` from ``start_s`` to ``end_s``."""

    rank: int
    op: Op | Overlap
    start_s: Real
    end_s: Real


class Transfer(NamedTuple):
    """The result of ``op`` was on the link from ``rank`` to ``target``."""

    rank: int
    target: int
    op: Op
    start_s: Real
    end_s: Real


def _play(
    plan: Schedule,
    stages: int,
    seconds: Callable[[Op | Overlap], Real],
    transfer_s: Sequence[Real],
) -> tuple[list[Run], list[Transfer]]:
    """Run every rank's list as soon as its inputs are there; ValueError on deadlock."""
    home = _homes(plan)
    ready_s: dict[_Message, Real] = {}
    waiting: dict[_Message, int] = {}  # message -> the rank that waits for it
    place = [0] * len(plan)
    rank_free_s: list[Real] = [0] * len(plan)
    link_free_s: dict[tuple[int, int], Real] = {}
    runs: list[list[Run]] = [[] for _ in plan]
    transfers: list[Transfer] = []
    awake = deque(range(len(plan)))
    while awake:
        rank = awake.popleft()
        ops = plan[rank]
        while place[rank] < len(ops):
            item = ops[place[rank]]
            start_s = rank_free_s[rank]
            missing = None
            for op in _ops(item):
                needed = _needs(op, stages)
                if needed is None:
                    continue
                if needed not in ready_s:
                    missing = needed
                    break
                if ready_s[needed] > start_s:
                    start_s = ready_s[needed]
            if missing is not None:
                waiting[missing] = rank
                break
            end_s = start_s + seconds(item)
            runs[rank].append(Run(rank, item, start_s, end_s))
            rank_free_s[rank] = end_s
            place[rank] += 1
            for op in _ops(item):
                given = _gives(op, stages)
                if given is None:
                    continue
                message, to_stage = given
                target = home[to_stage, op[2]]
                ready_s[message] = end_s
                if target != rank:
                    link = (rank, target)
                    sent_s = max(end_s, link_free_s.get(link, 0))
                    here_s = sent_s + transfer_s[min(op[1], to_stage)]
                    link_free_s[link] = ready_s[message] = here_s
                    transfers.append(Transfer(rank, target, op, sent_s, here_s))
                if message in waiting:
                    awake.append(waiting.pop(message))
    if waiting:
        stuck = ", ".join(
            f"rank {rank} has {plan[rank][place[rank]]} next and waits for "
            f"{_named(message)}"
            for message, rank in sorted(waiting.items(), key=lambda pair: pair[1])
        )
        raise ValueError(f"the schedule deadlocks: {stuck}")
    return [run for each in runs for run in each], transfers


def validate(
    plan: Schedule, *, synchronous: bool = False, receives_ahead: int = 0
) -> None:
    """Raise a ValueError that says what is wrong, unless ``plan`` can be run.

    Every (stage, micro-batch) must have one F and either one B or one I and one W,
    all on one rank, each after what it needs; and no ranks may wait for one another
    in a circle, when a message waits at its receiver until it is wanted.

    With ``synchronous`` messages don't wait: a send ends when its receive is posted.
    Between two operations a rank posts the sends of the one and the receives of the
    next together, as batched isend and irecv do, and goes on when they are done. It
    may post receives early, for the ``receives_ahead`` operations after the next:
    GPipe, 1F1B and ZB-H1 need 0, the others more.
    """
    whole("receives_ahead", receives_ahead, low=0)
    stages = _check_complete(plan)
    _play(plan, stages, lambda item: 0, [0] * stages)
    if synchronous:
        _meet(plan, stages, receives_ahead)


def _meet(plan: Schedule, stages: int, ahead: int) -> None:
    """Raise unless the ranks get through when every send must meet its receive."""
    home = _homes(plan)
    # What each rank receives before its operations, and sends after them.
    receives: list[list[list[_Message]]] = []
    sends: list[list[list[_Message]]] = []
    for rank, ops in enumerate(plan):
        receives.append([])
        sends.append([[]])  # nothing before the first operation
        for item in ops:
            needed = [_needs(op, stages) for op in _ops(item)]
            given = [_gives(op, stages) for op in _ops(item)]
            receives[rank].append([m for m in needed if m and home[m[1:]] != rank])
            sends[rank].append(
                [g[0] for g in given if g and home[g[1], g[0][2]] != rank]
            )
    posted: dict[_Message, int] = {}  # message -> the rank whose side came first
    met: set[_Message] = set()
    place, posted_up_to = [0] * len(plan), [0] * len(plan)
    arrived = [False] * len(plan)  # has the rank posted what it posts at its place?
    awake = deque(range(len(plan)))
    while awake:
        rank = awake.popleft()
        while place[rank] <= len(plan[rank]):
            here = place[rank]
            if not arrived[rank]:
                now = list(sends[rank][here])
                while posted_up_to[rank] < min(here + ahead + 1, len(plan[rank])):
                    now += receives[rank][posted_up_to[rank]]
                    posted_up_to[rank] += 1
                for message in now:
                    if message in posted:
                        met.add(message)
                        awake.append(posted.pop(message))
                    else:
                        posted[message] = rank
                arrived[rank] = True
            wanted = receives[rank][here] if here < len(plan[rank]) else []
            if not met.issuperset(sends[rank][here]) or not met.issuperset(wanted):
                break
            place[rank], arrived[rank] = here + 1, False
    if posted:
        stuck = ", ".join(
            f"rank {rank} waits to exchange {_named(message)}"
            for message, rank in sorted(posted.items(), key=lambda pair: pair[1])
        )
        raise ValueError(f"the schedule deadlocks with synchronous messages: {stuck}")


def _per(name: str, value: Real | Sequence[Real], count: int, what: str) -> list[Real]:
    """``value`` for each of ``count`` stages or boundaries."""
    if isinstance(value, Real):
        number(name, value)
        return [value] * count
    values = list(value)
    if len(values) != count:
        raise ValueError(
            f"{name} must be one number or one for each of the {count} {what}, "
            f"got {len(values)}"
        )
    for i, each in enumerate(values):
        number(f"{name}[{i}]", each)
    return values


def simulate(
    plan: Schedule,
    forward_s: Real | Sequence[Real],
    backward_s: Real | Sequence[Real] | None = None,
    *,
    input_s: Real | Sequence[Real] | None = None,
    weight_s: Real | Sequence[Real] | None = None,
    transfer_s: Real | Sequence[Real] = 0,
    overlap_s: Real | None = None,
) -> Timeline:
    """Play a schedule: every rank runs its list, each operation as soon as it can.

    Args:
        plan: from :func:`schedule`, or your own.
        forward_s: seconds of a forward; one number, or one for each stage.
        backward_s: seconds of a whole backward; if None, input_s + weight_s.
        input_s, weight_s: seconds of the two halves of a split backward; half of
            backward_s each if both are None.
        transfer_s: seconds from the end of an operation until its result is on
            another rank; one number, or one for each pair of neighbouring stages
            (s, s+1). Ranks compute meanwhile. A link carries one message each way at
            a time.
        overlap_s: seconds of an :class:`Overlap`; if None, those of its two
            operations added up: nothing gained.

    Raises:
        ValueError: for a schedule that can't run, or times that make no sense.
    """
    stages = _check_complete(plan)
    if (input_s is None) != (weight_s is None):
        raise ValueError("give input_s and weight_s together, or neither")
    if backward_s is None and input_s is None:
        raise ValueError("give backward_s, or input_s and weight_s")
    each = {"F": _per("forward_s", forward_s, stages, "stages")}
    if backward_s is not None:
        each["B"] = _per("backward_s", backward_s, stages, "stages")
    if input_s is None:
        each["I"] = each["W"] = [whole / 2 for whole in each["B"]]
    else:
        each["I"] = _per("input_s", input_s, stages, "stages")
        each["W"] = _per("weight_s", weight_s, stages, "stages")
    if backward_s is None:
        each["B"] = [i + w for i, w in zip(each["I"], each["W"], strict=True)]
    between = _per("transfer_s", transfer_s, stages - 1, "pairs of stages")
    if overlap_s is not None:
        number("overlap_s", overlap_s)

    def seconds(item: Op | Overlap) -> Real:
        if type(item) is Op:
            return each[item[0]][item[1]]
        if overlap_s is not None:
            return overlap_s
        return sum(each[op.kind][op.stage] for op in item)

    runs, transfers = _play(plan, stages, seconds, between)
    return Timeline(len(plan), tuple(runs), tuple(transfers), peak_activations(plan))


@dataclass(frozen=True)
class Timeline:
    """What :func:`simulate` saw: when each rank ran what, in seconds."""

    ranks: int
    runs: tuple[Run, ...]  # by rank, then by start
    transfers: tuple[Transfer, ...]
    peak_activations: list[Real]  # per rank, as in_flight() counts them

    @property
    def makespan_s(self) -> Real:
        """From the first start to the last end on any rank."""
        return max(r.end_s for r in self.runs) - min(r.start_s for r in self.runs)

    @property
    def busy_s(self) -> list[Real]:
        """Seconds that each rank computes."""
        busy = [0] * self.ranks
        for run in self.runs:
            busy[run.rank] += run.end_s - run.start_s
        return busy

    @property
    def span_s(self) -> list[Real]:
        """From the first start to the last end on each rank."""
        first: dict[int, Real] = {}
        last = [0] * self.ranks
        for run in self.runs:
            first.setdefault(run.rank, run.start_s)
            last[run.rank] = max(last[run.rank], run.end_s)
        return [last[rank] - first.get(rank, 0) for rank in range(self.ranks)]

    @property
    def step_s(self) -> Real:
        """The longest :attr:`span_s`: seconds per step when steps follow one another.

        Equal to the makespan if a rank starts first and ends last. ZB-H2's ranks
        start and end one after another; it counts on their not waiting for each other
        at the end of the step, which takes an optimizer without a global norm, or one
        that checks the norm afterwards (Qi et al., section 4).
        """
        return max(self.span_s)

    @property
    def bubble_share(self) -> float | Real:
        """Idle time of all ranks over the time of the step, 0 to 1."""
        busy, step = sum(self.busy_s), self.ranks * self.step_s
        return (step - busy) / step if step else 0

    @property
    def bubble_overhead(self) -> float | Real:
        """Idle time of all ranks over their busy time."""
        busy, step = sum(self.busy_s), self.ranks * self.step_s
        return (step - busy) / busy if busy else 0

    def events(self) -> list[tuple[int, str, str, float, float, str]]:
        """The timeline for ``aiinfra.figures.timeline``: forward, backward, weights.

        An overlap becomes two events at the same time.
        """
        return [
            (run.rank, "compute", _label(op), *_floats(run), _WORD[op.kind])
            for run in self.runs
            for op in _ops(run.op)
        ]

    def trace(self) -> Trace:
        """As an :class:`aiinfra.trace.Trace`: what ranks computed, awaited and sent.

        A rank waits from the end of an operation to the start of the next.
        """
        from aiinfra.trace import Event, Trace

        events = []
        for before, run in itertools.pairwise((None, *self.runs)):
            name = "+".join(_label(op) for op in _ops(run.op))
            start_s, end_s = _floats(run)
            if before and before.rank == run.rank and before.end_s < run.start_s:
                gap = (float(before.end_s), start_s)
                events.append(Event(run.rank, "compute", "bubble", *gap, "wait"))
            events.append(Event(run.rank, "compute", name, start_s, end_s, "compute"))
        for sent in self.transfers:
            name = f"{_label(sent.op)} to {sent.target}"
            events.append(Event(sent.rank, "link", name, *_floats(sent), "comm"))
        return Trace(events)

    def plot(self, alt: str | None = None, title: str | None = None) -> None:
        """Draw the schedule, a row per rank, micro-batches numbered, and show it."""
        from aiinfra import plot

        fig, _ = self._draw(title)
        plot.show(fig, self._described() if alt is None else alt)

    def _described(self) -> str:
        return (
            f"Pipeline schedule of {self.ranks} ranks: {float(self.makespan_s):.4g} s "
            f"in all, of which {100 * float(self.bubble_share):.1f} % idle."
        )

    def _draw(self, title: str | None):
        from aiinfra import plot

        # A rank's stages in turn: every other one lighter.
        colours = {
            "F": (plot.PALETTE["blue"], plot.PALETTE["sky"]),
            "B": (plot.PALETTE["orange"], plot.PALETTE["yellow"]),
            "W": (plot.PALETTE["green"],) * 2,
        }
        colours["I"] = colours["B"]
        fig, ax = plot.subplots(figsize=(7.2, 0.8 + 0.34 * self.ranks))
        total_s = float(self.makespan_s) or 1.0
        ops = {op for run in self.runs for op in _ops(run.op)}
        doubled = any(isinstance(run.op, Overlap) for run in self.runs)
        for run in self.runs:
            start_s, end_s = _floats(run)
            height = 0.84 / len(_ops(run.op))
            for row, op in enumerate(_ops(run.op)):
                y = run.rank - 0.42 + (row + 0.5) * height
                chunk = 0 if doubled else op.stage // self.ranks % 2
                colour = colours[op.kind][chunk]
                box = dict(height=height, edgecolor="white", linewidth=0.4)
                ax.barh(y, end_s - start_s, left=start_s, color=colour, **box)
                text = str(op.micro_batch)
                if len(text) * 0.011 * total_s < end_s - start_s and self.ranks <= 16:
                    # Dark, not black: black follows the page into the dark.
                    ink = "#1a1a1a" if op.kind in "BI" or chunk else "white"
                    style = dict(ha="center", va="center", color=ink, fontsize=7)
                    ax.text((start_s + end_s) / 2, y, text, **style)
        kinds = {op.kind for op in ops}
        words = {"F": "forward", "B": "backward", "I": "input", "W": "weights"}
        if "I" in kinds and "B" in kinds:
            words["B"], words["I"] = "backward, input", ""
        for kind, word in words.items():
            if kind in kinds and word:
                ax.barh([-9], [0], color=colours[kind][0], label=word)
        if not doubled and any(op.stage >= self.ranks for op in ops):
            ax.barh([-9], [0], color="none", label="lighter: every other stage")
        ax.set_yticks(range(self.ranks), [f"rank {r}" for r in range(self.ranks)])
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", visible=False)
        ax.set_ylim(self.ranks - 0.4, -0.6)
        ax.set_xlim(0, total_s)
        ax.set_xlabel("time [s]")
        ax.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1.0),
            ncols=4,
            frameon=False,
            fontsize=8,
        )
        if title:
            ax.set_title(title, loc="right", fontsize=10)
        return fig, ax


_WORD = {"F": "forward", "B": "backward", "I": "backward", "W": "weights"}


def _label(op: Op) -> str:
    return f"{op.kind}{op.micro_batch}"


def _floats(run: Run | Transfer) -> tuple[float, float]:
    return float(run.start_s), float(run.end_s)


def _times(
    forward_s: Any, backward_s: Any, input_s: Any, weight_s: Any, overlap_s: Any
) -> tuple[Any, Any, Any, Any]:
    """Checked forward, input, weight and overlap seconds of one stage."""
    forward_s = number("forward_s", forward_s)
    if (input_s is None) != (weight_s is None):
        raise ValueError("give input_s and weight_s together, or neither")
    if input_s is None:
        backward_s = number("backward_s", backward_s)
        exact = Fraction in (type(forward_s), type(backward_s))
        input_s = weight_s = backward_s * (Fraction(1, 2) if exact else 0.5)
    else:
        input_s, weight_s = number("input_s", input_s), number("weight_s", weight_s)
    if overlap_s is None:
        return forward_s, input_s, weight_s, forward_s + input_s + weight_s
    return forward_s, input_s, weight_s, number("overlap_s", overlap_s)


def bubble_s(
    name: str,
    stages: Any,
    micro_batches: Any,
    virtual: Any = 1,
    *,
    forward_s: Any = 1,
    backward_s: Any = 2,
    input_s: Any = None,
    weight_s: Any = None,
    overlap_s: Any = None,
) -> Any:
    """Seconds that a rank stands idle in one step, in closed form.

    All stages take the same times and messages none: F seconds for a forward
    (``forward_s``), I and W for the halves of a backward, B = I + W for a whole one.
    In an interleaved schedule these are the times of one of the rank's v stages.
    Arrays are welcome.

    =================== =====================================================
    gpipe, 1f1b         (p - 1)(F + B)
    interleaved         (p - 1)(F + B)
    zb-h1               (p - 1)(F + I - W)
    zb-h2               (p - 1)(F + I - 2W), of a rank's own span
    dualpipe            (p/2 - 1)(F&B + B - 3W), with F&B for ``overlap_s``
    =================== =====================================================

    The zero-bubble rows are as published for m >= p and m >= 2p - 1. A W can fill no
    more time than the F that it takes the place of, and each activation held beyond
    the first lets one W wait; so what is computed is
    (p - 1)(F + I) - (in_flight - 1) min(F, W). :func:`simulate` gives exactly that
    for ZB-H1, for ZB-H2 if I is not shorter than min(F, W), and for GPipe, 1F1B and
    interleaved always. DualPipe's row is exact if I = F, W <= F and B <= F&B; with
    F&B below F + B, for the two middle ranks, which gain most and so wait most.

    Raises:
        ValueError: for a shape the schedule doesn't have, or times that make no sense.
    """
    _check_shape(name, stages, micro_batches, virtual)
    times = _times(forward_s, backward_s, input_s, weight_s, overlap_s)
    forward_s, input_s, weight_s, overlap_s = times
    backward_s = input_s + weight_s
    fill_s = (stages - 1) * (forward_s + input_s)
    if name in ("zb-h1", "zb-h2"):
        waiting = least(stages if name == "zb-h1" else 2 * stages - 1, micro_batches)
        return most(fill_s - (waiting - 1) * least(forward_s, weight_s), 0)
    if name == "dualpipe":
        return most((stages // 2 - 1) * (overlap_s + backward_s - 3 * weight_s), 0)
    return fill_s + (stages - 1) * weight_s


def step_s(
    name: str,
    stages: Any,
    micro_batches: Any,
    virtual: Any = 1,
    *,
    forward_s: Any = 1,
    backward_s: Any = 2,
    input_s: Any = None,
    weight_s: Any = None,
    overlap_s: Any = None,
) -> Any:
    """Seconds of one step, in closed form: a rank's work and its :func:`bubble_s`.

    The work is m v (F + B), less what DualPipe's middle ranks gain by overlapping
    m - p - 1 pairs.
    """
    idle_s = bubble_s(
        name,
        stages,
        micro_batches,
        virtual,
        forward_s=forward_s,
        backward_s=backward_s,
        input_s=input_s,
        weight_s=weight_s,
        overlap_s=overlap_s,
    )
    times = _times(forward_s, backward_s, input_s, weight_s, overlap_s)
    each_s = sum(times[:3])
    work_s = micro_batches * virtual * each_s
    if name == "dualpipe":
        work_s = work_s - (micro_batches - stages - 1) * (each_s - times[3])
    return work_s + idle_s


def bubble_share(
    name: str, stages: Any, micro_batches: Any, virtual: Any = 1, **times_s: Any
) -> Any:
    """Idle time over the time of the step, 0 to 1: (p-1)/(m+p-1) for GPipe and 1F1B.

    (p-1)/(vm+p-1) if interleaved. ``times_s``: as for :func:`bubble_s`; by default a
    backward takes twice a forward and its halves the same.
    """
    idle_s = bubble_s(name, stages, micro_batches, virtual, **times_s)
    return _ratio(idle_s, step_s(name, stages, micro_batches, virtual, **times_s))


def bubble_overhead(
    name: str, stages: Any, micro_batches: Any, virtual: Any = 1, **times_s: Any
) -> Any:
    """Idle time over the time without a bubble: (p-1)/m for GPipe and 1F1B.

    (p-1)/(vm) if interleaved. ``times_s``: as for :func:`bubble_share`.
    """
    idle_s = bubble_s(name, stages, micro_batches, virtual, **times_s)
    total_s = step_s(name, stages, micro_batches, virtual, **times_s)
    return _ratio(idle_s, total_s - idle_s)


def _ratio(part: Any, all_of_it: Any) -> Any:
    if np.any(np.equal(all_of_it, 0)):
        raise ValueError("the times of an operation add up to 0: there is no step")
    return part / all_of_it
