"""Published figures of models, computed by aiinfra.arch.

The name of each test is the figure's id; its docstring says what was published.
"""

import dataclasses

import pytest

from aiinfra.arch import Architecture, Format, named

GIB, DAY_S = 2**30, 86_400
A100_FLOPS = 312e12  # dense bf16


def test_cm_bloom_bf16_weights():
    """BLOOM's bf16 weights take 329 GiB; its card prints "329GB" (BigScience)."""
    weights = 2 * named("BLOOM 176B").parameters
    assert named("BLOOM 176B").parameters == 176_247_271_424
    assert weights / GIB == pytest.approx(329, rel=0.004)
    assert weights / 1e9 == pytest.approx(352.5, rel=1e-3)  # GB for GiB is 7 % off


def test_tr_mfu_175b():
    """GPT-3 175B on 64 A100s, 64 sequences of 2,048 in 13.75 s: 51.4 % MFU.

    Korthikanti et al., arXiv:2205.05198, Table 5; masked pairs are counted.
    """
    model = named("Megatron 175B")
    flops = 64 * 2048 * model.flops_per_token(2048, causal=False)
    assert flops / 13.75 / (64 * A100_FLOPS) == pytest.approx(0.514, rel=0.003)


def test_tr_hfu_22b():
    """A 22B model on 8 A100s, 4 sequences of 2,048 in 1.10 s: 43.7 % HFU.

    Korthikanti et al., arXiv:2205.05198, Table 5 and appendix A, with selective
    recomputation: 72 BLSd² (1 + S/3d + V/12dL). That doubles the attention of the
    forward and of the backward, though only a forward is repeated: counted so, HFU is
    42.3 %.
    """
    model, tokens, peak = named("Megatron 22B"), 4 * 2048, 1.10 * 8 * A100_FLOPS
    attention = model.attention_flops_per_token(2048, causal=False)
    useful = model.flops_per_token(2048, causal=False)
    printed = tokens * (useful + 3 * attention) / peak
    assert printed == pytest.approx(0.437, rel=0.006)
    executed = model.flops_per_token(2048, causal=False, recompute="selective")
    assert tokens * executed / peak == pytest.approx(0.423, abs=0.001)


def test_tr_megatron_params_1t():
    """12 L d² (1 + 13/12d + (V + S)/12Ld) is 1,008.0 billion for Megatron's largest.

    Narayanan et al., arXiv:2104.04473, equation 2 and Table 1. The formula leaves out
    the final norm, 2d.
    """
    model = named("Megatron 1T")
    assert model.parameters == pytest.approx(1008.0e9, rel=0.0005)
    d, L = 25600, 128
    assert model.parameters - 2 * d == 12 * L * d**2 + 13 * L * d + (51200 + 2048) * d


def test_tr_gpt3_34days():
    """300e9 tokens of GPT-3 175B, 1,024 A100s at 140 TFLOP/s: 34 days by 8TP/nX.

    Narayanan et al., arXiv:2104.04473, section 5.1: 8 = 2 forward + 4 backward + 2 for
    the forward that full recomputation repeats. With attention it is 3 % longer.
    """
    model, rate = named("Megatron 175B"), 1024 * 140e12
    rule = 300e9 * 8 * 175e9 / rate / DAY_S
    assert rule == pytest.approx(34, rel=0.005)
    full = model.flops_per_token(2048, causal=False, recompute="full")
    assert 300e9 * full / rate / DAY_S == pytest.approx(1.03 * rule, rel=0.01)
    once = model.flops_per_token(1, recompute="full")
    assert once / model.parameters == pytest.approx(8, rel=0.005)


def test_tr_ptd_530b_42days():
    """300e9 tokens of a 530B model, 2,240 A100s at 159 TFLOP/s: 42 days.

    Narayanan et al., arXiv:2104.04473, Table 2; full recomputation, all pairs.
    """
    full = named("MT-NLG 530B").flops_per_token(2048, causal=False, recompute="full")
    days = 300e9 * full / (2240 * 159e12) / DAY_S
    assert days == pytest.approx(42, rel=0.025)


def test_tr_palm_mfu_noattn():
    """PaLM at 238.3e3 tokens/s on 6,144 TPU v4: 45.7 % MFU by 6N.

    Chowdhery et al., arXiv:2204.02311, section 4; with attention they print 46.2 %.
    """
    palm, peak = named("PaLM 540B"), 6144 * 275e12
    by_rule = 238.3e3 * 6 * palm.parameters / peak
    assert by_rule == pytest.approx(0.457, rel=0.002)
    with_attention = 238.3e3 * palm.flops_per_token(2048, causal=False) / peak
    assert with_attention == pytest.approx(0.462, rel=0.003)


def test_tr_attn_equals_proj():
    """At d = 4,096, attention costs as much as its projections from 8,192 tokens on.

    jax-ml/scaling-book, transformers.md, question 5; all pairs.
    """
    model = dataclasses.replace(named("Llama 2 7B"), layers=1)
    projections = 2 * sum(model.attention_matrices.values())
    assert model.attention_flops_per_token(8192, causal=False) == projections


def test_in_kv_opt13b():
    """OPT-13B caches 800 KiB per token in fp16 (vLLM, arXiv:2309.06180, section 3)."""
    assert named("OPT 13B").kv_bytes_per_token("fp16") == 800 * 1024


@pytest.mark.parametrize(
    ("name", "kilobytes"), [("Llama 3 405B", 516.096), ("Qwen2.5 72B", 327.68)]
)
def test_in_kv_llama405_and_in_kv_qwen72(name, kilobytes):
    """Cache per token in bf16: 516.096 and 327.68 kB.

    Insights into DeepSeek-V3, arXiv:2505.09343, Table 1, which gives DeepSeek-V3's,
    too: 70.272 kB. With query heads for key-value heads it would be 8 and 16 times
    more.
    """
    model = named(name)
    assert model.kv_bytes_per_token() == pytest.approx(kilobytes * 1e3)
    wrong = dataclasses.replace(model, kv_heads=model.heads, attention="mha")
    assert wrong.kv_bytes_per_token() >= 8 * model.kv_bytes_per_token()
    assert named("DeepSeek-V3").kv_bytes_per_token() == pytest.approx(70.272e3)


def test_in_kv_mistral_cap():
    """Mistral 7B's buffer of 4,096 tokens holds at most 512 MiB in fp16.

    Jiang et al., arXiv:2310.06825.
    """
    assert named("Mistral 7B").kv_bytes(32_768, 1, "fp16") == 512 * 2**20


def test_in_kv_dsv2_bf16():
    """DeepSeek-V2 caches 82.2 % less than DeepSeek 67B, both in bf16.

    DeepSeek-AI, arXiv:2405.04434; it prints 93.3 %, with its own cache quantized.
    """
    ratio = (
        named("DeepSeek-V2").kv_bytes_per_token()
        / named("DeepSeek 67B").kv_bytes_per_token()
    )
    assert 100 * (1 - ratio) == pytest.approx(82.2, abs=0.05)


def test_in_kv_llama13_8k():
    """8,192 tokens of Llama 2 13B in bf16: 6.7 GB (scaling-book, inference.md)."""
    assert named("Llama 2 13B").kv_bytes(8192) == pytest.approx(6.7e9, rel=0.003)


def test_in_vllm_slots_175b():
    """264 GiB hold the cache of 60.1 thousand tokens of OPT-175B in fp16.

    Kwon et al., arXiv:2309.06180, Table 1.
    """
    slots = 264 * GIB / named("OPT 175B").kv_bytes_per_token("fp16")
    assert slots == pytest.approx(60.1e3, rel=0.002)


def test_in_kv_transfer_time():
    """The cache of 8,192 tokens of Llama 3 70B takes 53.7 ms at 50 GB/s, bf16.

    Its shape, and one 400 Gb/s card at line rate.
    """
    seconds = named("Llama 3 70B").kv_bytes(8192) / 50e9
    assert seconds == pytest.approx(53.7e-3, rel=0.002)


def test_in_gguf_q4k():
    """Q4_K of llama.cpp takes 4.5 bits per weight.

    256 weights share 8 scales and 8 minimums of six bits, and two fp16 numbers.
    """
    q4_k = Format(4, group=256, scale_bits=8 * 6 + 8 * 6 + 2 * 16)
    assert q4_k.bytes(256) * 8 / 256 == 4.5


def test_al_gpt2_params():
    """GPT-2 small without its table of positions: 123.653376 million parameters.

    karpathy/nanoGPT, scaling_laws.ipynb.
    """
    parts = named("GPT-2 small").parameters_by_part()
    assert sum(parts.values()) - parts["positions"] == 123_653_376


def test_al_llama3_70b_params():
    """Llama 3 70B has 70.4 billion parameters, norms left out and rounded.

    jax-ml/scaling-book, applied-training.md. A two-matrix MLP would give 52 billion.
    """
    model = named("Llama 3 70B")
    assert model.parameters == pytest.approx(70.4e9, rel=0.003)
    assert dataclasses.replace(model, mlp="gelu").parameters < 52e9


def test_al_mixtral_total():
    """Mixtral 8x7B has 46.7 billion parameters (Jiang et al., arXiv:2401.04088)."""
    assert named("Mixtral 8x7B").parameters == pytest.approx(46.7e9, rel=0.001)


def test_al_dsv3_active():
    """DeepSeek-V3: 36.6 billion active parameters, output layer but not embedding.

    deepseek-ai/DeepSeek-V3, README_WEIGHTS.
    """
    v3 = named("DeepSeek-V3")
    assert v3.active_parameters == pytest.approx(36.6e9, rel=0.002)
    both = v3.active_parameters + v3.parameters_by_part()["embedding"]
    assert both == pytest.approx(37.55e9, rel=0.001)


def test_al_llama2_13b_params():
    """Llama 2 13B has 13.0 billion parameters (scaling-book, training.md, 1)."""
    assert named("Llama 2 13B").parameters == pytest.approx(13.0e9, rel=0.004)


def test_al_llama3_overtrain():
    """Llama 3 8B saw 15T tokens: 93 times what 20 per parameter would be.

    Llama Team, arXiv:2407.21783; Hoffmann et al., arXiv:2203.15556.
    """
    assert 15e12 / named("Llama 3 8B").parameters / 20 == pytest.approx(93, rel=0.006)


def test_a_shape_typed_in_gives_the_same():
    """The shape that a figure's source tells, without the registry: Llama 3 70B."""
    model = Architecture(
        name="typed in",
        layers=80,
        d_model=8192,
        heads=64,
        kv_heads=8,
        d_head=128,
        d_ffn=28672,
        vocabulary=128256,
        attention="gqa",
    )
    assert model.parameters == named("Llama 3 70B").parameters
