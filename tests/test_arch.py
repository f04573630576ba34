"""arch: counts that follow from a model's shape, and configs that give it."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinfra import arch, registry
from aiinfra.arch import FORMATS, Architecture, Format, from_config, named

CONFIGS = Path(__file__).parent / "data/configs"
MODELS = registry.names("model")
SMALL = {
    "name": "small",
    "layers": 3,
    "d_model": 40,
    "heads": 6,
    "kv_heads": 2,
    "d_head": 8,
    "d_ffn": 56,
    "vocabulary": 101,
    "attention": "gqa",
}
SPARSE = SMALL | {"experts": 5, "experts_per_token": 2, "d_ffn_expert": 24}
LATENT = {key: SMALL[key] for key in ("name", "layers", "d_model", "heads")} | {
    "d_ffn": 56,
    "vocabulary": 101,
    "attention": "mla",
    "q_lora_rank": 20,
    "kv_lora_rank": 12,
    "d_qk_nope": 8,
    "d_qk_rope": 4,
    "d_v": 10,
}
CONFIG = json.loads((CONFIGS / "llama-3.1-8b.json").read_text(encoding="utf-8"))


# Parameters


@pytest.mark.parametrize("name", MODELS)
def test_counts_are_those_of_the_registry(name):
    model, entry = named(name), registry.model(name)
    assert model.parameters == entry.parameters
    assert sum(model.parameters_by_part().values()) == model.parameters
    active = entry.figures.get("active_parameters")
    if active is not None:
        assert model.active_parameters == active < model.parameters
    else:
        table = 0 if model.tied else model.vocabulary * model.d_model
        assert model.active_parameters == model.parameters - table


def test_parts_of_a_layer_counted_by_hand():
    parts = Architecture(**SMALL).parameters_by_part()
    assert parts["attention"] == 3 * 2 * (40 * 48 + 40 * 16)
    assert parts["mlp"] == 3 * 3 * 40 * 56
    assert parts["norms"] == 7 * 40
    assert parts["embedding"] == parts["output"] == 101 * 40


def test_parameters_are_those_of_a_module():
    """A block written in torch has as many parameters as arch counts."""
    from torch import nn

    model = Architecture(**SMALL)
    d, wide, narrow = 40, 6 * 8, 2 * 8
    shapes = [(d, wide), (d, narrow), (d, narrow), (wide, d)]
    shapes += [(d, 56), (d, 56), (56, d)]
    module = nn.ModuleList(nn.Linear(*shape, bias=False) for shape in shapes)
    norms = nn.ModuleList([nn.RMSNorm(d), nn.RMSNorm(d)])
    layer = sum(p.numel() for p in [*module.parameters(), *norms.parameters()])
    parts = model.parameters_by_part()
    assert 3 * layer == parts["attention"] + parts["mlp"] + parts["norms"] - d


@pytest.mark.parametrize(
    ("change", "right"),
    [
        # 2 matrices instead of 3 take a third of the MLP away.
        ({"mlp": "gelu"}, "Llama 3 8B"),
        # Keys and values for every query head add 6 % to Llama 3 8B.
        ({"kv_heads": 32, "attention": "mha"}, "Llama 3 8B"),
        ({"tied": True}, "Llama 3 8B"),
        ({"mlp_bias": True}, "Llama 3 8B"),
        ({"tied": False}, "GPT-2 small"),
        ({"positions_learned": 0, "positions": "rope"}, "GPT-2 small"),
        ({"shared_experts": 0}, "DeepSeek-V3"),
        ({"dense_layers": 0}, "DeepSeek-V3"),
    ],
)
def test_plausible_mistakes_give_another_count(change, right):
    model = named(right)
    wrong = dataclasses.replace(model, **change)
    assert wrong.parameters != registry.model(right).parameters == model.parameters


def test_a_two_matrix_mlp_is_far_off():
    llama = named("Llama 3 8B")
    wrong = dataclasses.replace(llama, mlp="gelu").parameters
    assert llama.parameters - wrong == 32 * 4096 * 14336
    assert wrong / 8.03e9 == pytest.approx(0.766, abs=0.001)


def test_widths_and_embeddings():
    gpt2, v3 = named("GPT-2 small"), named("DeepSeek-V3")
    assert gpt2.embedding_parameters == (50257 + 1024) * 768
    assert v3.expert_parameters == 58 * 256 * 3 * 7168 * 2048
    assert v3.active_mlp_width == pytest.approx((3 * 18432 + 58 * 9 * 2048) / 61)
    assert gpt2.active_mlp_width == 3072


# FLOPs


def test_six_n_is_the_limit_of_short_sequences():
    model = named("Llama 3 405B")
    ratios = [
        model.flops_per_token(S) / (6 * model.active_parameters)
        for S in (1, 8192, 131072)
    ]
    assert ratios[0] == pytest.approx(1, rel=1e-4)
    assert 1.03 < ratios[1] < 1.05 and 1.5 < ratios[2] < 1.7
    # With the embedding counted, as N often is, 6N is a little too much.
    assert model.flops_per_token(1) < 6 * model.parameters


def test_a_wide_gpt_costs_what_the_papers_print():
    """72 BLSd² (1 + S/6d + V/12dL), and with recomputation (Korthikanti, Narayanan)."""
    model, S, d, L, V = named("Megatron 175B"), 2048, 12288, 96, 51200
    plain = 72 * L * d**2 * (1 + S / (6 * d) + V / (12 * d * L))
    full = 96 * L * d**2 * (1 + S / (6 * d) + V / (16 * d * L))
    assert model.flops_per_token(S, causal=False) == pytest.approx(plain, rel=1e-12)
    again = model.flops_per_token(S, causal=False, recompute="full")
    assert again == pytest.approx(full, rel=1e-12)


def test_attention_is_twelve_l_h_d_s():
    """PaLM, appendix B."""
    palm = named("PaLM 540B")
    per_token = 3 * palm.attention_flops_per_token(2048, causal=False)
    assert per_token == 12 * 118 * 48 * 256 * 2048


def test_flops_are_those_that_torch_counts():
    """A forward of a small Llama in torch, counted product by product."""
    import torch
    from torch.nn.functional import linear, silu
    from torch.utils.flop_counter import FlopCounterMode

    model, S = Architecture(**SMALL), 10
    d, H, kv, D = 40, 6, 2, 8
    weights = [torch.randn(n, d) for n in (H * D, kv * D, kv * D)]
    w_o, w1, w3 = torch.randn(d, H * D), torch.randn(56, d), torch.randn(56, d)
    w2, head = torch.randn(d, 56), torch.randn(101, d)
    x = torch.randn(S, d)
    with FlopCounterMode(display=False) as counter:
        for _ in range(3):
            q, k, v = (linear(x, w).view(S, -1, D).transpose(0, 1) for w in weights)
            k, v = (t.repeat_interleave(H // kv, 0) for t in (k, v))
            scores = torch.bmm(q, k.transpose(1, 2))
            o = torch.bmm(scores.softmax(-1), v).transpose(0, 1).reshape(S, H * D)
            y = linear(o, w_o)
            x = linear(silu(linear(y, w1)) * linear(y, w3), w2)
        linear(x, head)
    ours = S * model.flops_per_token(S, causal=False, backward=False)
    assert ours == counter.get_total_flops()


@pytest.mark.parametrize("window", [1, 3, 7, 100])
def test_causal_pairs_are_counted_one_by_one(window):
    S = 9
    shape = SMALL | {"window": window, "windowed_layers": 2}
    full, windowed = S * (S + 1) / 2, sum(min(i + 1, window) for i in range(S))
    per_pair = 4 * 6 * 8
    model = Architecture(**shape)
    pairs = S * model.attention_flops_per_token(S) / per_pair
    assert pairs == pytest.approx(full + 2 * windowed)
    uncut = S * model.attention_flops_per_token(S, causal=False) / per_pair
    assert uncut == S * S + 2 * S * min(S, window)


def test_latent_and_relative_attention_cost_their_own():
    mla = Architecture(**LATENT)
    assert mla.attention_flops_per_token(5, causal=False) == 3 * 2 * 6 * 22 * 5
    relative = Architecture(**SMALL | {"positions": "relative"})
    assert relative.attention_flops_per_token(5, causal=False) == 3 * 6 * 6 * 8 * 5


def test_recomputation_adds_part_of_a_forward():
    model, S = named("Llama 3 70B"), 8192
    forward = model.flops_per_token(S, backward=False)
    plain = model.flops_per_token(S)
    assert plain == 3 * forward
    attention = model.attention_flops_per_token(S)
    assert model.flops_per_token(S, recompute="selective") == plain + attention
    head = 2 * 128256 * 8192
    assert model.flops_per_token(S, recompute="full") == plain + forward - head


def test_sequences_may_be_arrays():
    model = named("gpt-oss-20b")
    lengths = np.array([1, 100, 128, 129, 5000])
    for ask in (model.flops_per_token, model.kv_bytes):
        many = ask(lengths)
        assert many.tolist() == pytest.approx([float(ask(int(S))) for S in lengths])


# Cache


def test_cache_per_token():
    llama = named("Llama 3 70B")
    assert llama.kv_bytes_per_token() == 2 * 80 * 8 * 128 * 2
    # Query heads for key-value heads: eight times too much.
    wrong = dataclasses.replace(llama, kv_heads=64, attention="mha")
    assert wrong.kv_bytes_per_token() == 8 * llama.kv_bytes_per_token()
    assert named("PaLM 540B").kv_bytes_per_token() == 2 * 118 * 256 * 2
    assert named("DeepSeek-V3").kv_bytes_per_token() == 61 * 576 * 2
    # What DeepSeek-V3 would cache with a key and a value per head.
    assert 61 * 128 * (192 + 128) / (61 * 576) > 70


def test_windows_bound_the_cache():
    mistral, oss = named("Mistral 7B"), named("gpt-oss-20b")
    assert mistral.kv_bytes(4096) == mistral.kv_bytes(100_000)
    per_layer = 2 * 8 * 64 * 2
    assert oss.kv_bytes(10_000, 3) == 3 * per_layer * (12 * 10_000 + 12 * 128)
    assert oss.kv_bytes(100) == 100 * oss.kv_bytes_per_token()


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        ("fp32", 32),
        ("bf16", 16),
        ("fp8", 8),
        ("int8", 8 + 16 / 128),
        ("int4", 4 + 32 / 128),
        ("fp8-mx", 8.25),
        ("fp4-mx", 4.25),
        ("fp4-nv", 4.5),
        (Format(2, 32, 32), 3),
    ],
)
def test_scales_count(dtype, bits):
    llama = named("Llama 3 8B")
    elements = 2 * 32 * 8 * 128
    assert llama.kv_bytes_per_token(dtype) == elements * bits / 8


def test_a_head_is_a_group_of_its_own():
    """A head of 80 in groups of 32 has three scales, not two and a half."""
    model = Architecture(**SMALL | {"d_head": 80})
    per_head = 80 * 4 + 3 * 8
    assert model.kv_bytes_per_token("fp4-mx") == 3 * 2 * 2 * per_head / 8


@given(
    st.sampled_from(MODELS),
    st.integers(1, 10**6),
    st.integers(0, 10**4),
    st.sampled_from(sorted(FORMATS)),
)
def test_a_longer_or_larger_batch_never_needs_less(name, S, batch, dtype):
    model = named(name)
    one = model.kv_bytes(S, batch, dtype)
    assert one <= model.kv_bytes(S + 1, batch, dtype) + 1e-6 * one
    assert model.kv_bytes(S, 2 * batch, dtype) == pytest.approx(2 * one)
    assert one <= batch * S * model.kv_bytes_per_token(dtype) * (1 + 1e-12)
    full = model.flops_per_token(S, causal=False)
    causal = model.flops_per_token(S)
    assert causal <= full < 2 * causal


# Configs

SAME = {
    "gpt2": "GPT-2 small",
    "bloom": "BLOOM 176B",
    "llama-2-7b": "Llama 2 7B",
    "llama-3.1-8b": "Llama 3 8B",
    "mistral-7b": "Mistral 7B",
    "mixtral-8x7b": "Mixtral 8x7B",
    "qwen2.5-72b": "Qwen2.5 72B",
    "qwen3-0.6b": "Qwen3 0.6B",
    "qwen3-8b": "Qwen3 8B",
    "qwen3-30b-a3b": "Qwen3 30B-A3B",
    "deepseek-v2": "DeepSeek-V2",
    "deepseek-v3": "DeepSeek-V3",
    "gpt-oss-20b": "gpt-oss-20b",
}


def test_every_config_here_says_where_it_is_from():
    files = sorted(CONFIGS.glob("*.json"))
    assert {path.stem for path in files} == set(SAME)
    for path in files:
        assert "Hugging Face" in json.loads(path.read_text(encoding="utf-8"))["_source"]


@pytest.mark.parametrize("file", SAME)
def test_a_config_gives_the_registrys_model(file):
    model = from_config(CONFIGS / f"{file}.json")
    known = named(SAME[file])
    # A config's context is the longest that positions allow, not what was trained.
    other = ("name", "context", "training_tokens")
    assert dataclasses.replace(
        model, **{key: getattr(known, key) for key in other}
    ) == (known)
    assert "/" in model.name


@pytest.mark.parametrize("field", [key for key in CONFIG if key[0] != "_"])
def test_a_missing_field_is_named_or_has_a_default(field):
    less = {key: value for key, value in CONFIG.items() if key != field}
    defaults = {"tie_word_embeddings", "attention_bias", "mlp_bias"}
    if field in defaults:
        assert from_config(less) == from_config(CONFIG)
    elif field == "num_key_value_heads":  # Llama's first configs had none
        assert from_config(less).attention == "mha"
    else:
        with pytest.raises(ValueError, match=field):
            from_config(less)


def test_every_file_needs_its_fields():
    """Each field of each config is asked for, has a default, or is of no size."""
    optional = set()
    for path in CONFIGS.glob("*.json"):
        config = json.loads(path.read_text(encoding="utf-8"))
        for field in config:
            less = {key: value for key, value in config.items() if key != field}
            try:
                from_config(less)
            except ValueError as error:
                assert field in str(error), (path.name, field, error)
            else:
                optional.add(field)
    assert optional == {
        "_name_or_path", "_source", "attention_bias", "decoder_sparse_step",
        "experts_per_token", "max_window_layers", "mlp_bias", "mlp_only_layers",
        "moe_layer_freq", "n_ctx", "n_positions", "num_experts_per_tok",
        "num_key_value_heads", "num_nextn_predict_layers", "sliding_window",
        "tie_word_embeddings", "topk_method", "use_sliding_window",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"architectures": ["T5ForConditionalGeneration"]},
            "architectures must be one",
        ),
        ({"architectures": None}, "architectures must be one"),
        ({"architectures": []}, "architectures must be one"),
        ({"hidden_size": "4096"}, "hidden_size must be a whole number"),
        ({"hidden_size": 4096.5}, "hidden_size must be a whole number"),
        ({"hidden_size": float("nan")}, "hidden_size must be a whole number"),
        ({"hidden_size": True}, "hidden_size must be a whole number"),
        ({"hidden_size": -1}, "hidden_size must be a whole number, 1 or more"),
        ({"hidden_size": 0}, "hidden_size must be a whole number, 1 or more"),
        ({"hidden_size": 10**12}, "hidden_size must be at most"),
        ({"hidden_size": 4097}, "num_attention_heads must divide hidden_size, 4097"),
        ({"hidden_size": None}, "no 'hidden_size'; expected a whole number.*width"),
        ({"num_key_value_heads": 5}, "kv_heads must be a divisor of heads, 32; got 5"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings must be True or False"),
    ],
)
def test_a_wrong_config_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        from_config(CONFIG | change)


def test_what_a_config_asks_for_in_vain():
    def changed(file, **change):
        data = json.loads((CONFIGS / f"{file}.json").read_text(encoding="utf-8"))
        return from_config(data | change)

    with pytest.raises(ValueError, match="decoder_sparse_step is 2; only 1"):
        changed("qwen3-30b-a3b", decoder_sparse_step=2)
    with pytest.raises(ValueError, match="moe_layer_freq is 2; only 1"):
        changed("deepseek-v3", moe_layer_freq=2)
    for kinds in (["full_attention"] * 3, ["linear_attention"] * 24, "full"):
        with pytest.raises(ValueError, match=r"layer_types must list .* 24 layers"):
            changed("gpt-oss-20b", layer_types=kinds)
    some = changed("qwen3-8b", use_sliding_window=True, sliding_window=64)
    assert some.windowed_layers == 0  # max_window_layers is all of them
    some = changed(
        "qwen3-8b", use_sliding_window=True, sliding_window=64, max_window_layers=30
    )
    assert (some.window, some.windowed_layers) == (64, 6)
    lite = changed("deepseek-v2", q_lora_rank=None)
    assert lite.attention_matrices["q"] == 5120 * 128 * 192


def test_a_file_that_is_not_a_config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.json must be a JSON file"):
        from_config(path)
    path.write_text("[1]", encoding="utf-8")
    with pytest.raises(ValueError, match="must hold a mapping, got list"):
        from_config(str(path))
    with pytest.raises(FileNotFoundError):
        from_config(tmp_path / "none.json")


# Errors


@pytest.mark.parametrize(
    ("shape", "change", "message"),
    [
        (SMALL, {"layers": 0}, "small: layers must be a whole number, 1 or more"),
        (SMALL, {"layers": -3}, "layers must be a whole number"),
        (SMALL, {"layers": float("nan")}, "layers must be a whole number"),
        (SMALL, {"d_model": 10**40}, "d_model must be at most"),
        (SMALL, {"kv_heads": 4}, "kv_heads must be a divisor of heads, 6; got 4"),
        (SMALL, {"kv_heads": 0}, "kv_heads must be a whole number, 1 or more"),
        (SMALL, {"attention": "mha"}, "attention must be gqa, for 2 of 6 heads"),
        (SMALL, {"mlp": "moe"}, "mlp must be one of swiglu, geglu, gelu, relu"),
        (SMALL, {"norm": "batch"}, "norm must be one of"),
        (SMALL, {"tied": 1}, "tied must be True or False, got 1"),
        (SMALL, {"positions": "learned"}, "positions_learned must be"),
        (SMALL, {"window": 8}, "window must be above 0 if and only if"),
        (SMALL, {"window": 8, "windowed_layers": 4}, "windowed_layers must be at most"),
        (SMALL, {"dense_layers": 1}, "dense_layers must be at most the layers with"),
        (SPARSE, {"experts_per_token": 6}, "experts_per_token must be at most the exp"),
        (SPARSE, {"d_ffn_expert": 0}, "d_ffn_expert must be a whole number, 1 or"),
        (LATENT, {"kv_lora_rank": 0}, "kv_lora_rank must be a whole number, 1 or"),
    ],
)
def test_a_wrong_shape_is_refused(shape, change, message):
    Architecture(**shape)
    with pytest.raises(ValueError, match=message):
        Architecture(**shape | change)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m: m.flops_per_token(0), "sequence must be a whole number"),
        (lambda m: m.flops_per_token(-5), "sequence must be a whole number"),
        (lambda m: m.flops_per_token(float("nan")), "sequence must be"),
        (lambda m: m.flops_per_token(10**12), "sequence must be at most"),
        (lambda m: m.flops_per_token(np.array([5, 0])), "sequence must be"),
        (lambda m: m.flops_per_token(5, recompute="all"), "recompute must be one of"),
        (
            lambda m: m.flops_per_token(5, backward=False, recompute="full"),
            "recompute must be none without a backward",
        ),
        (lambda m: m.kv_bytes(5, -1), "batch must be a whole number"),
        (lambda m: m.kv_bytes(5, 1, "int3"), "dtype must be one of fp32, bf16"),
        (lambda m: Format(4, 32), "group and scale_bits must both"),
        (lambda m: Format(0), "bits must be a finite number greater than 0"),
    ],
)
def test_wrong_arguments_are_refused(ask, message):
    with pytest.raises(ValueError, match=message):
        ask(Architecture(**SMALL))


def test_an_unknown_model_offers_the_nearest():
    with pytest.raises(registry.UnknownName, match="did you mean 'Llama 3 70B'"):
        named("Llama 3 70BB")


def test_the_largest_sizes_do_not_overflow():
    model = Architecture(
        **SMALL
        | {"layers": 10**8, "d_model": 10**8, "d_ffn": 10**8, "vocabulary": 10**8}
    )
    assert model.parameters > 3 * 10**24
    assert np.isfinite(model.flops_per_token(10**9))
    assert np.isfinite(model.kv_bytes(10**9, 10**12))


def test_needs_no_torch():
    code = "import sys, aiinfra.arch, aiinfra.memory; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout == "False\n", out


def test_an_architecture_is_a_value():
    model = named("Llama 3 8B")
    assert model == named("llama 3 8b") and hash(model) == hash(named("Llama 3 8B"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.layers = 3
    assert arch.named("Mixtral 8x7B") in {arch.named("Mixtral 8x7B")}
