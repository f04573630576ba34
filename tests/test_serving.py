"""Serving: published figures, limits, and what a wrong formula would give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinfra import serving
from aiinfra.registry import hardware, link, model

V5E = hardware("TPU v5e")


def near(value, wanted, rel):
    assert value == pytest.approx(wanted, rel=rel)


# Published figures: the name of each case, its facts, its source.


def test_in_decode_roofline_b1():
    # Llama 2 13B in bf16 with one sequence of 8,192 tokens on eight TPU v5e, each of
    # 8.2e11 B/s: at least 4.98 ms a step. Austin et al. 2025, inference.
    step = serving.decode_s(26e9, 6.7e9, 1, bytes_per_s=8 * 8.2e11)
    near(step, 4.98e-3, 0.002)


THIRTY = {
    "weight_bytes": 30e9,
    "kv_bytes_per_sequence": 100e3 * 8192,
    "flop_per_token": 2 * 30e9,
    "bytes_per_s": 16 * 8.1e11,
    "flops_per_s": 16 * 1.97e14,
}


def test_in_decode_30b_b256():
    # A 30B model in int8 on 16 v5e, 100 kB of KV a token, 8,192 tokens a sequence, 256
    # sequences: attention bound by memory, then the MLP by arithmetic: 21 ms.
    near(serving.decode_s(batch=256, **THIRTY), 21e-3, 0.01)
    together = serving.decode_s(batch=256, apart=False, **THIRTY)
    assert together < 19e-3  # perfect overlap is another answer


def test_in_decode_30b_b4():
    # The same with four sequences: weights once and all KV, 2.5 ms.
    near(serving.decode_s(batch=4, **THIRTY), 2.5e-3, 0.03)


def test_in_spec_tokens_08_5():
    # Acceptance 0.8, five drafted tokens: 3.69 a run. Leviathan et al. 2023.
    near(serving.speculative_tokens(0.8, 5), 3.69, 0.002)


def test_in_spec_ops_06_2():
    # A free draft, acceptance 0.6, two tokens: 1.53 times the arithmetic. The same.
    near(serving.speculative_operations(0.6, 2), 1.53, 0.002)


def test_in_ep_comm_ib():
    # 32 tokens to nine ranks, 7,000 values, one byte there and two back, 50 GB/s:
    # 120.96 µs a layer. DeepSeek-AI 2025, Insights into DeepSeek-V3, section 2.3.2.
    rate = link("InfiniBand NDR").one_way_bytes_per_s
    exchange = serving.expert_exchange_s(32, 7000, 9, bytes_per_s=rate)
    near(exchange, 120.96e-6, 1e-6)
    wrong = serving.expert_exchange_s(32, 7000, 8, bytes_per_s=rate)
    assert wrong != pytest.approx(120.96e-6, rel=0.01)  # the shared expert forgotten


def test_in_ep_tpot_ib():
    # 61 layers, two micro-batches that overlap: 14.76 ms a token. The same.
    rate = link("InfiniBand NDR").one_way_bytes_per_s
    layer_s = 2 * serving.expert_exchange_s(32, 7000, 9, bytes_per_s=rate)
    near(model("DeepSeek-V3").layers * layer_s, 14.76e-3, 0.001)


def test_in_cost_output_dsv3():
    # A node of eight H800 at 2 USD an hour gives 14,800 tokens a second: 0.30 USD a
    # million. DeepSeek-AI 2025, open-infra-index, day 6.
    near(serving.cost_per_million_tokens(2, 8, 14_800), 0.3, 0.002)


def test_op_dsv3_daily_cost():
    # 226.75 nodes on average for a day: 87,072 USD. The same.
    per_token = serving.cost_per_million_tokens(2, 8 * 226.75, 1) / 1e6
    near(per_token * 86_400, 87_072, 1e-6)


def test_or_dsv3_prefill_nodes():
    # 608e9 tokens in a day at 73,700 a second and node: 95.5 nodes. The same.
    near(serving.nodes_for(608e9, 86_400, 73_700), 95.5, 0.002)


def test_in_kv_transfer_time():
    # A prompt of 8,192 tokens of Llama 3 70B over one 400 Gb/s port: 53.7 ms.
    llama = model("Llama 3 70B")
    kv = 2 * llama.layers * llama.kv_heads * llama.d_head * 2
    rate = link("InfiniBand NDR").one_way_bytes_per_s
    near(serving.transfer_s(8192 * kv, rate), 53.7e-3, 0.002)
    by_query_heads = 2 * llama.layers * llama.heads * llama.d_head * 2
    assert serving.transfer_s(8192 * by_query_heads, rate) > 0.4


# Properties.


@given(
    alpha=st.floats(0, 1),
    gamma=st.integers(0, 12),
    cost=st.floats(0, 2),
)
def test_speculation_gives_one_to_gamma_plus_one_tokens(alpha, gamma, cost):
    tokens = serving.speculative_tokens(alpha, gamma)
    assert 1 - 1e-9 <= tokens <= gamma + 1 + 1e-9
    speed = serving.speculative_speedup(alpha, gamma, cost)
    assert speed <= tokens + 1e-9


def test_speculation_by_simulation():
    random = np.random.default_rng(3)
    alpha, gamma, runs = 0.7, 4, 200_000
    accepted = random.random((runs, gamma)) < alpha
    lengths = 1 + np.cumprod(accepted, axis=1).sum(axis=1)
    spread = 4 * lengths.std() / np.sqrt(runs)
    assert abs(lengths.mean() - serving.speculative_tokens(alpha, gamma)) < spread
    wrong = (1 - alpha**gamma) / (1 - alpha)  # the bonus token forgotten
    assert abs(lengths.mean() - wrong) > spread


def test_distinct_experts_by_simulation():
    random = np.random.default_rng(5)
    hit = np.zeros(400)
    for trial in range(400):
        chosen = [random.permutation(64)[:6] for _ in range(20)]
        hit[trial] = len(set(np.concatenate(chosen)))
    wanted = serving.distinct_experts(64, 6, 20)
    assert abs(hit.mean() - wanted) < 4 * hit.std() / 20
    assert serving.distinct_experts(64, 6, 1) == pytest.approx(6)


ROOM = {
    "weight_bytes": 140e9,
    "kv_bytes_per_token": 327_680.0,
    "flop_per_token": 140e9,
    "bytes_per_s": 8 * 3.35e12,
    "flops_per_s": 8 * 989.4e12,
    "memory_bytes": 8 * 75e9,
}


def test_the_frontier_trades_latency_for_throughput():
    request = serving.Request(prompt=2000, answer=300)
    points = serving.frontier(request, np.arange(1, 2000), **ROOM)
    assert (np.diff(points["tpot_s"]) > 0).all()
    gain = np.diff(points["tokens_per_s"])  # none once arithmetic is the limit
    assert (gain > -1e-6).all() and gain[0] > 0
    held = points["batch"].max() * request.largest_context * 327_680
    assert held <= 8 * 75e9 - 140e9 < held + request.largest_context * 327_680


@given(batch=st.integers(1, 500), kv=st.floats(1e6, 1e9))
def test_decode_is_never_faster_than_reading(batch, kv):
    step = serving.decode_s(1e9, kv, batch, bytes_per_s=1e12, flops_per_s=1e14)
    assert step >= (1e9 + batch * kv) / 1e12 * (1 - 1e-12)


def test_prefill_of_a_short_prompt_is_bound_by_reading():
    rates = {"flops_per_s": 1e15, "weight_bytes": 1e11, "bytes_per_s": 3e12}
    assert serving.prefill_s(1, 1e11, **rates) == pytest.approx(1e11 / 3e12)
    assert serving.prefill_s(10_000, 1e11, **rates) == pytest.approx(1.0)


def test_prefill_share_balances_the_two_sides():
    share = serving.prefill_share(0.2, 0.6)
    assert share / 0.2 == pytest.approx((1 - share) / 0.6)


# Bad input.


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: serving.speculative_tokens(1.2, 3), "alpha must be"),
        (lambda: serving.speculative_tokens(0.5, -1), "gamma must be"),
        (lambda: serving.decode_s(1e9, 1e6, 0, bytes_per_s=1e12), "batch must be"),
        (lambda: serving.decode_s(float("nan"), 0, 1, bytes_per_s=1), "weight_bytes"),
        (lambda: serving.cost_per_million_tokens(2, 8, 0), "tokens_per_s must be"),
        (lambda: serving.distinct_experts(8, 9, 1), "at most experts"),
        (lambda: serving.Request(prompt=0, answer=5), "prompt must be"),
        (lambda: serving.prefill_share(0, 0), "greater than 0"),
        (lambda: serving.largest_batch(1e9, 0, 0), "kv_bytes_per_sequence"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
