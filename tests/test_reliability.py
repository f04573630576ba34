"""Goodput and spares: closed forms against simulations, those against slow ones."""

import inspect
import itertools
import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiinfra import reliability as r

# How long an example takes depends on what else the machine does.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
DAY = 86400
TIMES = st.floats(1, 1e6)


def standard_errors(found, expected):
    """By how many standard errors the mean of ``found`` is off."""
    return abs(np.mean(found) - expected) / (np.std(found) / math.sqrt(len(found)))


# --------------------------------------------------------------- how often


def test_rates_add_up():
    # 2 parts of 10 s and 3 of 30 s: 0.2 + 0.1 failures a second.
    assert r.system_mtbf_s([10, 30], [2, 3]) == pytest.approx(1 / 0.3)
    assert r.system_mtbf_s(3600 * 50_000, 16384) == pytest.approx(3600 * 50_000 / 16384)
    assert r.part_mtbf_s(r.system_mtbf_s(5e6, 1000), 1000) == pytest.approx(5e6)
    # The mistakes: mean times averaged; as likely as the most fragile kind alone.
    assert r.system_mtbf_s([10, 30], [2, 3]) != pytest.approx((5 + 10) / 2)


def test_node_days():
    # 13 failures in 10 days on 200 nodes: 6.5 per 1000 node-days.
    rate = r.failures_per_1000_node_days(10 * DAY, 13, 200)
    assert rate == pytest.approx(6.5)
    assert r.node_mtbf_s(rate) == pytest.approx(10 * DAY / 13 * 200)


def poisson(k, mean):
    return math.exp(k * math.log(mean) - mean - math.lgamma(k + 1))


@pytest.mark.parametrize("failures", [1, 3, 40, 419])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_bounds_of_the_mean_time_leave_out_the_tails(failures, confidence):
    low_s, high_s = r.mtbf_bounds_s(100.0, failures, confidence)
    assert low_s < r.mtbf_s(100.0, failures) < high_s
    tail = (1 - confidence) / 2
    as_few = sum(poisson(k, 100 / low_s) for k in range(failures + 1))
    as_many = 1 - sum(poisson(k, 100 / high_s) for k in range(failures))
    assert as_few == pytest.approx(tail, rel=1e-9)
    assert as_many == pytest.approx(tail, rel=1e-9)


def test_bounds_without_a_failure():
    low_s, high_s = r.mtbf_bounds_s(100.0, 0)
    assert low_s == pytest.approx(100 / -math.log(0.025)) and high_s == math.inf


def test_bounds_hold_as_often_as_they_say():
    """Of 2,000 counts with mean 7, at least 90 % (exact bounds are cautious)."""
    rng = np.random.default_rng(1)
    counts, many = np.unique(rng.poisson(7, 2000), return_counts=True)
    held = 0
    for count, n in zip(counts.tolist(), many.tolist(), strict=True):
        low_s, high_s = r.mtbf_bounds_s(7.0, count, 0.9)
        held += n * (low_s <= 1 <= high_s)
    assert 1800 <= held < 1980


# -------------------------------------------------------- how often to save


def best_by_search(delta, mtbf):
    """Where goodput is greatest, by trisection of exact logarithms."""
    low, high = 0.0, mtbf

    def log_goodput(tau):
        x = (tau + delta) / mtbf
        return math.log(tau) - x - math.log(-math.expm1(-x))

    for _ in range(200):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (a, high) if log_goodput(a) < log_goodput(b) else (low, b)
    return (low + high) / 2


@pytest.mark.parametrize("ratio", [1e-6, 1e-3, 0.02, 0.3, 1.7, 4, 30])
def test_the_best_interval(ratio):
    mtbf = 11_124.0
    best = r.best_interval_s(ratio * mtbf, mtbf)
    if 1e-4 < ratio < 5:  # else the top is too flat to find
        assert best == pytest.approx(best_by_search(ratio * mtbf, mtbf), rel=1e-5)
    y = best / mtbf
    lost_digits = 1e-15 / (1 - y)  # 1 - y is a difference
    assert (1 - y) * math.exp(y + ratio) == pytest.approx(1, rel=1e-9 + lost_digits)
    at_best = r.goodput(best, ratio * mtbf, mtbf, 60, 30, 5)
    for factor in (0.5, 0.9, 1.1, 2):
        other = best * factor
        assert r.goodput(other, ratio * mtbf, mtbf, 60, 30, 5) < at_best


def test_the_best_interval_to_the_last_digit():
    """Cheap checkpoints: the equation is a difference of nearly equal numbers."""
    for d in (1e-14, 1e-8, 1e-4, 5e-5):
        y = r.best_interval_s(d, 1.0)
        exact = Fraction(y)
        series = sum(exact**k / k for k in range(2, 40))  # -log(1-y) - y
        assert float(series) == pytest.approx(d, rel=1e-12)


def test_young_and_daly_approach_the_best():
    """Relative errors of the interval: first order, third order."""
    mtbf = 1.0
    for delta in (1e-2, 1e-3, 1e-4):
        best = r.best_interval_s(delta, mtbf)
        young = r.young_interval_s(delta, mtbf) / best - 1
        daly = abs(r.daly_interval_s(delta, mtbf) / best - 1)
        assert young == pytest.approx(math.sqrt(2 * delta) / 3, rel=0.1)
        assert daly < delta / 10
    assert r.daly_interval_s(3.0, 1.0) == 1.0
    # The mistakes: the interval without the 2, or with the checkpoint in it.
    assert r.best_interval_s(30, 11_124) != pytest.approx(
        math.sqrt(30 * 11_124), rel=0.2
    )
    assert r.best_interval_s(30, 11_124) != pytest.approx(
        r.daly_interval_s(30, 11_124) + 30, rel=0.01
    )


@patient
@given(tau=TIMES, delta=TIMES, mtbf=TIMES, restart=TIMES)
def test_goodput_is_dalys_complete_model(tau, delta, mtbf, restart):
    """T = M exp(R/M) (exp((τ+δ)/M) - 1) T_s/τ."""
    if (tau + delta + restart) / mtbf > 500:
        assert r.goodput(tau, delta, mtbf, restart) == pytest.approx(0, abs=1e-100)
        return
    wall = mtbf * math.exp(restart / mtbf) * math.expm1((tau + delta) / mtbf) / tau
    assert r.goodput(tau, delta, mtbf, restart) == pytest.approx(1 / wall, rel=1e-9)
    total = r.expected_s(1e6, tau, delta, mtbf, restart)
    assert total == pytest.approx(1e6 * wall, rel=1e-9)


def test_goodput_without_failures_or_hope():
    assert r.goodput(90, 10, 1e15) == pytest.approx(0.9)
    assert r.goodput(900, 100, 0.5) == 0
    assert r.expected_s(10, 900, 100, 0.5) == math.inf


@patient
@given(tau=TIMES, delta=TIMES, mtbf=TIMES, more=st.floats(1.01, 10), data=st.data())
def test_goodput_falls_with_everything_bad(tau, delta, mtbf, more, data):
    restart, down, write = (data.draw(TIMES) for _ in range(3))
    args = [tau, delta, mtbf, restart, down, write]
    good = r.goodput(*args)
    assert 0 <= good < 1
    for worse in (1, 3, 4, 5):
        changed = [*args]
        changed[worse] *= more
        assert r.goodput(*changed) <= good
    changed = [*args]
    changed[2] /= more  # more failures
    assert r.goodput(*changed) <= good
    tries = r.ettr(tau, delta, mtbf, restart), r.ettr(tau, delta, mtbf / more, restart)
    assert 0 <= tries[1] <= tries[0] < 1


def test_ettr_is_the_first_order():
    """The gap falls with the square of the interval over M."""
    gaps = []
    for mtbf in (1e4, 1e6):
        tau = r.young_interval_s(1, mtbf)
        gaps.append(abs(r.ettr(tau, 1, mtbf, 0) - r.goodput(tau, 1, mtbf, 0)))
    assert gaps[0] < 1e-3 and gaps[1] < gaps[0] / 50


def test_checkpoints_are_as_fast_as_the_narrowest_place():
    # 800 GB: storage 100 GB/s, or 10 writers of 4 GB/s.
    assert r.checkpoint_write_s(800e9, 100e9) == 8
    assert r.checkpoint_write_s(800e9, 100e9, 10, 4e9) == 20
    assert r.checkpoint_write_s(800e9, 100e9, 50, 4e9) == 8


# ------------------------------------------------------------------- spares


def test_poisson_spares_by_adding_up():
    for mean in (0.001, 0.5, 5, 90):
        for probability in (0.5, 0.99, 0.9999):
            spares = r.poisson_spares(mean, probability)
            terms = [poisson(k, mean) for k in range(spares + 1)]
            assert sum(terms) >= probability
            assert spares == 0 or sum(terms[:-1]) < probability


def works(parts, spares, chance):
    """P(at most ``spares`` of parts + spares are out), in exact rationals."""
    n = parts + spares
    return sum(
        math.comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(spares + 1)
    )


@pytest.mark.parametrize(("parts", "chance"), [(1, 0.25), (8, 0.125), (256, 1 / 128)])
def test_binomial_spares_by_adding_up(parts, chance):
    spares = r.binomial_spares(parts, chance, 0.99)
    assert works(parts, spares, Fraction(chance)) >= 0.99
    assert spares and works(parts, spares - 1, Fraction(chance)) < 0.99
    # Not what one gets without counting that spares are out, too.
    expected = parts * chance
    assert r.binomial_spares(parts, 0, 0.99) == 0
    assert spares >= expected


def test_binomial_spares_tend_to_poisson():
    """Many parts, each rarely out: 20,000 at 1e-3 is Poisson with mean 20."""
    assert abs(r.binomial_spares(20_000, 1e-3) - r.poisson_spares(20)) <= 1
    assert r.unavailability(990, 10) == 0.01


# ----------------------------------------------------------------- simulated


def test_failures_of_many_parts_are_poisson():
    """1,000 runs of 200 parts: counts against the Poisson law, chi-square at 1e-4."""
    counts = [len(r.failure_times(200, 100.0, 3.0, seed=s).time_s) for s in range(1000)]
    edges = [0, 3, 4, 5, 6, 7, 8, 9, 10, 1000]  # mean 6
    found, _ = np.histogram(counts, bins=edges)
    cells = [
        sum(poisson(k, 6) for k in range(a, min(b, 60)))
        for a, b in itertools.pairwise(edges)
    ]
    expected = 1000 * np.array(cells)
    assert np.sum((found - expected) ** 2 / expected) < 31.8  # 8 degrees of freedom
    # Failures of the whole come at exponential times: Kolmogorov-Smirnov at 1e-4.
    time_s = r.failure_times(16384, 1e4, 3000.0).time_s
    gaps = np.sort(np.diff(time_s)) * 16384 / 1e4
    steps = np.arange(1, len(gaps) + 1) / len(gaps)
    assert np.max(np.abs(-np.expm1(-gaps) - steps)) < 2.23 / math.sqrt(len(gaps))


@pytest.mark.parametrize("shape", [0.7, 1.0, 3.0])
def test_lifetimes_are_weibull(shape):
    """First failures of 5,000 parts against 1 - exp(-(t/scale)^shape)."""
    time_s, part = r.failure_times(5000, 100.0, 2000.0, shape=shape)
    assert np.all(np.diff(time_s) >= 0) and time_s[-1] < 2000
    _, first = np.unique(part, return_index=True)
    lives = np.sort(time_s[first])
    assert len(lives) == 5000
    assert standard_errors(lives, 100) < 4
    scale = 100 / math.gamma(1 + 1 / shape)
    steps = np.arange(1, 5001) / 5000
    found = -np.expm1(-((lives / scale) ** shape))
    assert np.max(np.abs(found - steps)) < 2.23 / math.sqrt(5000)
    # Replaced parts fail again, at the same rate in the long run.
    assert len(time_s) / 5000 == pytest.approx(20, rel=0.05)


def test_wear_and_early_failures_show_in_the_first_days():
    """A tenth of a life: worn parts hardly fail, weak ones do."""
    early, even, worn = (
        len(r.failure_times(10_000, 100.0, 10.0, shape=k).time_s) for k in (0.5, 1, 3)
    )
    assert early > 2 * even > 20 * worn


def walk(failure_s, duration_s, tau, delta, restart_s, down_s, write_s):
    """One job, event by event: a slow and separate account."""
    spent = dict.fromkeys(("useful", "checkpoint", "lost", "restart", "down"), 0.0)
    now, failures, first = 0.0, 0, True
    queue = list(failure_s)
    while now < duration_s:
        while queue and queue[0] < now:
            queue.pop(0)  # it came while the job was down
        stop = min(queue[0] if queue else math.inf, duration_s)
        if not first:
            took = min(restart_s, stop - now)
            spent["restart"] += took
            now += took
        first = False
        unsaved = []  # [safe from, seconds] of intervals computed since the start
        while now < stop:
            took = min(tau, stop - now)
            now += took
            unsaved.append([math.inf, took])
            if took == tau:
                pause = min(delta, stop - now)
                spent["checkpoint"] += pause
                now += pause
                if pause == delta:
                    unsaved[-1][0] = now + write_s
        if stop == duration_s:
            spent["useful"] += sum(seconds for _, seconds in unsaved)
            break
        failures += 1
        queue.pop(0)
        for safe_from, seconds in unsaved:
            spent["useful" if safe_from <= stop else "lost"] += seconds
        took = min(down_s, duration_s - stop)
        spent["down"] += took
        now = stop + took
    return spent, failures


@patient
@given(data=st.data())
def test_replay_is_the_slow_account(data):
    """Whole seconds, so that both add up exactly."""
    whole = st.integers(0, 40).map(float)
    failure_s = sorted(data.draw(st.lists(st.integers(0, 400).map(float), max_size=15)))
    duration_s = data.draw(st.integers(1, 400).map(float))
    tau = data.draw(st.integers(1, 40).map(float))
    delta, restart_s, down_s, write_s = (data.draw(whole) for _ in range(4))
    args = (duration_s, tau, delta, restart_s, down_s, write_s)
    # At exactly the same moment, is a failure before or after? Not asked here.
    failure_s = [time + 0.5 for time in failure_s]
    ledger = r.replay(failure_s, *args)
    spent, failures = walk(failure_s, *args)
    for name, seconds in spent.items():
        assert getattr(ledger, f"{name}_s").tolist() == [seconds], name
    assert ledger.failures.tolist() == [failures]
    assert ledger.total_s.tolist() == [duration_s]


def test_replay_by_hand():
    """10 s intervals, 2 s pauses, safe 3 s later; failures at 14 s, 20 s and 62.5 s.

    At 14 s the state of 12 s is not safe yet: all 12 s of computing are lost. The
    failure at 20 s finds the job down (to 22 s); a restart takes 4 s, to 26 s. Pauses
    end at 38, 50 and 62 s, the first two safe by 62.5 s; 10 s are lost. Down to 70.5,
    restart to 74.5, and 5.5 s more to the end at 80 s.
    """
    ledger = r.replay([14, 20, 62.5], 80, 10, 2, restart_s=4, down_s=8, write_s=3)
    assert ledger.useful_s == [20 + 5.5]
    assert ledger.lost_s == [10 + 2 + 10 + 0.5]
    assert ledger.checkpoint_s == [2 + 6]
    assert ledger.restart_s == [8] and ledger.down_s == [16]
    assert ledger.failures == [2] and ledger.total_s == [80]


JOBS = [  # interval, pause, MTBF, restart, down, write
    (800, 30, 11_124, 300, 600, 0),
    (400, 5, 2_000, 120, 0, 90),
    (50, 10, 100, 30, 20, 15),
    (1000, 100, 700, 400, 100, 0),  # most intervals fail
]


@pytest.mark.parametrize("job", JOBS)
def test_goodput_simulated(job):
    """4,000 jobs of 300 MTBFs; what is unsaved at the end is at most an interval."""
    duration_s = 300.0 * job[2]
    ledger = r.simulate(duration_s, *job, replicas=4000)
    bias = job[0] / duration_s
    spread = np.std(ledger.goodput) / math.sqrt(4000)
    assert abs(np.mean(ledger.goodput) - r.goodput(*job)) < 4 * spread + bias
    np.testing.assert_allclose(ledger.total_s, duration_s, rtol=1e-12)
    # The mistakes are farther off than that: no failures while restarting, young's
    # first order, the interval without its checkpoint.
    tau, delta, mtbf, restart, down, write = job
    saved = math.exp(-write / mtbf) / math.expm1((tau + delta) / mtbf)
    unhit = tau * saved / (mtbf + down + restart)
    if restart / mtbf > 0.05:
        assert abs(np.mean(ledger.goodput) - unhit) > 4 * spread + bias


@pytest.mark.parametrize("job", JOBS)
def test_the_parts_of_the_ledger(job):
    """Failures, restarts and stops per cycle, against their means."""
    mtbf, restart, down = job[2:5]
    ledger = r.simulate(300.0 * mtbf, *job, replicas=4000, seed=7)
    cycles = 300.0 * mtbf / (mtbf + down)
    margin = 1 + abs(1 - cycles / 300)  # of a cycle, cut at the end
    assert abs(np.mean(ledger.failures) - cycles) < margin + 4 * math.sqrt(
        cycles / 4000
    )
    for found, per_cycle in (
        (ledger.restart_s, mtbf * -math.expm1(-restart / mtbf)),
        (ledger.down_s, down),
    ):
        spread = np.std(found) / math.sqrt(4000)
        assert abs(np.mean(found) - cycles * per_cycle) <= 4 * spread + 2 * per_cycle


def test_fast_and_slow_agree_in_distribution():
    """The same job twice: cycles drawn at once, and parts' clocks replayed."""
    job = dict(interval_s=40, checkpoint_s=4, restart_s=10, down_s=0, write_s=6)
    at_once = r.simulate(2000.0, mtbf_s=100.0, replicas=600, **job).goodput
    replayed = np.concatenate(
        [
            r.replay(
                r.failure_times(50, 5000.0, 2000.0, seed=s).time_s, 2000.0, **job
            ).goodput
            for s in range(600)
        ]
    )
    together = np.sort(np.concatenate([at_once, replayed]))
    steps = [
        np.searchsorted(np.sort(x), together, "right") / 600
        for x in (at_once, replayed)
    ]
    # Kolmogorov-Smirnov for two samples, at 1e-4.
    assert np.max(np.abs(steps[0] - steps[1])) < 2.23 * math.sqrt(2 / 600)


def test_the_optimum_is_where_the_simulation_has_it():
    """Common random numbers: the best interval beats half and double."""
    best = r.best_interval_s(10, 1000)
    means = [
        np.mean(r.simulate(1e6, best * f, 10, 1000, 50, replicas=50, seed=3).goodput)
        for f in (0.5, 1, 2)
    ]
    assert means[1] > means[0] and means[1] > means[2]


def test_simulations_repeat_by_seed():
    first, again, other = (
        r.simulate(1e5, 100, 5, 1000, replicas=3, seed=s).useful_s for s in (1, 1, 2)
    )
    assert first.tolist() == again.tolist() != other.tolist()


def test_confidence_of_these_tests():
    """4 standard errors: false alarms of less than 1 in 10,000 for each."""
    assert 2 * (1 - NormalDist().cdf(4)) < 1e-4


# ------------------------------------------------------------- arrays, bad input


def test_arrays_give_what_scalars_give():
    m, d = np.array([1e3, 1e4, 1e6]), np.array([5.0, 30.0, 1.0])
    for function in (
        r.young_interval_s,
        r.daly_interval_s,
        r.best_interval_s,
        r.young_waste,
    ):
        each = [function(float(a), float(b)) for a, b in zip(d, m, strict=True)]
        np.testing.assert_allclose(function(d, m), each, rtol=1e-14)
        assert isinstance(function(5, 1000), float)
        assert function(Fraction(5), 1000) == function(5, 1000)
    for function in (r.goodput, r.ettr):
        each = [function(100.0, float(a), float(b)) for a, b in zip(d, m, strict=True)]
        np.testing.assert_allclose(function(100.0, d, m), each, rtol=1e-14)
    gpus = np.array([1024, 16384, 131072])
    assert r.system_mtbf_s(1e8, gpus).tolist() == [
        r.system_mtbf_s(1e8, int(n)) for n in gpus
    ]
    swept = r.survival(DAY, r.system_mtbf_s(1e8, gpus))
    np.testing.assert_allclose(swept, np.exp(-DAY * gpus / 1e8))


BAD = {
    "negative": -1,
    "not a number": math.nan,
    "infinite": math.inf,
    "a word": "3 h",
    "a truth": True,
    "absurd": 10**40,
}
CALLS = {
    "mtbf_s": dict(duration_s=10, failures=2),
    "mtbf_bounds_s": dict(duration_s=10, failures=2),
    "system_mtbf_s": dict(part_mtbf_s=10, parts=2),
    "part_mtbf_s": dict(job_mtbf_s=10, parts=2),
    "failures_per_1000_node_days": dict(duration_s=10, failures=2, nodes=3),
    "node_mtbf_s": dict(per_1000_node_days=6.5),
    "survival": dict(duration_s=10, mtbf_s=5),
    "checkpoint_write_s": dict(
        n_bytes=10, storage_bytes_per_s=5, writers=3, writer_bytes_per_s=2
    ),
    "young_interval_s": dict(checkpoint_s=10, mtbf_s=50),
    "young_waste": dict(checkpoint_s=10, mtbf_s=50),
    "daly_interval_s": dict(checkpoint_s=10, mtbf_s=50),
    "best_interval_s": dict(checkpoint_s=10, mtbf_s=50),
    "goodput": dict(
        interval_s=9, checkpoint_s=1, mtbf_s=50, restart_s=2, down_s=3, write_s=1
    ),
    "expected_s": dict(work_s=100, interval_s=9, checkpoint_s=1, mtbf_s=50),
    "ettr": dict(interval_s=9, checkpoint_s=1, mtbf_s=50, restart_s=2),
    "unavailability": dict(part_mtbf_s=10, repair_s=2),
    "poisson_spares": dict(expected_failures=3, probability=0.9),
    "binomial_spares": dict(parts=3, unavailability=0.1, probability=0.9),
    "failure_times": dict(parts=3, part_mtbf_s=10, duration_s=20, shape=1, seed=0),
    "simulate": dict(
        duration_s=20, interval_s=9, checkpoint_s=1, mtbf_s=50, replicas=3, seed=0
    ),
    "replay": dict(failure_s=[3.0], duration_s=20, interval_s=9, checkpoint_s=1),
}


def test_every_function_is_tried_on_bad_input():
    functions = {name for name in r.__all__ if inspect.isfunction(getattr(r, name))}
    assert functions == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("fault", BAD)
def test_bad_input(name, fault):
    good = CALLS[name]
    getattr(r, name)(**good)
    for argument in good:
        if argument == "failure_s":
            continue
        with pytest.raises(ValueError, match=rf"^{argument} must be "):
            getattr(r, name)(**{**good, argument: BAD[fault]})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: r.mtbf_s(10, 0), "failures must be a whole number, 1 or more, got 0"),
        (lambda: r.mtbf_bounds_s(10, 2, 1), "confidence must be below 1"),
        (lambda: r.system_mtbf_s([10], [1, 2]), "sequences of equal length"),
        (lambda: r.system_mtbf_s([], []), "must not be empty"),
        (lambda: r.goodput(0, 1, 10), "interval_s must be a finite number greater"),
        (lambda: r.young_interval_s(0, 10), "checkpoint_s must be a finite number g"),
        (lambda: r.checkpoint_write_s(8, 1, 4), "writers and writer_bytes_per_s tog"),
        (lambda: r.poisson_spares(3, 1), "probability must be below"),
        (lambda: r.binomial_spares(8, 0.6), "and at most 0.5, got 0.6"),
        (lambda: r.simulate(1e9, 9, 1, 1.0), "ask for about 1.0e.12 events"),
        (lambda: r.failure_times(10**6, 1.0, 1e3), "ask for about 1.0e.09 events"),
        (lambda: r.failure_times(3, 10, 20, shape=0.1), "shape must be .*0.3 or more"),
        (lambda: r.replay([3, 2], 20, 9, 1), "failure_s must be one list of times"),
        (lambda: r.replay([[3]], 20, 9, 1), "failure_s must be one list of times"),
        (lambda: r.replay([math.nan], 20, 9, 1), "failure_s must be .*everywhere"),
        (lambda: r.goodput(np.array([1, -1]), 1, 9), "interval_s must be .*got -1"),
    ],
)
def test_bad_input_by_hand(call, words):
    with pytest.raises(ValueError, match=words):
        call()
