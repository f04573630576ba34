"""Published figures of failures and checkpoints, computed by aiinfra.reliability.

The name of each test is the figure's id; its docstring says what was published.
"""

import pytest

from aiinfra import reliability

MINUTE, HOUR, DAY = 60, 3600, 86400
# Llama 3's pre-training (Llama Team 2024, arXiv:2407.21783, 3.3.4): 54 days on 16,384
# GPUs in nodes of 8, 466 interruptions, 419 of them unexpected.
LLAMA3_S, NODES, UNEXPECTED, ALL = 54 * DAY, 2048, 419, 466
# Kokolis et al. 2025, arXiv:2410.21680: RSC-1, failures per 1000 node-days.
RSC1 = 6.50


def test_op_llama3_mtbf():
    """Llama 3: an unexpected interruption every 3.09 hours."""
    found_s = reliability.mtbf_s(LLAMA3_S, UNEXPECTED)
    assert found_s == pytest.approx(3.09 * HOUR, rel=0.002)
    low_s, high_s = reliability.mtbf_bounds_s(LLAMA3_S, UNEXPECTED)
    assert 2.8 * HOUR < low_s < 3.09 * HOUR < high_s < 3.42 * HOUR
    # With the planned ones it would be 2.78 hours.
    assert reliability.mtbf_s(LLAMA3_S, ALL) == pytest.approx(2.78 * HOUR, rel=0.002)


def test_op_llama3_node_rate():
    """Llama 3: 3.79 interruptions per 1000 node-days."""
    rate = reliability.failures_per_1000_node_days(LLAMA3_S, UNEXPECTED, NODES)
    assert rate == pytest.approx(3.79, rel=0.002)


def test_op_rsc_mttf_16k():
    """RSC-1's nodes would stop a job on 16,384 GPUs every 1.8 hours."""
    node_s = reliability.node_mtbf_s(RSC1)
    assert reliability.system_mtbf_s(node_s, NODES) == pytest.approx(
        1.8 * HOUR, rel=0.005
    )
    # Counted per GPU instead of per node of 8 it would be 14 minutes.
    assert reliability.system_mtbf_s(node_s, 16384) < 0.25 * HOUR


def test_op_rsc_node_mttf():
    """Jobs of 1,024 GPUs live 7.9 hours, so a node lives 42.1 days (Kokolis et al.)."""
    node_s = reliability.part_mtbf_s(7.9 * HOUR, 1024 // 8)
    assert node_s == pytest.approx(42.1 * DAY, rel=0.002)


def test_or_gang_survive_day():
    """At RSC-1's rate a job of 16 nodes gets through a day with probability 0.901."""
    job_s = reliability.system_mtbf_s(reliability.node_mtbf_s(RSC1), 16)
    assert reliability.survival(DAY, job_s) == pytest.approx(0.901, rel=0.002)


def test_op_young_interval():
    """30 s per checkpoint, a failure every 3.09 h: save every 13.6 min (Young 1974)."""
    interval_s = reliability.young_interval_s(30, 3.09 * HOUR)
    assert interval_s == pytest.approx(13.6 * MINUTE, rel=0.004)
    # The exact optimum is nearly the same; Daly's finds it to 2 milliseconds.
    best_s = reliability.best_interval_s(30, 3.09 * HOUR)
    assert interval_s - best_s == pytest.approx(19.9, abs=0.1)
    daly_s = reliability.daly_interval_s(30, 3.09 * HOUR)
    assert daly_s == pytest.approx(best_s, abs=0.01)


def test_op_young_waste():
    """Then 7.34 % of the time is wasted, to first order (Young 1974)."""
    waste = reliability.young_waste(30, 3.09 * HOUR)
    assert waste == pytest.approx(0.0734, rel=0.003)
    # Exactly, with no restart to wait for: 7.17 %.
    interval_s = reliability.young_interval_s(30, 3.09 * HOUR)
    exact = 1 - reliability.goodput(interval_s, 30, 3.09 * HOUR)
    assert exact == pytest.approx(0.0717, abs=0.0001)


def test_op_ettr_12k_slow():
    """12,000 GPUs at RSC-1's rate, checkpoints and restarts of 5 min: ETTR 0.74.

    Kokolis et al. 2025, section 5: 1,500 nodes, Young's interval.
    """
    job_s = reliability.system_mtbf_s(reliability.node_mtbf_s(RSC1), 1500)
    interval_s = reliability.young_interval_s(300, job_s)
    estimate = reliability.ettr(interval_s, 300, job_s, 300)
    assert estimate == pytest.approx(0.74, rel=0.001)
    # It is first order: exactly 0.736.
    exact = reliability.goodput(interval_s, 300, job_s, 300)
    assert exact == pytest.approx(0.736, abs=0.001)
    ledger = reliability.simulate(
        200 * job_s, interval_s, 300, job_s, restart_s=300, replicas=500
    )
    assert ledger.goodput.mean() == pytest.approx(exact, abs=0.004)


def test_op_llama3_lost_per_interruption():
    """More than 90 % effective over 54 days: at most 16.7 min lost per interruption.

    Llama Team 2024, 3.3.4. Restarts of 5 min and pauses of 10 s fit in.
    """
    every_s = reliability.mtbf_s(LLAMA3_S, ALL)
    assert (1 - 0.9) * every_s == pytest.approx(16.7 * MINUTE, rel=0.003)
    interval_s = reliability.best_interval_s(10, every_s)
    assert reliability.goodput(interval_s, 10, every_s, 300) > 0.9
    assert reliability.goodput(interval_s, 10, every_s, 1200) < 0.9


def test_cm_llama405_ckpt_floor():
    """Llama 3 405B: 12 bytes a parameter into storage of 2 TB/s take 2.44 s.

    Llama Team 2024, 3.3.1: 2 TB/s sustained; fp32 weights and two Adam moments.
    """
    n_bytes = 12 * 405.853e9  # registry: exempt, as counted in the published figure
    seconds = reliability.checkpoint_write_s(n_bytes, 2e12)
    assert seconds == pytest.approx(2.44, rel=0.005)
    # One writer per node with 25 GB/s would not be the narrowest place.
    assert reliability.checkpoint_write_s(n_bytes, 2e12, NODES, 25e9) == seconds
