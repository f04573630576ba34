"""The Planner page computes what Python computes: plan.js against plan.train.

The script runs in Node where there is one, else in Chromium. Configurations are drawn
with a fixed seed: some fit, some do not, some are refused.
"""

import json
import math
import random
import re
import shutil
import subprocess
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from aiinfra import plan
from aiinfra.tools import planner_page

ROOT = Path(__file__).parents[1]
SCRIPT = (ROOT / "book/static/planner/plan.js").read_text(encoding="utf-8")
DATA = json.loads((ROOT / planner_page.DATA).read_text(encoding="utf-8"))
DRAWN = 1500
CLOSE = 1e-9  # relative: both add up the same float64 numbers, in another order
SAME = {field.name for field in fields(plan.TrainingPlan)} - {"candidates", "losers"}
# Refused by both in other words: Python reads the number out of a text, and checks
# arrays.
OWN_WORDS = ("cluster '", "micro_batches must be")
RUN = """
import { readFileSync } from "node:fs";
import { train } from "./plan.js";
const [data, runs] = JSON.parse(readFileSync("asked.json", "utf8"));
const answer = (run) => {
  try { return { plan: train(data, run) }; }
  catch (error) {
    if (error.constructor.name !== "Refused") throw error;
    return { refused: error.message, field: error.field };
  }
};
process.stdout.write(JSON.stringify(runs.map(answer)));
"""
IN_PAGE = """async ([source, data, runs]) => {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const { train } = await import(url);
  return runs.map((run) => {
    try { return JSON.parse(JSON.stringify({ plan: train(data, run) })); }
    catch (error) {
      if (error.constructor.name !== "Refused") throw error;
      return { refused: error.message, field: error.field };
    }
  });
}"""


def drawn() -> list[dict]:
    """Runs over models, accelerators and layouts; about half of them divide."""
    chance = random.Random(20)

    def power(most: int) -> int:
        return 2 ** chance.randint(0, most)

    runs = []
    for _ in range(DRAWN):
        name = chance.choice(list(DATA["models"]))
        shape = DATA["models"][name]
        tp, pp, cp = power(3), power(3), chance.choice([1, 1, 1, power(3)])
        if chance.random() < 0.15:
            tp, pp = chance.randint(1, 12), chance.randint(1, 24)
        micro, dp = power(2), power(7)
        schedule = chance.choice(DATA["schedules"])
        layout = {
            "tp": tp,
            "pp": pp,
            "cp": cp,
            "ep": power(4) if shape["experts"] and chance.random() < 0.8 else 1,
            "zero": chance.randint(0, 3),
            "micro_batch": micro,
            "schedule": schedule,
            "virtual_stages": chance.randint(2, 4) if schedule == "interleaved" else 1,
            "recompute": chance.choice(DATA["recompute"]),
            "sequence_parallel": chance.random() < 0.5,
        }
        run = {
            "model": name,
            "accelerator": chance.choice(list(DATA["accelerators"])),
            "accelerators": tp * pp * cp * dp,
            "global_batch": micro * dp * pp * chance.choice([1, 2, 4, 16]),
            "sequence": 256 * power(9),
            "tokens": 10 ** chance.uniform(9, 13.5),
            "precision": chance.choice(["bf16", "bf16", "fp8"]),
            "layout": layout,
        }
        if chance.random() < 0.3:
            run["price_per_hour"] = chance.uniform(0, 12)
        for left_out in ("global_batch", "sequence", "tokens", "precision"):
            if chance.random() < 0.15:
                del run[left_out]
        if chance.random() < 0.12:
            key = chance.choice(list(layout))
            layout[key] = planner_page.layout()[key]  # often it no longer divides
        if chance.random() < 0.1:
            run["accelerators"] += chance.randint(1, 3)
        runs.append(run)
    return runs


def halves() -> list[dict]:
    """Runs whose batch follows from a number half way between two whole ones."""
    run = {"model": "Llama 3 8B", "accelerator": "H100 SXM", "accelerators": 2}
    per_step = DATA["defaults"]["batch_tokens"]
    return [{**run, "sequence": per_step // odd, "layout": {}} for odd in (3, 5)]


def spoiled() -> list[dict]:
    """Runs that Python refuses for many reasons, most at the edge of a range."""
    good = {**planner_page.EXAMPLE, "tokens": 1e12}

    def one(**changed) -> dict:
        run = {**good, **changed}
        run["layout"] = {**good["layout"], **changed.get("layout", {})}
        return run

    limits = DATA["limits"]
    degrees = ("tp", "pp", "cp", "ep", "micro_batch", "virtual_stages")
    layouts = [{key: bad} for key in degrees for bad in (0, -1, "many", 2.5)]
    layouts += [{key: limits["degree"] + 1} for key in ("ep", "micro_batch")]
    layouts += [
        {"zero": -1},
        {"zero": 4},
        {"zero": "1"},
        {"recompute": "some"},
        {"recompute": ""},
        {"schedule": "zb-v"},
        {"sequence_parallel": "yes"},
        {"sequence_parallel": 1},
        {"tp": 3},
        {"tp": 128, "pp": 1},
        {"tp": 64, "pp": 1},
        {"pp": 128, "tp": 1},
        {"cp": 3},
        {"ep": 2},
        {"virtual_stages": 2},
        {"schedule": "interleaved"},
        {"schedule": "interleaved", "virtual_stages": 32},
        {"schedule": "dualpipe", "pp": 1},
        {"micro_batch": 3},
    ]
    dual = {"schedule": "dualpipe", "pp": 4}
    woven = {"schedule": "interleaved", "virtual_stages": 2}
    wide = "DeepSeek-V3"
    return [
        *(one(layout=changed) for changed in layouts),
        one(layout=dual, global_batch=16 * 7),
        one(layout=dual, global_batch=16 * 9),
        one(layout=woven, global_batch=16 * 6),
        *(one(model=wide, layout={"ep": ep}) for ep in (3, 32, 512)),
        one(model=wide, layout={"tp": 7, "pp": 1}, accelerators=7 * 16),
        *(one(accelerators=bad) for bad in (0, -8, limits["accelerators"] + 1)),
        *(one(global_batch=bad) for bad in (0, -1, 2.5, "8", 16 * 10**7, 1000)),
        *(one(sequence=bad) for bad in (0, -1, 0.5, "long", 10**8 + 8)),
        *(one(tokens=bad) for bad in (0, -1, "all", 1e31)),
        *(one(price_per_hour=bad) for bad in (-0.5, "free", 1e31)),
        one(precision="fp4"),
        one(precision="fp8", accelerator="A100 SXM 80GB"),
        one(accelerators=32, global_batch=2 * 10**6),
        one(accelerators=1000),
    ]


def in_python(run: dict) -> dict:
    """What plan.train says to a run that the script was given."""
    given = dict(run)
    name, count = given.pop("accelerator"), given.pop("accelerators")
    try:
        machine = plan.cluster(
            f"{name} x{count}", price_per_hour=given.pop("price_per_hour", None)
        )
        return {"plan": plan.train(given.pop("model"), machine, **given).to_dict()}
    except ValueError as error:
        return {"refused": str(error)}


@cache
def asked() -> tuple[list[dict], list[dict]]:
    """Every run, and Python's answer."""
    runs = drawn() + halves() + spoiled()
    return runs, [in_python(run) for run in runs]


@pytest.fixture(scope="session")
def answers(request, tmp_path_factory):
    """answers(source, runs): what a script that says ``source`` answers."""

    def ask(source: str, runs: list[dict]) -> list[dict]:
        if node := shutil.which("node"):
            folder = tmp_path_factory.mktemp("planner")
            (folder / "package.json").write_text('{"type": "module"}')
            (folder / "plan.js").write_text(source, encoding="utf-8")
            (folder / "run.js").write_text(RUN, encoding="utf-8")
            (folder / "asked.json").write_text(json.dumps([DATA, runs]), "utf-8")
            done = subprocess.run(
                [node, "run.js"], cwd=folder, capture_output=True, text=True, check=True
            )
            return json.loads(done.stdout)
        return in_chromium(request.getfixturevalue("chromium"), source, runs)

    return ask


def in_chromium(chromium, source: str, runs: list[dict]) -> list[dict]:
    page = chromium.new_page()
    try:
        return page.evaluate(IN_PAGE, [source, DATA, runs])
    finally:
        page.close()


def differences(got: dict, wanted: dict) -> list[str]:
    """Where two answers to one run differ: nothing, refusals, or figures by name."""
    if ("refused" in got) != ("refused" in wanted):
        return [f"refused by one only: {got} {wanted}"[:300]]
    if "refused" in wanted:
        same = got["refused"] == wanted["refused"]
        same = same or wanted["refused"].startswith(OWN_WORDS)
        return [] if same else [f"{got['refused']!r} for {wanted['refused']!r}"]
    apart = []

    def compare(name: str, one, other) -> None:
        if isinstance(other, dict):
            assert set(other) <= set(one), (name, set(other) - set(one))
            for key in other:
                compare(f"{name}.{key}", one[key], other[key])
        elif isinstance(other, float) and one is not None:
            if not math.isclose(one, other, rel_tol=CLOSE):
                apart.append(f"{name} {one!r} for {other!r}")
        elif one != other:
            apart.append(f"{name} {one!r} for {other!r}")

    for name in SAME:
        compare(name, got["plan"][name], wanted["plan"][name])
    return apart


def all_differences(got: list[dict]) -> list[str]:
    runs, wanted = asked()
    found = []
    for run, one, other in zip(runs, got, wanted, strict=True):
        found += [f"{difference} in {run}" for difference in differences(one, other)]
    return found


def test_the_data_is_up_to_date():
    kept = (ROOT / planner_page.DATA).read_text(encoding="utf-8")
    assert planner_page.files()[planner_page.DATA] == kept


def test_the_drawn_runs_are_of_every_kind():
    runs, answers = asked()
    plans = [(r, a["plan"]) for r, a in zip(runs, answers, strict=True) if "plan" in a]
    assert len(plans) >= 500
    assert len(runs) - len(plans) >= 150
    fitting = sum(found["fits"] for _, found in plans)
    assert min(fitting, len(plans) - fitting) >= 100
    assert {run["model"] for run, _ in plans} == set(DATA["models"])
    assert {run["accelerator"] for run, _ in plans} == set(DATA["accelerators"])
    for name, values in {
        "schedule": DATA["schedules"],
        "recompute": DATA["recompute"],
        "zero": range(4),
        "sequence_parallel": (True, False),
    }.items():
        for value in values:
            alike = [run for run, found in plans if found["layout"][name] == value]
            assert len(alike) >= 15, (name, value)
    causes = {key for _, p in plans for key, value in p["breakdown"].items() if value}
    assert causes == set(plans[0][1]["breakdown"])
    refusals = {re.sub(r"[\d.]+", "#", a["refused"]) for a in answers if "refused" in a}
    assert len(refusals) >= 30


def test_the_script_computes_what_python_computes(answers):
    found = all_differences(answers(SCRIPT, asked()[0]))
    assert not found, f"{len(found)} differences; the first: {found[:5]}"


def test_a_browser_computes_the_same(chromium):
    runs, _ = asked()
    found = all_differences(in_chromium(chromium, SCRIPT, runs))
    assert not found, f"{len(found)} differences; the first: {found[:5]}"


# A slip in each part of the script, and what is off then.
SLIPS = {
    "3 * products * all": ("2 * products * all", "breakdown.products_s"),
    "3.5 * attention": ("3 * attention", "breakdown.attention_s"),
    "4 * (tp - 1)": ("2 * (tp - 1)", "breakdown.tensor_s"),
    "(full ? 4 : 3)": ("(full ? 3 : 3)", "breakdown.context_s"),
    "(cp - 1) * tokens": ("cp * tokens", "breakdown.context_s"),
    "(ep - 1)) / ep": ("ep) / ep", "breakdown.expert_s"),
    "zero >= 2 ? often": ("zero >= 3 ? often", "breakdown.data_s"),
    "fill + (p - 1) * third": ("fill", "breakdown.bubble_s"),
    "(p / 2 - 1) * 2": ("(p / 2 - 1) * 3", "breakdown.bubble_s"),
    "zero >= 1 ? dp : 1": ("zero >= 1 ? shards : 1", "breakdown.optimizer_s"),
    "(zero < 2 ? parameters": ("(zero < 3 ? parameters", "memory.gradients"),
    "selective: total - core,": ("selective: total,", "memory.activations"),
    "interleaved: Math.min(warmUp + 1,": (
        "interleaved: Math.min(warmUp,",
        "memory.activations",
    ),
    "(dual ? 2 : 1)": ("1", "memory.activations"),
    "(x.dp * x.cp) / x.ep": ("x.dp * x.cp", "memory.optimizer"),
    "Math.floor(short / 2)": ("0", "memory.weights"),
    "zero < 2 ? 0 : zero - 1": ("zero < 2 ? 0 : 1", "memory.buffers"),
    "if (last && !(model.tied && first))": ("if (last)", "memory.weights"),
    "assumed.restart_s / mtbf": ("0 / mtbf", "goodput"),
    "1 - assumed.margin": ("1", "fits"),
    "count * wall * assumed.pue": ("count * wall", "energy_j"),
    "price * count * wall": ("price * count * training", "cost_usd"),
    "x.recompute) * perSecond": ('"none") * perSecond', "hfu"),
    "return low % 2 ? low + 1 : low": ("return low", "global_batch"),
    "tp % model.kv_heads === 0": ("false", "refused by one only"),
    "rounds >= 2 * pp": ("rounds >= pp", "refused by one only"),
    "(dp * cp) % ep === 0": ("dp % ep === 0", "refused by one only"),
    "`a divisor of the sequence": ("`to divide the sequence", "for 'cp must be"),
}


@pytest.mark.parametrize("text", SLIPS)
def test_a_slip_in_the_script_is_found(answers, text):
    other, wrong = SLIPS[text]
    assert SCRIPT.count(text) == 1, f"{SCRIPT.count(text)} times in the script: {text}"
    found = all_differences(answers(SCRIPT.replace(text, other), asked()[0]))
    assert any(wrong in one for one in found), found[:3]
