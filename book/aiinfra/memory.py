"""What one accelerator's memory holds, in training and in serving.

    layout = Layout(dp=8, tp=8, pp=4, zero=1, sequence_parallel=True)
    training(named("Llama 3 70B"), layout, global_batch=512, sequence=8192).total

Training holds four things. *Model states*: weights, gradients and what the optimizer
keeps, 2 + 2 + 12 bytes per parameter with Adam in mixed precision; ZeRO cuts them over
the data-parallel ranks, one kind after another (Rajbhandari et al. 2019,
arXiv:1910.02054, section 3). *Activations*: what the forward leaves for the backward,
times the micro-batches in flight, which the pipeline's schedule decides. *Buffers*:
what lives for one layer only. And a *margin* for what an allocator wastes.

Activations are counted tensor by tensor: :func:`saved_tensors` lists what autograd
keeps of one layer. For a GPT's layer with dropout and an unfused softmax the list adds
up to sbh(34 + 5as/h) (Korthikanti et al. 2022, arXiv:2205.05198, section 4.1). That
formula is that layer's: a gated MLP, grouped keys or a fused attention has its own.

Left out: statistics of norms, token ids, gradients of single activations, the runtime
and the libraries' own buffers. Tokens are assumed to spread evenly over experts.

All of it takes arrays: a :class:`Layout` whose fields are arrays stands for many
layouts, which are priced at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from aiinfra import pipeline
from aiinfra._numbers import number, one_of, whole
from aiinfra.arch import RECOMPUTE, Architecture, Format, format_of

__all__ = [
    "FP32",
    "FP32_GRADIENTS",
    "MIXED",
    "Layout",
    "Memory",
    "Precision",
    "Saved",
    "ServingMemory",
    "States",
    "layer_bytes",
    "max_batch",
    "model_states",
    "saved_tensors",
    "serving",
    "training",
    "training_by_rank",
    "zero_buffer_bytes",
]

OFFLOAD = ("optimizer", "weights", "activations")
_DEGREES = ("dp", "tp", "pp", "cp", "ep", "micro_batch", "virtual_stages")
MOST_RANKS = 10**6  # any one degree


@dataclass(frozen=True)
class Precision:
    """Bytes per parameter of each model state, and per number of an activation.

    ``optimizer_bytes`` are an fp32 copy of the weights and Adam's two moments.
    """

    weight_bytes: float = 2
    gradient_bytes: float = 2
    optimizer_bytes: float = 12
    activation_bytes: float = 2

    def __post_init__(self) -> None:
        for field in fields(self):
            positive = field.name != "optimizer_bytes"
            value = getattr(self, field.name)
            number(field.name, value, above_zero=positive, high=64)


MIXED = Precision()  # 16 bytes per parameter (ZeRO, section 3.1)
FP32_GRADIENTS = Precision(gradient_bytes=4)  # 18: Megatron-LM adds up in fp32
FP32 = Precision(4, 4, 8, 4)


# Layouts ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Layout:
    """How a training run is spread over ranks. Every field may be an array.

    ``world_size`` is dp * tp * pp * cp; ``ep`` divides dp * cp, over whose ranks the
    experts are spread, each expert cut tp ways like the rest. ``zero`` counts the
    states that are sharded: 0 none, 1 the optimizer's, 2 gradients, too, 3 weights,
    too. ``virtual_stages`` is how many runs of layers each rank of an interleaved
    pipeline holds. ``layers_per_stage`` lists the layers of all pp * virtual_stages
    stages; without it they are spread evenly, and where that leaves some short it is
    the last, the first, the second last and so on: the ends have the vocabulary.
    """

    dp: Any = 1
    tp: Any = 1
    pp: Any = 1
    cp: Any = 1
    ep: Any = 1
    zero: Any = 0
    sequence_parallel: Any = False
    virtual_stages: Any = 1
    schedule: Any = "1f1b"
    micro_batch: Any = 1
    recompute: Any = "none"
    layers_per_stage: Sequence[int] | None = None

    def __post_init__(self) -> None:
        for name in _DEGREES:
            whole(name, getattr(self, name), high=MOST_RANKS)
        whole("zero", self.zero, low=0, high=3)
        _each_of("schedule", self.schedule, pipeline.SCHEDULES)
        _each_of("recompute", self.recompute, RECOMPUTE)
        flag = self.sequence_parallel
        if np.asarray(flag).dtype.kind != "b":
            raise ValueError(f"sequence_parallel must be True or False, got {flag!r}")
        if self.layers_per_stage is not None:
            stages = tuple(self.layers_per_stage)
            for count in stages:
                whole("layers_per_stage", count, high=MOST_RANKS)
            object.__setattr__(self, "layers_per_stage", stages)
        try:
            self.shape  # noqa: B018 - raises unless the arrays fit each other
        except ValueError:
            raise ValueError("arrays in a layout must have shapes that fit") from None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the arrays of layouts that this stands for; () for a single one."""
        return np.broadcast_shapes(
            *(np.shape(getattr(self, field.name)) for field in fields(self)[:-1])
        )

    @property
    def world_size(self) -> Any:
        """Ranks: dp * tp * pp * cp."""
        return self.dp * self.tp * self.pp * self.cp

    def micro_batches(self, global_batch: Any) -> Any:
        """Micro-batches that each rank runs per step."""
        return global_batch // (self.dp * self.micro_batch)

    def check(self, model: Architecture, global_batch: Any, sequence: Any) -> None:
        """Raise ValueError unless the model, batch and sequence divide as they must.

        The message names the field, its value (the first wrong one of an array) and
        what is allowed.
        """
        for good, name, allowed in self._rules(model, global_batch, sequence):
            if np.all(good):
                continue
            value = global_batch if name == "global_batch" else getattr(self, name)
            if np.ndim(good):
                bad = int(np.argmin(np.broadcast_to(good, self.shape)))
                spread = np.broadcast_to(value, self.shape) if np.ndim(value) else None
                value = value if spread is None else spread.ravel()[bad].item()
            raise ValueError(f"{name} must be {allowed}; got {value!r}")

    def allowed(self, model: Architecture, global_batch: Any, sequence: Any) -> Any:
        """Whether :meth:`check` would pass: True or False, or an array of them."""
        good = np.ones(self.shape, dtype=bool)
        for rule, _, _ in self._rules(model, global_batch, sequence):
            good = good & rule
        return bool(good) if good.ndim == 0 else good

    def _rules(
        self, model: Architecture, global_batch: Any, sequence: Any
    ) -> list[tuple[Any, str, str]]:
        """(holds, field, what is allowed) of every condition."""
        batch = whole("global_batch", global_batch)
        S = whole("sequence", sequence)
        tp, pp, cp, v = self.tp, self.pp, self.cp, self.virtual_stages
        stages = pp * v
        schedule = np.asarray(self.schedule)
        interleaved = schedule == "interleaved"
        dual = schedule == "dualpipe"
        m = batch // np.maximum(self.dp * self.micro_batch, 1)
        rules = [
            (
                batch % (self.dp * self.micro_batch) == 0,
                "global_batch",
                f"a multiple of dp * micro_batch{self._said('dp', 'micro_batch')}",
            ),
            (model.heads % tp == 0, "tp", f"a divisor of the {model.heads} heads"),
        ]
        if model.attention != "mla":
            kv = model.kv_heads
            rules.append(
                (
                    (kv % tp == 0) | (tp % kv == 0),
                    "tp",
                    f"a divisor or a multiple of the {kv} key-value heads",
                )
            )
        for width in {model.d_ffn, model.d_ffn_expert} - {0}:
            rules.append(
                (width % tp == 0, "tp", f"a divisor of the MLP's width, {width}")
            )
        cut = cp * np.where(self.sequence_parallel, tp, 1)
        rules += [
            (
                S % cut == 0,
                "cp",
                f"a divisor of the sequence, {S!r} (times tp with sequence_parallel)",
            ),
            (
                stages <= model.layers,
                "pp",
                f"at most the {model.layers} layers, over virtual_stages",
            ),
            (
                np.where(interleaved, v >= 2, v == 1),
                "virtual_stages",
                "at least 2 in an interleaved schedule and 1 in any other",
            ),
            (
                ~interleaved | (m % pp == 0),
                "global_batch",
                "a multiple of dp * micro_batch * pp with schedule interleaved"
                + self._said("dp", "micro_batch", "pp"),
            ),
            (~dual | (pp % 2 == 0), "pp", "even with schedule dualpipe"),
            (
                ~dual | ((m % 2 == 0) & (m >= 2 * pp)),
                "global_batch",
                "an even number of micro-batches per rank, 2 * pp or more, with "
                "schedule dualpipe",
            ),
        ]
        if model.experts:
            rules += [
                (
                    model.experts % self.ep == 0,
                    "ep",
                    f"a divisor of the {model.experts} experts",
                ),
                ((self.dp * cp) % self.ep == 0, "ep", "a divisor of dp * cp"),
            ]
        else:
            rules.append((np.equal(self.ep, 1), "ep", "1 in a model without experts"))
        if self.layers_per_stage is not None:
            right = np.equal(stages, len(self.layers_per_stage))
            right = right & (sum(self.layers_per_stage) == model.layers)
            rules.append(
                (
                    right,
                    "layers_per_stage",
                    f"pp * virtual_stages counts that add up to {model.layers}",
                )
            )
        return rules

    def _said(self, *names: str) -> str:
        """Values that a message tells, unless they are arrays."""
        if self.shape:
            return ""
        return " (" + ", ".join(f"{n}={getattr(self, n)!r}" for n in names) + ")"


def _each_of(name: str, value: Any, words: tuple[str, ...]) -> None:
    if isinstance(value, np.ndarray) and value.dtype.kind == "U":
        for word in np.unique(value):
            one_of(name, str(word), words)
    else:
        one_of(name, value, words)


# Model states -------------------------------------------------------------------------


class States(NamedTuple):
    """Bytes of the three model states."""

    weights: Any
    gradients: Any
    optimizer: Any

    @property
    def total(self) -> Any:
        """All three."""
        return self.weights + self.gradients + self.optimizer


def model_states(
    parameters: Any, ranks: Any, zero: Any = 0, precision: Precision = MIXED
) -> States:
    """Bytes that each of ``ranks`` data-parallel ranks holds of the model's states.

    ZeRO's stage 1 cuts the optimizer's states by the number of ranks, stage 2 the
    gradients, too, stage 3 the weights, too (arXiv:1910.02054, Table 1). A rank holds a
    whole number of parameters, so the ranks together hold at least the whole. What
    stage 3 gathers for a moment is in :func:`zero_buffer_bytes`.

    Args:
        parameters: those that a rank without ZeRO would hold; a number or an array.
        ranks: how many data-parallel ranks share them.
        zero: 0 to 3.
        precision: bytes per parameter.
    """
    whole("parameters", parameters, low=0, high=10**27)
    whole("ranks", ranks)
    whole("zero", zero, low=0, high=3)
    part = np.ceil(parameters / ranks)
    cut = [np.where(np.less(zero, stage), parameters, part) for stage in (3, 2, 1)]
    states = States(
        cut[0] * precision.weight_bytes,
        cut[1] * precision.gradient_bytes,
        cut[2] * precision.optimizer_bytes,
    )
    if cut[0].ndim == 0:
        return States(*map(float, states))
    return states


def zero_buffer_bytes(largest: Any, zero: Any, precision: Precision = MIXED) -> Any:
    """Bytes for the layer at work where ZeRO keeps only parts.

    Stage 2 makes the layer's whole gradient before it is cut up, stage 3 gathers its
    weights, too: 2 + 2 bytes per parameter of the ``largest`` layer, as DeepSpeed's
    estimator counts. A gradient is cut up in the precision of the weights.
    """
    copies = np.where(np.less(zero, 2), 0, np.where(np.less(zero, 3), 1, 2))
    total = copies * largest * precision.weight_bytes
    return float(total) if np.ndim(total) == 0 else total


# Activations --------------------------------------------------------------------------


class Saved(NamedTuple):
    """A tensor that the forward of one layer keeps for the backward.

    ``bytes_per_token`` before any parallelism. ``cut`` says what splits it: "tensor"
    parallelism, "kv" the same as far as there are key-value heads, "sequence" only
    sequence parallelism. ``core``: selective recomputation drops it.
    """

    name: str
    bytes_per_token: float
    cut: str
    core: bool = False


def saved_tensors(
    model: Architecture,
    sequence: int,
    *,
    experts: bool | None = None,
    flash: bool = True,
    dropout: bool = False,
    fused_mlp: bool = True,
    activation_bytes: float = 2,
) -> list[Saved]:
    """What autograd keeps of one layer, tensor by tensor.

    A product keeps its inputs, a norm and an activation function its input, softmax
    its output, dropout a mask of one byte per number. What two operations keep is
    listed once.

    Args:
        sequence: S, on which unfused scores depend.
        experts: the layer has experts rather than a dense MLP (default: whether the
            model has any).
        flash: attention in one kernel, which keeps its inputs, output and a logarithm
            per head in fp32, but no scores (Dao et al. 2022, arXiv:2205.14135).
        dropout: after softmax, attention and MLP, as GPT-2 and GPT-3 have it.
        fused_mlp: the gate's activation is computed again, not kept.
        activation_bytes: bytes of a number.
    """
    a, d, S = activation_bytes, model.d_model, sequence
    with_experts = bool(model.experts) if experts is None else experts
    if with_experts and not model.experts:
        raise ValueError(f"experts must be False: {model.name} has none; got True")
    H = model.heads
    kept = [Saved("input of the attention norm", a * d, "sequence")]
    kept += [Saved("input of the projections", a * d, "sequence")]
    if model.attention == "mla":
        d_qk = model.d_qk_nope + model.d_qk_rope
        for name, rank in (
            ("queries", model.q_lora_rank),
            ("keys", model.kv_lora_rank),
        ):
            if rank:
                narrow = 2 * a * rank  # before and after the norm
                kept.append(Saved(f"compressed {name}", narrow, "sequence"))
        kept += [
            Saved("queries", a * H * d_qk, "tensor"),
            Saved("keys", a * H * d_qk, "tensor"),
            Saved("values", a * H * model.d_v, "tensor"),
        ]
    else:
        wide, narrow = a * H * model.d_head, a * model.kv_heads * model.d_head
        if model.qk_norm:
            kept += [Saved("queries before the norm", wide, "tensor")]
            kept += [Saved("keys before the norm", narrow, "kv")]
        kept += [
            Saved("queries", wide, "tensor"),
            Saved("keys", narrow, "kv"),
            Saved("values", narrow, "kv"),
        ]
    if flash:
        kept.append(Saved("logarithms of softmax sums", 4 * H, "tensor", True))
    else:
        kept.append(Saved("softmax", a * H * S, "tensor", True))
        if dropout:
            kept += [
                Saved("mask of softmax dropout", H * S, "tensor", True),
                Saved("softmax after dropout", a * H * S, "tensor", True),
            ]
    kept.append(Saved("output of the heads", a * model.d_attention, "tensor"))
    if dropout:
        kept.append(Saved("mask of attention dropout", d, "sequence"))
    if not model.parallel_block:  # else the MLP shares the norm and its output
        kept += [
            Saved("input of the MLP norm", a * d, "sequence"),
            Saved("input of the MLP", a * d, "sequence"),
        ]
    if with_experts:
        each = model.experts_per_token
        kept += [
            Saved("probabilities of the router", 4 * model.experts, "sequence"),
            Saved("tokens sent to experts", a * each * d, "sequence"),
            *_mlp_tensors(model, each * model.d_ffn_expert, "experts", a, fused_mlp),
            Saved("outputs of experts", a * each * d, "sequence"),
        ]
        if model.shared_experts:
            width = model.shared_experts * model.d_ffn_expert
            kept += _mlp_tensors(model, width, "shared experts", a, fused_mlp)
    else:
        kept += _mlp_tensors(model, model.d_ffn, "MLP", a, fused_mlp)
    if dropout:
        kept.append(Saved("mask of MLP dropout", d, "sequence"))
    return kept


def _mlp_tensors(
    model: Architecture, width: int, whose: str, a: float, fused: bool
) -> list[Saved]:
    """What the inside of an MLP keeps; gated: w2(f(w1 x) * w3 x), else w2 f(w1 x)."""
    one = a * width
    if not model.gated:
        kept = [] if model.mlp == "relu" else [f"{whose}: before the activation"]
        kept.append(f"{whose}: after the activation")
    else:
        kept = [f"{whose}: gate", f"{whose}: up"]
        kept += [] if fused else [f"{whose}: activated gate"]
        kept.append(f"{whose}: product of both")
    return [Saved(name, one, "tensor") for name in kept]


class _LayerBytes(NamedTuple):
    """Bytes per token of one layer on one rank."""

    stored: Any  # until the backward
    again: Any  # made again for the one layer that is in its backward


def _layer_per_token(
    kept: list[Saved],
    *,
    tp: Any,
    kv_heads: int,
    sequence_parallel: Any,
    recompute: Any,
) -> _LayerBytes:
    ways = {
        "tensor": tp,
        "kv": np.minimum(tp, max(kv_heads, 1)),
        "sequence": np.where(sequence_parallel, tp, 1),
    }
    each = [tensor.bytes_per_token / ways[tensor.cut] for tensor in kept]
    total = sum(each)
    core = sum(size for size, tensor in zip(each, kept, strict=True) if tensor.core)
    stored = np.where(np.equal(recompute, "full"), each[0], total)
    stored = np.where(np.equal(recompute, "selective"), total - core, stored)
    return _LayerBytes(stored, total - stored)


def layer_bytes(
    model: Architecture,
    sequence: int,
    *,
    micro_batch: Any = 1,
    tp: Any = 1,
    cp: Any = 1,
    sequence_parallel: Any = False,
    recompute: Any = "none",
    **kinds: Any,
) -> Any:
    """Bytes that one layer keeps of one micro-batch on one rank.

    A GPT with ``flash=False, dropout=True`` keeps sbh(34 + 5as/h); with tensor
    parallelism sbh(10 + 24/t + 5as/ht); with sequence parallelism the whole over t;
    selective recomputation drops 5as/h; full leaves 2sbh (Korthikanti et al. 2022,
    Table 2).

    Args:
        kinds: ``experts``, ``flash``, ``dropout``, ``fused_mlp``, ``activation_bytes``
            as in :func:`saved_tensors`.
    """
    S = whole("sequence", sequence)
    layout = Layout(
        tp=tp,
        cp=cp,
        micro_batch=micro_batch,
        sequence_parallel=sequence_parallel,
        recompute=recompute,
    )
    size = _layer_per_token(
        saved_tensors(model, S, **kinds),
        tp=tp,
        kv_heads=model.kv_heads,
        sequence_parallel=sequence_parallel,
        recompute=recompute,
    )
    total = layout.micro_batch * S / layout.cp * size.stored
    return float(total) if np.ndim(total) == 0 else total


# Training -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Memory:
    """Bytes on one rank, by kind; numbers, or arrays for many layouts.

    ``host`` is what was moved to the host's memory; ``total`` leaves it out. ``rank``
    is the rank of the pipeline, from 0, that these are the bytes of.
    """

    weights: Any
    gradients: Any
    optimizer: Any
    activations: Any
    buffers: Any
    margin: Any
    host: Any
    rank: Any

    @property
    def persistent(self) -> Any:
        """What stays from step to step: weights, gradients, optimizer."""
        return self.weights + self.gradients + self.optimizer

    @property
    def total(self) -> Any:
        """All that the accelerator must hold."""
        return self.persistent + self.activations + self.buffers + self.margin


class _Rows:
    """A layout's fields as flat arrays of equal length, floats so that none wraps."""

    def __init__(self, layout: Layout, shape: tuple[int, ...]) -> None:
        for field in fields(layout)[:-1]:
            spread = np.broadcast_to(getattr(layout, field.name), shape).ravel()
            if spread.dtype.kind in "iuf":
                spread = spread.astype(np.float64)
            setattr(self, field.name, spread)

    def take(self, rows: np.ndarray) -> _Rows:
        """Some of the rows."""
        some = object.__new__(_Rows)
        some.__dict__ = {name: array[rows] for name, array in self.__dict__.items()}
        return some


def training(
    model: Architecture,
    layout: Layout,
    *,
    global_batch: Any,
    sequence: int,
    precision: Precision = MIXED,
    flash: bool = True,
    dropout: bool = False,
    fused_mlp: bool = True,
    keep_outputs: bool = False,
    offload: Sequence[str] = (),
    margin: float = 0,
) -> Memory:
    """Bytes on the fullest rank of a training run, by kind.

    Weights: tensor parallelism cuts matrices and their column biases; norms, routers
    and learned positions are on every tensor-parallel rank, keys and values as often as
    there are more ranks than key-value heads. The first pipeline stage has the
    embedding, the last the output layer; a tied one is on both. Experts are spread over
    ep, and their states by ZeRO over the dp * cp / ep ranks that hold the same ones.

    Activations: each layer's (:func:`saved_tensors`) times the micro-batches in flight
    (:func:`aiinfra.pipeline.in_flight`); the last stage adds the inputs of the final
    norm and of the output layer, and the logits in fp32 for the cross-entropy.

    Buffers: what recomputation makes again for one layer, the layer that ZeRO gathers,
    and the logits' gradient.

    Args:
        layout: one layout, or many; it is checked (:meth:`Layout.check`).
        global_batch: sequences per step.
        sequence: S, tokens.
        precision: bytes per parameter and per number of an activation.
        flash, dropout, fused_mlp: as in :func:`saved_tensors`.
        keep_outputs: keep the output of every stage until its backward, which needs
            only its shape (Korthikanti et al. 2022, appendix B, frees it).
        offload: of "optimizer", "weights" (needs zero 3) and "activations", what is
            moved to the host.
        margin: a fraction added for fragmentation and the runtime.

    Raises:
        ValueError: naming the argument or field, its value and what is allowed.
    """
    options = _Options(precision, flash, dropout, fused_mlp, keep_outputs, offload)
    return _Run(model, layout, global_batch, sequence, options, margin).fullest()


def training_by_rank(
    model: Architecture,
    layout: Layout,
    *,
    global_batch: int,
    sequence: int,
    precision: Precision = MIXED,
    flash: bool = True,
    dropout: bool = False,
    fused_mlp: bool = True,
    keep_outputs: bool = False,
    offload: Sequence[str] = (),
    margin: float = 0,
) -> list[Memory]:
    """As :func:`training`, one entry for each rank of the pipeline of one layout."""
    if layout.shape:
        raise ValueError(f"layout must be a single one, got arrays of {layout.shape}")
    options = _Options(precision, flash, dropout, fused_mlp, keep_outputs, offload)
    return _Run(model, layout, global_batch, sequence, options, margin).by_rank()


@dataclass(frozen=True)
class _Options:
    precision: Precision
    flash: bool
    dropout: bool
    fused_mlp: bool
    keep_outputs: bool
    offload: Sequence[str]

    def __post_init__(self) -> None:
        if isinstance(self.offload, str):
            raise ValueError(f"offload must list words, got {self.offload!r}")
        for word in self.offload:
            one_of("offload", word, OFFLOAD)


class _Run:
    """One call of :func:`training`: what all ranks share, then each rank's bytes."""

    def __init__(
        self,
        model: Architecture,
        layout: Layout,
        global_batch: Any,
        sequence: int,
        options: _Options,
        margin: float,
    ) -> None:
        number("margin", margin, high=10)
        if np.ndim(sequence):
            raise ValueError("sequence must be one number, not an array")
        layout.check(model, global_batch, sequence)
        if "weights" in options.offload and np.any(np.less(layout.zero, 3)):
            raise ValueError(
                f"zero must be 3 where weights are offloaded; got {layout.zero!r}"
            )
        self.model, self.options, self.margin = model, options, margin
        self.layers_per_stage = layout.layers_per_stage
        self.shape = np.broadcast_shapes(layout.shape, np.shape(global_batch))
        rows = _Rows(layout, self.shape)
        batch = np.broadcast_to(global_batch, self.shape).ravel().astype(np.float64)
        rows.micro_batches = batch / (rows.dp * rows.micro_batch)
        rows.tokens = rows.micro_batch * sequence / rows.cp
        rows.same_experts = rows.dp * rows.cp / rows.ep
        rows.dual = rows.schedule == "dualpipe"
        kinds = [False, True] if model.moe_layers else [False]
        if model.moe_layers == model.layers:
            kinds = [True]
        sizes = {}
        for experts in kinds:
            kept = saved_tensors(
                model,
                sequence,
                experts=experts,
                flash=options.flash,
                dropout=options.dropout,
                fused_mlp=options.fused_mlp,
                activation_bytes=options.precision.activation_bytes,
            )
            sizes[experts] = _layer_per_token(
                kept,
                tp=rows.tp,
                kv_heads=model.kv_heads,
                sequence_parallel=rows.sequence_parallel,
                recompute=rows.recompute,
            )
        nothing = np.zeros_like(rows.tp)
        for experts, name in ((False, "dense"), (True, "moe")):
            size = sizes.get(experts, _LayerBytes(nothing, nothing))
            setattr(rows, f"stored_{name}", size.stored * rows.tokens)
            setattr(rows, f"again_{name}", size.again * rows.tokens)
        shapes = np.stack(
            [
                np.searchsorted(_SORTED, rows.schedule),
                rows.pp,
                rows.micro_batches,
                rows.virtual_stages,
            ],
            axis=1,
        ).astype(np.int64)
        self.pipelines, where = np.unique(shapes, axis=0, return_inverse=True)
        rows.pipeline = where.ravel()
        self.rows = rows
        self._weigh()

    def _weigh(self) -> None:
        """Parameters of the pieces that a rank may hold."""
        m, r = self.model, self.rows
        kv_ways = np.minimum(r.tp, max(m.kv_heads, 1))
        layer = m.norms_per_layer * m.norm_parameters + np.zeros_like(r.tp)
        for name, count in (m.attention_matrices | m.attention_vectors).items():
            if name in ("q_down", "kv_down", "norms", "output_bias"):
                layer += count  # the same on every tensor-parallel rank
            elif name in ("kv", "kv_bias") and m.attention != "mla":
                layer += count / kv_ways
            else:
                layer += count / r.tp

        def mlp(width: int) -> Any:
            whole_bias = m.d_model if m.mlp_bias else 0
            return (m.mlp_parameters(width) - whole_bias) / r.tp + whole_bias

        r.dense_layer = layer + (mlp(m.d_ffn) if m.d_ffn else 0)
        moe = layer + m.router_parameters + np.zeros_like(r.tp)
        if m.shared_experts:
            moe += m.shared_experts * mlp(m.d_ffn_expert)
        r.moe_layer = moe
        r.experts_layer = (
            m.experts / r.ep * mlp(m.d_ffn_expert) if m.experts else 0 * moe
        )
        table = np.ceil(m.vocabulary / r.tp) * m.d_model
        r.first = table + m.positions_learned * m.d_model
        r.first += m.norm_parameters if m.embedding_norm else 0
        r.table = table

    def fullest(self) -> Memory:
        best: dict[str, np.ndarray] = {}
        rows = self.rows
        highest = np.full(len(rows.tp), -1.0)
        for rank in range(int(rows.pp.max())):
            here = np.flatnonzero(rows.pp > rank)
            found = self._rank(rank, rows.take(here))
            total = found.total
            better = total > highest[here]
            highest[here[better]] = total[better]
            for field in fields(Memory):
                value = np.broadcast_to(getattr(found, field.name), here.shape)
                into = best.setdefault(field.name, np.zeros_like(highest))
                into[here[better]] = value[better]
        return Memory(**{name: self._shaped(value) for name, value in best.items()})

    def by_rank(self) -> list[Memory]:
        found = []
        for rank in range(int(self.rows.pp[0])):
            one = self._rank(rank, self.rows)
            values = {
                field.name: self._shaped(
                    np.broadcast_to(getattr(one, field.name), (1,))
                )
                for field in fields(Memory)
            }
            found.append(Memory(**values))
        return found

    def _shaped(self, flat: np.ndarray) -> Any:
        return flat.reshape(self.shape) if self.shape else float(flat[0])

    def _stage(self, stage: Any, stages: Any) -> tuple[Any, Any]:
        """Dense layers and layers with experts of a stage."""
        m = self.model
        if self.layers_per_stage is not None:
            ends = np.concatenate([[0], np.cumsum(self.layers_per_stage)])
            start = ends[np.minimum(stage, len(ends) - 2).astype(int)]
            count = ends[np.minimum(stage + 1, len(ends) - 1).astype(int)] - start
        else:
            most = np.ceil(m.layers / stages)
            short = most * stages - m.layers
            head, tail = short // 2, stages - (short + 1) // 2  # where they are short
            start = stage * most - np.minimum(stage, head)
            start -= np.maximum(stage - tail, 0)
            count = most - (stage < head) - (stage >= tail)
        leading = m.dense_layers if m.experts else m.layers
        dense = np.clip(leading - start, 0, count)
        return dense, count - dense

    def _rank(self, rank: int, r: _Rows) -> Memory:
        """Bytes of one rank of the pipeline, for layouts that have that many."""
        m, options = self.model, self.options
        stages = r.pp * r.virtual_stages
        dense, moe = np.zeros_like(r.tp), np.zeros_like(r.tp)
        for chunk in range(int(r.virtual_stages.max())):
            there = chunk < r.virtual_stages
            more_dense, more_moe = self._stage(chunk * r.pp + rank, stages)
            dense += np.where(there, more_dense, 0)
            moe += np.where(there, more_moe, 0)
        if r.dual.any():  # the mirrored stage, for micro-batches from the other end
            more_dense, more_moe = self._stage(r.pp - 1 - rank, stages)
            dense += np.where(r.dual, more_dense, 0)
            moe += np.where(r.dual, more_moe, 0)
        last_rank = rank == r.pp - 1
        first = (rank == 0) | (r.dual & last_rank)
        last = last_rank | (r.dual & (rank == 0))

        plain = dense * r.dense_layer + moe * r.moe_layer
        plain += np.where(first, r.first, 0)
        plain += np.where(last, m.norm_parameters, 0)
        own_table = ~first if m.tied else np.ones_like(first)
        plain += np.where(last & own_table, r.table, 0)
        shared = model_states(np.ceil(plain), r.dp * r.cp, r.zero, options.precision)
        spread = model_states(
            np.ceil(moe * r.experts_layer), r.same_experts, r.zero, options.precision
        )
        states = States(*(a + b for a, b in zip(shared, spread, strict=True)))

        copies = r.virtual_stages * np.where(r.dual, 2, 1)
        held = self._in_flight(rank, r)
        stored = (dense * r.stored_dense + moe * r.stored_moe) / copies * held
        a = options.precision.activation_bytes
        sequence_ways = np.where(r.sequence_parallel, r.tp, 1)
        hidden = r.tokens * m.d_model / sequence_ways
        if options.keep_outputs:
            stored = stored + np.where(r.pp > 1, a * hidden * held, 0)
        if options.dropout:  # of the embedding: one byte of mask per number
            stored = stored + np.where(first, hidden * held / copies, 0)
        logits = r.tokens * np.ceil(m.vocabulary / r.tp)
        at_loss = np.where((r.virtual_stages > 1) | r.dual, 1, held)
        at_end = np.where(last, (2 * a * hidden + 4 * logits) * at_loss, 0)

        again = np.maximum(
            np.where(dense > 0, r.again_dense, 0), np.where(moe > 0, r.again_moe, 0)
        )
        largest = np.maximum(
            np.where(dense > 0, r.dense_layer, 0),
            np.where(moe > 0, r.moe_layer + r.experts_layer, 0),
        )
        largest = np.maximum(largest, np.where(first | last, r.table, 0))
        buffers = again + zero_buffer_bytes(largest, r.zero, options.precision)
        buffers += np.where(last, a * logits, 0)

        here = {
            "weights": states.weights,
            "optimizer": states.optimizer,
            "activations": stored,
        }
        host = np.zeros_like(r.tp)
        for word in options.offload:
            host = host + here[word]
            here[word] = np.zeros_like(r.tp)
        activations = here["activations"] + at_end
        device = here["weights"] + states.gradients + here["optimizer"]
        device = device + activations + buffers
        return Memory(
            weights=here["weights"],
            gradients=states.gradients,
            optimizer=here["optimizer"],
            activations=activations,
            buffers=buffers,
            margin=self.margin * device,
            host=host,
            rank=rank,
        )

    def _in_flight(self, rank: int, r: _Rows) -> np.ndarray:
        """Micro-batches, or chunks of them, that this rank holds at once."""
        held = [
            pipeline.in_flight(_SORTED[kind], p, rank, m, v) if rank < p else 0
            for kind, p, m, v in self.pipelines.tolist()
        ]
        return np.array(held, dtype=np.float64)[r.pipeline]


_SORTED = sorted(pipeline.SCHEDULES)


# Serving ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ServingMemory:
    """Bytes on the fullest accelerator that serves a model."""

    weights: float
    kv_cache: Any
    activations: float
    margin: Any

    @property
    def total(self) -> Any:
        """All that the accelerator must hold."""
        return self.weights + self.kv_cache + self.activations + self.margin


def serving(
    model: Architecture,
    *,
    batch: Any,
    context: int,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
    weight_dtype: str | Format = "bf16",
    kv_dtype: str | Format = "bf16",
    step_tokens: int | None = None,
    margin: float = 0,
) -> ServingMemory:
    """Bytes on the fullest accelerator that serves ``batch`` sequences at once.

    Weights: each of pp stages has its layers, cut tp ways; experts are spread over
    max(tp, ep) accelerators, so with ep > tp the rest of the model is copied ep / tp
    times, and ``batch`` is what one copy serves. ``weight_dtype`` holds for the layers'
    matrices; tables, norms and routers stay in 16 bits, as quantized models keep them.

    Cache: key-value heads are spread over tp, or copied where tp is larger. The vectors
    of latent attention serve all heads and are on every tensor-parallel rank.

    Activations: for ``step_tokens`` in one step, the widest layer's input and output
    and its inner vectors, and fp32 logits of one token per sequence.

    Args:
        batch: sequences; a number or an array.
        context: tokens of each sequence, prompt and answer.
        step_tokens: tokens that go through the model at once (default: one per
            sequence; a prefill has more).
        margin: a fraction of all added for fragmentation and the runtime.

    Raises:
        ValueError: naming the argument, its value and what is allowed.
    """
    whole("batch", batch, low=0)
    weights, cache, per_step, per_sequence = _serving_parts(
        model, context, tp, pp, ep, weight_dtype, kv_dtype
    )
    number("margin", margin, high=10)
    tokens = batch if step_tokens is None else whole("step_tokens", step_tokens)
    activations = tokens * per_step + batch * per_sequence
    used = weights + batch * cache + activations
    return ServingMemory(weights, batch * cache, activations, margin * used)


def max_batch(
    model: Architecture,
    memory_bytes: float,
    *,
    context: int,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
    weight_dtype: str | Format = "bf16",
    kv_dtype: str | Format = "bf16",
    step_tokens: int = 0,
    margin: float = 0,
) -> int:
    """The most sequences of ``context`` tokens that fit; 0 if the weights don't.

    ``memory_bytes`` is one accelerator's; the rest as in :func:`serving`, where
    ``step_tokens`` 0 stands for one per sequence.
    """
    number("memory_bytes", memory_bytes, above_zero=True)
    number("margin", margin, high=10)
    whole("step_tokens", step_tokens, low=0)
    weights, cache, per_step, per_sequence = _serving_parts(
        model, context, tp, pp, ep, weight_dtype, kv_dtype
    )
    free = memory_bytes / (1 + margin) - weights - step_tokens * per_step
    each = cache + per_sequence + (0 if step_tokens else per_step)
    return max(0, math.floor(free / each))


def _serving_parts(
    model: Architecture,
    context: int,
    tp: int,
    pp: int,
    ep: int,
    weight_dtype: str | Format,
    kv_dtype: str | Format,
) -> tuple[float, float, float, float]:
    """Bytes of weights; of cache per sequence; of activations per token, sequence."""
    store = format_of("weight_dtype", weight_dtype)
    format_of("kv_dtype", kv_dtype)
    whole("context", context)
    whole("ep", ep, high=MOST_RANKS)
    Layout(tp=tp, pp=pp).check(model, 1, 1)
    spread = (
        model.experts and model.experts % ep == 0 and max(tp, ep) % min(tp, ep) == 0
    )
    if ep > 1 and not spread:
        raise ValueError(
            f"ep must be 1, or divide the {model.experts} experts and divide tp or be "
            f"a multiple of it (tp={tp!r}); got {ep!r}"
        )
    m, layers = model, math.ceil(model.layers / pp)

    def matrices(count: float, ways: int) -> float:
        return store.bytes(count / ways)

    kv_ways = min(tp, max(m.kv_heads, 1))
    layer = 0.0
    for name, count in m.attention_matrices.items():
        alone = name in ("q_down", "kv_down")
        narrow = name == "kv" and m.attention != "mla"
        layer += matrices(count, 1 if alone else kv_ways if narrow else tp)
    small = m.norms_per_layer * m.norm_parameters + sum(m.attention_vectors.values())
    layer += 2 * small
    weights = layers * layer
    expert = m.mlp_matrices(m.d_ffn_expert)
    dense = matrices(m.mlp_matrices(m.d_ffn), tp) + 2 * m.mlp_biases(m.d_ffn)
    moe = matrices(m.experts * expert, max(tp, ep))
    moe += 2 * m.experts * m.mlp_biases(m.d_ffn_expert) / max(tp, ep)
    moe += matrices(m.shared_experts * expert, tp) + 2 * m.router_parameters
    most, least = min(m.moe_layers, layers), min(layers, m.layers - m.moe_layers)
    weights += max(  # a stage at the end, or that at the beginning
        most * moe + (layers - most) * dense, least * dense + (layers - least) * moe
    )
    table = math.ceil(m.vocabulary / tp) * m.d_model
    tables = 1 if m.tied or pp > 1 else 2
    weights += 2 * (tables * table + m.positions_learned * m.d_model)
    weights += 2 * m.norm_parameters * (1 + m.embedding_norm)

    share = layers / m.layers
    cache = m.kv_bytes(context, 1, kv_dtype) * share
    cache /= kv_ways  # 1 with latent attention, whose vectors have no heads
    met = m.experts_per_token + m.shared_experts
    inner = max(m.d_ffn, met * m.d_ffn_expert) * (2 if m.gated else 1)
    per_token = 2 * (2 * m.d_model + max(inner, 3 * m.d_attention) / tp)
    return float(weights), float(cache), float(per_token), 4.0 * m.vocabulary / tp
