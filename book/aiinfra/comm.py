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

The functions compute with whatever numbers they are given: exact rationals
(``fractions.Fraction``) in give exact rationals out, which is how virtual time
(:mod:`aiinfra.launch.virtual`) uses them; NumPy arrays give arrays of floats.

The second half counts what each kind of parallelism sends, in bytes per rank. Those
are bytes on the wire: what a rank keeps to itself is not counted, so an all-gather of
S over N ranks is (N-1)/N * S.

Sources: Hockney 1994 (the model); Patarasuk and Yuan 2009 (ring all-reduce, and the
proof that 2(N-1)/N * S bytes per rank is the least possible); Thakur, Rabenseifner
and Gropp 2005 (recursive halving and doubling, Rabenseifner's all-reduce, and the
other collectives); Bruck et al. 1997; Sanders, Speck and Träff 2009 (two trees);
NVIDIA nccl-tests, doc/PERFORMANCE.md (bus bandwidth). Each volume names its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral
from typing import Any

import numpy as np

from aiinfra._numbers import least, number, one_of, whole

__all__ = [
    "ALL_REDUCE_S",
    "all_to_all_bytes_per_rank",
    "all_to_all_s",
    "bidirectional_ring_all_gather_s",
    "bidirectional_ring_all_reduce_s",
    "bidirectional_ring_reduce_scatter_s",
    "broadcast_bytes_per_rank",
    "broadcast_s",
    "bruck_all_gather_s",
    "bus_bandwidth",
    "bus_bandwidth_s",
    "bus_factor",
    "causal_work_shares",
    "data_parallel_bytes_per_step",
    "double_binary_tree_all_reduce_s",
    "double_binary_trees",
    "expert_destinations",
    "expert_parallel_bytes_per_layer",
    "gather_bytes_per_rank",
    "gather_s",
    "halving_doubling_all_reduce_s",
    "hierarchical_all_gather_s",
    "hierarchical_all_reduce_s",
    "hierarchical_all_to_all_s",
    "hierarchical_reduce_scatter_s",
    "nvls_all_reduce_bytes_per_rank",
    "nvls_all_reduce_s",
    "pipeline_bytes_per_micro_batch",
    "point_to_point_s",
    "recursive_doubling_all_gather_s",
    "recursive_doubling_all_reduce_s",
    "recursive_halving_reduce_scatter_s",
    "ring_all_gather_bytes_per_rank",
    "ring_all_gather_s",
    "ring_all_reduce_bytes_per_rank",
    "ring_all_reduce_s",
    "ring_attention_bytes_per_layer",
    "ring_attention_least_block_tokens",
    "ring_reduce_scatter_bytes_per_rank",
    "ring_reduce_scatter_s",
    "sharp_all_reduce_bytes_per_rank",
    "sharp_all_reduce_s",
    "tensor_parallel_bytes_per_layer",
    "torus_all_gather_s",
    "torus_all_reduce_s",
    "torus_point_to_point_s",
    "torus_reduce_scatter_s",
    "tree_all_reduce_s",
    "tree_broadcast_s",
    "ulysses_buffer_bytes_per_layer",
    "ulysses_bytes_per_layer",
    "zero_bytes_per_step",
    "zero_plus_plus_bytes_per_step",
]

# A number, an exact rational, or an array of numbers.
Number = Any


def _check(
    n_bytes: Number, world_size: Number, alpha_s: Number = 0, rate: Number = 1
) -> tuple[Number, Number, Number, Number]:
    return (
        number("n_bytes", n_bytes),
        whole("world_size", world_size, what="ranks"),
        number("alpha_s", alpha_s),
        number("bytes_per_s", rate, above_zero=True),
    )


def _floor_log2(n: Number) -> Number:
    """The largest k with 2**k <= n, without rounding error."""
    if isinstance(n, np.ndarray):
        return np.frexp(n)[1].astype(float) - 1
    return n.bit_length() - 1


def _ceil_log2(n: Number) -> Number:
    """The smallest k with 2**k >= n, without rounding error."""
    if isinstance(n, np.ndarray):
        mantissa, exponent = np.frexp(n)
        return np.where(mantissa == 0.5, exponent - 1, exponent).astype(float)
    return (n - 1).bit_length()


def point_to_point_s(n_bytes: Number, alpha_s: Number, bytes_per_s: Number) -> Number:
    """Seconds from the start of a send to the arrival of its last byte.

    ``alpha_s + n_bytes / bytes_per_s``: the first byte needs the latency, the others
    follow at the link's rate.
    """
    n_bytes, _, alpha_s, bytes_per_s = _check(n_bytes, 1, alpha_s, bytes_per_s)
    return alpha_s + n_bytes / bytes_per_s


def ring_reduce_scatter_s(
    n_bytes: Number, world_size: int, alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of a ring reduce-scatter of an ``n_bytes`` input on every rank.

    The input is cut into N chunks of S/N bytes. In each of N-1 steps every rank
    sends one chunk to its right neighbour and adds the one from its left, so that
    after N-1 steps each rank holds one chunk of the sum:
    ``(N-1) * (alpha_s + S / (N * bytes_per_s))``.
    """
    n_bytes, world_size, alpha_s, bytes_per_s = _check(
        n_bytes, world_size, alpha_s, bytes_per_s
    )
    return (world_size - 1) * (alpha_s + n_bytes / (world_size * bytes_per_s))


def ring_reduce_scatter_bytes_per_rank(n_bytes: Number, world_size: int) -> Number:
    """Bytes each rank sends (and receives): N-1 chunks of S/N, ``(N-1)/N * S``."""
    n_bytes, world_size, _, _ = _check(n_bytes, world_size)
    return (world_size - 1) * n_bytes / world_size


def ring_all_gather_s(
    n_bytes: Number, world_size: int, alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of a ring all-gather whose output is ``n_bytes`` on every rank.

    Each rank starts with a shard of S/N bytes. In each of N-1 steps it passes on the
    shard that came last, so that after N-1 steps all hold all N shards:
    ``(N-1) * (alpha_s + S / (N * bytes_per_s))``, the same as a reduce-scatter.
    """
    return ring_reduce_scatter_s(n_bytes, world_size, alpha_s, bytes_per_s)


def ring_all_gather_bytes_per_rank(n_bytes: Number, world_size: int) -> Number:
    """Bytes each rank sends (and receives): N-1 shards of S/N, ``(N-1)/N * S``."""
    return ring_reduce_scatter_bytes_per_rank(n_bytes, world_size)


def ring_all_reduce_s(
    n_bytes: Number, world_size: int, alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of a ring all-reduce of ``n_bytes`` on every rank.

    A reduce-scatter, then an all-gather of the summed chunks:
    ``2 * (N-1) * (alpha_s + S / (N * bytes_per_s))``. For large S it tends to
    ``2 S / bytes_per_s`` whatever N is; the latency term grows with N.
    """
    return 2 * ring_reduce_scatter_s(n_bytes, world_size, alpha_s, bytes_per_s)


def ring_all_reduce_bytes_per_rank(n_bytes: Number, world_size: int) -> Number:
    """Bytes each rank sends (and receives): ``2 * (N-1)/N * S``."""
    return 2 * ring_reduce_scatter_bytes_per_rank(n_bytes, world_size)


def broadcast_s(
    n_bytes: Number,
    world_size: int,
    alpha_s: Number,
    bytes_per_s: Number,
    n_chunks: int | None = None,
) -> Number:
    """Seconds of a broadcast along a pipelined chain (NCCL's ring broadcast).

    The ranks form a chain from the root. The message is cut into C chunks; a rank
    forwards each chunk as soon as it has it. The last rank has the first chunk after
    N-1 hops and one more chunk per hop time, so ``(N-2+C) * (alpha_s +
    S / (C * bytes_per_s))``. By default C is the whole number that makes this
    least, near ``sqrt((N-2) * S / (alpha_s * bytes_per_s))``; as alpha_s goes to 0,
    chunks get small without bound and the time tends to ``S / bytes_per_s``.

    A reduce along the same chain, towards the root, takes the same time.
    """
    n_bytes, world_size, alpha_s, bytes_per_s = _check(
        n_bytes, world_size, alpha_s, bytes_per_s
    )
    if n_chunks is not None and (not isinstance(n_chunks, Integral) or n_chunks < 1):
        raise ValueError(f"n_chunks must be a whole number >= 1, got {n_chunks!r}")
    given = (n_bytes, world_size, alpha_s, bytes_per_s)
    if any(isinstance(value, np.ndarray) for value in given):

        def one(size: float, ranks: float, alpha: float, rate: float) -> float:
            return broadcast_s(size, int(ranks), alpha, rate, n_chunks)

        return np.vectorize(one, otypes=[float])(*given)
    if world_size == 1:
        return 0 * (alpha_s + n_bytes / bytes_per_s)  # 0, of the arguments' type

    def time_s(chunks: int) -> Number:
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
    n_bytes: Number, world_size: int, alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of a broadcast along a binomial tree, the usual choice for small ones.

    In every step each rank that has the whole message sends it to one that has not,
    so the number of holders doubles: ``ceil(log2 N) * (alpha_s + S / bytes_per_s)``.
    """
    n_bytes, world_size, alpha_s, bytes_per_s = _check(
        n_bytes, world_size, alpha_s, bytes_per_s
    )
    return _ceil_log2(world_size) * (alpha_s + n_bytes / bytes_per_s)


def broadcast_bytes_per_rank(n_bytes: Number, world_size: int) -> Number:
    """Bytes the busiest rank sends in a chain broadcast: S (0 with one rank)."""
    n_bytes, world_size, _, _ = _check(n_bytes, world_size)
    return n_bytes * (world_size > 1)


def all_to_all_s(
    n_bytes: Number, world_size: int, alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of an all-to-all in which every rank has an ``n_bytes`` input.

    Pairwise exchange: in step k of N-1, rank r sends S/N bytes to rank r+k and
    receives as many from rank r-k: ``(N-1) * (alpha_s + S / (N * bytes_per_s))``.
    """
    return ring_reduce_scatter_s(n_bytes, world_size, alpha_s, bytes_per_s)


def all_to_all_bytes_per_rank(n_bytes: Number, world_size: int) -> Number:
    """Bytes each rank sends (and receives): all but its own share, ``(N-1)/N * S``."""
    return ring_reduce_scatter_bytes_per_rank(n_bytes, world_size)


def gather_s(
    n_bytes: Number, world_size: int, alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of a gather to one root (or, reversed, a scatter) of ``n_bytes`` in all.

    All N-1 others send their S/N bytes to the root at once. The latencies pass side
    by side, but the root's link takes the bytes one after another:
    ``alpha_s + (N-1)/N * S / bytes_per_s``.
    """
    n_bytes, world_size, alpha_s, bytes_per_s = _check(
        n_bytes, world_size, alpha_s, bytes_per_s
    )
    bytes_s = (world_size - 1) * n_bytes / (world_size * bytes_per_s)
    return (world_size > 1) * alpha_s + bytes_s


def gather_bytes_per_rank(n_bytes: Number, world_size: int) -> Number:
    """Bytes through the busiest link, the root's: ``(N-1)/N * S``."""
    return ring_reduce_scatter_bytes_per_rank(n_bytes, world_size)


# ------------------------------------------------------- other algorithms


def bidirectional_ring_all_gather_s(
    n_bytes: Number, world_size: Number, alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of an all-gather on a ring whose links are used both ways at once.

    Every rank has two links, one to each neighbour, each ``bytes_per_s`` in each
    direction, as on one axis of a TPU's torus. Shards of S/N travel both ways, so the
    farthest has floor(N/2) hops: ``floor(N/2) * (alpha_s + S / (N * bytes_per_s))``.
    For even N that is S over the rate of the two directions together, plus latency
    (the shard half way round arrives twice).
    """
    n_bytes, world_size, alpha_s, bytes_per_s = _check(
        n_bytes, world_size, alpha_s, bytes_per_s
    )
    return world_size // 2 * (alpha_s + n_bytes / (world_size * bytes_per_s))


def bidirectional_ring_reduce_scatter_s(
    n_bytes: Number, world_size: Number, alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of a reduce-scatter both ways round: the all-gather run backwards."""
    return bidirectional_ring_all_gather_s(n_bytes, world_size, alpha_s, bytes_per_s)


def bidirectional_ring_all_reduce_s(
    n_bytes: Number, world_size: Number, alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of a reduce-scatter and an all-gather, both ways round the ring."""
    return 2 * bidirectional_ring_all_gather_s(
        n_bytes, world_size, alpha_s, bytes_per_s
    )


def recursive_doubling_all_gather_s(
    n_bytes: Number, world_size: Number, alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of an all-gather in log2 N steps, for N a power of two.

    In step k = 0, 1, ... a rank exchanges all it has, 2^k shards of S/N, with the one
    whose number differs in bit k: ``log2(N) * alpha_s + (N-1)/N * S / bytes_per_s``.
    The least possible of both terms, but partners are far apart: on a network that
    isn't a full crossbar the steps share links.

    Raises:
        ValueError: for other N: :func:`bruck_all_gather_s` takes any.
    """
    n_bytes, world_size, alpha_s, bytes_per_s = _check(
        n_bytes, world_size, alpha_s, bytes_per_s
    )
    steps = _ceil_log2(world_size)
    if np.any(np.not_equal(2**steps, world_size)):
        raise ValueError(
            f"world_size must be a power of two, got {world_size!r}; "
            "bruck_all_gather_s takes any"
        )
    bytes_s = (world_size - 1) * n_bytes / (world_size * bytes_per_s)
    return steps * alpha_s + bytes_s


def recursive_halving_reduce_scatter_s(
    n_bytes: Number, world_size: Number, alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of a reduce-scatter in log2 N steps, for N a power of two.

    Recursive doubling run backwards: S/2, then S/4, ... to ever nearer partners.
    """
    return recursive_doubling_all_gather_s(n_bytes, world_size, alpha_s, bytes_per_s)


def bruck_all_gather_s(
    n_bytes: Number, world_size: Number, alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of an all-gather in ceil(log2 N) steps, for any N (Bruck et al.).

    In step k rank r sends all it has to rank r - 2^k; in the last step only what is
    missing: ``ceil(log2 N) * alpha_s + (N-1)/N * S / bytes_per_s``.
    """
    n_bytes, world_size, alpha_s, bytes_per_s = _check(
        n_bytes, world_size, alpha_s, bytes_per_s
    )
    bytes_s = (world_size - 1) * n_bytes / (world_size * bytes_per_s)
    return _ceil_log2(world_size) * alpha_s + bytes_s


def _folded_s(world_size: Number, message_s: Number) -> Number:
    """Seconds to fold ranks beyond a power of two into others, and to tell them."""
    beyond = np.not_equal(2 ** _floor_log2(world_size), world_size)
    return 2 * message_s * (beyond if isinstance(beyond, np.ndarray) else int(beyond))


def recursive_doubling_all_reduce_s(
    n_bytes: Number, world_size: Number, alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of an all-reduce in which partners exchange and add whole buffers.

    ``log2(N) * (alpha_s + S / bytes_per_s)``: the fewest steps, so the best for short
    messages. Of N that is not a power of two, the ranks beyond 2^floor(log2 N) first
    send their buffers to others and get the sum at the end, two messages more.
    """
    n_bytes, world_size, alpha_s, bytes_per_s = _check(
        n_bytes, world_size, alpha_s, bytes_per_s
    )
    message_s = alpha_s + n_bytes / bytes_per_s
    return _floor_log2(world_size) * message_s + _folded_s(world_size, message_s)


def halving_doubling_all_reduce_s(
    n_bytes: Number, world_size: Number, alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of Rabenseifner's all-reduce: recursive halving, then doubling.

    ``2 * log2(N) * alpha_s + 2 * (N-1)/N * S / bytes_per_s``: a ring's bytes in a
    tree's number of steps. Other N as in :func:`recursive_doubling_all_reduce_s`.
    """
    n_bytes, world_size, alpha_s, bytes_per_s = _check(
        n_bytes, world_size, alpha_s, bytes_per_s
    )
    steps = _floor_log2(world_size)
    inner = 2**steps
    bytes_s = (inner - 1) * n_bytes / (inner * bytes_per_s)
    message_s = alpha_s + n_bytes / bytes_per_s
    return 2 * (steps * alpha_s + bytes_s) + _folded_s(world_size, message_s)


def tree_all_reduce_s(
    n_bytes: Number, world_size: Number, alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of a reduce up a binomial tree and a broadcast down it.

    ``2 * ceil(log2 N) * (alpha_s + S / bytes_per_s)``: every level sends the whole
    buffer, one level after another.
    """
    return 2 * tree_broadcast_s(n_bytes, world_size, alpha_s, bytes_per_s)


def double_binary_trees(world_size: int) -> tuple[list[int | None], list[int | None]]:
    """The parent of every rank in each of two binary trees (None for the root).

    No rank has more than two children, both trees together: who is inside one tree is
    a leaf of the other. So with half of the buffer in each tree all links are busy,
    where in one tree the leaves' would rest. The first tree numbers its nodes in
    order: even ranks are inner, odd ones leaves. The second is its mirror image for
    even N, and for odd N the first moved on by one rank.

    Source: Sanders, Speck and Träff 2009; the numbering as NCCL's trees.
    """
    world_size = whole("world_size", world_size, what="ranks", high=10**6)

    def parent(rank: int) -> int | None:
        if rank == 0:
            return None
        lowest = rank & -rank
        over = (rank ^ lowest) | (lowest << 1)
        return over if over < world_size else rank ^ lowest

    first = [parent(rank) for rank in range(world_size)]

    def move(rank: int) -> int:
        return world_size - 1 - rank if world_size % 2 == 0 else (rank + 1) % world_size

    second: list[int | None] = [None] * world_size
    for rank, above in enumerate(first):
        second[move(rank)] = None if above is None else move(above)
    return first, second


def double_binary_tree_all_reduce_s(
    n_bytes: Number, world_size: Number, alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of an all-reduce on two binary trees, cut into many small chunks.

    Half of the buffer goes up and down each tree (:func:`double_binary_trees`). A rank
    sends at most S up (S/2 as a child in each tree) and S down (S/2 to each of its two
    children): ``2 * S / bytes_per_s``, nearly a ring's. A chunk passes at most
    ceil(log2 N) hops up and as many down, and chunks follow one another at once:
    ``+ 2 * ceil(log2 N) * alpha_s``, far less than a ring's 2(N-1).

    A bound for chunks so small that filling the trees costs nothing more; real ones
    are paid for, which is why NCCL weighs its trees down by a measured factor. With
    two ranks the trees are one exchange, S each way.
    """
    n_bytes, world_size, alpha_s, bytes_per_s = _check(
        n_bytes, world_size, alpha_s, bytes_per_s
    )
    bytes_s = least(world_size - 1, 2) * n_bytes / bytes_per_s
    return 2 * _ceil_log2(world_size) * alpha_s + bytes_s


def sharp_all_reduce_bytes_per_rank(n_bytes: Number, world_size: Number) -> Number:
    """Bytes each rank sends when switches add up (InfiniBand SHARP): S, and receives S.

    Half of a ring's 2(N-1)/N for many ranks.
    """
    return broadcast_bytes_per_rank(n_bytes, world_size)


def sharp_all_reduce_s(
    n_bytes: Number, world_size: Number, alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of an all-reduce that a tree of switches adds up on the way.

    Buffers stream up and the sum streams down at the same time:
    ``2 * alpha_s + S / bytes_per_s``, with alpha_s once to the top switch and once
    back.
    """
    n_bytes, world_size, alpha_s, bytes_per_s = _check(
        n_bytes, world_size, alpha_s, bytes_per_s
    )
    return (world_size > 1) * (2 * alpha_s + n_bytes / bytes_per_s)


def nvls_all_reduce_bytes_per_rank(n_bytes: Number, world_size: Number) -> Number:
    """Bytes each rank sends when an NVSwitch adds up (NVLink SHARP): (N+1)/N * S.

    Each rank takes care of S/N. It reads the sum of its share through the switch, to
    which all ranks, itself too, send theirs: N shares sent by each rank. Then it
    sends the sum once, and the switch copies it to all: N + 1 sends of S/N.
    """
    n_bytes, world_size, _, _ = _check(n_bytes, world_size)
    return (world_size > 1) * (world_size + 1) * n_bytes / world_size


def nvls_all_reduce_s(
    n_bytes: Number, world_size: Number, alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of an all-reduce added up by NVSwitches.

    ``2 * alpha_s + (N+1)/N * S / bytes_per_s``, see
    :func:`nvls_all_reduce_bytes_per_rank`. Its bus bandwidth, which assumes a ring's
    bytes, comes out above the link's rate.
    """
    n_bytes, world_size, alpha_s, bytes_per_s = _check(
        n_bytes, world_size, alpha_s, bytes_per_s
    )
    sent = nvls_all_reduce_bytes_per_rank(n_bytes, world_size)
    return (world_size > 1) * 2 * alpha_s + sent / bytes_per_s


def _axes(axes: Sequence[int]) -> list[int]:
    if not isinstance(axes, Sequence) or isinstance(axes, str) or not axes:
        raise ValueError(f"axes must be sizes like (4, 4, 8), got {axes!r}")
    sizes = [whole(f"axes[{i}]", size, high=10**6) for i, size in enumerate(axes)]
    whole("the product of axes", math.prod(sizes))
    return sizes


def torus_all_gather_s(
    n_bytes: Number, axes: Sequence[int], alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of an all-gather over all of a torus, whose output is ``n_bytes``.

    Every link is ``bytes_per_s`` in each direction, two per axis and rank. The data
    is cut into one part per axis. In phase t part i is gathered along axis i + t,
    both ways round, so every axis is busy in every phase; what it gathers grows with
    each. A phase lasts as long as its slowest part. With k equal axes of n ranks and
    no latency: (S - S / n^k) / k, over the rate of an axis's two directions (for even
    n: n/(n-1) times that).
    """
    sizes = _axes(axes)
    n_bytes, ranks, alpha_s, bytes_per_s = _check(
        n_bytes, math.prod(sizes), alpha_s, bytes_per_s
    )
    parts = len(sizes)
    held = [n_bytes / (parts * ranks) for _ in sizes]
    total_s = 0 * (alpha_s + n_bytes / bytes_per_s)  # of the arguments' type
    for phase in range(parts):
        phase_s = []
        for part in range(parts):
            size = sizes[(part + phase) % parts]
            held[part] = held[part] * size
            phase_s.append(
                bidirectional_ring_all_gather_s(held[part], size, alpha_s, bytes_per_s)
            )
        total_s = total_s + (
            np.max(np.broadcast_arrays(*phase_s), axis=0)
            if any(isinstance(s, np.ndarray) for s in phase_s)
            else max(phase_s)
        )
    return total_s


def torus_reduce_scatter_s(
    n_bytes: Number, axes: Sequence[int], alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of a reduce-scatter over all of a torus: the all-gather backwards."""
    return torus_all_gather_s(n_bytes, axes, alpha_s, bytes_per_s)


def torus_all_reduce_s(
    n_bytes: Number, axes: Sequence[int], alpha_s: Number, bytes_per_s: Number
) -> Number:
    """Seconds of a reduce-scatter, then an all-gather, over all of a torus."""
    return 2 * torus_all_gather_s(n_bytes, axes, alpha_s, bytes_per_s)


def torus_point_to_point_s(
    n_bytes: Number,
    source: Sequence[int],
    target: Sequence[int],
    axes: Sequence[int],
    hop_s: Number,
    bytes_per_s: Number,
    wrap: bool = True,
) -> Number:
    """Seconds to send ``n_bytes`` from one chip of a torus (or mesh) to another.

    The message is split over as many shortest paths as leave by different links: one
    per axis on which the two chips differ. ``hops * hop_s + S / (paths *
    bytes_per_s)``; without ``wrap`` the axes have ends (a mesh).
    """
    sizes = _axes(axes)
    n_bytes, _, hop_s, bytes_per_s = _check(n_bytes, 1, hop_s, bytes_per_s)
    distances = []
    for name, place in (("source", source), ("target", target)):
        if len(place) != len(sizes):
            raise ValueError(
                f"{name} must have {len(sizes)} coordinates, got {place!r}"
            )
        for i, (at, size) in enumerate(zip(place, sizes, strict=True)):
            whole(f"{name}[{i}]", at, low=0)
            if at >= size:
                raise ValueError(f"{name}[{i}] must be below {size}, got {at}")
    for a, b, size in zip(source, target, sizes, strict=True):
        distance = abs(a - b)
        distances.append(min(distance, size - distance) if wrap else distance)
    paths = sum(distance > 0 for distance in distances)
    if paths == 0:
        return 0 * (hop_s + n_bytes / bytes_per_s)
    return sum(distances) * hop_s + n_bytes / (paths * bytes_per_s)


def _levels(
    ranks_per_node: Number,
    nodes: Number,
    intra: tuple[Number, Number],
    inter: tuple[Number, Number],
) -> tuple[Number, ...]:
    return (
        whole("ranks_per_node", ranks_per_node, what="ranks"),
        whole("nodes", nodes, what="nodes"),
        number("intra_alpha_s", intra[0]),
        number("intra_bytes_per_s", intra[1], above_zero=True),
        number("inter_alpha_s", inter[0]),
        number("inter_bytes_per_s", inter[1], above_zero=True),
    )


def hierarchical_reduce_scatter_s(
    n_bytes: Number,
    ranks_per_node: Number,
    nodes: Number,
    intra_alpha_s: Number,
    intra_bytes_per_s: Number,
    inter_alpha_s: Number,
    inter_bytes_per_s: Number,
) -> Number:
    """Seconds of a reduce-scatter in two levels of rings.

    First within each node, of S over g = ``ranks_per_node`` ranks; then the g-th part
    that each rank holds among the ranks of the same place in all nodes, g rings side
    by side, each on its rank's own network link of ``inter_bytes_per_s`` one way.
    """
    g, nodes, alpha_in, rate_in, alpha_out, rate_out = _levels(
        ranks_per_node,
        nodes,
        (intra_alpha_s, intra_bytes_per_s),
        (inter_alpha_s, inter_bytes_per_s),
    )
    n_bytes = number("n_bytes", n_bytes)
    inner_s = ring_reduce_scatter_s(n_bytes, g, alpha_in, rate_in)
    return inner_s + ring_reduce_scatter_s(n_bytes / g, nodes, alpha_out, rate_out)


def hierarchical_all_gather_s(
    n_bytes: Number,
    ranks_per_node: Number,
    nodes: Number,
    intra_alpha_s: Number,
    intra_bytes_per_s: Number,
    inter_alpha_s: Number,
    inter_bytes_per_s: Number,
) -> Number:
    """Seconds of an all-gather in two levels of rings: between nodes, then within."""
    return hierarchical_reduce_scatter_s(
        n_bytes,
        ranks_per_node,
        nodes,
        intra_alpha_s,
        intra_bytes_per_s,
        inter_alpha_s,
        inter_bytes_per_s,
    )


def hierarchical_all_reduce_s(
    n_bytes: Number,
    ranks_per_node: Number,
    nodes: Number,
    intra_alpha_s: Number,
    intra_bytes_per_s: Number,
    inter_alpha_s: Number,
    inter_bytes_per_s: Number,
) -> Number:
    """Seconds of an all-reduce in two levels.

    Reduce-scatter within the node, all-reduce of S/g between nodes, all-gather within
    the node: the network carries 2(n-1)/n * S/g per rank instead of 2(N-1)/N * S.
    """
    return 2 * hierarchical_reduce_scatter_s(
        n_bytes,
        ranks_per_node,
        nodes,
        intra_alpha_s,
        intra_bytes_per_s,
        inter_alpha_s,
        inter_bytes_per_s,
    )


def hierarchical_all_to_all_s(
    n_bytes: Number,
    ranks_per_node: Number,
    nodes: Number,
    intra_alpha_s: Number,
    intra_bytes_per_s: Number,
    inter_alpha_s: Number,
    inter_bytes_per_s: Number,
) -> Number:
    """Seconds of an all-to-all in two steps, every rank having an ``n_bytes`` input.

    First each rank hands what is for place j of any node to place j of its own node
    (an all-to-all of S over g ranks); then the ranks of the same place exchange
    between nodes (of S over n nodes). The network carries (n-1)/n * S per rank, which
    no algorithm can avoid, in n-1 messages of S/n instead of N-g of S/N.
    """
    g, nodes, alpha_in, rate_in, alpha_out, rate_out = _levels(
        ranks_per_node,
        nodes,
        (intra_alpha_s, intra_bytes_per_s),
        (inter_alpha_s, inter_bytes_per_s),
    )
    n_bytes = number("n_bytes", n_bytes)
    inner_s = all_to_all_s(n_bytes, g, alpha_in, rate_in)
    return inner_s + all_to_all_s(n_bytes, nodes, alpha_out, rate_out)


# The all-reduces that take (n_bytes, world_size, alpha_s, bytes_per_s), by name.
ALL_REDUCE_S = {
    "ring": ring_all_reduce_s,
    "bidirectional ring": bidirectional_ring_all_reduce_s,
    "recursive doubling": recursive_doubling_all_reduce_s,
    "halving and doubling": halving_doubling_all_reduce_s,
    "tree": tree_all_reduce_s,
    "double binary tree": double_binary_tree_all_reduce_s,
    "SHARP": sharp_all_reduce_s,
    "NVLink SHARP": nvls_all_reduce_s,
}


# ------------------------------------------------------------ bus bandwidth

# nccl-tests, doc/PERFORMANCE.md: what algorithm bandwidth S/t is multiplied by so that
# the result compares with the speed of one link, whatever the number of ranks.
_BUS_FACTOR = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "broadcast": lambda n: n / n,
    "reduce": lambda n: n / n,
    "point_to_point": lambda n: n / n,
}


def bus_factor(world_size: Number, op: str) -> Number:
    """Bytes that a link must carry per byte of S, as nccl-tests counts them.

    2(N-1)/N for all_reduce; (N-1)/N for reduce_scatter, all_gather and all_to_all;
    1 for broadcast, reduce and point_to_point.
    """
    world_size = whole("world_size", world_size, what="ranks")
    one_of("op", op, tuple(_BUS_FACTOR))
    return _BUS_FACTOR[op](world_size)


def bus_bandwidth(n_bytes: Number, seconds: Number, world_size: Number, op: str) -> Any:
    """Bus bandwidth in bytes per second, as nccl-tests defines it ("busbw").

    Algorithm bandwidth ``S / t`` falls with N although the links are as busy as
    before. Bus bandwidth multiplies it by the bytes a link *must* carry per byte of
    S (:func:`bus_factor`), so that it can be compared with the link's one-way rate.
    A switch that adds up on the way makes fewer bytes do: the result is then above
    the link's rate.

    Raises:
        ValueError: for an unknown ``op`` or numbers that make no sense.
    """
    n_bytes, world_size, _, _ = _check(n_bytes, world_size)
    seconds = number("seconds", seconds, above_zero=True)
    bandwidth = n_bytes / seconds * bus_factor(world_size, op)
    return bandwidth if isinstance(bandwidth, np.ndarray) else float(bandwidth)


def bus_bandwidth_s(
    n_bytes: Number, bus_bytes_per_s: Number, world_size: Number, op: str
) -> Any:
    """Seconds that an operation of ``n_bytes`` took, from its bus bandwidth."""
    n_bytes, world_size, _, _ = _check(n_bytes, world_size)
    rate = number("bus_bytes_per_s", bus_bytes_per_s, above_zero=True)
    seconds = n_bytes * bus_factor(world_size, op) / rate
    return seconds if isinstance(seconds, np.ndarray) else float(seconds)


# --------------------------------------- what each parallelism sends, per rank


def data_parallel_bytes_per_step(
    parameters: Number, dp: Number, bytes_per_gradient: Number = 2
) -> Number:
    """Bytes each rank sends for one ring all-reduce of the gradients."""
    parameters = number("parameters", parameters)
    each = number("bytes_per_gradient", bytes_per_gradient, above_zero=True)
    dp = whole("dp", dp, what="ranks")
    return ring_all_reduce_bytes_per_rank(parameters * each, dp)


def zero_bytes_per_step(
    parameters: Number,
    dp: Number,
    stage: int,
    micro_batches: Number = 1,
    bytes_per_gradient: Number = 2,
    bytes_per_parameter: Number = 2,
) -> Number:
    """Bytes each rank sends per optimizer step under ZeRO stage 0, 1, 2 or 3.

    In units of (N-1)/N of a buffer of all parameters, for m micro-batches:

    ===== =========================================================== =======
    stage what is sent                                                    sum
    ===== =========================================================== =======
    0     all-reduce of the gradients                                       2
    1     reduce-scatter of gradients, all-gather of new parameters         2
    2     the same, but gradients are scattered after each micro-batch  m + 1
    3     two all-gathers and a reduce-scatter for each micro-batch        3m
    ===== =========================================================== =======

    Stages 0 and 1 accumulate gradients locally and communicate once. Source:
    Rajbhandari et al. 2020, arXiv:1910.02054, section 7.
    """
    one_of("stage", stage, (0, 1, 2, 3))
    parameters = number("parameters", parameters)
    dp = whole("dp", dp, what="ranks")
    m = whole("micro_batches", micro_batches)
    gradients = parameters * number(
        "bytes_per_gradient", bytes_per_gradient, above_zero=True
    )
    weights = parameters * number(
        "bytes_per_parameter", bytes_per_parameter, above_zero=True
    )
    buffers = {
        0: 2 * gradients,
        1: gradients + weights,
        2: m * gradients + weights,
        3: m * (gradients + 2 * weights),
    }[stage]
    return ring_all_gather_bytes_per_rank(buffers, dp)


def zero_plus_plus_bytes_per_step(
    parameters: Number,
    dp: Number,
    quantized_weights: bool = True,
    secondary_partition: bool = True,
    quantized_gradients: bool = True,
    bytes_per_element: Number = 2,
) -> Number:
    """Bytes each rank sends out of its node per micro-batch under ZeRO++.

    ZeRO-3's three buffers of 16-bit numbers, each made smaller: the weights gathered
    for the forward travel as int8 (a half); the backward gathers them from a second
    copy kept within the node (nothing leaves it); gradients are reduced within the
    node first, then between nodes as int4 (a quarter). From 3 buffers to 0.75.

    Counted as if all of a ring's traffic crossed between nodes, which is what bounds
    it. Source: Wang et al. 2023, arXiv:2306.10209.
    """
    buffers = Fraction(1, 2) if quantized_weights else Fraction(1)
    buffers += 0 if secondary_partition else 1
    buffers += Fraction(1, 4) if quantized_gradients else 1
    size = number("parameters", parameters) * number(
        "bytes_per_element", bytes_per_element, above_zero=True
    )
    if not isinstance(size, Fraction):
        buffers = float(buffers)
    return ring_all_gather_bytes_per_rank(buffers * size, whole("dp", dp, what="ranks"))


def tensor_parallel_bytes_per_layer(
    tokens: Number,
    d_model: Number,
    tp: Number,
    bytes_per_element: Number = 2,
    *,
    sequence_parallel: bool = False,
    recompute: str = "none",
    backward: bool = True,
) -> Number:
    """Bytes each rank sends per transformer layer and micro-batch of ``tokens``.

    Megatron-LM's split has one all-reduce of the activations after attention and one
    after the MLP, forward, and one before each, backward: 4 all-reduces, 8(t-1)/t
    elements per activation of ``tokens * d_model``. Recomputing the whole layer runs
    the two of the forward again; recomputing attention's core alone, none.

    With sequence parallelism each is a reduce-scatter and an all-gather, the same
    bytes; the backward gathers the two inputs once more, because each rank keeps only
    its part of them.

    Sources: Narayanan et al. 2021, arXiv:2104.04473, 3.2; Korthikanti et al. 2022,
    arXiv:2205.05198, 4.2.
    """
    one_of("recompute", recompute, ("none", "selective", "full"))
    size = _activation_bytes(tokens, d_model, bytes_per_element)
    passes = 2 if backward else 1
    if backward and recompute == "full":
        passes += 1
    gathers = 4 * passes  # an all-reduce sends as much as two of them
    if backward and sequence_parallel:
        gathers += 2
    return gathers * ring_all_gather_bytes_per_rank(size, whole("tp", tp, what="ranks"))


def _activation_bytes(
    tokens: Number, d_model: Number, bytes_per_element: Number
) -> Number:
    return (
        number("tokens", tokens)
        * number("d_model", d_model)
        * number("bytes_per_element", bytes_per_element, above_zero=True)
    )


def pipeline_bytes_per_micro_batch(
    tokens: Number,
    d_model: Number,
    bytes_per_element: Number = 2,
    scattered_over: Number = 1,
) -> Number:
    """Bytes between two stages, each way: activations forward, gradients back.

    ``scattered_over`` is the number of tensor-parallel ranks among which the message
    is split, each sending its part (and gathering on the other side unless sequence
    parallelism wants the parts).
    """
    size = _activation_bytes(tokens, d_model, bytes_per_element)
    return size / whole("scattered_over", scattered_over, what="ranks")


def ring_attention_bytes_per_layer(
    tokens: Number,
    kv_heads: Number,
    d_head: Number,
    cp: Number,
    bytes_per_element: Number = 2,
    *,
    backward: bool = False,
    bytes_per_gradient: Number = 2,
) -> Number:
    """Bytes each rank sends per layer to pass keys and values round a ring.

    ``tokens`` is the whole sequence (times the batch); each of the N = ``cp`` ranks
    holds tokens/N. Forward: its K and V make N-1 hops, (N-1)/N * 2 * tokens *
    kv_heads * d_head elements, as many as an all-gather of them. With ``backward``,
    K and V go round again, and their gradients follow through all N hops, back to
    where they belong. Zig-zag order changes who has which tokens, not the bytes.

    Source: Liu et al. 2023, arXiv:2310.01889.
    """
    size = _activation_bytes(tokens, 1, bytes_per_element) * 2
    width = number("kv_heads", kv_heads) * number("d_head", d_head)
    cp = whole("cp", cp, what="ranks")
    sent = ring_all_gather_bytes_per_rank(size * width, cp)
    if not backward:
        return sent
    each = number("bytes_per_gradient", bytes_per_gradient, above_zero=True)
    # With one rank there is no ring.
    gradients = (cp > 1) * 2 * number("tokens", tokens) * width * each
    return 2 * sent + gradients


def ring_attention_least_block_tokens(
    flops: Number,
    bytes_per_s: Number,
    bytes_per_element: Number = 2,
    kv_share: Number = 1,
) -> Number:
    """The smallest block, in tokens, whose computing hides its K and V's passing on.

    Attention of c queries with c keys takes 4 d c^2 FLOPs, and 2 d c * kv_share
    elements arrive meanwhile, ``kv_share`` being KV heads over query heads:
    ``c >= flops * bytes_per_element * kv_share / (2 * bytes_per_s)``. A causal mask
    halves the work and doubles this.

    Source: Liu et al. 2023, arXiv:2310.01889, 3.2 (which takes two bytes, all heads).
    """
    flops = number("flops", flops, above_zero=True)
    rate = number("bytes_per_s", bytes_per_s, above_zero=True)
    each = number("bytes_per_element", bytes_per_element, above_zero=True)
    share = number("kv_share", kv_share, above_zero=True, high=1)
    return flops * each * share / (2 * rate)


def causal_work_shares(cp: int, zigzag: bool = True) -> list[Fraction]:
    """Each rank's part of a causal attention's work; they add up to 1.

    Of a sequence cut into n chunks, chunk i attends to i chunks before it and half of
    itself: (2i + 1) / n^2 of the work. In order, the last of N ranks has nearly twice
    the mean. In zig-zag order rank r has chunks r and 2N-1-r of 2N, and all have 1/N.
    """
    cp = whole("cp", cp, what="ranks", high=10**6)
    if zigzag:
        pairs = ((r, 2 * cp - 1 - r) for r in range(cp))
        return [Fraction(2 * (a + b + 1), 4 * cp * cp) for a, b in pairs]
    return [Fraction(2 * r + 1, cp * cp) for r in range(cp)]


def ulysses_buffer_bytes_per_layer(
    tokens: Number,
    heads: int,
    kv_heads: int,
    d_head: int,
    ulysses: int,
    bytes_per_element: Number = 2,
) -> Number:
    """Bytes that a rank puts into the forward's all-to-alls, own share included.

    Queries, keys and values go from tokens/N with all heads to all tokens with heads/N
    on each rank, and the output comes back: tokens/N * (2 heads + 2 kv_heads) * d_head
    elements; with as many KV heads as heads, 4 tokens * d / N. KV heads are copied
    until every rank has one. Hand this to :func:`all_to_all_s` as ``n_bytes`` for the
    time, to :func:`all_to_all_bytes_per_rank` for the bytes on the wire.

    Source: Jacobs et al. 2023, arXiv:2309.14509.
    """
    ulysses = whole("ulysses", ulysses, what="ranks")
    heads, kv_heads = whole("heads", heads), whole("kv_heads", kv_heads)
    if heads % ulysses:
        raise ValueError(
            f"ulysses must divide heads, got {ulysses} ranks for {heads} heads"
        )
    width = 2 * (heads + max(kv_heads, ulysses)) * whole("d_head", d_head)
    return _activation_bytes(tokens, width, bytes_per_element) / ulysses


def ulysses_bytes_per_layer(
    tokens: Number,
    heads: int,
    kv_heads: int,
    d_head: int,
    ulysses: int,
    bytes_per_element: Number = 2,
) -> Number:
    """Bytes each rank sends per layer, forward: (N-1)/N of its buffers.

    The backward sends as much again.
    """
    size = ulysses_buffer_bytes_per_layer(
        tokens, heads, kv_heads, d_head, ulysses, bytes_per_element
    )
    return all_to_all_bytes_per_rank(size, ulysses)


def expert_parallel_bytes_per_layer(
    tokens: Number,
    d_model: Number,
    destinations: Number,
    dispatch_bytes_per_element: Number = 2,
    combine_bytes_per_element: Number = 2,
) -> Number:
    """Bytes each rank sends per mixture-of-experts layer, forward.

    Each of the rank's ``tokens`` is sent to ``destinations`` places, and from each a
    result comes back; with balanced experts a rank returns as many as it sends. The
    backward sends as much again. ``destinations`` are places off the rank, or off the
    node, whichever link is priced: :func:`expert_destinations` counts them.

    Source: DeepSeek-AI 2024, arXiv:2412.19437, 3.2.2 and 3.4 (FP8 dispatch, BF16
    combine).
    """
    there = number("dispatch_bytes_per_element", dispatch_bytes_per_element)
    back = number("combine_bytes_per_element", combine_bytes_per_element)
    size = number("tokens", tokens) * number("d_model", d_model)
    return size * number("destinations", destinations) * (there + back)


def expert_destinations(
    experts: int, experts_per_token: int, groups: int, limit: int | None = None
) -> Fraction:
    """Expected number of groups (ranks, or nodes) that hold a token's experts.

    The ``experts`` are spread evenly over ``groups`` and a token chooses
    ``experts_per_token`` different ones, all equally likely. A group is spared with
    probability C(E - E/G, k) / C(E, k). With a ``limit`` the token first chooses that
    many groups, then experts among theirs (node-limited routing), so there are at most
    ``limit`` of them.

    One of G groups is a token's own: multiply by (G-1)/G for what leaves it. Copies
    for experts of the same group travel once.

    Source: DeepSeek-AI 2024, arXiv:2412.19437, 2.1.2 (node-limited routing).
    """
    experts = whole("experts", experts, high=10**5)
    groups = whole("groups", groups, what="groups")
    if experts % groups:
        raise ValueError(f"groups must divide experts, got {groups} for {experts}")
    chosen_from = groups if limit is None else whole("limit", limit)
    if chosen_from > groups:
        raise ValueError(f"limit must be at most groups = {groups}, got {limit}")
    pool = experts // groups * chosen_from
    k = whole("experts_per_token", experts_per_token)
    if k > pool:
        raise ValueError(
            f"experts_per_token must be at most the {pool} experts to choose from, "
            f"got {k}"
        )
    spared = Fraction(math.comb(pool - experts // groups, k), math.comb(pool, k))
    return chosen_from * (1 - spared)
