"""Published figures of memory, computed by aiinfra.memory.

The name of each test is the figure's id; its docstring says what was published.
"""

import pytest

from aiinfra import memory
from aiinfra.arch import named
from aiinfra.memory import Layout, Precision, model_states

GIB = 2**30
GPT = {"flash": False, "dropout": True}  # a layer of Korthikanti et al.


def test_cm_llama405_ckpt_floor():
    """Llama 3 405B's fp32 weights and moments, at 2 TB/s: 2.44 s at least.

    Llama Team, arXiv:2407.21783, section 3.3.1, for the storage.
    """
    states = model_states(named("Llama 3 405B").parameters, 1)
    assert states.optimizer / 2e12 == pytest.approx(2.44, rel=0.005)


@pytest.mark.parametrize(
    ("parameters", "ranks", "zero", "gigabytes", "rel"),
    [
        pytest.param(7.5e9, 64, 1, 31.4, 0.003, id="tr-zero-7b5-pos-64"),
        pytest.param(7.5e9, 64, 2, 16.6, 0.003, id="tr-zero-7b5-posg-64"),
        pytest.param(7.5e9, 64, 3, 1.88, 0.005, id="tr-zero-7b5-posgp-64"),
        pytest.param(7.5e9, 16, 2, 21.6, 0.003, id="tr-zero-7b5-posg-16"),
        pytest.param(1e12, 256, 1, 4046, 0.001, id="tr-zero-1t-pos-256"),
    ],
)
def test_zero_table_1(parameters, ranks, zero, gigabytes, rel):
    """Bytes of model states per GPU, 2 + 2 + 12 per parameter.

    Rajbhandari et al., arXiv:1910.02054, Table 1; decimal GB.
    """
    states = model_states(int(parameters), ranks, zero)
    assert states.total / 1e9 == pytest.approx(gigabytes, rel=rel)
    if zero < 3:  # GB for GiB is 7 % off
        assert states.total / GIB != pytest.approx(gigabytes, rel=0.05)


def test_tr_ds_zero2_est():
    """DeepSpeed's ZeRO-2 estimator: 15.93 GiB for 2,851e6 parameters on 8 GPUs.

    DeepSpeed, docs/code-docs/source/memory.rst: 4 + 16/N bytes per parameter, where 4
    is for weights and the 16-bit gradients that aren't cut up, and 16 for fp32
    gradients, weights and moments.
    """
    counted = Precision(weight_bytes=2 + 2, gradient_bytes=4, optimizer_bytes=12)
    states = model_states(2_851_000_000, 8, 2, counted)
    assert states.total / GIB == pytest.approx(15.93, abs=0.01)


def test_tr_ds_t5large_zero3():
    """DeepSpeed's ZeRO-3 estimator: 3,291 MiB for T5-large on 4 GPUs.

    DeepSpeed, docs/code-docs/source/memory.rst: 18 bytes per parameter over 4, and 4
    per parameter of the largest layer.
    """
    precision = memory.FP32_GRADIENTS
    states = model_states(737_670_000, 4, 3, precision)
    buffer = memory.zero_buffer_bytes(32_900_000, 3, precision)
    assert (states.total + buffer) / 2**20 == pytest.approx(3291, abs=1)


def test_tr_naive_adam_8h100():
    """AdamW in fp32, 16 bytes per parameter, over 8 GPUs of 80 GB: 40 billion.

    Stanford CS336, lecture 2.
    """
    states = model_states(40_000_000_000, 8, 3, memory.FP32)
    assert states.total == 80e9


def test_tr_act_5as_h_gpt3():
    """What depends on the sequence in GPT-3's activations is 80 sbh.

    Korthikanti et al., arXiv:2205.05198, section 5.
    """
    model, sbh = named("GPT-3 175B"), 2048 * 12288
    whole = memory.layer_bytes(model, 2048, **GPT)
    rest = memory.layer_bytes(model, 2048, recompute="selective", **GPT)
    assert (whole - rest) / sbh == 80
    assert rest / sbh == 34


def test_tr_act_selective_saving_gpt3():
    """Selective recomputation saves 70 % of GPT-3's activations (as above)."""
    model = named("GPT-3 175B")
    whole = memory.layer_bytes(model, 2048, **GPT)
    rest = memory.layer_bytes(model, 2048, recompute="selective", **GPT)
    assert 1 - rest / whole == pytest.approx(0.7, rel=0.005)


def test_tr_act_gpt3_layer_tp8():
    """A layer of GPT-3 with 8-way tensor parallelism alone keeps 578.8 MB.

    Korthikanti et al., arXiv:2205.05198, Table 2: sbh(10 + 24/t + 5as/ht).
    """
    kept = memory.layer_bytes(named("GPT-3 175B"), 2048, tp=8, **GPT)
    assert kept / 1e6 == pytest.approx(578.8, rel=0.001)


def test_tr_act_outputdealloc_530b():
    """Freeing outputs saves MT-NLG 530B's first stage 2.73 GiB, 35 micro-batches.

    Korthikanti et al., arXiv:2205.05198, appendix B, printed as GB.
    """
    layout = Layout(tp=8, pp=35, recompute="full")
    ask = {"global_batch": 280, "sequence": 2048}
    model = named("MT-NLG 530B")
    freed = memory.training_by_rank(model, layout, **ask)
    kept = memory.training_by_rank(model, layout, keep_outputs=True, **ask)
    saved = kept[0].total - freed[0].total
    assert saved / GIB == pytest.approx(2.73, rel=0.002)


def test_in_attn_score_matrix():
    """Batch 64, 16 heads, 1,024 tokens in fp16: the scores take 2 GiB.

    Dao et al., arXiv:2205.14135, the setting of Figure 2 (GPT-2 medium).
    """
    tensors = memory.saved_tensors(named("GPT-2 medium"), 1024, flash=False)
    (scores,) = (tensor for tensor in tensors if tensor.name == "softmax")
    assert 64 * 1024 * scores.bytes_per_token == 2 * GIB


def test_in_gpt3_fp16_gib():
    """175 billion weights take 326 GiB in fp16 (GPTQ, arXiv:2210.17323, there "GB")."""
    weights = model_states(175_000_000_000, 1).weights
    assert weights / GIB == pytest.approx(326, rel=0.001)
    assert weights / 1e9 == 350
