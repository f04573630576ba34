"""A model's parameters, FLOPs and key-value cache, from its shape alone.

    llama = named("Llama 3 8B")           # from the registry
    llama = from_config("config.json")    # as Hugging Face stores it
    llama.parameters                      # 8030261248
    llama.flops_per_token(8192)           # forward and backward, with attention
    llama.kv_bytes_per_token("bf16")      # 131072

Three rules of thumb follow from these counts and fail where they leave something out:

* 2 FLOPs per parameter and token forward, 4 backward, hence 6N: a matrix [m, n] costs
  a token mn multiply-adds, and the backward has two such products, one for the
  gradient of the input and one for that of the weights (Kaplan et al. 2020,
  arXiv:2001.08361, section 2.1). It counts the embedding, which is looked up, and
  leaves out attention, which has no weights.
* attention adds 12 LHDS per token (PaLM, arXiv:2204.02311, appendix B): scores and
  weighted sum are 2HD multiply-adds per pair of tokens, forward; three times that with
  the backward. Half of the pairs are masked in a causal model; the published counts
  include them all (``causal=False``).
* the cache holds a key and a value per layer and *key-value* head, not query head.

A multiply-add is 2 FLOPs. Element-wise work (norms, softmax, activations) is left out:
it costs time, but hardly any FLOPs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from aiinfra import registry
from aiinfra._numbers import number, one_of, whole

__all__ = ["FORMATS", "RECOMPUTE", "Architecture", "Format", "from_config", "named"]

RECOMPUTE = ("none", "selective", "full")
LONGEST = 10**9  # tokens in a sequence
WIDEST = 10**8  # any one size of a model
MOST = 10**18  # tokens to train on


@dataclass(frozen=True)
class Format:
    """How numbers are stored: ``bits`` each, and ``scale_bits`` per ``group`` of them.

    A group never crosses the end of a vector (a head's key, say): what is left of a
    vector has a scale of its own. ``group`` 0 means that there are no scales.
    """

    bits: float
    group: int = 0
    scale_bits: float = 0

    def __post_init__(self) -> None:
        number("bits", self.bits, above_zero=True, high=64)
        whole("group", self.group, low=0, high=WIDEST)
        number("scale_bits", self.scale_bits, high=128)
        if bool(self.group) != bool(self.scale_bits):
            raise ValueError(
                "group and scale_bits must both be 0 or both above 0, got "
                f"group={self.group!r}, scale_bits={self.scale_bits!r}"
            )

    def bytes(self, elements: float, vector: int = 0) -> float:
        """Bytes of ``elements`` numbers, in vectors of ``vector`` (0: whole groups)."""
        if not self.group:
            return elements * self.bits / 8
        scales = math.ceil(vector / self.group) / vector if vector else 1 / self.group
        return elements * (self.bits + self.scale_bits * scales) / 8


FORMATS = {
    "fp32": Format(32),
    "bf16": Format(16),
    "fp16": Format(16),
    "fp8": Format(8),  # one scale for a whole tensor: nothing per element
    "int8": Format(8, 128, 16),  # an fp16 scale per 128
    "int4": Format(4, 128, 32),  # an fp16 scale and an fp16 zero point per 128
    "fp8-mx": Format(8, 32, 8),  # OCP MX: a power of two, 8 bits, per 32
    "fp4-mx": Format(4, 32, 8),
    "fp4-nv": Format(4, 16, 8),  # NVFP4: an fp8 scale per 16
}


def format_of(name: str, value: str | Format) -> Format:
    """The format that an argument called ``name`` means; ValueError if unknown."""
    if isinstance(value, Format):
        return value
    one_of(name, value, tuple(FORMATS))
    return FORMATS[value]


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A decoder-only transformer, as far as sizes go; names as in the registry.

    Counts that a model doesn't have are 0: ``kv_heads`` and ``d_head`` with latent
    attention (``attention="mla"``), ``d_ffn`` where all layers have experts,
    ``experts`` in a dense model, ``window`` without a sliding window. The layers with
    a dense MLP lead. Wrong values raise ValueError naming the field.
    """

    name: str
    layers: int
    d_model: int
    heads: int
    vocabulary: int
    kv_heads: int = 0
    d_head: int = 0
    d_ffn: int = 0
    context: int = 0
    positions_learned: int = 0
    experts: int = 0
    experts_per_token: int = 0
    shared_experts: int = 0
    d_ffn_expert: int = 0
    dense_layers: int = 0
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    d_qk_nope: int = 0
    d_qk_rope: int = 0
    d_v: int = 0
    window: int = 0
    windowed_layers: int = 0
    training_tokens: int = 0
    attention: str = "mha"
    mlp: str = "swiglu"
    norm: str = "rmsnorm"
    positions: str = "rope"
    tied: bool = False
    attention_bias: bool = False
    qkv_bias: bool = False
    mlp_bias: bool = False
    norm_bias: bool = False
    router_bias: bool = False
    parallel_block: bool = False
    qk_norm: bool = False
    embedding_norm: bool = False
    attention_sinks: bool = False

    def __post_init__(self) -> None:
        needed = {"layers", "d_model", "heads", "vocabulary"}
        if self.attention == "mla":
            needed |= {"kv_lora_rank", "d_qk_nope", "d_qk_rope", "d_v"}
        else:
            needed |= {"kv_heads", "d_head"}
        if self.experts:
            needed |= {"experts_per_token", "d_ffn_expert"}
        if self.positions == "learned":
            needed |= {"positions_learned"}
        if not self.experts or self.dense_layers:
            needed |= {"d_ffn"}
        for field in fields(self):
            value, label = getattr(self, field.name), f"{self.name}: {field.name}"
            if field.type == "int":
                low = 1 if field.name in needed else 0
                high = MOST if field.name == "training_tokens" else WIDEST
                value = int(whole(label, value, low=low, high=high))
                object.__setattr__(self, field.name, value)
            elif field.type == "bool":
                _true_or_false(label, value)
        self._one_of("attention", ("mha", "gqa", "mqa", "mla"))
        self._one_of("mlp", ("swiglu", "geglu", "gelu", "relu"))
        self._one_of("norm", ("rmsnorm", "layernorm"))
        kinds = ("rope", "learned", "alibi", "sinusoidal", "relative", "nope")
        self._one_of("positions", kinds)
        self._demand(
            self.attention == "mla" or self.heads % max(self.kv_heads, 1) == 0,
            "kv_heads",
            f"a divisor of heads, {self.heads}",
        )
        if self.attention != "mla":
            kind = {self.heads: "mha", 1: "mqa"}.get(self.kv_heads, "gqa")
            self._demand(
                self.attention == kind or self.heads == 1,
                "attention",
                f"{kind}, for {self.kv_heads} of {self.heads} heads have keys",
            )
        limits = (
            ("experts_per_token", self.experts, "experts"),
            ("dense_layers", self.layers if self.experts else 0, "layers with experts"),
            ("windowed_layers", self.layers, "layers"),
        )
        for name, most, what in limits:
            self._demand(
                getattr(self, name) <= most, name, f"at most the {what}, {most}"
            )
        self._demand(
            bool(self.window) == bool(self.windowed_layers),
            "window",
            f"above 0 if and only if windowed_layers ({self.windowed_layers}) is",
        )

    def _one_of(self, name: str, allowed: tuple[str, ...]) -> None:
        one_of(f"{self.name}: {name}", getattr(self, name), allowed)

    def _demand(self, good: bool, name: str, wanted: str) -> None:
        if not good:
            raise ValueError(
                f"{self.name}: {name} must be {wanted}; got {getattr(self, name)!r}"
            )

    # Parameters ---------------------------------------------------------------

    @property
    def gated(self) -> bool:
        """Whether the MLP has three matrices, two of them into its inner width."""
        return self.mlp in ("swiglu", "geglu")

    @property
    def moe_layers(self) -> int:
        """Layers whose MLP is a set of experts."""
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def d_attention(self) -> int:
        """Width of what attention hands to its output projection."""
        return self.heads * (self.d_v if self.attention == "mla" else self.d_head)

    @cached_property
    def attention_matrices(self) -> dict[str, int]:
        """Parameters of one layer's attention matrices, by name.

        Latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1) goes through
        narrow vectors: "q_down" and "kv_down" make them, "q" and "kv" widen them.
        """
        d, H = self.d_model, self.heads
        if self.attention == "mla":
            d_qk = self.d_qk_nope + self.d_qk_rope
            matrices = {
                "q_down": d * self.q_lora_rank,
                "q": (self.q_lora_rank or d) * H * d_qk,
                "kv_down": d * (self.kv_lora_rank + self.d_qk_rope),
                "kv": self.kv_lora_rank * H * (self.d_qk_nope + self.d_v),
            }
        else:
            matrices = {
                "q": d * H * self.d_head,
                "kv": 2 * d * self.kv_heads * self.d_head,
            }
            if self.positions == "relative":  # of keys for offsets (Transformer-XL)
                matrices["relative"] = d * H * self.d_head
        matrices["output"] = self.d_attention * d
        return {name: count for name, count in matrices.items() if count}

    @cached_property
    def attention_vectors(self) -> dict[str, int]:
        """Parameters of one layer's attention that aren't matrices, by name."""
        if self.attention == "mla":
            norms = {"norms": self.q_lora_rank + self.kv_lora_rank}
            return norms | (
                {"output_bias": self.d_model} if self.attention_bias else {}
            )
        vectors = {}
        if self.attention_bias or self.qkv_bias:
            vectors["q_bias"] = self.heads * self.d_head
            vectors["kv_bias"] = 2 * self.kv_heads * self.d_head
        if self.attention_bias:
            vectors["output_bias"] = self.d_model
        if self.qk_norm:
            vectors["norms"] = 2 * self.d_head
        if self.attention_sinks:
            vectors["sinks"] = self.heads
        return vectors

    @cached_property
    def attention_parameters(self) -> int:
        """Parameters of one layer's attention."""
        return sum(self.attention_matrices.values()) + sum(
            self.attention_vectors.values()
        )

    def mlp_matrices(self, width: int) -> int:
        """Parameters of the matrices of an MLP of inner width ``width``.

        Three with a gate (Shazeer 2020, arXiv:2002.05202), else two.
        """
        return (3 if self.gated else 2) * self.d_model * width

    def mlp_biases(self, width: int) -> int:
        """Parameters of the biases of an MLP of inner width ``width``."""
        if not self.mlp_bias:
            return 0
        return (2 if self.gated else 1) * width + self.d_model

    def mlp_parameters(self, width: int) -> int:
        """Parameters of an MLP, or of an expert, of inner width ``width``."""
        return self.mlp_matrices(width) + self.mlp_biases(width)

    @property
    def router_parameters(self) -> int:
        """Parameters of one layer's router: a row per expert."""
        return self.experts * (self.d_model + self.router_bias)

    @property
    def norm_parameters(self) -> int:
        """Parameters of one norm over the model's width."""
        return self.d_model * (2 if self.norm_bias else 1)

    @property
    def norms_per_layer(self) -> int:
        """Norms over the model's width in one layer."""
        return 1 if self.parallel_block else 2

    def parameters_by_part(self) -> dict[str, int]:
        """Parameters of each part; they add up to :attr:`parameters`.

        "output" is 0 where the embedding serves as output layer, too.
        """
        dense = self.layers - self.moe_layers
        norms = self.layers * self.norms_per_layer + 1 + self.embedding_norm
        expert = self.mlp_parameters(self.d_ffn_expert)
        return {
            "embedding": self.vocabulary * self.d_model,
            "positions": self.positions_learned * self.d_model,
            "attention": self.layers * self.attention_parameters,
            "mlp": dense * self.mlp_parameters(self.d_ffn) if dense else 0,
            "router": self.moe_layers * self.router_parameters,
            "experts": self.moe_layers * self.experts * expert,
            "shared_experts": self.moe_layers * self.shared_experts * expert,
            "norms": norms * self.norm_parameters,
            "output": 0 if self.tied else self.vocabulary * self.d_model,
        }

    @cached_property
    def parameters(self) -> int:
        """All parameters, a tied output layer counted once."""
        return sum(self.parameters_by_part().values())

    @cached_property
    def active_parameters(self) -> int:
        """Parameters that one token meets: its experts, and no embedding.

        The output layer counts, since a token is multiplied with all of it; an
        embedding that isn't the output layer is only looked up. DeepSeek-V3's
        README_WEIGHTS counts so.
        """
        parts = self.parameters_by_part()
        idle = self.moe_layers * (self.experts - self.experts_per_token)
        return (
            self.parameters
            - idle * self.mlp_parameters(self.d_ffn_expert)
            - (0 if self.tied else parts["embedding"])
        )

    @property
    def expert_parameters(self) -> int:
        """Parameters of all routed experts, those that expert parallelism spreads."""
        return self.parameters_by_part()["experts"]

    @property
    def active_mlp_width(self) -> float:
        """Inner width of the MLPs that a token meets in a layer, on average."""
        met = self.experts_per_token + self.shared_experts
        moe = self.moe_layers
        width = (self.layers - moe) * self.d_ffn + moe * met * self.d_ffn_expert
        return width / self.layers

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the tables that tokens and positions are looked up in."""
        parts = self.parameters_by_part()
        return parts["embedding"] + parts["positions"]

    # FLOPs --------------------------------------------------------------------

    @cached_property
    def layer_matrices(self) -> int:
        """Active parameters of the matrices of all layers: no biases, norms, tables."""
        dense, moe = self.layers - self.moe_layers, self.moe_layers
        met = self.experts_per_token + self.shared_experts
        return (
            self.layers * sum(self.attention_matrices.values())
            + dense * self.mlp_matrices(self.d_ffn)
            + moe * met * self.mlp_matrices(self.d_ffn_expert)
            + moe * self.experts * self.d_model
        )

    def attention_flops_per_token(self, sequence: Any, *, causal: bool = True) -> Any:
        """Forward FLOPs of scores and weighted sums in all layers, for one token.

        A pair of tokens costs 2HD multiply-adds, D for its score and D for its share
        of the sum in each of H *query* heads; with latent attention H(d_nope + d_rope)
        and H d_v; relative positions add a second score. A token of a sequence of S
        meets S others, or (S + 1)/2 on average in a causal model, or at most the
        window.

        Args:
            sequence: S, tokens; a number or an array.
            causal: leave masked pairs out. Published formulas count them: 12 LHDS for
                forward and backward (PaLM, appendix B) is three times this, full.
        """
        S = whole("sequence", sequence, high=LONGEST)
        if self.attention == "mla":
            per_pair = self.d_qk_nope + self.d_qk_rope + self.d_v
        else:
            per_pair = (3 if self.positions == "relative" else 2) * self.d_head
        met = (self.layers - self.windowed_layers) * _met(S, S, causal)
        if self.windowed_layers:
            met = met + self.windowed_layers * _met(S, self.window, causal)
        return 2 * self.heads * per_pair * met

    def flops_per_token(
        self,
        sequence: Any,
        *,
        causal: bool = True,
        backward: bool = True,
        recompute: str = "none",
    ) -> Any:
        """FLOPs of one token of a sequence, forward or forward and backward.

        Forward: 2 per active matrix parameter, and attention. Backward: twice the
        forward. Recomputation repeats part of the forward: "selective" the attention
        (Korthikanti et al. 2022, arXiv:2205.05198, section 5), "full" all layers but
        not the output layer (Narayanan et al. 2021, arXiv:2104.04473, appendix). So a
        GPT with d_ffn = 4d, full pairs and B sequences costs per step
        72 BLSd²(1 + S/6d + V/12dL) without and 96 BLSd²(1 + S/6d + V/16dL) with full
        recomputation, the formulas of these papers. MFU counts the former, whatever
        is recomputed; HFU what is executed.

        Args:
            sequence: S, tokens; a number or an array.
            causal: leave masked pairs out; see :meth:`attention_flops_per_token`.
            backward: include the backward. Without it nothing is recomputed.
            recompute: "none", "selective" or "full".

        Raises:
            ValueError: naming the argument, its value and what is allowed.
        """
        one_of("recompute", recompute, RECOMPUTE)
        attention = self.attention_flops_per_token(sequence, causal=causal)
        forward = 2 * self.layer_matrices + attention
        output = 2 * self.vocabulary * self.d_model
        if not backward:
            if recompute != "none":
                raise ValueError(
                    f"recompute must be none without a backward, got {recompute!r}"
                )
            return forward + output
        again = {"none": 0, "selective": attention, "full": forward}[recompute]
        return 3 * (forward + output) + again

    # Key-value cache ------------------------------------------------------------

    @property
    def kv_elements_per_layer(self) -> int:
        """Numbers that one layer caches per token.

        2 H_kv D, a key and a value per key-value head; with latent attention the
        compressed vector and one rotated key for all heads (DeepSeek-V2, section 2.1).
        """
        if self.attention == "mla":
            return self.kv_lora_rank + self.d_qk_rope
        return 2 * self.kv_heads * self.d_head

    def kv_layer_bytes(self, dtype: str | Format = "bf16") -> float:
        """Bytes that one layer caches per token."""
        store = format_of("dtype", dtype)
        vector = self.kv_lora_rank + self.d_qk_rope or self.d_head
        return store.bytes(self.kv_elements_per_layer, vector)

    def kv_bytes_per_token(self, dtype: str | Format = "bf16") -> float:
        """Bytes of cache that one more token takes in all layers.

        Beyond a window, layers that have one take nothing more: see :meth:`kv_bytes`.

        Args:
            dtype: a name in :data:`FORMATS`, or a :class:`Format`; scales count.
        """
        return self.layers * self.kv_layer_bytes(dtype)

    def kv_bytes(
        self, sequence: Any, batch: Any = 1, dtype: str | Format = "bf16"
    ) -> Any:
        """Bytes of the cache of ``batch`` sequences of ``sequence`` tokens each.

        Layers with a window keep its last tokens only (a rolling buffer: Mistral 7B,
        arXiv:2310.06825, section 2).
        """
        S = whole("sequence", sequence, low=0, high=LONGEST)
        whole("batch", batch, low=0)
        kept = (self.layers - self.windowed_layers) * S
        if self.windowed_layers:
            kept = kept + self.windowed_layers * np.minimum(S, self.window)
        total = batch * kept * self.kv_layer_bytes(dtype)
        return float(total) if np.ndim(total) == 0 else total


def _met(S: Any, window: Any, causal: bool) -> Any:
    """Tokens that one of S tokens meets on average, itself and masked ones included."""
    w = np.minimum(S, window)
    if np.ndim(w) == 0:
        w = int(w)
    return w - w * (w - 1) / (2 * S) if causal else w


def _true_or_false(name: str, value: Any) -> None:
    """Raise unless ``value`` is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r}")


def named(name: str) -> Architecture:
    """The model of that name in the registry; UnknownName offers the nearest."""
    entry = registry.model(name)
    known = {field.name for field in fields(Architecture)}
    counts = {key: int(figure) for key, figure in entry.figures.items() if key in known}
    return Architecture(name=entry.name, **counts, **entry.traits)


# Hugging Face's config.json ---------------------------------------------------------


class _Config:
    """A config.json, asked for its fields one by one."""

    def __init__(self, data: Mapping[str, Any], kind: str) -> None:
        self.data, self.kind = data, kind

    def count(self, name: str, what: str, *others: str, low: int = 1) -> int:
        """A field that must be there, under one of its names."""
        for key in (name, *others):
            if self.data.get(key) is not None:
                return int(
                    whole(f"{self.kind}: {key}", self.data[key], low=low, high=WIDEST)
                )
        names = " or ".join(map(repr, (name, *others)))
        raise ValueError(
            f"{self.kind}: config has no {names}; expected a whole number, {low} or "
            f"more: {what}"
        )

    def maybe(self, name: str, default: int) -> int:
        """A count with a default, which null means, too."""
        if self.data.get(name) is None:
            return default
        return self.count(name, "", low=0)

    def or_null(self, name: str, what: str) -> int:
        """A count that must be there, but may be null for 0."""
        if name in self.data and self.data[name] is None:
            return 0
        return self.count(name, what, low=0)

    def flag(self, name: str, default: bool) -> bool:
        """A switch with the default that the architecture has."""
        value = self.data.get(name)
        value = default if value is None else value
        _true_or_false(f"{self.kind}: {name}", value)
        return value

    def demand(self, name: str, allowed: tuple[Any, ...]) -> None:
        """Raise where a field, if present, asks for what isn't modelled."""
        value = self.data.get(name, allowed[0])
        if value not in allowed:
            words = " or ".join(map(repr, allowed))
            raise ValueError(
                f"{self.kind}: {name} is {value!r}; only {words} is understood"
            )


def _attention_kind(heads: int, kv_heads: int) -> str:
    return {heads: "mha", 1: "mqa"}.get(kv_heads, "gqa")


def _share(c: _Config, heads_field: str, heads: int, field: str, d: int) -> int:
    """The size of a head where the heads share the model's width."""
    if d % heads:
        raise ValueError(
            f"{c.kind}: {heads_field} must divide {field}, {d}, which the heads share; "
            f"got {heads}"
        )
    return d // heads


def _gpt2(c: _Config) -> dict[str, Any]:
    d, heads = c.count("n_embd", "width of the model"), c.count("n_head", "heads")
    d_head = _share(c, "n_head", heads, "n_embd", d)
    positions = c.count("n_positions", "rows of the table of positions", "n_ctx")
    return {
        "layers": c.count("n_layer", "layers"),
        "d_model": d,
        "heads": heads,
        "kv_heads": heads,
        "d_head": d_head,
        "d_ffn": c.maybe("n_inner", 4 * d),
        "vocabulary": c.count("vocab_size", "rows of the embedding"),
        "context": positions,
        "positions_learned": positions,
        "mlp": "gelu",
        "norm": "layernorm",
        "positions": "learned",
        "tied": c.flag("tie_word_embeddings", True),
        "attention_bias": True,
        "mlp_bias": True,
        "norm_bias": True,
    }


def _bloom(c: _Config) -> dict[str, Any]:
    d = c.count("hidden_size", "width of the model", "n_embed")
    heads = c.count("n_head", "heads", "num_attention_heads")
    d_head = _share(c, "n_head", heads, "hidden_size", d)
    return {
        "layers": c.count("n_layer", "layers", "num_hidden_layers"),
        "d_model": d,
        "heads": heads,
        "kv_heads": heads,
        "d_head": d_head,
        "d_ffn": 4 * d,
        "vocabulary": c.count("vocab_size", "rows of the embedding"),
        "context": c.maybe("seq_length", 0),
        "mlp": "gelu",
        "norm": "layernorm",
        "positions": "alibi",
        "tied": c.flag("tie_word_embeddings", True),
        "attention_bias": True,
        "mlp_bias": True,
        "norm_bias": True,
        "embedding_norm": True,
    }


def _trunk(c: _Config) -> dict[str, Any]:
    """What Llama and all that follow it have in common."""
    return {
        "layers": c.count("num_hidden_layers", "layers"),
        "d_model": c.count("hidden_size", "width of the model"),
        "heads": c.count("num_attention_heads", "query heads"),
        "vocabulary": c.count("vocab_size", "rows of the embedding"),
        "context": c.count("max_position_embeddings", "longest sequence"),
        "tied": c.flag("tie_word_embeddings", False),
    }


def _heads(c: _Config, shape: dict[str, Any], *, kv_default: bool) -> dict[str, Any]:
    heads = shape["heads"]
    if kv_default:  # Llama's first configs leave it out: every head has its own
        kv_heads = c.maybe("num_key_value_heads", heads)
    else:
        kv_heads = c.count("num_key_value_heads", "heads that have keys and values")
    d_head = c.maybe("head_dim", 0)
    if not d_head:
        d = shape["d_model"]
        d_head = _share(c, "num_attention_heads", heads, "hidden_size", d)
    return {"kv_heads": kv_heads, "d_head": d_head}


def _dense(c: _Config, *, kv_default: bool = False) -> dict[str, Any]:
    shape = _trunk(c)
    shape |= _heads(c, shape, kv_default=kv_default)
    shape["d_ffn"] = c.count("intermediate_size", "inner width of the MLP")
    return shape


def _llama(c: _Config) -> dict[str, Any]:
    return _dense(c, kv_default=True) | {
        "attention_bias": c.flag("attention_bias", False),
        "mlp_bias": c.flag("mlp_bias", False),
    }


def _window(c: _Config, shape: dict[str, Any]) -> dict[str, Any]:
    window = c.or_null("sliding_window", "tokens that a layer sees, or null")
    return {"window": window, "windowed_layers": shape["layers"] if window else 0}


def _mistral(c: _Config) -> dict[str, Any]:
    shape = _dense(c)
    return shape | _window(c, shape)


def _mixtral(c: _Config) -> dict[str, Any]:
    shape = _dense(c)
    shape["d_ffn_expert"] = shape.pop("d_ffn")
    return (
        shape
        | _window(c, shape)
        | {
            "experts": c.count("num_local_experts", "experts of a layer"),
            "experts_per_token": c.count("num_experts_per_tok", "experts per token"),
        }
    )


def _qwen_window(c: _Config, shape: dict[str, Any]) -> dict[str, Any]:
    """Qwen's layers from ``max_window_layers`` on have a window, if it is in use."""
    if not c.flag("use_sliding_window", False):
        return {}
    whole_layers = c.count("max_window_layers", "leading layers with no window", low=0)
    windowed = max(shape["layers"] - whole_layers, 0)
    window = c.count("sliding_window", "tokens that a windowed layer sees")
    return {"window": window, "windowed_layers": windowed} if windowed else {}


def _qwen2(c: _Config) -> dict[str, Any]:
    shape = _dense(c)
    return shape | _qwen_window(c, shape) | {"qkv_bias": True}


def _qwen3(c: _Config) -> dict[str, Any]:
    c.count("head_dim", "size of one head, which d_model doesn't give")
    shape = _dense(c)
    bias = c.flag("attention_bias", False)
    return shape | _qwen_window(c, shape) | {"attention_bias": bias, "qk_norm": True}


def _qwen3_moe(c: _Config) -> dict[str, Any]:
    c.demand("decoder_sparse_step", (1,))
    c.demand("mlp_only_layers", ([], None))
    shape = _qwen3(c) | {
        "experts": c.count("num_experts", "experts of a layer"),
        "experts_per_token": c.count("num_experts_per_tok", "experts per token"),
        "d_ffn_expert": c.count("moe_intermediate_size", "inner width of an expert"),
    }
    del shape["d_ffn"]  # of dense layers, of which there are none
    return shape


def _deepseek(c: _Config) -> dict[str, Any]:
    """DeepSeek-V2 and V3; the extra layer that predicts two ahead isn't counted."""
    c.demand("moe_layer_freq", (1,))
    return _trunk(c) | {
        "attention": "mla",
        "q_lora_rank": c.or_null("q_lora_rank", "width of the compressed queries"),
        "kv_lora_rank": c.count("kv_lora_rank", "width of the compressed keys"),
        "d_qk_nope": c.count("qk_nope_head_dim", "part of a head that isn't rotated"),
        "d_qk_rope": c.count("qk_rope_head_dim", "part of a head that is rotated"),
        "d_v": c.count("v_head_dim", "size of a value"),
        "d_ffn": c.count("intermediate_size", "inner width of a dense MLP"),
        "dense_layers": c.count("first_k_dense_replace", "dense layers", low=0),
        "experts": c.count("n_routed_experts", "experts of a layer"),
        "experts_per_token": c.count("num_experts_per_tok", "experts per token"),
        "shared_experts": c.or_null("n_shared_experts", "experts of every token"),
        "d_ffn_expert": c.count("moe_intermediate_size", "inner width of an expert"),
        "attention_bias": c.flag("attention_bias", False),
        "router_bias": c.data.get("topk_method") == "noaux_tc",
    }


def _gpt_oss(c: _Config) -> dict[str, Any]:
    c.count("head_dim", "size of one head, which d_model doesn't give")
    shape = _dense(c)
    kinds = c.data.get("layer_types")
    allowed = {"sliding_attention", "full_attention"}
    good = isinstance(kinds, list) and set(map(str, kinds)) <= allowed
    if not good or len(kinds) != shape["layers"]:
        raise ValueError(
            f"{c.kind}: layer_types must list sliding_attention or full_attention for "
            f"each of the {shape['layers']} layers; got {kinds!r}"
        )
    shape["d_ffn_expert"] = shape.pop("d_ffn")
    window = c.count("sliding_window", "tokens that a windowed layer sees")
    windowed = kinds.count("sliding_attention")
    per_token = c.count("num_experts_per_tok", "experts per token", "experts_per_token")
    return shape | {
        "experts": c.count("num_local_experts", "experts of a layer"),
        "experts_per_token": per_token,
        "window": window if windowed else 0,
        "windowed_layers": windowed,
        "attention_bias": c.flag("attention_bias", True),
        "mlp_bias": True,
        "router_bias": True,
        "attention_sinks": True,
    }


_READERS: dict[str, Callable[[_Config], dict[str, Any]]] = {
    "BloomForCausalLM": _bloom,
    "DeepseekV2ForCausalLM": _deepseek,
    "DeepseekV3ForCausalLM": _deepseek,
    "GPT2LMHeadModel": _gpt2,
    "GptOssForCausalLM": _gpt_oss,
    "LlamaForCausalLM": _llama,
    "MistralForCausalLM": _mistral,
    "MixtralForCausalLM": _mixtral,
    "Qwen2ForCausalLM": _qwen2,
    "Qwen3ForCausalLM": _qwen3,
    "Qwen3MoeForCausalLM": _qwen3_moe,
}


def from_config(config: Mapping[str, Any] | str | Path) -> Architecture:
    """The model that a Hugging Face config.json describes: the file, or its content.

    Knows Llama, Mistral, Mixtral, Qwen2, Qwen3 (dense and sparse), DeepSeek-V2 and V3,
    gpt-oss, GPT-2 and BLOOM. Fields that a config may leave out have the default of
    that architecture in transformers.

    Raises:
        ValueError: for an architecture that isn't known, a field that is missing, of
            the wrong kind or out of range, naming the field and what was expected; for
            a file that isn't JSON.
        OSError: for a file that can't be read.
    """
    where = "config"
    if isinstance(config, str | Path):
        where = str(config)
        try:
            config = json.loads(Path(config).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{where} must be a JSON file: {error}") from None
    if not isinstance(config, Mapping):
        raise ValueError(f"{where} must hold a mapping, got {type(config).__name__}")
    kinds = config.get("architectures")
    kind = kinds[0] if isinstance(kinds, list) and len(kinds) == 1 else kinds
    if not isinstance(kind, str) or kind not in _READERS:
        raise ValueError(
            f"{where}: architectures must be one of {', '.join(_READERS)}; got {kind!r}"
        )
    shape = _READERS[kind](_Config(config, kind))
    if "attention" not in shape:
        shape["attention"] = _attention_kind(shape["heads"], shape["kv_heads"])
    name = config.get("_name_or_path") or kind
    return Architecture(name=str(name), **shape)
