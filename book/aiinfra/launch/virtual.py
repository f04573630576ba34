"""Virtual time: exact, repeatable timelines of real ranks with real tensors.

With more ranks than cores, wall-clock times of parallel code say more about the
scheduler than about the program. Under ``launch(..., clock=VirtualClock(...))`` every
rank carries its own clocks instead. Values still move through torch.distributed;
only *time* is computed:

* ``compute(seconds)`` or ``compute(flops=...)`` advances the rank's compute clock.
* Every rank has one full-duplex link. A message issued at t starts when the link's
  outgoing side is free, is ``bytes / bandwidth`` on it, and its last byte arrives
  ``latency`` later, or later still when the receiver's incoming side is taken by other
  messages (incast). ``recv`` and ``wait`` move the receiver's clock to the arrival;
  ``send`` returns when the last byte has left; ``isend`` returns at once.
* A library collective starts when its last rank has issued it and all its ranks'
  links are free, lasts as :mod:`aiinfra.comm` says, and occupies the links. With
  ``async_op=True`` the compute clock goes on and ``wait()`` moves it to the end.

The clocks are exact rationals, so 1,000 steps of 0.1 ms are 100 ms to the last digit,
and nothing depends on how fast the machine really is.

How it works: each process group's methods, to which every function of
``torch.distributed`` comes down, are wrapped while the launched function runs (so it
does not matter how the function was imported). Time stamps travel beside the tensors
through the process group's key-value store: written before an operation is issued,
read after it has really completed. A program therefore blocks where it would without
a clock; one exception: a broadcast, reduce, gather or scatter ends at the same virtual
time on all its ranks, so waiting for it needs all of them to have entered it (as MPI
allows any collective to).

Rules of the model, where reality is undecided: receives share the incoming link in
the order in which the program waits for them, bytes of a later one filling gaps; a
message is sent as soon as it is issued, whether or not the receive is posted; a
barrier is an empty all-reduce. What the model cannot time exactly it refuses with
:class:`VirtualTimeError`: receiving from any source, asking whether work is
completed, other communication while an asynchronous collective of another group is in
flight, coalesced collectives, all-gathers of unequal tensors. Collectives that C++
starts by itself are not seen and cost nothing: the reducer and the constructor of
``DistributedDataParallel`` (a Python communication hook that calls ``dist.all_reduce``
is seen), functional collectives and DTensor.
"""

from __future__ import annotations

import contextlib
import functools
import math
import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from numbers import Real
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup

from aiinfra import comm
from aiinfra import trace as trace_module
from aiinfra.trace import Event

__all__ = ["Link", "VirtualClock", "VirtualTimeError", "compute", "now"]


class VirtualTimeError(RuntimeError):
    """The program does something whose virtual time is not defined; says what to do."""


def _exact(value: Real, what: str, *, above_zero: bool = False) -> Fraction:
    """The decimal number that was written: 0.1 becomes 1/10, not the nearest binary."""
    number = None
    if not isinstance(value, (bool, str)):
        with contextlib.suppress(TypeError, ValueError):
            number = float(value)
    if (
        number is None
        or not math.isfinite(number)
        or number < 0
        or (above_zero and number == 0)
    ):
        wanted = "greater than 0" if above_zero else "0 or more"
        raise ValueError(f"{what} must be a finite number {wanted}, got {value!r}")
    if isinstance(value, (int, Fraction)):
        return Fraction(value)
    return Fraction(repr(number))


@dataclass(frozen=True)
class Link:
    """One rank's full-duplex link to all others.

    Args:
        gbps: one-way bandwidth in gigabits (1e9 bits) per second.
        us: latency of a message in microseconds.
        name: for captions.
    """

    gbps: float
    us: float
    name: str = ""

    def __post_init__(self) -> None:
        _exact(self.gbps, "gbps (one-way bandwidth in Gb/s)", above_zero=True)
        _exact(self.us, "us (latency in microseconds)")

    @classmethod
    def named(cls, name: str) -> Link:
        """The link of that name in the book's registry, e.g. ``"NVLink 4"``."""
        from aiinfra.registry import link

        entry = link(name)
        return cls(
            gbps=float(entry.one_way_bytes_per_s) * 8 / 1e9,
            us=float(entry.latency_s) * 1e6,
            name=name,
        )

    @property
    def rate(self) -> Fraction:
        """One-way bandwidth in bytes per second, exact."""
        return _exact(self.gbps, "gbps") * 10**9 / 8

    @property
    def alpha(self) -> Fraction:
        """Latency in seconds, exact."""
        return _exact(self.us, "us") / 10**6

    @property
    def bytes_per_s(self) -> float:
        """One-way bandwidth in bytes per second."""
        return float(self.rate)

    @property
    def latency_s(self) -> float:
        """Latency in seconds."""
        return float(self.alpha)

    def time_s(self, n_bytes: float) -> float:
        """Seconds until a message has arrived: latency + bytes / bandwidth."""
        n_bytes = _exact(n_bytes, "n_bytes")
        return float(comm.point_to_point_s(n_bytes, self.alpha, self.rate))


@dataclass(frozen=True)
class VirtualClock:
    """What time costs: one link per rank and, for ``compute(flops=)``, its FLOP/s."""

    link: Link
    flops: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.link, Link):
            raise TypeError(f"link must be a Link(gbps, us), got {self.link!r}")
        if self.flops is not None:
            _exact(self.flops, "flops (FLOP/s of one rank)", above_zero=True)


# ---------------------------------------------------------------- what users call


def compute(
    seconds: float | None = None,
    *,
    flops: float | None = None,
    name: str | None = None,
) -> None:
    """Advance this rank's virtual compute clock; without a clock do nothing.

    Args:
        seconds: how long the work takes, or
        flops: how many floating-point operations it is (the clock says how fast).
        name: what the timeline calls it.
    """
    if (seconds is None) == (flops is None):
        raise ValueError("compute() takes seconds or flops=, exactly one of them")
    duration = _exact(seconds, "seconds") if flops is None else _exact(flops, "flops")
    if _rank is None or _rank.clock is None:
        return
    if flops is not None:
        if _rank.clock.flops is None:
            raise ValueError(
                "compute(flops=...) needs the speed of a rank: "
                "VirtualClock(link=..., flops=FLOP/s)"
            )
        duration /= _exact(_rank.clock.flops, "flops")
    _rank.advance(duration, name or "compute")


def now() -> float:
    """This rank's time in seconds since the call began.

    Virtual under a virtual clock. Otherwise wall-clock time since rank 0 began the
    call, so that ranks can be compared: on one host all read the same monotonic clock;
    across hosts it is as good as their time synchronisation. Outside a launched
    function: the machine's monotonic clock.
    """
    return time.monotonic() if _rank is None else _rank.now()


# ------------------------------------------------------------- one rank's clocks


class _Incoming:
    """The incoming side of a link: when it is taken, and room for one more message."""

    def __init__(self) -> None:
        self.busy: list[tuple[Fraction, Fraction]] = []  # disjoint, sorted

    def take(self, start: Fraction, duration: Fraction) -> tuple[Fraction, Fraction]:
        """Fill free time from ``start`` on; return the first and the last moment used.

        Packets of messages interleave, so a message may use several gaps: the link
        is never idle while bytes are waiting for it.
        """
        left, at, first = duration, start, None
        taken: list[tuple[Fraction, Fraction]] = []
        # Intervals before `start` cannot matter: walk back from the latest.
        index = len(self.busy)
        while index and self.busy[index - 1][1] > start:
            index -= 1
        for begin, end in [*self.busy[index:], (None, None)]:
            gap = left if begin is None else min(left, max(begin - at, Fraction(0)))
            if gap > 0:
                first = at if first is None else first
                taken.append((at, at + gap))
                left -= gap
                at += gap
            if left == 0:
                break
            at = max(at, end)
        tail = sorted([*self.busy[index:], *taken])
        self.busy[index:] = []
        for begin, end in tail:
            if self.busy and self.busy[-1][1] == begin:
                self.busy[-1] = (self.busy[-1][0], end)
            else:
                self.busy.append((begin, end))
        return (start if first is None else first), at


@dataclass
class _Collective:
    """A collective this rank has issued and not yet placed on the link's clock."""

    group: str
    number: int  # how many collectives of this group came before
    ranks: int
    op: str
    end: Fraction | None = None  # when it is over, once the other ranks are known


class _Rank:
    """This process while a launched function runs: clocks, sequence numbers, events."""

    def __init__(self, clock: VirtualClock | None, trace: bool, rank: int, store):
        self.clock = clock
        self.trace = trace
        self.rank = rank
        self.store = store
        self.events: list[Event] = []
        self.thread = threading.current_thread()
        self.keys: list[str] = []
        self.sent: dict[tuple, int] = defaultdict(int)
        self.received: dict[tuple, int] = defaultdict(int)
        self.issued: dict[str, int] = defaultdict(int)  # collectives, by group
        self.in_flight: list[_Collective] = []
        self.group_end: dict[str, Fraction] = defaultdict(Fraction)
        self.time = Fraction(0)  # the compute clock
        self.outgoing_free = Fraction(0)
        self.incoming = _Incoming()
        self.batch: list[Callable] | None = None  # inside a coalesced batch (NCCL)

    # -- time and events

    def now(self) -> float:
        if self.clock is not None:
            return float(self.time)
        origin = self.origin  # waits for rank 0 the first time: so before the clock
        return time.monotonic() - origin

    @functools.cached_property
    def origin(self) -> float:
        """This host's monotonic clock when rank 0 began the call."""
        host, monotonic, wall = self.get("origin")
        if host == _host():
            return float(monotonic)
        return time.monotonic() - (time.time() - float(wall))

    def record(self, lane: str, name: str, start, end, kind: str) -> None:
        if self.trace:
            self.events.append(
                Event(self.rank, lane, name, float(start), float(end), kind)
            )

    def advance(self, duration: Fraction, name: str) -> None:
        self.one_thread()
        start, self.time = self.time, self.time + duration
        self.record("compute", name, start, self.time, "compute")

    def wait_until(self, moment: Fraction, name: str) -> None:
        if moment > self.time:
            self.record("compute", f"wait {name}", self.time, moment, "wait")
            self.time = moment

    def one_thread(self) -> None:
        thread = threading.current_thread()
        # Autograd runs hooks of GPU tensors in its own threads while ours stands still;
        # Python knows those only as dummies.
        if thread is self.thread or isinstance(thread, threading._DummyThread):
            return
        raise VirtualTimeError(
            f"thread {thread.name!r} computes or communicates: a rank's virtual clock "
            "belongs to the thread that runs the launched function. Use isend, irecv "
            "or async_op=True to overlap"
        )

    # -- stamps beside the messages

    def put(self, key: str, *values) -> None:
        self.keys.append(key)
        self.store.set(key, " ".join(map(str, values)))

    def get(self, key: str) -> list[str]:
        try:
            return self.store.get(key).decode().split()
        except dist.DistStoreError as error:
            raise VirtualTimeError(
                f"no time stamp {key!r} from another rank: it has not entered this "
                "operation, or has ended"
            ) from error

    def alone(self, what: str, group: str | None) -> None:
        """Refuse ``what`` while a collective of another group is in flight."""
        self.one_thread()
        others = [c for c in self.in_flight if c.group != group]
        if others:
            raise VirtualTimeError(
                f"{what} while {others[0].op} of group {others[0].group!r} is in "
                "flight: which of them has the link first would depend on other "
                "ranks. Call wait() on the collective first"
            )

    # -- point to point

    # A channel is (group, sender's rank in it, receiver's rank in it, tag): messages
    # on one channel arrive in the order they were sent, so a number finds the stamp.

    def issue_send(self, channel: tuple, n_bytes: int, name: str) -> Fraction:
        """Put the message on the outgoing link; return the moment it has left."""
        self.alone(name, None)
        start = max(self.time, self.outgoing_free)
        self.outgoing_free = left = start + n_bytes / self.clock.link.rate
        key = _message_key(channel, self.sent[channel])
        self.sent[channel] += 1
        self.put(key, start, n_bytes)
        self.record("link", name, start, left, "comm")
        return left

    def issue_receive(self, channel: tuple) -> str:
        """Return the key under which the matching send leaves its stamp."""
        self.one_thread()
        number = self.received[channel]
        self.received[channel] += 1
        return _message_key(channel, number)

    def finish_receive(self, key: str, name: str) -> None:
        self.alone(name, None)
        link = self.clock.link
        start, n_bytes = self.get(key)
        duration = int(n_bytes) / link.rate
        first, arrival = self.incoming.take(Fraction(start) + link.alpha, duration)
        self.record("link", name, first, arrival, "comm")
        self.wait_until(arrival, name)

    # -- collectives

    def issue_collective(self, group: ProcessGroup, op: str, n_bytes) -> _Collective:
        name = group.group_name
        self.alone(op, name)
        collective = _Collective(name, self.issued[name], group.size(), op)
        self.issued[name] += 1
        # Only sends can keep the link busy beyond the compute clock: what was received
        # or reduced has been waited for, and collectives in flight come in order.
        ready = max(self.time, self.outgoing_free)
        self.put(_collective_key(collective, group.rank()), op, n_bytes, ready)
        self.in_flight.append(collective)
        return collective

    def place(self, collective: _Collective) -> None:
        """Read when the other ranks issued it; put it on the links' clocks."""
        c, link = collective, self.clock.link
        starts, sizes = [self.group_end[c.group]], []
        for member in range(c.ranks):
            op, n_bytes, ready = self.get(_collective_key(c, member))
            if op != c.op:
                raise VirtualTimeError(
                    f"collective {c.number} of group {c.group!r} is {c.op} on this "
                    f"rank and {op} on its rank {member}: every rank must issue the "
                    "same collectives in the same order"
                )
            starts.append(Fraction(ready))
            sizes.append(Fraction(n_bytes))
        start = max(starts)
        c.end = start + _COST_S[c.op](max(sizes), c.ranks, link.alpha, link.rate)
        self.group_end[c.group] = c.end
        first_byte = min(start + link.alpha, c.end)
        self.incoming.take(first_byte, c.end - first_byte)
        self.record("link", c.op, start, c.end, "comm")

    def finish_collective(self, collective: _Collective) -> None:
        while collective.end is None:  # those issued before it are placed before it
            self.place(self.in_flight.pop(0))
        self.wait_until(collective.end, collective.op)


def _message_key(channel: tuple, number: int) -> str:
    group, source, destination, tag = channel
    return f"m/{group}/{source}/{destination}/{tag}/{number}"


def _collective_key(collective: _Collective, member: int) -> str:
    return f"c/{collective.group}/{collective.number}/{member}"


def _barrier_s(n_bytes, ranks, alpha, rate):
    return comm.ring_all_reduce_s(0, ranks, alpha, rate)


# n_bytes is comm's S for each: the whole buffer.
_COST_S = {
    "all_reduce": comm.ring_all_reduce_s,
    "reduce_scatter": comm.ring_reduce_scatter_s,
    "all_gather": comm.ring_all_gather_s,
    "all_to_all": comm.all_to_all_s,
    "broadcast": comm.broadcast_s,
    "reduce": comm.broadcast_s,
    "gather": comm.gather_s,
    "scatter": comm.gather_s,
    "barrier": _barrier_s,
}


# ------------------------------------------------------------- handles of work


class _Work(dist.Work):
    """A handle like torch's, whose wait() also moves this rank's clock.

    ``real`` is torch's handle, or None where the library has already synchronised.
    ``finish(began)`` is called once, after the real wait; ``began`` is the wall-clock
    time at which it began.
    """

    def __init__(self, me: _Rank, real: dist.Work | None, finish: Callable) -> None:
        super().__init__()
        self._me, self._real, self._finish = me, real, finish
        self._finished = False
        self.record: Callable | None = None  # by the wall clock: the end has come

    def wait(self, timeout: timedelta | None = None) -> bool:
        began = None if self._me.clock else self._me.now()
        limit = () if timeout is None else (timeout,)
        done = True if self._real is None else self._real.wait(*limit)
        if not self._finished:
            self._finished = True
            self._finish(began)
        return done

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if self._me.clock is not None and not self._finished:
            raise VirtualTimeError(
                "is_completed() would answer by the wall clock: under a virtual clock "
                "call wait()"
            )
        return self._real is None or self._real.is_completed()

    def get_future(self):
        """The real future; the clock moves when the running backward pass ends.

        That is when DistributedDataParallel waits for its communication hooks.
        """
        future = self._real.get_future()
        if self.record is not None:

            def record(done):
                self.record()  # so whoever waits waits for the record, too
                return done.value()

            return future.then(record)
        if self._me.clock is not None:
            try:
                engine = torch.autograd.Variable._execution_engine
                engine.queue_callback(self.wait)
            except RuntimeError as error:
                raise VirtualTimeError(
                    "get_future() under a virtual clock works in a communication hook, "
                    "during a backward pass: elsewhere call wait()"
                ) from error
        return future

    def is_success(self) -> bool:
        return self._real is None or self._real.is_success()

    def exception(self):
        return None if self._real is None else self._real.exception()

    def result(self):
        return self._real.result()

    def source_rank(self) -> int:
        return self._real.source_rank()

    _source_rank = source_rank


def _handle(me: _Rank, real: dist.Work | None, finish: Callable) -> _Work:
    if me.batch is not None:
        me.batch.append(finish)
    return _Work(me, real, finish)


def _on_wall_clock(me: _Rank, name: str, call: Callable) -> _Work:
    """Record a real operation: when it was under way, and when the rank waited."""
    issued = me.now()
    real = call()
    recorded, lock = False, threading.Lock()  # the library has its own threads

    def record_once(_: object = None) -> None:
        nonlocal recorded
        with lock:
            if not recorded:
                me.record("link", name, issued, me.now(), "comm")
            recorded = True

    # The end is when the library says so, also if nobody is waiting at that time.
    # Some handles (point to point on gloo) have no future: then the end of wait().
    with contextlib.suppress(RuntimeError, AttributeError):
        real.get_future().add_done_callback(record_once)

    def finish(began: float) -> None:
        record_once()
        me.record("compute", f"wait {name}", began, me.now(), "wait")

    work = _handle(me, real, finish)
    work.record = record_once
    return work


# ------------------------------------------------- wrapping the process groups


def _bytes(tensors) -> int:
    if isinstance(tensors, torch.Tensor):
        return tensors.numel() * tensors.element_size()
    return sum(_bytes(t) for t in tensors)


def _equal_bytes(op: str, tensors: list) -> int:
    if len({_bytes(t) for t in tensors}) > 1:
        raise VirtualTimeError(
            f"{op} of tensors of different sizes has no ring cost: pad them to one size"
        )
    return _bytes(tensors)


def _all_to_all_bytes(group: ProcessGroup, load: int) -> Fraction | int:
    """comm's S for a rank whose link carries ``load`` bytes, N-1 shares of S/N."""
    n = group.size()
    return Fraction(load * n, n - 1) if n > 1 else 0


def _all_to_all_single(group, output, input, output_splits, input_splits, *_):
    """A rank's link is busy with what it sends or receives, whichever is more."""
    me, n = group.rank(), group.size()

    def travels(tensor, splits) -> int:
        rows = tensor.shape[0]
        own = splits[me] if len(splits) else rows // n
        return _bytes(tensor) * (rows - own) // rows if rows else 0

    load = max(travels(output, output_splits), travels(input, input_splits))
    return _all_to_all_bytes(group, load)


def _all_to_all_list(group, outputs, inputs, *_):
    me = group.rank()
    load = max(_bytes(tensors) - _bytes(tensors[me]) for tensors in (outputs, inputs))
    return _all_to_all_bytes(group, load)


def _of_first(group, tensors, *_):
    return _bytes(tensors)


def _of_second(group, _output, tensors, *_):
    return _bytes(tensors)


# ProcessGroup's method -> the collective, and comm's S from the method's arguments.
# Old and new torch name some of them differently.
_COLLECTIVES: dict[str, tuple[str, Callable]] = {
    "allreduce": ("all_reduce", _of_first),
    "broadcast": ("broadcast", _of_first),
    "reduce": ("reduce", _of_first),
    "allgather": ("all_gather", lambda g, out, *_: _equal_bytes("all_gather", out[0])),
    "all_gather_single": ("all_gather", _of_first),
    "_allgather_base": ("all_gather", _of_first),
    "reduce_scatter": (
        "reduce_scatter",
        lambda g, out, x, *_: _equal_bytes("reduce_scatter", x[0]),
    ),
    "reduce_scatter_single": ("reduce_scatter", _of_second),
    "_reduce_scatter_base": ("reduce_scatter", _of_second),
    "all_to_all_single": ("all_to_all", _all_to_all_single),
    "alltoall_base": ("all_to_all", _all_to_all_single),
    "alltoall": ("all_to_all", _all_to_all_list),
    "gather": ("gather", lambda g, out, x, *_: _bytes(x) * g.size()),
    "scatter": ("scatter", lambda g, out, *_: _bytes(out) * g.size()),
    "barrier": ("barrier", lambda g, *_: 0),
}
_REFUSED = {
    "recv_anysource": "which message a receive from any source gets is decided by the "
    "wall clock: name the source, recv(tensor, src=...)",
    "monitored_barrier": "use dist.barrier()",
} | dict.fromkeys(
    (
        "allreduce_coalesced",
        "allgather_coalesced",
        "allgather_into_tensor_coalesced",
        "all_gather_single_coalesced",
        "reduce_scatter_tensor_coalesced",
        "reduce_scatter_single_coalesced",
    ),
    "coalesced collectives have no virtual time: copy the tensors into one flat tensor",
)


def _wrap_collective(method: str, real: Callable) -> Callable:
    op, size = _COLLECTIVES[method]

    def collective(group, *args, **kwargs):
        me = _rank
        if me.clock is None:
            return _on_wall_clock(me, op, lambda: real(group, *args, **kwargs))
        issued = me.issue_collective(group, op, size(group, *args))
        work = real(group, *args, **kwargs)
        return _handle(me, work, lambda _: me.finish_collective(issued))

    return collective


def _wrap_send(real: Callable) -> Callable:
    def send(group, tensors, peer, tag=0):
        me, name = _rank, f"send to {dist.get_global_rank(group, peer)}"
        if me.clock is None:
            return _on_wall_clock(me, name, lambda: real(group, tensors, peer, tag))
        channel = (group.group_name, group.rank(), peer, _tag(tensors, tag))
        left = me.issue_send(channel, _bytes(tensors), name)
        work = real(group, tensors, peer, tag)
        return _handle(me, work, lambda _: me.wait_until(left, name))

    return send


def _wrap_receive(real: Callable) -> Callable:
    def recv(group, tensors, peer, tag=0):
        me, name = _rank, f"receive from {dist.get_global_rank(group, peer)}"
        if me.clock is None:
            return _on_wall_clock(me, name, lambda: real(group, tensors, peer, tag))
        channel = (group.group_name, peer, group.rank(), _tag(tensors, tag))
        key = me.issue_receive(channel)
        work = real(group, tensors, peer, tag)
        return _handle(me, work, lambda _: me.finish_receive(key, name))

    return recv


def _tag(tensors: list[torch.Tensor], tag: int) -> int:
    # Accelerators' libraries ignore tags and match messages by their order.
    return int(tag) if tensors[0].device.type == "cpu" else 0


def _wrap_start_coalescing(real: Callable) -> Callable:
    def start_coalescing(group, device):
        _rank.batch = []
        return real(group, device)

    return start_coalescing


def _wrap_end_coalescing(real: Callable) -> Callable:
    def end_coalescing(group, device):
        """One handle for the whole batch: its wait finishes every operation in it."""
        me = _rank
        batch, me.batch = me.batch, None

        def finish(began) -> None:
            for finish_one in batch:
                finish_one(began)

        return _Work(me, real(group, device), finish)

    return end_coalescing


def _wrap_refused(method: str, real: Callable) -> Callable:
    def refused(group, *args, **kwargs):
        if _rank.clock is None:
            return _on_wall_clock(_rank, method, lambda: real(group, *args, **kwargs))
        raise VirtualTimeError(f"{method} under a virtual clock: {_REFUSED[method]}")

    return refused


def _wrappers() -> dict[str, Callable]:
    wraps = {
        "send": _wrap_send,
        "recv": _wrap_receive,
        "_start_coalescing": _wrap_start_coalescing,
        "_end_coalescing": _wrap_end_coalescing,
    }
    wraps |= {m: functools.partial(_wrap_collective, m) for m in _COLLECTIVES}
    wraps |= {m: functools.partial(_wrap_refused, m) for m in _REFUSED}
    return wraps


# ------------------------------------------------------------ install, uninstall

_rank: _Rank | None = None
_real_methods: dict[str, Callable] = {}
_n_calls = 0
_stale: list = []  # (store, key) pairs of the previous call


def install(
    clock: VirtualClock | None, trace: bool, rank: int, world_size: int
) -> None:
    """Start this rank's clock at 0 and, if asked, record its events.

    Every rank calls it, equally often, once the process group is up; the previous
    call must have ended on all ranks. Without clock and trace only :func:`now` changes.
    """
    global _rank, _n_calls
    if clock is not None and not isinstance(clock, VirtualClock):
        raise TypeError(f"clock must be a VirtualClock or None, got {clock!r}")
    _restore()
    for store, key in _stale:
        store.delete_key(key)
    _stale.clear()
    _n_calls += 1
    root = dist.distributed_c10d._get_default_store()
    store = dist.PrefixStore(f"aiinfra/virtual/{_n_calls}", root)
    me = _Rank(clock, trace, rank, store)
    if clock is None:
        if rank == 0:
            me.put("origin", _host(), time.monotonic(), time.time())
        if trace:
            me.now()  # waits for the origin here, not amid what is to be measured
    if clock is not None or trace:
        for method, wrap in _wrappers().items():
            if method in vars(ProcessGroup):
                # vars: getattr would lose the descriptor that binds the method.
                _real_methods[method] = vars(ProcessGroup)[method]
                setattr(ProcessGroup, method, wrap(getattr(ProcessGroup, method)))
    _rank = trace_module._recorder = me


def uninstall() -> list[Event]:
    """Stop the clock, restore torch.distributed, return this rank's events."""
    me = _rank
    _restore()
    if me is None:
        return []
    _stale.extend((me.store, key) for key in me.keys)
    if me.in_flight and sys.exc_info()[1] is None:
        names = ", ".join(c.op for c in me.in_flight)
        raise VirtualTimeError(
            f"rank {me.rank} ended with collectives it never waited for ({names}): "
            "call wait() on what async_op=True returns"
        )
    return me.events


def _restore() -> None:
    global _rank
    for method, real in _real_methods.items():
        setattr(ProcessGroup, method, real)
    _real_methods.clear()
    _rank = trace_module._recorder = None


def _host() -> str:
    """The same for processes whose monotonic clock is the same."""
    boot_id = Path("/proc/sys/kernel/random/boot_id")
    return boot_id.read_text().strip() if boot_id.exists() else socket.gethostname()
