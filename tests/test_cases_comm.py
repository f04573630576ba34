"""Published figures of communication, computed by aiinfra.comm.

The name of each test is the figure's id; its docstring says what was published.
"""

import pytest

from aiinfra import comm

GIB = 2**30


def test_cm_allreduce_time_from_busbw():
    """16 GiB at 480 GB/s of bus bandwidth on 8 GPUs take 62.6 ms.

    NVIDIA nccl-tests, doc/PERFORMANCE.md; the measurement (8 H200) is from
    stas00/ml-engineering, network/README.md.
    """
    seconds = comm.bus_bandwidth_s(16 * GIB, 480e9, 8, "all_reduce")
    assert seconds == pytest.approx(62.6e-3, rel=0.005)
    # Not S / busbw, which would be the algorithm bandwidth's time.
    assert pytest.approx(62.6e-3, rel=0.4) != 16 * GIB / 480e9


def test_cm_ring_allreduce_bytes():
    """A ring all-reduce of 1 GB on 64 ranks: each sends 1.96875 GB (nccl-tests)."""
    sent = comm.ring_all_reduce_bytes_per_rank(1e9, 64)
    assert sent == pytest.approx(1.96875e9, abs=1)


def test_cm_sharp_send_ratio():
    """NVLink SHARP: N+1 sends instead of 2N, 1.778 times fewer on 8 GPUs.

    NVIDIA's NVSwitch figures as told in stas00/ml-engineering, network/README.md.
    They round a ring's 2(N-1) sends to 2N; counted exactly it is 14/9 = 1.56.
    """
    sent = comm.nvls_all_reduce_bytes_per_rank(1e9, 8)
    assert 2 * 1e9 / sent == pytest.approx(1.778, rel=0.002)
    ring = comm.ring_all_reduce_bytes_per_rank(1e9, 8)
    assert ring / sent == pytest.approx(14 / 9)


def test_cm_alphabeta_ring():
    """1 MB on 64 ranks, 5 us a step, 50 GB/s: 669.4 us (Thakur et al. 2005)."""
    seconds = comm.ring_all_reduce_s(1e6, 64, 5e-6, 50e9)
    assert seconds == pytest.approx(669.4e-6, rel=0.002)
    # Nearly all of it is latency: a tree takes a tenth.
    tree_s = comm.halving_doubling_all_reduce_s(1e6, 64, 5e-6, 50e9)
    assert tree_s == pytest.approx(99.4e-6, rel=0.002)


def test_cm_v4p_allgather_x():
    """TPU v4p, bf16[1024, 4096] over 4 x 4 chips, gathered along one axis: 23 us.

    jax-ml/scaling-book, sharding.md, question 2: 9e10 B/s both directions together;
    what a row of 4 chips gathers is a quarter of the array.
    """
    gathered = 2 * 1024 * 4096 / 4
    seconds = comm.bidirectional_ring_all_gather_s(gathered, 4, 0, 9e10 / 2)
    assert seconds == pytest.approx(23e-6, rel=0.03)
    one_way = comm.ring_all_gather_s(gathered, 4, 0, 9e10 / 2)
    assert one_way != pytest.approx(23e-6, rel=0.3)


def test_cm_v5e_p2p_corner():
    """TPU v5e, 16.8 MB from corner to corner of 4 x 4 without wraparound: 194 us.

    jax-ml/scaling-book, tpus.md, question 5: two ports of 4.5e10 B/s, 6 hops of 1 us.
    The book rounds the bytes up; exactly it is 192.4 us.
    """
    n_bytes = 2 * 8 * 128 * 8192
    args = (n_bytes, (0, 0), (3, 3), (4, 4), 1e-6, 4.5e10)
    seconds = comm.torus_point_to_point_s(*args, wrap=False)
    assert seconds == pytest.approx(194e-6, rel=0.015)
    assert seconds == pytest.approx(192.4e-6, rel=0.001)
    # Wraparound would make it 2 hops.
    assert comm.torus_point_to_point_s(*args) == pytest.approx(seconds - 4e-6)


def test_cm_zero3_comm_ratio():
    """ZeRO-3 moves 1.5 times what plain data parallelism moves.

    Rajbhandari et al. 2020, arXiv:1910.02054, section 7.
    """
    plain = comm.data_parallel_bytes_per_step(7.5e9, 64)
    assert comm.zero_bytes_per_step(7.5e9, 64, 3) / plain == 1.5
    assert comm.zero_bytes_per_step(7.5e9, 64, 2) / plain == 1
    assert comm.zero_bytes_per_step(7.5e9, 64, 1) / plain == 1


def test_cm_zeropp_reduction():
    """ZeRO++ moves a quarter of ZeRO-3's bytes between nodes.

    Wang et al. 2023, arXiv:2306.10209: int8 weights forward, none backward, int4
    gradients.
    """
    zero3 = comm.zero_bytes_per_step(18e9, 384, 3)
    assert zero3 / comm.zero_plus_plus_bytes_per_step(18e9, 384) == pytest.approx(4)


def test_cm_tp_volume_per_layer():
    """GPT-3's layer, 8-way tensor parallel, 2,048 tokens: 176,160,768 elements.

    8bsh(t-1)/t, Narayanan et al. 2021, arXiv:2104.04473, 3.2.
    """
    elements = comm.tensor_parallel_bytes_per_layer(2048, 12288, 8, 1)
    assert elements == 176_160_768
    # Forward alone is half; without the factor (t-1)/t it would be 8/7 of it.
    forward = comm.tensor_parallel_bytes_per_layer(2048, 12288, 8, 1, backward=False)
    assert forward == 176_160_768 / 2


def test_cm_ulysses_volume():
    """131,072 tokens, width 8,192, 16 ranks, bf16: 0.537 GB per layer, forward.

    4Nh/P, DeepSpeed-Ulysses' README; Megatron-LM's sequence parallelism moves 4Nh.
    The README counts what a rank keeps for itself; the wire carries 15/16 of it.
    """
    args = (131072, 64, 64, 128, 16)
    buffers = comm.ulysses_buffer_bytes_per_layer(*args)
    assert buffers == pytest.approx(0.537e9, rel=0.002)
    assert comm.ulysses_bytes_per_layer(*args) == buffers * 15 / 16
    megatron = comm.tensor_parallel_bytes_per_layer(131072, 8192, 16, backward=False)
    assert megatron / comm.ulysses_bytes_per_layer(*args) == 16


def test_cm_ring_attention_block_v3():
    """TPU v3 (123 TFLOP/s, 112 GB/s): sequences of at least 6.6 thousand tokens.

    Liu et al. 2023, arXiv:2310.01889, table 2: six blocks of the smallest size that
    hides its communication.
    """
    block = comm.ring_attention_least_block_tokens(123e12, 112e9)
    assert 6 * block == pytest.approx(6600, rel=0.005)


def test_in_ep_comm_ib():
    """DeepSeek-V3's decoding over 400 Gb/s: 120.96 us to dispatch and combine.

    32 tokens to 9 destinations (8 experts and the shared one), 7,000 values taken for
    the width, 1 byte out and 2 back; DeepSeek-AI 2025, arXiv:2505.09343, 2.3.2.
    """
    sent = comm.expert_parallel_bytes_per_layer(32, 7000, 9, 1, 2)
    assert comm.point_to_point_s(sent, 0, 50e9) == pytest.approx(120.96e-6, rel=1e-6)


def test_in_ep_tpot_ib():
    """At best 14.76 ms per token: 61 layers, two micro-batches that take turns.

    DeepSeek-AI 2025, arXiv:2505.09343, 2.3.2: each waits for its own communication
    while the other's computing is hidden. With the real width it is 15.1 ms.
    """
    for width, token_s in ((7000, 14.76e-3), (7168, 15.11e-3)):
        sent = comm.expert_parallel_bytes_per_layer(32, width, 9, 1, 2)
        seconds = 61 * 2 * comm.point_to_point_s(sent, 0, 50e9)
        assert seconds == pytest.approx(token_s, rel=0.001)


def test_in_kv_transfer_time():
    """8,192 tokens of Llama 3 70B's KV over one 400 Gb/s NIC take 53.7 ms."""
    n_bytes = 2 * 80 * 8 * 128 * 2 * 8192
    assert comm.point_to_point_s(n_bytes, 0, 50e9) == pytest.approx(53.7e-3, rel=0.002)
