"""What serving a model costs: the two phases, batches, latency, throughput, money.

A request has a prompt and an answer. *Prefill* computes all positions of the prompt at
once and is bound by arithmetic; *decode* computes one position of every running
sequence and is bound by memory: it reads all weights once for the batch, and every
sequence's keys and values. Both are bounds from spec rates unless an ``efficiency`` is
given: no real engine is faster, and none reaches them.

The functions take arrays wherever one sweeps (batch, context, acceptance …).

Sources: Pope et al. 2022 (decode and prefill as rooflines), Leviathan et al. 2023
(speculative decoding), Zhong et al. 2024 (prefill and decode apart), DeepSeek-AI 2025,
open-infra-index, day 6 (expert-parallel serving and its cost).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from aiinfra import _numbers

__all__ = [
    "Request",
    "cost_per_million_tokens",
    "decode_s",
    "distinct_experts",
    "expert_exchange_s",
    "frontier",
    "largest_batch",
    "nodes_for",
    "prefill_s",
    "prefill_share",
    "speculative_operations",
    "speculative_speedup",
    "speculative_tokens",
    "transfer_s",
]

Number = Any


# ------------------------------------------------------------------ the two phases


def decode_s(
    weight_bytes: Number,
    kv_bytes_per_sequence: Number,
    batch: Number,
    *,
    bytes_per_s: Number,
    flop_per_token: Number = 0,
    flops_per_s: Number = np.inf,
    apart: bool = True,
) -> Number:
    """Least seconds of one decode step of ``batch`` sequences.

    Weights are read once for the batch, at arithmetic intensity 2 B a bf16 weight: the
    larger of reading and computing. Keys and values are read once for one sequence
    each, so that part is always bound by memory. ``apart`` adds the two, as kernels run
    one after the other; without it all bytes and all FLOP overlap perfectly.

    ``bytes_per_s`` and ``flops_per_s`` are of all accelerators together.
    """
    weight_bytes = _numbers.number("weight_bytes", weight_bytes)
    kv = _numbers.number("kv_bytes_per_sequence", kv_bytes_per_sequence)
    batch = _numbers.number("batch", batch, above_zero=True)
    rate = _numbers.number("bytes_per_s", bytes_per_s, above_zero=True)
    flop = _numbers.number("flop_per_token", flop_per_token)
    compute_s = batch * flop / flops_per_s
    if apart:
        return _numbers.most(weight_bytes / rate, compute_s) + batch * kv / rate
    return _numbers.most((weight_bytes + batch * kv) / rate, compute_s)


def prefill_s(
    tokens: Number,
    flop_per_token: Number,
    *,
    flops_per_s: Number,
    weight_bytes: Number = 0,
    bytes_per_s: Number = np.inf,
    efficiency: Number = 1.0,
) -> Number:
    """Least seconds to compute ``tokens`` prompt tokens together.

    Arithmetic, or one reading of the weights if that takes longer (short prompts).
    """
    tokens = _numbers.number("tokens", tokens, above_zero=True)
    flop = _numbers.number("flop_per_token", flop_per_token, above_zero=True)
    peak = _numbers.number("flops_per_s", flops_per_s, above_zero=True)
    share = _numbers.number("efficiency", efficiency, above_zero=True, high=1)
    read_s = _numbers.number("weight_bytes", weight_bytes) / bytes_per_s
    return _numbers.most(tokens * flop / (peak * share), read_s)


def distinct_experts(
    experts: Number, experts_per_token: Number, batch: Number
) -> Number:
    """Experts of a layer that at least one of ``batch`` tokens is sent to.

    E (1 - (1 - k/E)^B) with even, independent routing: what a decode step must read.
    """
    total = _numbers.whole("experts", experts)
    chosen = _numbers.number("experts_per_token", experts_per_token, above_zero=True)
    batch = _numbers.number("batch", batch)
    if np.any(np.asarray(chosen) > np.asarray(total)):
        raise ValueError(
            f"experts_per_token must be at most experts ({total}), got {chosen}"
        )
    return total * (1 - (1 - chosen / total) ** batch)


# ---------------------------------------------------------------- batches and money


@dataclass(frozen=True)
class Request:
    """A typical request: prompt and answer, in tokens."""

    prompt: float
    answer: float

    def __post_init__(self) -> None:
        _numbers.number("prompt", self.prompt, above_zero=True)
        _numbers.number("answer", self.answer, above_zero=True)

    @property
    def mean_context(self) -> float:
        """Tokens held, on average over the answer: prompt + answer / 2."""
        return self.prompt + self.answer / 2

    @property
    def largest_context(self) -> float:
        """Tokens held when the answer is complete."""
        return self.prompt + self.answer


def largest_batch(
    memory_bytes: Number, weight_bytes: Number, kv_bytes_per_sequence: Number
) -> Number:
    """Sequences whose keys and values fit beside the weights; 0 if those don't fit."""
    memory = _numbers.number("memory_bytes", memory_bytes, above_zero=True)
    weights = _numbers.number("weight_bytes", weight_bytes)
    kv = _numbers.number(
        "kv_bytes_per_sequence", kv_bytes_per_sequence, above_zero=True
    )
    return np.floor(np.maximum(np.asarray(memory) - weights, 0) / kv)


def frontier(
    request: Request,
    batches: np.ndarray,
    *,
    weight_bytes: float,
    kv_bytes_per_token: float,
    flop_per_token: float,
    bytes_per_s: float,
    flops_per_s: float,
    memory_bytes: float,
    read_bytes: Callable[[np.ndarray], np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """Latency against throughput, one point for each batch size that fits.

    ``read_bytes`` gives the weights that a decode step of a batch reads, if not all:
    the experts that a batch meets.

    Prefill shares the accelerators with decode: in the time in which every sequence of
    the batch gives its answer, every one was prefilled once. Keys: batch, tpot_s (time
    per output token, prefill of others included), ttft_s (an idle system's time to the
    first token), tokens_per_s (output tokens of all sequences), per_user_tokens_per_s.
    """
    batches = np.asarray(_numbers.whole("batch", np.asarray(batches, dtype=float)))
    held = kv_bytes_per_token * request.largest_context
    batches = batches[batches <= largest_batch(memory_bytes, weight_bytes, held)]
    step_s = decode_s(
        read_bytes(batches) if read_bytes else weight_bytes,
        kv_bytes_per_token * request.mean_context,
        batches,
        bytes_per_s=bytes_per_s,
        flop_per_token=flop_per_token,
        flops_per_s=flops_per_s,
    )
    first_s = prefill_s(
        request.prompt,
        flop_per_token,
        flops_per_s=flops_per_s,
        weight_bytes=weight_bytes,
        bytes_per_s=bytes_per_s,
    )
    round_s = batches * first_s + request.answer * step_s
    tpot_s = round_s / request.answer
    return {
        "batch": batches,
        "tpot_s": tpot_s,
        "ttft_s": np.full_like(tpot_s, first_s),
        "tokens_per_s": batches / tpot_s,
        "per_user_tokens_per_s": 1 / tpot_s,
    }


def cost_per_million_tokens(
    price_per_hour: Number, accelerators: Number, tokens_per_s: Number
) -> Number:
    """USD for a million tokens: price x accelerators / (tokens an hour) x 1e6."""
    price = _numbers.number("price_per_hour", price_per_hour)
    count = _numbers.number("accelerators", accelerators, above_zero=True)
    rate = _numbers.number("tokens_per_s", tokens_per_s, above_zero=True)
    return price * count / (3600 * rate) * 1e6


def nodes_for(tokens: Number, seconds: Number, tokens_per_s: Number) -> Number:
    """Nodes that serve ``tokens`` in ``seconds`` at ``tokens_per_s`` each."""
    tokens = _numbers.number("tokens", tokens)
    seconds = _numbers.number("seconds", seconds, above_zero=True)
    return (
        tokens
        / seconds
        / _numbers.number("tokens_per_s", tokens_per_s, above_zero=True)
    )


# ------------------------------------------------- prefill and decode on other nodes


def transfer_s(n_bytes: Number, bytes_per_s: Number, latency_s: Number = 0) -> Number:
    """Seconds to hand a prompt's keys and values to the node that decodes."""
    n_bytes = _numbers.number("n_bytes", n_bytes)
    rate = _numbers.number("bytes_per_s", bytes_per_s, above_zero=True)
    return _numbers.number("latency_s", latency_s) + n_bytes / rate


def prefill_share(
    prefill_s_per_request: Number, decode_s_per_request: Number
) -> Number:
    """Share of nodes to give to prefill, so that neither side waits for the other.

    Both times are of one node for one request, decode's divided by its batch.
    """
    first = _numbers.number("prefill_s_per_request", prefill_s_per_request)
    second = _numbers.number("decode_s_per_request", decode_s_per_request)
    both = first + second
    if np.any(np.asarray(both) == 0):
        raise ValueError("one of the two times must be greater than 0, got 0 and 0")
    return first / both


def expert_exchange_s(
    tokens: Number,
    d_model: Number,
    destinations: Number,
    *,
    bytes_per_s: Number,
    dispatch_bytes: Number = 1,
    combine_bytes: Number = 2,
) -> Number:
    """Seconds of one layer's dispatch and combine in expert-parallel decoding.

    Each of a rank's ``tokens`` goes to ``destinations`` ranks as d_model values of
    ``dispatch_bytes`` (FP8: 1) and comes back in ``combine_bytes`` (bf16: 2).
    """
    tokens = _numbers.number("tokens", tokens)
    width = _numbers.number("d_model", d_model, above_zero=True)
    places = _numbers.number("destinations", destinations)
    rate = _numbers.number("bytes_per_s", bytes_per_s, above_zero=True)
    each = _numbers.number("dispatch_bytes", dispatch_bytes)
    each = each + _numbers.number("combine_bytes", combine_bytes)
    return tokens * width * places * each / rate


# ------------------------------------------------------------ speculative decoding


def _acceptance(alpha: Number) -> Number:
    return _numbers.number("alpha", alpha, high=1)


def speculative_tokens(alpha: Number, gamma: Number) -> Number:
    """Expected tokens of one run of the target: (1 - α^(γ+1)) / (1 - α); γ+1 at α = 1.

    ``alpha``: chance that a drafted token is accepted, independent of the others;
    ``gamma``: drafted tokens. Leviathan et al. 2023, equation 1.
    """
    alpha = _acceptance(alpha)
    gamma = _numbers.number("gamma", gamma)
    alpha, gamma = np.asarray(alpha, dtype=float), np.asarray(gamma, dtype=float)
    sure = alpha == 1
    with np.errstate(divide="ignore", invalid="ignore"):
        value = (1 - alpha ** (gamma + 1)) / (1 - alpha)
    value = np.where(sure, gamma + 1, value)
    return value if value.ndim else float(value)


def speculative_speedup(alpha: Number, gamma: Number, draft_cost: Number) -> Number:
    """How much faster than one token a run, if a run takes 1 + γ c.

    ``draft_cost`` c: time of one draft step over one of the target. Holds where the
    target is bound by memory, so that checking γ + 1 positions costs as one.
    """
    cost = _numbers.number("draft_cost", draft_cost)
    return speculative_tokens(alpha, gamma) / (1 + gamma * cost)


def speculative_operations(
    alpha: Number, gamma: Number, draft_operations: Number = 0
) -> Number:
    """Factor by which arithmetic grows: (1-α)(γĉ + γ + 1) / (1 - α^(γ+1)).

    ``draft_operations`` ĉ: a draft token's operations over a target token's. Leviathan
    et al. 2023, theorem 3.11.
    """
    ratio = _numbers.number("draft_operations", draft_operations)
    return (gamma * ratio + gamma + 1) / speculative_tokens(alpha, gamma)
