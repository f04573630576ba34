"""What communication costs: bytes on the wire and seconds, per collective.

One model throughout, the alpha-beta (Hockney) model: a message of n bytes over a
free link takes ``alpha_s + n / bytes_per_s``. Every rank has one full-duplex link:
it sends at most ``bytes_per_s`` and at the same time receives at most
``bytes_per_s``. Each function states the algorithm it prices and derives its
formula; reductions themselves (the additions) are taken as free.

``n_bytes`` is always the size S of the *whole* buffer, as nccl-tests counts it: the
tensor that is all-reduced or broadcast, the input of a reduce-scatter, the output of
an all-gather, one rank's whole input of an all-to-all. ``world_size`` is N. With one
rank nothing is sent and every cost is 0.

The functions compute with whatever numbers they are given, so exact rationals
(``fractions.Fraction``) in give exact rationals out; that is how virtual time
(:mod:`aiinfra.launch.virtual`) uses them.

Sources: Hockney 1994 (the model); Patarasuk and Yuan 2009 (ring all-reduce, and the
proof that 2(N-1)/N * S bytes per rank is the least possible); Thakur, Rabenseifner
and Gropp 2005 (the other collectives); NVIDIA nccl-tests, doc/PERFORMANCE.md (bus
bandwidth).
"""

from __future__ import annotations

import math
from numbers import Integral, Rational, Real

__all__ = [
    "all_to_all_bytes_per_rank",
    "all_to_all_s",
    "broadcast_bytes_per_rank",
    "broadcast_s",
    "bus_bandwidth",
    "gather_bytes_per_rank",
    "gather_s",
    "point_to_point_s",
    "ring_all_gather_bytes_per_rank",
    "ring_all_gather_s",
    "ring_all_reduce_bytes_per_rank",
    "ring_all_reduce_s",
    "ring_reduce_scatter_bytes_per_rank",
    "ring_reduce_scatter_s",
    "tree_broadcast_s",
]


def _number(name: str, value: Real, *, above_zero: bool = False) -> None:
    good = isinstance(value, Real) and not isinstance(value, bool)
    good = good and (isinstance(value, Rational) or math.isfinite(value))
    if not good or value < 0 or (above_zero and value == 0):
        wanted = "greater than 0" if above_zero else "0 or more"
        raise ValueError(f"{name} must be a finite number {wanted}, got {value!r}")


def _check(n_bytes: Real, world_size: int, alpha_s: Real = 0, rate: Real = 1) -> None:
    _number("n_bytes", n_bytes)
    if (
        not isinstance(world_size, Integral)
        or isinstance(world_size, bool)
        or world_size < 1
    ):
        raise ValueError(
            f"world_size must be a whole number of ranks, 1 or more, got {world_size!r}"
        )
    _number("alpha_s", alpha_s)
    _number("bytes_per_s", rate, above_zero=True)


def point_to_point_s(n_bytes: Real, alpha_s: Real, bytes_per_s: Real) -> Real:
    """Seconds from the start of a send to the arrival of its last byte.

    ``alpha_s + n_bytes / bytes_per_s``: the first byte needs the latency, the others
    follow at the link's rate.
    """
    _check(n_bytes, 1, alpha_s, bytes_per_s)
    return alpha_s + n_bytes / bytes_per_s


def ring_reduce_scatter_s(
    n_bytes: Real, world_size: int, alpha_s: Real, bytes_per_s: Real
) -> Real:
    """Seconds of a ring reduce-scatter of an ``n_bytes`` input on every rank.

    The input is cut into N chunks of S/N bytes. In each of N-1 steps every rank
    sends one chunk to its right neighbour and adds the one from its left, so that
    after N-1 steps each rank holds one chunk of the sum:
    ``(N-1) * (alpha_s + S / (N * bytes_per_s))``.
    """
    _check(n_bytes, world_size, alpha_s, bytes_per_s)
    return (world_size - 1) * (alpha_s + n_bytes / (world_size * bytes_per_s))


def ring_reduce_scatter_bytes_per_rank(n_bytes: Real, world_size: int) -> Real:
    """Bytes each rank sends (and receives): N-1 chunks of S/N, ``(N-1)/N * S``."""
    _check(n_bytes, world_size)
    return (world_size - 1) * n_bytes / world_size


def ring_all_gather_s(
    n_bytes: Real, world_size: int, alpha_s: Real, bytes_per_s: Real
) -> Real:
    """Seconds of a ring all-gather whose output is ``n_bytes`` on every rank.

    Each rank starts with a shard of S/N bytes. In each of N-1 steps it passes on the
    shard that came last, so that after N-1 steps all hold all N shards:
    ``(N-1) * (alpha_s + S / (N * bytes_per_s))``, the same as a reduce-scatter.
    """
    return ring_reduce_scatter_s(n_bytes, world_size, alpha_s, bytes_per_s)


def ring_all_gather_bytes_per_rank(n_bytes: Real, world_size: int) -> Real:
    """Bytes each rank sends (and receives): N-1 shards of S/N, ``(N-1)/N * S``."""
    return ring_reduce_scatter_bytes_per_rank(n_bytes, world_size)


def ring_all_reduce_s(
    n_bytes: Real, world_size: int, alpha_s: Real, bytes_per_s: Real
) -> Real:
    """Seconds of a ring all-reduce of ``n_bytes`` on every rank.

    A reduce-scatter, then an all-gather of the summed chunks:
    ``2 * (N-1) * (alpha_s + S / (N * bytes_per_s))``. For large S it tends to
    ``2 S / bytes_per_s`` whatever N is; the latency term grows with N.
    """
    return 2 * ring_reduce_scatter_s(n_bytes, world_size, alpha_s, bytes_per_s)


def ring_all_reduce_bytes_per_rank(n_bytes: Real, world_size: int) -> Real:
    """Bytes each rank sends (and receives): ``2 * (N-1)/N * S``."""
    return 2 * ring_reduce_scatter_bytes_per_rank(n_bytes, world_size)


def broadcast_s(
    n_bytes: Real,
    world_size: int,
    alpha_s: Real,
    bytes_per_s: Real,
    n_chunks: int | None = None,
) -> Real:
    """Seconds of a broadcast along a pipelined chain (NCCL's ring broadcast).

    The ranks form a chain from the root. The message is cut into C chunks; a rank
    forwards each chunk as soon as it has it. The last rank has the first chunk after
    N-1 hops and one more chunk per hop time, so ``(N-2+C) * (alpha_s +
    S / (C * bytes_per_s))``. By default C is the whole number that makes this
    least, near ``sqrt((N-2) * S / (alpha_s * bytes_per_s))``; as alpha_s goes to 0,
    chunks get small without bound and the time tends to ``S / bytes_per_s``.

    A reduce along the same chain, towards the root, takes the same time.
    """
    _check(n_bytes, world_size, alpha_s, bytes_per_s)
    if n_chunks is not None and (not isinstance(n_chunks, Integral) or n_chunks < 1):
        raise ValueError(f"n_chunks must be a whole number >= 1, got {n_chunks!r}")
    if world_size == 1:
        return 0 * (alpha_s + n_bytes / bytes_per_s)  # 0, of the arguments' type

    def time_s(chunks: int) -> Real:
        hop_s = alpha_s + n_bytes / (chunks * bytes_per_s)
        return (world_size - 2 + chunks) * hop_s

    if n_chunks is not None:
        return time_s(n_chunks)
    if world_size > 2 and alpha_s == 0:
        return n_bytes / bytes_per_s
    # time_s is convex in C, so the best whole number is next to the best real one.
    best = 1
    if world_size > 2:
        best = math.isqrt(int((world_size - 2) * n_bytes / (alpha_s * bytes_per_s)))
    return min(time_s(max(best, 1)), time_s(best + 1))


def tree_broadcast_s(
    n_bytes: Real, world_size: int, alpha_s: Real, bytes_per_s: Real
) -> Real:
    """Seconds of a broadcast along a binomial tree, the usual choice for small ones.

    In every step each rank that has the whole message sends it to one that has not,
    so the number of holders doubles: ``ceil(log2 N) * (alpha_s + S / bytes_per_s)``.
    """
    _check(n_bytes, world_size, alpha_s, bytes_per_s)
    steps = (world_size - 1).bit_length()  # ceil(log2 N) without rounding error
    return steps * (alpha_s + n_bytes / bytes_per_s)


def broadcast_bytes_per_rank(n_bytes: Real, world_size: int) -> Real:
    """Bytes the busiest rank sends in a chain broadcast: S (0 with one rank)."""
    _check(n_bytes, world_size)
    return n_bytes if world_size > 1 else 0 * n_bytes


def all_to_all_s(
    n_bytes: Real, world_size: int, alpha_s: Real, bytes_per_s: Real
) -> Real:
    """Seconds of an all-to-all in which every rank has an ``n_bytes`` input.

    Pairwise exchange: in step k of N-1, rank r sends S/N bytes to rank r+k and
    receives as many from rank r-k: ``(N-1) * (alpha_s + S / (N * bytes_per_s))``.
    """
    return ring_reduce_scatter_s(n_bytes, world_size, alpha_s, bytes_per_s)


def all_to_all_bytes_per_rank(n_bytes: Real, world_size: int) -> Real:
    """Bytes each rank sends (and receives): all but its own share, ``(N-1)/N * S``."""
    return ring_reduce_scatter_bytes_per_rank(n_bytes, world_size)


def gather_s(n_bytes: Real, world_size: int, alpha_s: Real, bytes_per_s: Real) -> Real:
    """Seconds of a gather to one root (or, reversed, a scatter) of ``n_bytes`` in all.

    All N-1 others send their S/N bytes to the root at once. The latencies pass side
    by side, but the root's link takes the bytes one after another:
    ``alpha_s + (N-1)/N * S / bytes_per_s``.
    """
    _check(n_bytes, world_size, alpha_s, bytes_per_s)
    if world_size == 1:
        return 0 * (alpha_s + n_bytes / bytes_per_s)
    return alpha_s + (world_size - 1) * n_bytes / (world_size * bytes_per_s)


def gather_bytes_per_rank(n_bytes: Real, world_size: int) -> Real:
    """Bytes through the busiest link, the root's: ``(N-1)/N * S``."""
    return ring_reduce_scatter_bytes_per_rank(n_bytes, world_size)


# nccl-tests, doc/PERFORMANCE.md: what algorithm bandwidth S/t is multiplied by so that
# the result compares with the speed of one link, whatever the number of ranks.
_BUS_FACTOR = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1,
    "reduce": lambda n: 1,
    "point_to_point": lambda n: 1,
}


def bus_bandwidth(n_bytes: Real, seconds: Real, world_size: int, op: str) -> float:
    """Bus bandwidth in bytes per second, as nccl-tests defines it ("busbw").

    Algorithm bandwidth ``S / t`` falls with N although the links are as busy as
    before. Bus bandwidth multiplies it by the bytes a link *must* carry per byte of
    S, so that it can be compared with the link's one-way rate: 2(N-1)/N for
    all_reduce; (N-1)/N for reduce_scatter, all_gather and all_to_all; 1 for
    broadcast, reduce and point_to_point.

    Raises:
        ValueError: for an unknown ``op`` or numbers that make no sense.
    """
    _check(n_bytes, world_size)
    _number("seconds", seconds, above_zero=True)
    if op not in _BUS_FACTOR:
        raise ValueError(f"op must be one of {', '.join(_BUS_FACTOR)}; got {op!r}")
    return float(n_bytes / seconds * _BUS_FACTOR[op](world_size))
