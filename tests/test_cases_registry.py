"""Published numbers that follow from registry figures alone, each with its source.

A case's id names its test or is its first parameter. ML Engineering is Bekman's book,
the scaling book is Austin et al., How to Scale Your Model.
"""

import pytest

from aiinfra.registry import hardware, link, model


def near(value, rel):
    return pytest.approx(value, rel=rel)


# Peaks and ridges


def test_hw_h100_bf16_peak():
    """132 SMs of 4 tensor cores, 512 FMA a clock at 1.83 GHz (ML Engineering)."""
    chip = hardware("H100 SXM")
    flops = chip.matrix_units * chip.fma_per_clock * 2 * chip.clock_hz
    assert flops == near(989.4e12, 1e-3)
    assert chip.bf16_dense_flops == near(flops, 1e-3)
    assert chip.bf16_dense_flops.printed == near(2 * 989.4e12, 1e-3)  # sparse
    assert chip.matrix_units * chip.fma_per_clock * 2 * 1.98e9 == near(1070e12, 1e-3)


def test_hw_mi300x_bf16_peak():
    """1,216 matrix cores, 256 FMA a clock at 2.1 GHz (AMD; ML Engineering)."""
    chip = hardware("MI300X")
    flops = chip.matrix_units * chip.fma_per_clock * 2 * chip.clock_hz
    assert flops == near(1307.4e12, 1e-3)
    assert chip.bf16_dense_flops == near(flops, 1e-3)


def test_a100_peak_from_its_clock():
    """432 tensor cores, 256 FMA a clock at 1.41 GHz (NVIDIA A100 whitepaper)."""
    chip = hardware("A100 SXM 80GB")
    flops = chip.matrix_units * chip.fma_per_clock * 2 * chip.clock_hz
    assert chip.bf16_dense_flops == near(flops, 1e-3)


@pytest.mark.parametrize(
    ("case", "name", "ridge", "rel"),
    [
        ("hw-h100-ridge-bf16", "H100 SXM", 295, 3e-3),  # CS336 2025, lecture 10
        ("hw-b200-ridge-bf16", "B200", 281, 2e-3),  # tables of ML Engineering
        ("hw-mi300x-ridge-bf16", "MI300X", 246.7, 3e-3),  # tables of ML Engineering
    ],
)
def test_ridge(case, name, ridge, rel):
    assert hardware(name).ridge_flop_per_byte == near(ridge, rel)


def test_hw_v5e_int8w_bf16a_bcrit():
    """int8 weights, bf16 products: half the ridge, 120 tokens (scaling book)."""
    assert hardware("TPU v5e").ridge_flop_per_byte / 2 == near(120, 0.02)


def test_hw_v6e_pcie_bcrit():
    """bf16 weights streamed from the host at 15 GB/s: 61,000 tokens (scaling book)."""
    chip = hardware("TPU v6e")
    batch = chip.bf16_dense_flops / chip.host.one_way_bytes_per_s
    assert batch == near(61_000, 0.01)


# Memory


def test_hw_v5p_pod_hbm():
    """8,960 chips of "96 GB" make 860 TB (scaling book); Google prints 95 GB a chip."""
    pod = hardware("TPU v5p pod")
    assert pod.accelerators * 96e9 == near(860e12, 1e-3)
    assert pod.accelerator.memory_bytes.printed == 95e9
    assert pod.total("memory_bytes") == pod.accelerators * 95 * 2**30


@pytest.mark.parametrize(
    ("case", "name", "bytes_per_s", "rel"),
    [
        ("hw-hbm3-stack-bw", "HBM3 stack", 819e9, 1e-3),  # ML Engineering, HBM table
        ("hw-hbm4-stack-bw", "HBM4 stack", 2048e9, 1e-9),
    ],
)
def test_a_stack_of_memory(case, name, bytes_per_s, rel):
    assert hardware(name).memory_bytes_per_s == near(bytes_per_s, rel)


def test_a_stack_explains_its_chip():
    assert hardware("TPU v5e").memory_bytes_per_s == near(
        hardware("HBM3 stack").memory_bytes_per_s, 1e-3
    )


# Links


def test_hw_nvlink4_per_gpu():
    """18 links x 2 lanes x 12.5 GB/s x 2 directions = 900 GB/s (ML Engineering)."""
    nvlink = link("NVLink 4")
    assert nvlink.one_way_link_bytes_per_s == 2 * 12.5e9
    assert nvlink.one_way_bytes_per_s == 18 * 2 * 12.5e9
    assert nvlink.one_way_bytes_per_s.printed == 900e9


def test_hw_mi300x_xgmi_total():
    """Seven links of 64 GB/s, one to every peer: 448 GB/s one way (ML Engineering)."""
    fabric = link("Infinity Fabric MI300X")
    assert fabric.links == hardware("MI300X platform").accelerators - 1 == 7
    assert fabric.one_way_bytes_per_s == 448e9
    assert fabric.one_way_link_bytes_per_s == 64e9


@pytest.mark.parametrize(
    "name", ["ICI v4", "ICI v5e", "ICI v5p", "ICI v6e", "HCCS 910B", "NVLink 5"]
)
def test_links_add_up(name):
    parts = link(name).links * link(name).one_way_link_bytes_per_s
    assert parts == link(name).one_way_bytes_per_s


# Nodes, racks and pods


def test_cl_dgxh100_scaleout_ratio():
    """450 GB/s of NVLink beside one 400 Gb/s port for each GPU: 9 (ML Engineering)."""
    node = hardware("DGX H100")
    assert node.nics == node.accelerators
    ratio = node.scale_up.one_way_bytes_per_s / node.scale_out.one_way_bytes_per_s
    assert ratio == 9


def test_cl_dgxh100_power_overhead():
    """10.2 kW over eight GPUs of 700 W (NVIDIA datasheets)."""
    node = hardware("DGX H100")
    assert node.power_w / node.total("tdp_w") == near(1.82, 5e-3)


def test_cl_dgxh100_air_delta_t():
    """10.2 kW into 1,105 cubic feet a minute heat air by 16.2 K (NVIDIA datasheet)."""
    node = hardware("DGX H100")
    kg_per_s = node.airflow_cfm * 4.719e-4 * 1.2
    assert node.power_w / (kg_per_s * 1005) == near(16.2, 0.01)


def test_op_energy_per_gpu_hour():
    """PUE 1.2 and 50 USD/MWh: 0.0765 USD for each GPU and hour of a DGX H100."""
    node = hardware("DGX H100")
    mwh = node.power_w * 1.2 / node.accelerators / 1e6
    assert 50 * mwh == near(0.0765, 1e-3)


def test_cl_superpod4_spineleaf_cables():
    """Four units of eight leaves, 32 of 64 ports up: 1,024 (NVIDIA, Table 4)."""
    assert hardware("DGX SuperPOD H100").leaf_spine_cables == 1024


def test_cl_superpod_facility_power():
    """127 nodes of 10.2 kW in a hall of PUE 1.3: 1.684 MW (NVIDIA datasheet)."""
    pod = hardware("DGX SuperPOD H100")
    assert pod.nodes == 127
    assert 1.3 * pod.total("power_w") == near(1.684e6, 2e-3)


def test_cl_llama3_pod_gpus():
    """Eight pods of 192 racks of 16 GPUs: 24,576 (arXiv:2407.21783, 3.3.1)."""
    cluster = hardware("Llama 3 cluster")
    assert cluster.accelerators == 24_576
    assert cluster.accelerators_per_rack * cluster.racks_per_pod == 3_072


def test_cl_tpuv4_ocs_count():
    """64 cubes x 6 faces x 16 links over 128 ports: 48 (arXiv:2304.01433, 2.2)."""
    assert hardware("TPU v4 pod").optical_switches == 48


def test_cl_tpuv4_pod_peak():
    """4,096 chips of 275 TFLOP/s: 1.1 EFLOP/s (arXiv:2304.01433)."""
    assert hardware("TPU v4 pod").total("bf16_dense_flops") == near(1.1e18, 0.03)


@pytest.mark.parametrize(
    ("case", "name", "hosts"),
    [("or-v5p-hosts", "TPU v5p pod", 2240), ("or-v5e-hosts", "TPU v5e pod", 32)],
)
def test_hosts_of_a_pod(case, name, hosts):
    """Four chips on a host of v5p, eight on one of v5e (scaling book, part 2)."""
    assert hardware(name).hosts == hosts


def test_cl_nvl72_aggregate_nvlink():
    """72 GPUs of 1.8 TB/s both ways: 130 TB/s (NVIDIA GB200 NVL72)."""
    rack = hardware("GB200 NVL72")
    both_ways = 2 * rack.scale_up.one_way_bytes_per_s
    assert rack.accelerators * both_ways == near(130e12, 5e-3)
    assert rack.total("memory_bytes") / 2**30 == near(13.4e3, 2e-3)
    assert rack.total("bf16_dense_flops") == near(180e15, 1e-9)


def test_cl_cloudmatrix_peak():
    """384 NPUs of about 780 TFLOP/s: 300 PFLOP/s (SemiAnalysis); 752 make 289."""
    pod = hardware("CloudMatrix384")
    assert pod.accelerators * 780e12 == near(300e15, 5e-3)
    assert pod.total("bf16_dense_flops") == near(289e15, 2e-3)  # Huawei's own paper


# Models


@pytest.mark.parametrize(
    ("case", "name", "billions", "rel"),
    [
        # scaling book, applied training; 70.4 leaves out the norms
        ("al-llama3-70b-params", "Llama 3 70B", 70.4, 3e-3),
        ("al-mixtral-total", "Mixtral 8x7B", 46.7, 1e-3),  # arXiv:2401.04088
        ("al-llama2-13b-params", "Llama 2 13B", 13.0, 4e-3),  # scaling book, training
        ("tr-megatron-params-1t", "Megatron 1T", 1008.0, 5e-4),  # arXiv:2104.04473
    ],
)
def test_parameters(case, name, billions, rel):
    assert model(name).parameters == near(billions * 1e9, rel)


def test_al_gpt2_params():
    """123,653,376 without the learned positions (nanoGPT, scaling_laws.ipynb)."""
    gpt2 = model("GPT-2 small")
    without = gpt2.parameters - gpt2.positions_learned * gpt2.d_model
    assert without == 123_653_376


def test_al_dsv3_active():
    """36.6 billion with the output layer, without the embedding (README_WEIGHTS)."""
    v3 = model("DeepSeek-V3")
    assert v3.active_parameters == near(36.6e9, 2e-3)
    with_both = v3.active_parameters + v3.vocabulary * v3.d_model
    assert with_both == near(37.55e9, 2e-3)


def test_al_llama3_overtrain():
    """15T tokens are 93 times 20 for each of 8.03 billion parameters."""
    llama = model("Llama 3 8B")
    assert llama.training_tokens / llama.parameters / 20 == near(93, 6e-3)


def test_cm_bloom_bf16_weights():
    """The card's "329 GB" are GiB of 176,247,271,424 parameters (BLOOM model card)."""
    bloom = model("BLOOM")
    assert bloom.parameters == 176_247_271_424
    assert 2 * bloom.parameters / 2**30 == near(329, 4e-3)


# Whether the checks can fail: sums of what isn't there


@pytest.mark.parametrize(
    ("name", "figure", "message"),
    [
        (
            "TPU v4 pod",
            "power_w",
            "TPU v4 pod has no 'power_w' to add up; it holds TPU",
        ),
        ("H100 SXM", "tdp_w", "H100 SXM has no 'tdp_w' to add up"),
    ],
)
def test_a_sum_of_what_is_not_there(name, figure, message):
    with pytest.raises(ValueError, match=message):
        hardware(name).total(figure)
