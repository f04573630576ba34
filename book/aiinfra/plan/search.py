"""Every layout that fits a model on a cluster, judged at once."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from aiinfra.arch import RECOMPUTE, Architecture
from aiinfra.pipeline import SCHEDULES
from aiinfra.plan.cluster import Cluster
from aiinfra.plan.step import Layouts

MICRO_BATCHES = (1, 2, 4, 8, 16)
PLAIN = [name for name in SCHEDULES if name != "interleaved"]
MOST_CHUNKS = 8  # of a rank in an interleaved pipeline
LONG = 16_384  # tokens from which a sequence may be split over ranks
CONTEXT = (1, 2, 4, 8, 16, 32)


def divisors(number: int, most: int) -> list[int]:
    """The divisors of ``number`` that are at most ``most``."""
    return [k for k in range(1, min(number, most) + 1) if number % k == 0]


def candidates(
    model: Architecture, cluster: Cluster, *, global_batch: int, sequence: int
) -> Layouts:
    """All layouts to consider: TP x PP x CP x EP x DP x ZeRO x micro-batch x recompute.

    Tensor parallelism stays within the fast domain and divides the heads, with and
    without sequence parallelism; pipelines have at most as many stages as layers, in
    any schedule of :data:`aiinfra.pipeline.SCHEDULES`; context parallelism begins at
    sequences of 16,384 tokens; expert parallelism divides the experts and lies across
    data-parallel ranks. Degrees multiply to the number of accelerators.
    """
    rows = []
    experts = model.experts or 1
    for tp in divisors(cluster.count, min(cluster.domain, 64)):
        if model.heads % tp:
            continue
        for pp in divisors(cluster.count // tp, min(model.layers, 128)):
            rest = cluster.count // (tp * pp)
            for cp in CONTEXT if sequence >= LONG else (1,):
                if rest % cp or sequence % (2 * cp):
                    continue
                dp = rest // cp
                if global_batch % dp:
                    continue
                for ep in divisors(dp, min(dp, experts)):
                    if experts % ep:
                        continue
                    rows += leaves(model, global_batch // dp, tp, pp, cp, ep, dp)
    table = np.array(rows, dtype=np.float64).reshape(-1, 11)
    names = [field.name for field in fields(Layouts)]
    columns = dict(zip(names, table.T, strict=True))
    columns["sequence_parallel"] = columns["sequence_parallel"].astype(bool)
    return Layouts(**columns)


def leaves(
    model: Architecture, share: int, tp: int, pp: int, cp: int, ep: int, dp: int
) -> list[tuple]:
    """What may vary for given degrees; ``share`` is a rank's part of the batch."""
    rows = []
    most = min(MOST_CHUNKS, model.layers // pp)
    chunks = range(1, most + 1) if pp > 1 else (1,)
    stages = (0, 1, 2, 3) if dp * cp > 1 else (0,)
    for micro_batch in MICRO_BATCHES:
        if share % micro_batch:
            continue
        for virtual in chunks:
            if virtual > 1 and share // micro_batch % pp:
                continue  # interleaving works in rounds of pp micro-batches
            kinds = ["interleaved"] if virtual > 1 else PLAIN if pp > 1 else ["1f1b"]
            rows += [
                (tp, pp, cp, ep, dp, zero, micro_batch, virtual, recompute, shared, how)
                for how in map(SCHEDULES.index, kinds)
                for zero in stages
                for recompute in range(len(RECOMPUTE))
                for shared in ((False, True) if tp > 1 else (False,))
            ]
    return rows
