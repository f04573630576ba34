"""memory: bytes per rank, against torch, the papers and common sense."""

import dataclasses
import itertools
import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aiinfra import memory
from aiinfra.arch import Architecture, named
from aiinfra.memory import (
    FP32_GRADIENTS,
    Layout,
    Memory,
    Precision,
    layer_bytes,
    max_batch,
    model_states,
    saved_tensors,
    serving,
    training,
    training_by_rank,
)

GIB = 2**30
GPT = {"flash": False, "dropout": True}
LLAMA = Architecture(
    name="small",
    layers=6,
    d_model=48,
    heads=6,
    kv_heads=2,
    d_head=16,
    d_ffn=104,
    vocabulary=211,
    attention="gqa",
)
SPARSE = dataclasses.replace(
    LLAMA, experts=8, experts_per_token=2, d_ffn_expert=24, dense_layers=2
)


# Activations against torch


def kept_by_autograd(forward, parameters):
    """Bytes that autograd keeps of ``forward()``, each storage once, no parameters."""
    import torch

    known = {p.untyped_storage().data_ptr() for p in parameters}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = forward()  # alive while storages are told apart by address
    assert out.requires_grad
    return sum(kept.values())


@pytest.fixture
def norm():
    """An RMSNorm as one operation: it keeps its input; the statistic is recomputed."""
    import torch

    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

        @staticmethod
        def backward(ctx, gradient):  # only what is kept matters here
            return gradient

    return Norm.apply


def test_a_gated_block_keeps_what_torch_keeps(norm):
    """RMSNorm, grouped keys, fused attention, SwiGLU: byte for byte."""
    import torch
    from torch.nn.functional import linear, scaled_dot_product_attention, silu

    B, S, d, H, kv, D, F = 2, 40, 48, 6, 2, 16, 104
    shapes = [(H * D, d), (kv * D, d), (kv * D, d), (d, H * D)]
    shapes += [(F, d), (F, d), (d, F)]
    weights = [torch.randn(*shape, requires_grad=True) for shape in shapes]
    w_q, w_k, w_v, w_o, w_gate, w_up, w_down = weights
    x = torch.randn(B, S, d, requires_grad=True)
    angle = torch.randn(S, D)  # stands for a table of rotations
    tables = [angle.cos(), angle.sin()]

    def rotate(t):  # [B, S, heads, D]
        cos, sin = (table[:, None] for table in tables)
        return t * cos + torch.roll(t, D // 2, -1) * sin

    def block():
        n = norm(x)
        q, k, v = (linear(n, w).unflatten(-1, (-1, D)) for w in (w_q, w_k, w_v))
        q, k, v = (t.transpose(1, 2) for t in (rotate(q), rotate(k), v))
        with torch.nn.attention.sdpa_kernel(
            torch.nn.attention.SDPBackend.FLASH_ATTENTION
        ):
            o = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        y = x + linear(o.transpose(1, 2).flatten(2), w_o)
        n = norm(y)
        return y + linear(silu(linear(n, w_gate)) * linear(n, w_up), w_down)

    found = kept_by_autograd(block, [*weights, *tables])
    ours = layer_bytes(LLAMA, S, micro_batch=B, fused_mlp=False, activation_bytes=4)
    assert found == ours
    # The formula of a GPT's layer, in fp32 twice as large, is far off.
    gpt = B * S * d * 2 * (34 + 5 * H * S / d)
    assert not 0.8 < gpt / ours < 1.2


def test_a_gpt_block_keeps_what_torch_keeps():
    """LayerNorm, unfused softmax, GELU, without dropout; masks come after."""
    import torch
    from torch.nn.functional import gelu, layer_norm, linear

    B, S, d, H = 2, 40, 48, 6
    D = d // H
    shapes = [(d, d)] * 4 + [(4 * d, d), (d, 4 * d)]
    weights = [torch.randn(*shape, requires_grad=True) for shape in shapes]
    scale = torch.ones(d, requires_grad=True)
    x = torch.randn(B, S, d, requires_grad=True)

    def heads(t):
        return t.unflatten(-1, (H, D)).transpose(1, 2).contiguous()

    def block():
        n = layer_norm(x, (d,), scale)
        q, k, v = (heads(linear(n, w)) for w in weights[:3])
        p = ((q / D**0.5) @ k.transpose(-1, -2)).softmax(-1)
        o = (p @ v).transpose(1, 2).flatten(2)
        y = x + linear(o, weights[3])
        n = layer_norm(y, (d,), scale)
        return y + linear(gelu(linear(n, weights[4])), weights[5])

    model = dataclasses.replace(
        LLAMA,
        kv_heads=6,
        d_head=D,
        d_ffn=4 * d,
        attention="mha",
        mlp="gelu",
        norm="layernorm",
    )
    found = kept_by_autograd(block, [*weights, scale])
    statistics = 2 * 2 * B * S * 4  # of two norms, which the count leaves out
    ours = layer_bytes(model, S, micro_batch=B, flash=False, activation_bytes=4)
    assert found == ours + statistics


def test_dropout_adds_masks_of_one_byte():
    gpt = named("GPT-3 175B")
    names = {t.name: t.bytes_per_token for t in saved_tensors(gpt, 2048, **GPT)}
    assert names["mask of MLP dropout"] == 12288
    assert names["mask of softmax dropout"] == 96 * 2048


# Activations against the papers


@pytest.mark.parametrize("name", ["GPT-2 medium", "Megatron 22B", "GPT-3 175B"])
@pytest.mark.parametrize("t", [1, 4])
def test_a_gpt_layer_is_korthikantis(name, t):
    """Table 2 of arXiv:2205.05198, all six rows."""
    model, s, b = named(name), 1024, 3
    h, a = model.d_model, model.heads
    sbh, scores = s * b * h, 5 * a * s / h

    def kept(**layout):
        return layer_bytes(model, s, micro_batch=b, **layout, **GPT) / sbh

    def close(value):
        return pytest.approx(value, rel=1e-12)

    assert kept() == close(34 + scores)
    assert kept(tp=t) == close(10 + 24 / t + scores / t)
    both = {"tp": t, "sequence_parallel": True}
    assert kept(**both) == close((34 + scores) / t)
    assert kept(tp=t, recompute="selective") == close(10 + 24 / t)
    assert kept(**both, recompute="selective") == close(34 / t)
    assert kept(tp=t, recompute="full") == close(2)


def test_the_gpt_formula_does_not_hold_for_others():
    """34 + 5as/h is off for Llama 3 8B by a factor."""
    llama, s = named("Llama 3 8B"), 8192
    sbh = s * llama.d_model
    ours = layer_bytes(llama, s) / sbh
    # 4 d of norms' and projections' inputs, queries and output, keys and values,
    # three vectors of d_ffn, and a logarithm per head.
    assert ours == pytest.approx(8 + 4 + 2 * 2 / 4 + 6 * 3.5 + 4 * 32 / 4096)
    assert (34 + 5 * 32 * s / 4096) / ours > 10
    # A two-matrix MLP of the same width keeps less than a gated one.
    wrong = layer_bytes(dataclasses.replace(llama, mlp="gelu"), s) / sbh
    assert ours - wrong == pytest.approx(2 * 3.5)
    # Keys and values for every query head would be more.
    wrong = dataclasses.replace(llama, kv_heads=32, attention="mha")
    assert layer_bytes(wrong, s) / sbh - ours == pytest.approx(3)


def test_keys_are_cut_as_far_as_there_are_heads():
    """6 ranks share 2 key-value heads: what is theirs is cut in two, not in six."""
    whole, cut = (layer_bytes(LLAMA, 1, tp=tp) for tp in (1, 6))
    keys_and_values = 2 * 2 * 2 * 16
    replicated = 4 * 2 * 48  # inputs of norms, projections and MLP
    rest = whole - keys_and_values - replicated
    assert cut == pytest.approx(replicated + keys_and_values / 2 + rest / 6)


def test_every_kind_of_layer_lists_its_own_tensors():
    def names(model, **kinds):
        return {tensor.name for tensor in saved_tensors(model, 64, **kinds)}

    assert "compressed keys" in names(named("DeepSeek-V3"))
    assert "tokens sent to experts" in names(named("DeepSeek-V3"))
    assert "tokens sent to experts" not in names(named("DeepSeek-V3"), experts=False)
    assert "keys before the norm" in names(named("Qwen3 8B"))
    assert "input of the MLP norm" not in names(named("PaLM 8B"))
    assert "MLP: before the activation" not in names(named("OPT 13B"))
    assert "shared experts: gate" not in names(named("Mixtral 8x7B"))
    with pytest.raises(ValueError, match="experts must be False: small has none"):
        saved_tensors(LLAMA, 64, experts=True)


# Model states


@given(
    st.integers(0, 10**12),
    st.integers(1, 10**5),
    st.sampled_from([memory.MIXED, FP32_GRADIENTS, memory.FP32]),
)
def test_zero_never_adds_and_all_ranks_hold_the_whole(parameters, ranks, precision):
    stages = [model_states(parameters, ranks, zero, precision) for zero in range(4)]
    totals = [states.total for states in stages]
    assert totals == sorted(totals, reverse=True)
    for states in stages:
        for held, each in zip(states, dataclasses.astuple(precision), strict=False):
            assert held * ranks >= parameters * each
    assert totals[0] == pytest.approx(
        parameters * sum(dataclasses.astuple(precision)[:3])
    )


def test_states_of_a_whole_model():
    """16 bytes per parameter of a dense model on one rank."""
    held = training(LLAMA, Layout(), global_batch=1, sequence=32)
    assert held.persistent == 16 * LLAMA.parameters
    assert held.weights == held.gradients == 2 * LLAMA.parameters
    held = training(
        LLAMA, Layout(), global_batch=1, sequence=32, precision=FP32_GRADIENTS
    )
    assert held.persistent == 18 * LLAMA.parameters


@pytest.mark.parametrize(
    "name", ["Llama 3 8B", "GPT-2 XL", "Qwen3 30B-A3B", "BLOOM 176B"]
)
def test_stages_add_up_to_the_model(name):
    model = named(name)
    ranks = training_by_rank(model, Layout(pp=4), global_batch=8, sequence=64)
    again = model.vocabulary * model.d_model if model.tied else 0
    assert sum(rank.weights for rank in ranks) == 2 * (model.parameters + again)


LAYOUTS = st.fixed_dictionaries(
    {
        "dp": st.sampled_from([1, 2, 4]),
        "tp": st.sampled_from([1, 2]),
        "pp": st.sampled_from([1, 2, 3, 4]),
        "cp": st.sampled_from([1, 2]),
        "ep": st.sampled_from([1, 2, 4]),
        "zero": st.integers(0, 3),
        "sequence_parallel": st.booleans(),
        "micro_batch": st.sampled_from([1, 2, 3]),
        "recompute": st.sampled_from(["none", "selective", "full"]),
        "schedule": st.sampled_from(["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2",
                                     "dualpipe"]),
    }
)  # fmt: skip
KINDS = st.fixed_dictionaries({"flash": st.booleans(), "dropout": st.booleans()})


def ready(fields, model, batch, sequence):
    """A layout, if the model and batch allow it."""
    virtual = 2 if fields["schedule"] == "interleaved" and fields["pp"] <= 3 else 1
    layout = Layout(**fields, virtual_stages=virtual)
    assume(layout.allowed(model, batch, sequence))
    return layout


def changed(layout, **change):
    return dataclasses.replace(layout, **change)


@given(LAYOUTS, KINDS, st.sampled_from([LLAMA, SPARSE]))
@settings(max_examples=60, deadline=None)
def test_more_recomputation_or_sharding_never_takes_more(fields, kinds, model):
    layout = ready(fields, model, 144, 48)

    def held(**change):
        return training(
            model, changed(layout, **change), global_batch=144, sequence=48, **kinds
        )

    totals = [held(recompute=kind).total for kind in ("full", "selective", "none")]
    assert totals[0] <= totals[1] * (1 + 1e-12) and totals[1] <= totals[2] * (1 + 1e-12)
    states = [held(zero=zero).persistent for zero in range(4)]
    assert states == sorted(states, reverse=True)
    split = held(sequence_parallel=True).activations
    assert split <= held(sequence_parallel=False).activations * (1 + 1e-12)


@given(LAYOUTS, st.sampled_from([LLAMA, SPARSE]))
@settings(max_examples=100, deadline=None)
def test_all_ranks_together_hold_at_least_the_model(fields, model):
    layout = ready(fields, model, 144, 48)
    ranks = training_by_rank(model, layout, global_batch=144, sequence=48)
    copies = layout.world_size / layout.pp
    for kind, each in (("weights", 2), ("gradients", 2), ("optimizer", 12)):
        held = copies * sum(getattr(rank, kind) for rank in ranks)
        assert held >= each * model.parameters
    fullest = training(model, layout, global_batch=144, sequence=48)
    assert fullest.total == max(rank.total for rank in ranks)


def test_experts_are_spread():
    base = {"dp": 8, "zero": 1}
    ask = {"global_batch": 8, "sequence": 48}
    whole = training(SPARSE, Layout(**base), **ask)
    spread = training(SPARSE, Layout(**base, ep=8), **ask)
    experts = SPARSE.expert_parameters
    assert whole.weights - spread.weights == 2 * experts * 7 / 8
    # Experts are on one rank each: ZeRO has nothing left to cut of them.
    plain = -(-(SPARSE.parameters - experts) // 8)
    assert spread.optimizer == 12 * (plain + experts / 8)


def test_tensor_parallelism_leaves_norms_whole_and_copies_keys():
    ask = {"global_batch": 1, "sequence": 48}
    model = dataclasses.replace(LLAMA, vocabulary=210)
    two = training(model, Layout(tp=2), **ask).weights / 2
    norms = model.parameters_by_part()["norms"]
    assert two == (model.parameters - norms) / 2 + norms
    # 6 heads on 6 ranks share 2 key-value heads: three ranks have the same.
    wide = dataclasses.replace(model, d_ffn=108)
    six = training(wide, Layout(tp=6), **ask).weights / 2
    kv = 6 * 2 * 48 * 2 * 16
    assert six == (wide.parameters - norms - kv) / 6 + norms + kv / 2


# Pipelines


def test_activations_follow_the_schedule():
    """GPipe holds all micro-batches, 1F1B as many as there are stages."""
    ask = {"global_batch": 12, "sequence": 48}
    layer = layer_bytes(LLAMA, 48)

    def ranks(schedule, pp=3, virtual=1):
        layout = Layout(pp=pp, schedule=schedule, virtual_stages=virtual)
        return training_by_rank(LLAMA, layout, **ask)

    assert [r.activations for r in ranks("gpipe")][:2] == [12 * 2 * layer] * 2
    first, middle, last = (r.activations for r in ranks("1f1b"))
    assert (first, middle) == (3 * 2 * layer, 2 * 2 * layer)
    head = 48 * (2 * 2 * 48 + 4 * 211)  # inputs of norm and output layer, logits
    assert last == 2 * layer + head
    assert ranks("gpipe")[2].activations == 12 * (2 * layer + head)
    # The last chunk's backward follows its forward: the logits are there once.
    last = ranks("interleaved", virtual=2)[2].activations
    assert last == 4 * layer + head
    # Interleaved, v = 2: 2(p-1) + (v-1)p + 1 = 8 chunks of one layer on rank 0.
    assert ranks("interleaved", virtual=2)[0].activations == 8 * layer
    assert ranks("zb-h2")[0].activations == 5 * 2 * layer
    # DualPipe holds two stages of three layers and p + 1 = 3 micro-batches of one.
    both = ranks("dualpipe", pp=2)
    assert both[0].activations == both[1].activations == 3 * 3 * layer + head
    assert both[0].weights == both[1].weights == 2 * LLAMA.parameters


def test_layers_are_spread_as_llama_3_had_them():
    """126 layers on 16 stages: one fewer on the first and the last.

    Llama Team, arXiv:2407.21783, section 3.3.2.
    """
    model = named("Llama 3 405B")
    ask = {"global_batch": 2048, "sequence": 8192}
    layout = Layout(dp=64, tp=8, pp=16, zero=1, sequence_parallel=True)
    even = training_by_rank(model, layout, **ask)
    stages = [7, *[8] * 14, 7]
    named_ = training_by_rank(
        model, dataclasses.replace(layout, layers_per_stage=stages), **ask
    )
    assert even == named_
    assert even[1].weights == even[14].weights != even[15].weights
    uneven = dataclasses.replace(layout, layers_per_stage=[8] * 15 + [6])
    assert training(model, uneven, **ask).weights > even[0].weights


def test_dense_layers_lead():
    """DeepSeek-V3's first stage has its three dense layers and so fewer bytes."""
    ask = {"global_batch": 32, "sequence": 64}
    first, second, *_ = training_by_rank(named("DeepSeek-V3"), Layout(pp=15), **ask)
    v3 = named("DeepSeek-V3")
    table = v3.vocabulary * v3.d_model
    saved = 3 * (
        v3.router_parameters + 257 * v3.mlp_parameters(2048) - v3.mlp_parameters(18432)
    )
    assert second.weights - first.weights == 2 * (saved - table)


def test_the_embedding_is_first_and_the_head_last():
    ask = {"global_batch": 9, "sequence": 48}
    first, middle, last = training_by_rank(LLAMA, Layout(pp=3), **ask)
    table = 211 * 48
    assert first.weights - middle.weights == 2 * table
    assert last.weights - middle.weights == 2 * (table + 48)
    logits = 48 * 211
    assert last.buffers - middle.buffers == 2 * logits


# Buffers, offload, margin


def test_zero_gathers_the_largest_layer():
    ask = {"global_batch": 8, "sequence": 48}

    def buffers(zero):
        return training(LLAMA, Layout(dp=8, zero=zero), **ask).buffers

    layer = (LLAMA.parameters - 2 * 211 * 48 - 48) // 6
    assert buffers(0) == buffers(1) == 2 * 48 * 211
    assert buffers(2) - buffers(1) == 2 * layer
    assert buffers(3) - buffers(1) == 4 * layer


def test_recomputation_needs_one_layer_at_once():
    ask = {"global_batch": 1, "sequence": 48}
    none, selective, full = (
        training(LLAMA, Layout(recompute=kind), flash=False, **ask)
        for kind in ("none", "selective", "full")
    )
    scores = 2 * 6 * 48 * 48
    assert selective.buffers - none.buffers == scores
    assert none.activations - selective.activations == 6 * scores
    layer = layer_bytes(LLAMA, 48, flash=False)
    assert full.buffers - none.buffers == layer - 2 * 48 * 48


def test_offload_moves_bytes_to_the_host():
    ask = {"global_batch": 8, "sequence": 48}
    layout = Layout(dp=8, zero=3)
    here = training(LLAMA, layout, **ask)
    there = training(LLAMA, layout, offload=("optimizer", "weights"), **ask)
    assert there.host == here.optimizer + here.weights
    assert here.total - there.total == there.host and there.optimizer == 0
    acts = training(LLAMA, layout, offload=["activations"], **ask)
    assert here.activations - acts.activations == acts.host > 0
    with pytest.raises(ValueError, match="zero must be 3 where weights are offloaded"):
        training(LLAMA, Layout(dp=8, zero=2), offload=("weights",), **ask)


def test_the_margin_is_a_fraction_of_all():
    ask = {"global_batch": 1, "sequence": 48}
    plain = training(LLAMA, Layout(), **ask)
    padded = training(LLAMA, Layout(), margin=0.1, **ask)
    assert plain.margin == 0
    assert padded.total == pytest.approx(1.1 * plain.total)


def test_context_parallelism_shares_tokens_and_states():
    ask = {"global_batch": 2, "sequence": 48}
    one = training(LLAMA, Layout(dp=2, zero=1), **ask)
    two = training(LLAMA, Layout(dp=2, cp=2, zero=1), **ask)
    assert two.activations == one.activations / 2
    assert two.optimizer == 12 * -(-LLAMA.parameters // 4)
    assert two.weights == one.weights


# Whole systems


def test_published_layouts_fit_their_accelerators():
    """What ran did fit; a step further in each direction did not."""
    llama = named("Llama 3 405B")
    ran = Layout(dp=128, tp=8, pp=16, zero=1, sequence_parallel=True)
    ask = {"global_batch": 2048, "sequence": 8192, "precision": FP32_GRADIENTS}
    assert training(llama, ran, **ask).total < 80 * GIB
    assert training(llama, changed(ran, pp=8, dp=256), **ask).total > 80 * GIB
    gpt = named("MT-NLG 530B")
    ran = Layout(dp=8, tp=8, pp=35, recompute="full")
    ask = {"global_batch": 1920, "sequence": 2048, "precision": FP32_GRADIENTS}
    assert training(gpt, ran, **GPT, **ask).total < 80 * GIB
    assert training(gpt, changed(ran, recompute="none"), **GPT, **ask).total > 80 * GIB


# Many layouts at once


def grid(model, batch, sequence, times=1):
    """Every combination that is allowed, as one layout of arrays."""
    names = ("tp", "pp", "cp", "dp", "ep", "zero", "micro_batch", "virtual_stages")
    rows = [
        (*row, recompute, flag)
        for row in itertools.product(
            (1, 2), (1, 2, 3, 6), (1, 2), (1, 2, 4), (1, 2), range(4), (1, 2), (1, 2)
        )
        for recompute in ("none", "selective", "full")
        for flag in (False, True)
    ] * times
    columns = list(zip(*rows, strict=True))
    fields = {name: np.array(columns[i]) for i, name in enumerate(names)}
    fields["recompute"] = np.array(columns[-2])
    fields["sequence_parallel"] = np.array(columns[-1])
    fields["schedule"] = np.where(fields["virtual_stages"] > 1, "interleaved", "1f1b")
    good = Layout(**fields).allowed(model, batch, sequence)
    return {name: column[good] for name, column in fields.items()}


@pytest.mark.parametrize("model", [LLAMA, SPARSE], ids=["dense", "sparse"])
def test_arrays_give_what_single_layouts_give(model):
    fields = grid(model, 48, 48)
    many = training(model, Layout(**fields), global_batch=48, sequence=48)
    count = len(fields["tp"])
    assert count > 1000
    for i in range(0, count, 41):
        one = Layout(**{name: column[i].item() for name, column in fields.items()})
        alone = training(model, one, global_batch=48, sequence=48)
        for field in dataclasses.fields(Memory):
            assert getattr(many, field.name)[i] == getattr(alone, field.name)


def test_ten_thousand_layouts_are_quick():
    """A loose bound: it only fails when the work is done one by one."""
    fields = grid(LLAMA, 48, 48, times=4)
    count = len(fields["tp"])
    assert count >= 10_000
    start = time.perf_counter()
    training(LLAMA, Layout(**fields), global_batch=48, sequence=48)
    many_s = time.perf_counter() - start
    start = time.perf_counter()
    for _ in range(20):
        training(LLAMA, Layout(), global_batch=48, sequence=48)
    assert many_s < count * (time.perf_counter() - start) / 20 / 20


def test_shapes_are_kept():
    layout = Layout(dp=np.array([[1], [2], [4]]), zero=np.arange(4))
    held = training(LLAMA, layout, global_batch=4, sequence=48)
    assert layout.shape == held.total.shape == (3, 4)
    assert layout.world_size.shape == (3, 1)
    batches = training(LLAMA, Layout(), global_batch=np.array([1, 2]), sequence=48)
    assert batches.total.shape == (2,)


# Serving


def test_weights_and_cache_of_a_server():
    llama = named("Llama 3 8B")
    held = serving(llama, batch=10, context=8192)
    assert held.weights == 2 * llama.parameters
    assert held.kv_cache == llama.kv_bytes(8192, 10)
    half = serving(llama, batch=10, context=8192, tp=2)
    norms = llama.parameters_by_part()["norms"]
    assert half.weights == llama.parameters + norms
    assert half.kv_cache == held.kv_cache / 2
    many = serving(llama, batch=10, context=8192, tp=16)
    assert many.kv_cache == held.kv_cache / 8  # 8 key-value heads, each on two


def test_latent_vectors_are_on_every_rank():
    v3 = named("DeepSeek-V3")
    one, eight = (serving(v3, batch=4, context=1024, tp=tp) for tp in (1, 8))
    assert one.kv_cache == eight.kv_cache == v3.kv_bytes(1024, 4)
    assert one.weights == 2 * (v3.parameters)


def test_experts_of_a_server_are_spread():
    v3 = named("DeepSeek-V3")
    wide = serving(v3, batch=4, context=1024, ep=64)
    experts = v3.expert_parameters
    assert wide.weights == 2 * (v3.parameters - experts + experts / 64)
    both = serving(v3, batch=4, context=1024, tp=8, ep=64)
    assert both.weights < wide.weights
    few = serving(v3, batch=4, context=1024, tp=8, ep=2)  # tp cuts them further
    assert few.weights == serving(v3, batch=4, context=1024, tp=8).weights


def test_quantized_weights_keep_their_tables_in_16_bits():
    llama = named("Llama 3 8B")
    four = serving(llama, batch=0, context=1, weight_dtype="int4").weights
    parts = llama.parameters_by_part()
    tables = parts["embedding"] + parts["output"] + parts["norms"]
    assert four == 2 * tables + (llama.parameters - tables) * 4.25 / 8


def test_a_stage_of_a_server():
    llama = named("Llama 3 8B")
    two = serving(llama, batch=4, context=1024, pp=2)
    table = llama.vocabulary * llama.d_model
    assert two.weights == llama.parameters - 2 * table + 2 * table + 4096
    assert two.kv_cache == llama.kv_bytes(1024, 4) / 2


@given(
    st.sampled_from(["Llama 3 8B", "gpt-oss-20b", "Mixtral 8x7B", "Mistral 7B"]),
    st.integers(1, 10**5),
    st.sampled_from([24, 80, 141]),
    st.sampled_from([0, 8192]),
    st.sampled_from(["bf16", "fp8", "int4"]),
)
def test_the_largest_batch_fits_and_one_more_does_not(name, context, gib, step, dtype):
    model, room = named(name), gib * GIB
    ask = {"context": context, "weight_dtype": dtype, "margin": 0.1}
    most = max_batch(model, room, step_tokens=step, **ask)

    def total(batch):
        return serving(model, batch=batch, step_tokens=step or None, **ask).total

    if most:
        assert total(most) <= room * (1 + 1e-12)
    assert total(most + 1) > room
    assert most <= max_batch(model, 2 * room, step_tokens=step, **ask)


def test_batches_may_be_arrays():
    llama = named("Llama 3 8B")
    held = serving(llama, batch=np.array([1, 10]), context=1024)
    assert held.total[1] == serving(llama, batch=10, context=1024).total


# Errors


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dp": 0}, "dp must be a whole number, 1 or more"),
        ({"tp": -2}, "tp must be a whole number, 1 or more, got -2"),
        ({"pp": 2.5}, "pp must be a whole number"),
        ({"cp": float("nan")}, "cp must be a whole number"),
        ({"micro_batch": 10**9}, "micro_batch must be at most 1,000,000"),
        ({"zero": 4}, "zero must be at most 3"),
        ({"zero": np.array([0, 4])}, "zero must be a whole number.* got 4"),
        ({"recompute": "some"}, "recompute must be one of none, selective, full"),
        ({"recompute": np.array(["full", "x"])}, "recompute must be one of none"),
        ({"schedule": "gpipes"}, "schedule must be one of gpipe, 1f1b"),
        ({"schedule": None}, "schedule must be one of"),
        ({"sequence_parallel": 1}, "sequence_parallel must be True or False, got 1"),
        ({"layers_per_stage": [3, 0]}, "layers_per_stage must be a whole number"),
        ({"dp": np.ones(2), "tp": np.ones(3)}, "arrays in a layout must have shapes"),
    ],
)
def test_a_wrong_layout_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Layout(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tp": 4}, "tp must be a divisor of the 6 heads; got 4"),
        ({"tp": 3}, "tp must be a divisor or a multiple of the 2 key-value heads"),
        ({"tp": 6}, "tp must be a divisor of the MLP's width, 104; got 6"),
        ({"pp": 7}, "pp must be at most the 6 layers, over virtual_stages; got 7"),
        ({"cp": 5}, r"cp must be a divisor of the sequence, 48 \(times tp"),
        ({"ep": 2}, "ep must be 1 in a model without experts; got 2"),
        ({"dp": 5}, r"global_batch must be a multiple of dp \* micro_batch \(dp=5, mi"),
        ({"schedule": "interleaved"}, "virtual_stages must be at least 2 in an inter"),
        ({"virtual_stages": 2}, "virtual_stages must be at least 2 .* and 1 in any"),
        (
            {"schedule": "interleaved", "virtual_stages": 2, "pp": 3, "dp": 6},
            r"global_batch must be a multiple of dp \* micro_batch \* pp .*pp=3",
        ),
        ({"schedule": "dualpipe", "pp": 3}, "pp must be even with schedule dualpipe"),
        (
            {"schedule": "dualpipe", "pp": 4, "dp": 6},
            "global_batch must be an even number of micro-batches per rank",
        ),
        ({"layers_per_stage": [3, 3]}, "layers_per_stage must be pp .* add up to 6"),
        ({"layers_per_stage": [5]}, "layers_per_stage must be pp .* add up to 6"),
        ({"tp": np.array([1, 2, 4])}, "tp must be a divisor of the 6 heads; got 4"),
    ],
)
def test_a_layout_that_does_not_divide_is_refused(fields, message):
    layout = Layout(**fields)
    with pytest.raises(ValueError, match=message):
        layout.check(LLAMA, 24, 48)
    with pytest.raises(ValueError, match=message):
        training(LLAMA, layout, global_batch=24, sequence=48)
    assert not np.all(layout.allowed(LLAMA, 24, 48))


def test_experts_that_do_not_divide():
    with pytest.raises(
        ValueError, match="ep must be a divisor of the 8 experts; got 3"
    ):
        Layout(dp=3, ep=3).check(SPARSE, 24, 48)
    with pytest.raises(ValueError, match=r"ep must be a divisor of dp \* cp; got 4"):
        Layout(dp=2, ep=4).check(SPARSE, 24, 48)
    Layout(dp=2, cp=2, ep=4).check(SPARSE, 24, 48)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ({"global_batch": 0}, "global_batch must be a whole number, 1 or more"),
        ({"global_batch": float("nan")}, "global_batch must be a whole number"),
        ({"sequence": -1}, "sequence must be a whole number, 1 or more"),
        ({"sequence": np.array([48, 96])}, "sequence must be one number"),
        ({"sequence": 10**14}, "sequence must be at most"),
        ({"margin": -0.1}, "margin must be a finite number 0 or more"),
        ({"margin": float("inf")}, "margin must be"),
        ({"offload": ("disk",)}, "offload must be one of optimizer, weights, "),
        ({"offload": "optimizer"}, "offload must list words, got 'optimizer'"),
    ],
)
def test_wrong_arguments_of_training_are_refused(ask, message):
    with pytest.raises(ValueError, match=message):
        training(LLAMA, Layout(), **{"global_batch": 2, "sequence": 48} | ask)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Precision(weight_bytes=0), "weight_bytes must be a finite number gr"),
        (lambda: Precision(optimizer_bytes=-1), "optimizer_bytes must be"),
        (lambda: model_states(-1, 2), "parameters must be a whole number"),
        (lambda: model_states(10, 0), "ranks must be a whole number, 1 or more"),
        (lambda: model_states(10, 2, 5), "zero must be at most 3"),
        (lambda: serving(LLAMA, batch=-1, context=8), "batch must be"),
        (lambda: serving(LLAMA, batch=1, context=0), "context must be"),
        (lambda: serving(LLAMA, batch=1, context=8, tp=4), "tp must be a divisor"),
        (lambda: serving(LLAMA, batch=1, context=8, pp=9), "pp must be at most the 6"),
        (lambda: serving(LLAMA, batch=1, context=8, ep=2), "ep must be 1, or divide"),
        (lambda: serving(SPARSE, batch=1, context=8, ep=3), "ep must be 1, or divide"),
        (
            lambda: serving(LLAMA, batch=1, context=8, kv_dtype="fp3"),
            "kv_dtype must be one of fp32",
        ),
        (
            lambda: serving(LLAMA, batch=1, context=8, weight_dtype=4),
            "weight_dtype must be one of fp32",
        ),
        (lambda: max_batch(LLAMA, 0, context=8), "memory_bytes must be"),
        (lambda: max_batch(LLAMA, float("nan"), context=8), "memory_bytes must be"),
        (
            lambda: training_by_rank(
                LLAMA, Layout(dp=np.array([1])), global_batch=1, sequence=8
            ),
            "layout must be a single one",
        ),
    ],
)
def test_other_wrong_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_weights_that_do_not_fit_leave_no_batch():
    assert max_batch(named("Llama 3 405B"), 80 * GIB, context=8192) == 0


def test_absurd_sizes_stay_finite():
    huge = dataclasses.replace(
        LLAMA, d_model=48 * 10**6, d_ffn=10**8, vocabulary=10**8, layers=10**6
    )
    held = training(huge, Layout(), global_batch=10**6, sequence=10**9)
    assert np.isfinite(held.total) and held.total > 1e24
