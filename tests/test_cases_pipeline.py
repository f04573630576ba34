"""Published figures of pipeline schedules, computed by aiinfra.pipeline.

The name of each test is the figure's id; its docstring says what was published.
"""

import pytest

from aiinfra import pipeline


def test_tr_1f1b_bubble_overhead():
    """8 stages, 64 micro-batches: a bubble of 10.94 % of the ideal time, (p-1)/m.

    Narayanan et al. 2021, arXiv:2104.04473, 2.2.1. GPipe's paper divides by the time
    of the whole step instead: 9.86 %.
    """
    overhead = pipeline.bubble_overhead("1f1b", 8, 64)
    assert overhead == pytest.approx(0.1094, rel=0.001)
    assert pipeline.bubble_share("1f1b", 8, 64) == pytest.approx(0.0986, rel=0.001)
    timeline = pipeline.simulate(pipeline.schedule("1f1b", 8, 64), 1, 2)
    assert timeline.bubble_overhead == overhead


def test_tr_interleaved_bubble():
    """16 ranks of 4 stages, 16 micro-batches: a bubble ratio of 0.2344, (p-1)/(vm).

    Llama Team 2024, arXiv:2407.21783, 3.3.2.
    """
    overhead = pipeline.bubble_overhead("interleaved", 16, 16, 4)
    assert overhead == pytest.approx(0.2344, rel=0.001)
    timeline = pipeline.simulate(pipeline.schedule("interleaved", 16, 16, 4), 1, 2)
    assert timeline.bubble_overhead == pytest.approx(overhead)


def test_tr_zb1p_bubble():
    """ZB-H1, 8 stages, 24 micro-batches, F = I = W: idle for 8.86 % of the step.

    Qi et al. 2024, arXiv:2401.10241. A third of 1F1B's share would be 7.53 %: it is
    the bubble's size that is a third.
    """
    times = dict(forward_s=1, input_s=1, weight_s=1)
    share = pipeline.bubble_share("zb-h1", 8, 24, **times)
    assert share == pytest.approx(0.0886, rel=0.002)
    timeline = pipeline.simulate(pipeline.schedule("zb-h1", 8, 24), **times)
    assert timeline.bubble_share == pytest.approx(share)
    third = pipeline.bubble_s("1f1b", 8, 24, **times) / 3
    assert pipeline.bubble_s("zb-h1", 8, 24, **times) == third
    assert pipeline.bubble_share("1f1b", 8, 24, **times) / 3 != pytest.approx(
        share, rel=0.1
    )


def test_tr_1f1b_vs_dualpipe_ratio():
    """16 stages, F = 1, B = 2: 1F1B's bubble is 45 F, DualPipe's 14 F.

    README of deepseek-ai/DualPipe: (PP-1)(F+B), and (PP/2-1)(F&B+B-3W) without gain
    from overlapping.
    """
    times = dict(forward_s=1, input_s=1, weight_s=1)
    assert pipeline.bubble_s("1f1b", 16, 32, **times) == 45
    assert pipeline.bubble_s("dualpipe", 16, 32, **times) == 14
    timeline = pipeline.simulate(pipeline.schedule("dualpipe", 16, 32), **times)
    assert timeline.step_s - timeline.busy_s[0] == 14


def test_tr_act_outputdealloc_530b():
    """MT-NLG 530B, 35 stages: freeing output tensors saves 2.73 GiB on the first rank.

    Korthikanti et al. 2022, arXiv:2205.05198, appendix B: one output of 2,048 tokens
    of width 20,480 in 2 bytes for each micro-batch in flight; there are as many as
    stages (printed as GB).
    """
    held = pipeline.in_flight("1f1b", 35, 0, 100)
    assert held * 2 * 2048 * 20480 / 2**30 == pytest.approx(2.73, rel=0.002)
    assert pipeline.in_flight("1f1b", 35, 34, 100) == 1
