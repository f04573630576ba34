"""How long one training step takes: a model of time with five fitted efficiencies.

All functions take arrays: one element for each layout, evaluated at once.

For one micro-batch of b sequences, a rank holds T = b S / cp tokens of L / pp layers.
Forward, one layer takes the sum of

- products: 2 T P / tp FLOP, with P the layer's weights that a token meets, at
  ``gemm`` times the peak rate;
- attention: 4 T S H D / tp FLOP over pairs. Fused (flash) kernels skip the masked half
  and reach ``attention`` of the peak; unfused ones do all of it and also move the score
  matrix five times through memory;
- the rest (norms, residuals, activations) is bound by memory: bytes over ``memory``
  times the bandwidth. Sequence parallelism shares what tensor parallelism leaves whole;
- tensor parallelism: two all-reduces of T d bf16 values, nothing hidden, at ``network``
  of the link's rate; context parallelism: (cp-1) blocks of keys and values, hidden
  behind attention as far as that lasts; expert parallelism: two all-to-alls.

Backward takes twice the products and the rest, 2 or 2.5 times the attention, the same
messages; full recomputation adds a forward, selective recomputation the attention.

A step is m micro-batches of that, the pipeline's bubble, the first and last stage's
vocabulary, what of the data-parallel messages is not hidden (``overlap`` of them is),
and the optimizer's passes through memory. Left out: stragglers, data loading, congested
networks, checkpoints, uneven experts, kernels that run beside one another. What that
costs is measured against published runs in :mod:`aiinfra.plan.published`.

Sources: Narayanan et al. 2021 (volumes, FLOPs, bubbles), Korthikanti et al. 2022
(what recomputation costs), Dao 2023 (attention backward is 2.5 forwards), Rajbhandari
et al. 2020 (ZeRO's volumes).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from aiinfra import pipeline
from aiinfra.arch import RECOMPUTE, Architecture
from aiinfra.plan.cluster import Cluster

BYTES = 2  # of a weight, gradient or activation in bf16
SCORE_PASSES = 5  # scores written; softmax reads and writes; dropout; read by P V
NORM_PASSES = 14  # of T d values a layer: two norms, two residual sums, dropouts
OPTIMIZER_BYTES = 20  # a parameter: fp32 weight and two moments in and out, and bf16


@dataclass(frozen=True)
class Efficiency:
    """The fitted numbers: which fraction of each spec rate is reached.

    ``overlap`` is the part of data-parallel messages hidden behind computing.
    """

    gemm: float
    memory: float
    network: float
    attention: float
    overlap: float


@dataclass(frozen=True)
class Layouts:
    """Many layouts at once: arrays of equal length, as :class:`aiinfra.memory.Layout`.

    ``recompute`` is an index into arch.RECOMPUTE, ``schedule`` one into
    pipeline.SCHEDULES.
    """

    tp: np.ndarray
    pp: np.ndarray
    cp: np.ndarray
    ep: np.ndarray
    dp: np.ndarray
    zero: np.ndarray
    micro_batch: np.ndarray
    virtual_stages: np.ndarray
    recompute: np.ndarray
    sequence_parallel: np.ndarray
    schedule: np.ndarray

    def __len__(self) -> int:
        return len(self.tp)

    def __getitem__(self, which: Any) -> Layouts:
        return Layouts(**{f.name: getattr(self, f.name)[which] for f in fields(self)})


def times(
    model: Architecture,
    cluster: Cluster,
    layouts: Layouts,
    *,
    global_batch: float,
    sequence: float,
    efficiency: Efficiency,
    fused: bool = True,
    precision: str = "bf16",
) -> dict[str, np.ndarray]:
    """Seconds of one step by cause, for every layout; their sum is ``step_s``.

    ``global_batch`` in sequences, divisible by dp and micro_batch. Keys: products_s,
    attention_s, memory_bound_s, recompute_s, tensor_s, context_s, expert_s,
    pipeline_s, bubble_s, data_s, optimizer_s, vocabulary_s.
    """
    e, x = efficiency, layouts
    peak, memory = cluster.flops_per_s(precision), cluster.memory_bytes_per_s * e.memory
    half_precision = cluster.flops_per_s("bf16")
    d, depth = float(model.d_model), float(model.layers)
    tokens = x.micro_batch * sequence / x.cp
    rounds = global_batch / (x.dp * x.micro_batch)  # micro-batches of a rank
    near = cluster.scale_up_bytes_per_s * e.network
    far = cluster.scale_out_bytes_per_s * e.network

    products = 2 * tokens * model.layer_matrices / depth / x.tp / (peak * e.gemm)
    pairs = model.attention_flops_per_token(int(sequence), causal=fused)
    pairs = tokens * pairs / depth / x.tp
    if fused:
        attention = pairs / (half_precision * e.attention)
        attention_back = 2.5 * attention
    else:
        scores = model.heads / x.tp * tokens * sequence * BYTES * SCORE_PASSES
        attention = pairs / (half_precision * e.gemm) + scores / memory
        attention_back = 2 * attention
    shared = np.where(x.sequence_parallel, x.tp, 1)
    widths = activation_width(model)
    moved = tokens * BYTES * (NORM_PASSES * d / shared + widths / x.tp)
    rest = moved / memory

    hidden = tokens * d * BYTES  # one activation of the residual stream
    tensor = 4 * (x.tp - 1) / x.tp * hidden / np.where(x.tp > cluster.domain, far, near)
    blocks = (x.cp - 1) * tokens * model.kv_elements_per_layer / x.tp * BYTES
    near_cp = x.tp * x.cp <= cluster.domain
    context = np.maximum(blocks / np.where(near_cp, near, far) - attention, 0)
    expert = np.zeros_like(tokens)
    if model.experts:
        sent = tokens / x.tp * model.experts_per_token * d * BYTES * (x.ep - 1) / x.ep
        inside = x.ep * x.tp <= cluster.domain
        expert = 2 * sent / np.where(inside, near, far)

    # One layer of one micro-batch, forward and backward.
    full = x.recompute == RECOMPUTE.index("full")
    selective = x.recompute == RECOMPUTE.index("selective")
    forward = products + attention + rest
    again = np.where(full, forward, np.where(selective, attention, 0.0))
    part = {
        "products_s": 3 * products,
        "attention_s": attention + attention_back,
        "memory_bound_s": 3 * rest,
        "recompute_s": again,
        "tensor_s": tensor * np.where(full, 3, 2),
        "context_s": context * np.where(full, 4, 3),
        "expert_s": expert * np.where(full, 3, 2) * (1 - e.overlap),
    }
    chunks = x.pp * x.virtual_stages
    held = np.ceil(depth / chunks) * x.virtual_stages  # layers of the fullest rank
    part = {name: value * held * rounds for name, value in part.items()}
    piped = x.pp > 1
    # Each chunk's input arrives from the stage before, its gradient from the next.
    part["pipeline_s"] = np.where(
        piped,
        rounds
        * 2
        * x.virtual_stages
        * (hidden / x.tp / far + cluster.scale_out_latency_s),
        0.0,
    )
    head_flop = 6 * tokens * d * model.vocabulary / x.tp
    logits = 12 * tokens * model.vocabulary / x.tp  # fp32 in, exponentials, gradient
    head = head_flop / (half_precision * e.gemm) + logits / memory
    # A pipeline gives the stage with the vocabulary fewer layers: the cost is shared.
    part["vocabulary_s"] = head * rounds / x.pp
    busy = sum(part.values())
    part["bubble_s"] = bubble(x, rounds, busy / rounds)

    weights = held_parameters(model, x)
    part["data_s"] = data_parallel(weights, x, rounds, far, near, busy, cluster, e)
    states = weights / np.where(x.zero >= 1, x.dp, 1)
    part["optimizer_s"] = states * OPTIMIZER_BYTES / memory
    part["step_s"] = sum(part.values())
    return part


def bubble(x: Layouts, rounds: np.ndarray, each_s: np.ndarray) -> np.ndarray:
    """Seconds a rank stands idle, where a micro-batch keeps it busy for ``each_s``.

    A forward takes a third of that and either half of a backward the same: the
    schedules' closed forms (:func:`aiinfra.pipeline.bubble_s`) want the three.
    """
    idle = np.zeros_like(each_s)
    for code, name in enumerate(pipeline.SCHEDULES):
        rows = (x.schedule == code) & (x.pp > 1)
        if rows.any():
            third = each_s[rows] / 3 / x.virtual_stages[rows]
            idle[rows] = pipeline.bubble_s(
                name,
                x.pp[rows],
                rounds[rows],
                x.virtual_stages[rows],
                forward_s=third,
                input_s=third,
                weight_s=third,
            )
    return idle


def activation_width(model: Architecture) -> float:
    """Values that a token's layer moves and tensor parallelism splits.

    Inner activations of the MLP are written, transformed and read, of two matrices
    where it is gated; queries, keys, values and what attention returns make the rest.
    """
    inner = model.d_ffn
    if model.moe_layers:
        met = model.experts_per_token + model.shared_experts
        inner = met * model.d_ffn_expert
    return 3 * inner * (1.5 if model.gated else 1) + 6 * model.d_model


def held_parameters(model: Architecture, x: Layouts) -> np.ndarray:
    """Parameters of the fullest rank, before ZeRO: its layers, and one vocabulary."""
    vocabulary = model.vocabulary * model.d_model
    tables = vocabulary if model.tied else 2 * vocabulary
    body = (model.parameters - tables) / x.pp
    if model.experts:
        experts = model.parameters_by_part()["experts"] / x.pp
        body = (body - experts) + experts / x.ep
    return (body + np.where(x.pp > 1, vocabulary, tables)) / x.tp


def data_parallel(
    weights: np.ndarray,
    x: Layouts,
    rounds: np.ndarray,
    far: float,
    near: float,
    busy: np.ndarray,
    cluster: Cluster,
    e: Efficiency,
) -> np.ndarray:
    """Seconds of gradient and weight messages that computing does not hide."""
    shards = x.dp * x.cp
    volume = weights * BYTES * (shards - 1) / shards
    inside = x.tp * x.pp * shards <= cluster.domain
    rate = np.where(inside, near, far)
    once = 2 * volume / rate * (1 - e.overlap)
    # For every micro-batch ZeRO-3 gathers the weights twice and scatters gradients,
    # and ZeRO-2 scatters gradients; it gathers weights once.
    each = np.where(x.zero == 3, 3 * rounds, rounds + 1) * volume / rate
    often = np.maximum(each * (1 - e.overlap), each - busy * e.overlap)
    return np.where(shards > 1, np.where(x.zero >= 2, often, once), 0.0)
