"""The planner: its properties, its errors, its command, and published runs."""

import json
import math
import re
import shlex

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiinfra import arch, plan
from aiinfra.plan import published, search
from aiinfra.plan.step import Efficiency, times
from aiinfra.tools.cli import main
from aiinfra.tools.root import find_root

EIGHT = "H100 SXM x64"
LAYOUT = {"tp": 2, "pp": 2, "zero": 1, "micro_batch": 1}

# ------------------------------------------------------------------ published runs


def test_leave_one_family_out_beats_the_best_constant():
    errors = [abs(verdict.ratio - 1) for verdict in published.verdicts()]
    constant = [abs(verdict.constant_ratio - 1) for verdict in published.verdicts()]
    assert np.median(errors) < 0.10
    assert np.median(errors) < 0.6 * np.median(constant)


def test_differences_that_a_constant_cannot_see():
    pairs = published.pairs()
    assert len(pairs) >= 30
    assert np.mean([pair.right_order for pair in pairs]) >= 0.9
    errors = [abs(pair.predicted / pair.published - 1) for pair in pairs]
    assert np.median(errors) <= 0.15


@pytest.mark.parametrize(
    ("about", "change"),
    [
        ("recomputation is free", {"recompute": 0.0}),
        ("sequence parallelism changes nothing", {"sequence_parallel": 0.0}),
        ("one long micro-batch", {"micro_batch": 4.0}),
        ("everything in one stage of time", {"virtual_stages": 35.0}),
    ],
)
def test_a_run_read_in_the_wrong_layout_is_seen(about, change):
    run = next(r for r in published.runs() if r.name == "530B full")
    one = {key: np.array([value]) for key, value in change.items()}
    wrong = type(run.layouts)(**{**vars(run.layouts), **one})
    if about.startswith("sequence"):
        run = next(r for r in published.runs() if r.name == "530B selective")
        wrong = type(run.layouts)(**{**vars(run.layouts), **one})
    everything = published.fitted()[published.EVERYTHING]
    seconds = times(
        run.model, run.cluster, wrong, global_batch=run.batch, sequence=run.sequence,
        efficiency=everything, fused=run.fused,
    )["step_s"][0]  # fmt: skip
    right = run.predicted_s(everything)
    assert abs(seconds / right - 1) > 0.02


def test_published_figures_agree_with_one_another():
    # MT-NLG prints seconds and TFLOP/s of the same runs: 126, 121, 113.
    runs = [run for run in published.runs() if run.family == "MT-NLG"]
    for run, tflops in zip(runs, (126, 121, 113), strict=True):
        flop = published.step_flop(run.model, run.batch, run.sequence, "full_recompute")
        assert flop / run.seconds / run.cluster.count == pytest.approx(
            tflops * 1e12, rel=0.01
        )


def test_tr_mfu_175b():
    # 64 sequences in 13.75 s on 64 A100: MFU 51.4 %. Korthikanti et al. 2022, table 5.
    run = next(r for r in published.runs() if r.name == "175B selective")
    assert run.utilisation == pytest.approx(0.514, rel=0.003)


def test_tr_hfu_22b():
    # Four sequences in 1.10 s on eight A100: HFU 43.7 %. The paper's formula counts
    # all of attention twice; only its forward is done again, which gives 42.4 %.
    run = next(r for r in published.runs() if r.name == "22B selective")
    done = run.model.flops_per_token(2048, causal=False)
    done += 3 * run.model.attention_flops_per_token(2048, causal=False)
    peak = run.cluster.count * run.cluster.flops_per_s("bf16")
    assert 4 * 2048 * done / peak / run.seconds == pytest.approx(0.437, rel=0.006)


def test_a_fit_repeats():
    family = "Korthikanti"
    again = published.fit(published.without(family))
    assert again == published.fitted()[family]


def test_there_are_at_most_six_efficiencies():
    assert len(vars(published.fitted()[published.EVERYTHING])) <= 6


# ---------------------------------------------------------------------- properties


def one(model="Llama 3 8B", cluster=EIGHT, **keys):
    keys = {"layout": LAYOUT, "global_batch": 64, **keys}
    return plan.train(model, cluster, **keys)


def test_the_breakdown_adds_up_to_the_step():
    result = one()
    assert sum(result.breakdown.values()) == pytest.approx(result.step_time_s)
    kinds = [value for key, value in result.memory.items() if key != "total"]
    assert sum(kinds) == pytest.approx(result.memory_bytes)


@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(
    tp=st.sampled_from([1, 2, 4, 8]),
    pp=st.sampled_from([1, 2, 4]),
    zero=st.integers(0, 3),
    recompute=st.sampled_from(arch.RECOMPUTE),
    micro_batch=st.sampled_from([1, 2]),
)
def test_no_plan_is_better_than_the_machine(tp, pp, zero, recompute, micro_batch):
    layout = {
        "tp": tp, "pp": pp, "zero": zero, "recompute": recompute,
        "micro_batch": micro_batch, "sequence_parallel": tp > 1,
    }  # fmt: skip
    result = one(layout=layout, global_batch=128)
    assert 0 < result.mfu <= result.hfu <= 1
    assert 0 <= result.breakdown["bubble_s"] < result.step_time_s
    assert all(value >= 0 for value in result.breakdown.values())


@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(more=st.floats(1, 4))
def test_more_memory_never_makes_a_plan_not_fit(more):
    machine = plan.cluster(EIGHT)
    larger = type(machine)(
        **{**vars(machine), "memory_bytes": machine.memory_bytes * more}
    )
    assert one(cluster=machine).fits
    assert one(cluster=larger).fits


def test_money_and_energy_scale_with_the_tokens():
    small, large = one(tokens=1e12), one(tokens=3e12)
    assert large.cost_usd == pytest.approx(3 * small.cost_usd)
    assert large.energy_j == pytest.approx(3 * small.energy_j)
    assert large.days == pytest.approx(3 * small.days)
    dear = one(cluster=plan.cluster(EIGHT, price_per_hour=20.0), tokens=1e12)
    cheap = one(cluster=plan.cluster(EIGHT, price_per_hour=2.0), tokens=1e12)
    assert dear.cost_usd == pytest.approx(10 * cheap.cost_usd)


def test_persistent_bytes_never_rise_with_the_stage_of_zero():
    held = [one(layout={**LAYOUT, "zero": zero}).memory for zero in range(4)]
    lasting = [sum(h[k] for k in ("weights", "gradients", "optimizer")) for h in held]
    assert lasting == sorted(lasting, reverse=True) and lasting[3] < lasting[0] / 4


def test_the_search_finds_what_a_brute_force_over_single_layouts_finds():
    best = plan.train("Llama 3 8B", "H100 SXM x8", global_batch=16)
    machine = plan.cluster("H100 SXM x8")
    model = arch.named("Llama 3 8B")
    layouts = search.candidates(model, machine, global_batch=16, sequence=8192)
    good = np.flatnonzero(plan.as_layout(layouts).allowed(model, 16, 8192))
    fastest = math.inf
    for index in np.random.default_rng(0).permutation(good)[:150]:
        layout = plan.described(layouts, index)
        single = plan.train("Llama 3 8B", machine, global_batch=16, layout=layout)
        if single.fits:
            fastest = min(fastest, single.step_time_s)
    assert best.step_time_s <= fastest * (1 + 1e-9)
    again = plan.train("Llama 3 8B", machine, global_batch=16, layout=best.layout)
    assert again.step_time_s == pytest.approx(best.step_time_s)
    assert best.losers and all(loser["why"] for loser in best.losers)


def test_a_large_space_is_searched():
    result = plan.train("Llama 3 405B", "H100 SXM x16384", global_batch=8192)
    assert result.candidates >= 10_000


def test_llama_3_405b_needs_its_splits():
    result = plan.train("Llama 3 405B", "H100 SXM x16384", global_batch=2048)
    assert result.layout["tp"] == 8 and result.layout["pp"] > 1
    losers = {loser["what"]: loser["why"] for loser in result.losers}
    assert "with full recomputation" in losers


def test_a_larger_batch_serves_more_and_slower():
    service = plan.serve("Llama 3 70B", "H100 SXM x8", prompt=1000, answer=200)
    speeds = [point["tokens_per_s"] for point in service.frontier]
    assert speeds == sorted(speeds)
    waits = [point["tpot_s"] for point in service.frontier]
    assert waits == sorted(waits)
    money = [point["usd_per_million"] for point in service.frontier]
    assert money == sorted(money, reverse=True)


def test_smaller_weights_need_fewer_accelerators():
    wide = plan.serve("Llama 3 70B", "H100 SXM x8")
    narrow = plan.serve("Llama 3 70B", "H100 SXM x8", weights="int4")
    assert narrow.tp < wide.tp and narrow.weight_bytes < wide.weight_bytes / 3


def test_few_experts_are_read_by_a_small_batch():
    model = arch.named("Mixtral 8x7B")
    read = plan.read_parameters(model, np.array([1.0, 64.0]))
    assert read[0] == pytest.approx(model.active_parameters, rel=0.02)
    assert read[1] == pytest.approx(model.parameters, rel=0.02)


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("H100 SXM x64", 8),
        ("DGX H100 x16", 8),
        ("DGX SuperPOD H100 x1", 8),  # nodes of eight on InfiniBand
        ("Llama 3 cluster x1", 8),  # servers of eight on Ethernet
        ("GB200 x144", 72),  # superchips come in racks that one NVLink spans
        ("GB200 NVL72 x2", 72),
        ("CloudMatrix384 x1", 384),
        ("TPU v5p x100", 100),
        ("RTX 4090 x4", 1),
    ],
)
def test_a_fast_link_ends_where_it_does(text, domain):
    assert plan.cluster(text).domain == domain


# ----------------------------------------------------------------------- bad input


def unsized(**layout):
    return plan.train("Llama 3 8B", EIGHT, layout=layout)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plan.train("Llama 4 9B", EIGHT), "did you mean"),
        (lambda: plan.train("Llama 3 8B", "H100"), "expected a name and a number"),
        (lambda: plan.train("Llama 3 8B", "H100 SMX x8"), "did you mean 'H100 SXM'"),
        (lambda: plan.train("Llama 3 8B", "H100 SXM x0"), "accelerators must be"),
        (lambda: one(tokens=-1), "tokens must be"),
        (lambda: one(tokens=float("nan")), "tokens must be"),
        (lambda: one(sequence=0), "sequence must be"),
        (lambda: one(global_batch=2.5), "global_batch must be"),
        (lambda: one(layout={"tp": 3}), "tp"),
        (lambda: one(layout={"tp": 2, "dp": 5}), "dp"),
        (lambda: one(layout={"recompute": "some"}), "recompute must be one of"),
        (lambda: one(layout={"pp": 64}), "pp"),
        # Without a batch, which these degrees would decide.
        (lambda: unsized(tp=0), "tp must be a whole number, 1 or more, got 0"),
        (lambda: unsized(pp=2.5), "pp must be a whole number"),
        (lambda: unsized(micro_batch=0), "micro_batch must be a whole number"),
        (lambda: unsized(dp=-8), "dp must be a whole number"),
        (lambda: plan.train("Llama 3 405B", "H100 SXM x8"), "does not fit"),
        (lambda: plan.serve("Llama 3 405B", "H100 SXM x8"), "needs"),
        (lambda: plan.serve("Llama 3 8B", EIGHT, prompt=0), "prompt must be"),
        (lambda: plan.serve("Llama 3 8B", EIGHT, weights="fp7"), "weights must be"),
        (
            lambda: one(cluster=plan.cluster("A100 SXM 80GB x64"), precision="fp8"),
            "fp8",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises((ValueError, LookupError), match=message):
        call()


# --------------------------------------------------------------------- the command

TRAIN = ["plan", "train", "--model", "llama-3-8b", "--cluster", EIGHT]


def test_the_command_prints_json(capsys):
    assert main([*TRAIN, "--tokens", "15.6T", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    keys = (
        "mfu hfu step_time_s tokens_per_s days memory_bytes layout candidates breakdown"
    )
    assert set(keys.split()) <= set(result)
    assert result["tokens"] == 15.6e12 and isinstance(result["layout"]["tp"], int)


def test_the_command_explains_itself(capsys):
    assert main([*TRAIN, "--layout", "tp=2,zero=1", "--batch", "64"]) == 0
    text = capsys.readouterr().out
    assert "fits" in text and "matrix products" in text and "TP 2" in text
    assert main(["plan", "serve", "--model", "Llama 3 8B", "--cluster", EIGHT]) == 0
    assert "TPOT" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tokens", "many"], "expected a number such as"),
        (["--layout", "tp"], "expected NAME=VALUE"),
        (["--layout", "xp=3"], "with a NAME of dp, tp, pp"),
        (["--layout", "micro_batch=0"], "micro_batch must be a whole number"),
        (["--batch", "1.5"], "expected a whole number"),
        (["--network", "string"], "no link 'string'"),
    ],
)
def test_the_command_refuses_in_one_line(words, message, capsys):
    assert main([*TRAIN, *words]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_a_config_of_hugging_face_will_do(tmp_path, capsys):
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16,
        "num_hidden_layers": 24, "num_key_value_heads": 8, "vocab_size": 32000,
        "max_position_embeddings": 4096, "tie_word_embeddings": False,
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert main(["plan", "train", "--model", str(path), "--cluster", EIGHT]) == 0
    assert main(["plan", "train", "--model", "none.json", "--cluster", EIGHT]) == 2


def test_an_efficiency_of_one_is_the_bound():
    ideal = Efficiency(gemm=1, memory=1, network=1, attention=1, overlap=1)
    assert one(efficiency=ideal).step_time_s < one().step_time_s


def test_the_example_of_the_readme_is_what_the_command_prints(capsys):
    text = (find_root() / "README.md").read_text(encoding="utf-8")
    found = re.search(r"\$ \.venv/bin/aiinfra (plan [^\n]+)\n(.*?)```", text, re.DOTALL)
    assert main(shlex.split(found[1])) == 0
    assert capsys.readouterr().out == found[2]
