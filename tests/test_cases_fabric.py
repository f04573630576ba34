"""Published figures of networks and clusters, computed by aiinfra.fabric.

The name of each test is the figure's id; its docstring says what was published.
"""

import pytest

from aiinfra import fabric


def test_cl_fattree_k48_hosts():
    """Three tiers of 48-port switches join 27,648 hosts (Al-Fares et al. 2008)."""
    assert fabric.fat_tree(48).endpoints == 27_648
    assert fabric.fat_tree(48).oversubscription == 1


def test_cl_fattree_k48_switches():
    """With 2,880 switches (Al-Fares et al. 2008): 5k^2/4, not k^2."""
    assert fabric.fat_tree(48).switch_count == 2_880


def test_cl_fattree_k64_hosts():
    """64-port switches join at most 65,536 endpoints on three tiers: k^3/4."""
    assert fabric.fat_tree(64).endpoints == 65_536


def test_cl_superpod4_spineleaf_cables():
    """DGX SuperPOD of 4 scalable units: 1,024 cables from leaves to spines.

    NVIDIA's reference architecture for DGX H100, table 4: 32 nodes of 8 GPUs and 8
    leaves per unit, 64 ports each, half of them up.
    """
    network = fabric.rail_optimized(4 * 32, 8, 64)
    assert network.links["leaf-spine"] == 1024
    assert network.switches == {"leaf": 32, "spine": 16}


def test_cl_tpuv4_ocs_count():
    """A TPU v4 machine of 64 cubes of 4 x 4 x 4 chips has 48 optical switches.

    Jouppi et al. 2023, arXiv:2304.01433, 2.2: 128 usable ports each.
    """
    assert fabric.blocks((16, 16, 16), (4, 4, 4)) == 64
    assert fabric.optical_switches(64, 4, 128) == 48


def test_cl_nvl72_aggregate_nvlink():
    """GB200 NVL72: 72 GPUs of 1.8 TB/s, both ways together, make 130 TB/s (NVIDIA)."""
    both_ways = 2 * fabric.fat_tree(72, 1).injection_bytes_per_s(0.9e12)
    assert both_ways == pytest.approx(130e12, rel=0.005)


def test_cl_superpod_facility_power():
    """127 nodes of 10.2 kW at a PUE of 1.3: 1.684 MW (DGX H100 datasheet)."""
    nodes = fabric.Bill({"DGX H100": (127, 0, 10_200)})  # registry: exempt, as printed
    assert nodes.facility_power_w(1.3) == pytest.approx(1.684e6, rel=0.002)


def test_op_energy_per_gpu_hour():
    """A DGX H100 at a PUE of 1.2 and 50 USD per MWh: 0.0765 USD per GPU and hour."""
    node = fabric.Bill({"DGX H100": (1, 0, 10_200)})  # registry: exempt, as printed
    price = node.energy_price(3600, 50 / 1000, pue=1.2)
    assert price / 8 == pytest.approx(0.0765, rel=0.001)


def test_or_v5p_hosts():
    """A TPU v5p pod of 16 x 20 x 28 chips has 2,240 hosts of 2 x 2 x 1.

    jax-ml/scaling-book, tpus.md, question 2.
    """
    pod = fabric.torus((16, 20, 28))
    assert fabric.blocks((16, 20, 28), (2, 2, 1)) == 2_240
    assert pod.endpoints == 8_960
    # Its narrowest cut halves the longest axis.
    assert pod.bisection_links == 2 * 16 * 20


def test_or_v5e_hosts():
    """A TPU v5e pod of 16 x 16 chips has 32 hosts of 4 x 2 (same source)."""
    assert fabric.blocks((16, 16), (4, 2)) == 32
