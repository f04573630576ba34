"""The planner's model of time against published training runs, misses included.

The efficiencies are fitted to all families but one, and the one left out is predicted;
beside it stands the best a constant can do: the median utilisation of the others. A
constant does well on single runs, because well-tuned runs resemble each other. It
predicts no difference between two layouts of one model; `PAIRS` asks for those.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from aiinfra import arch, pipeline
from aiinfra.plan.cluster import Cluster, cluster
from aiinfra.plan.step import Efficiency, Layouts, times

FILE = Path(__file__).with_name("published.yaml")
# Between these the efficiencies are sought: gemm, memory, network, attention, overlap.
LOWEST = np.array([0.4, 0.3, 0.3, 0.2, 0.0])
HIGHEST = np.array([0.95, 1.0, 1.0, 0.9, 0.95])
FITTED = Path(__file__).with_name("fitted.yaml")
EVERYTHING = "all families"
# Two layouts of one model each, or one layout on two clusters: which is faster for its
# accelerators, and by how much? Every pair within a family that runs the same model.


@dataclass(frozen=True)
class Run:
    """One published run: what ran, where, in which layout, and how fast it was."""

    name: str
    family: str
    source: str
    model: arch.Architecture
    cluster: Cluster
    layouts: Layouts
    batch: int
    sequence: int
    fused: bool
    precision: str
    seconds: float
    assumed: str

    def predicted_s(self, efficiency: Efficiency) -> float:
        """Seconds of a step as the model has it."""
        return float(
            times(
                self.model,
                self.cluster,
                self.layouts,
                global_batch=self.batch,
                sequence=self.sequence,
                efficiency=efficiency,
                fused=self.fused,
                precision=self.precision,
            )["step_s"][0]
        )

    @property
    def utilisation(self) -> float:
        """Published MFU: the model's FLOP, non-causal, over bf16 peak and time."""
        flop = step_flop(self.model, self.batch, self.sequence, "model")
        peak = self.cluster.flops_per_s("bf16") * self.cluster.count
        return flop / peak / self.seconds


def step_flop(
    model: arch.Architecture, batch: int, sequence: int, counts: str
) -> float:
    """FLOP of one step as a source counts them: model, causal or full_recompute."""
    return float(
        batch
        * sequence
        * model.flops_per_token(
            sequence,
            causal=counts == "causal",
            recompute="full" if counts == "full_recompute" else "none",
        )
    )


@cache
def runs() -> tuple[Run, ...]:
    """Every published run of published.yaml."""
    data = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return tuple(read(entry, data["sources"]) for entry in data["runs"])


def read(entry: dict[str, Any], sources: dict[str, str]) -> Run:
    """One entry of the file, its speed turned into seconds of a step."""
    model = arch.named(entry["model"])
    machine = cluster(entry["cluster"], network=entry.get("network"))
    sequence, batch = entry.get("sequence", 2048), entry["batch"]
    tp, pp, cp = (entry.get(key, 1) for key in ("tp", "pp", "cp"))
    usual = "interleaved" if entry.get("virtual_stages", 1) > 1 else "1f1b"
    values = {
        "tp": tp,
        "pp": pp,
        "cp": cp,
        "ep": entry.get("ep", 1),
        "dp": machine.count // (tp * pp * cp),
        "zero": entry.get("zero", 0),
        "micro_batch": entry["micro_batch"],
        "virtual_stages": entry.get("virtual_stages", 1),
        "recompute": arch.RECOMPUTE.index(entry["recompute"]),
        "sequence_parallel": float(entry.get("sequence_parallel", False)),
        "schedule": pipeline.SCHEDULES.index(entry.get("schedule", usual)),
    }
    flop = step_flop(model, batch, sequence, entry.get("counts", "model"))
    if "seconds" in entry:
        seconds = entry["seconds"]
    elif "tflops" in entry:
        seconds = flop / (entry["tflops"] * 1e12 * machine.count)
    else:
        peak = machine.flops_per_s("bf16") * machine.count
        seconds = flop / (entry["mfu"] * peak)
    return Run(
        name=entry["name"],
        family=entry["family"],
        source=sources[entry["source"]],
        model=model,
        cluster=machine,
        layouts=Layouts(
            **{key: np.array([v], dtype=float) for key, v in values.items()}
        ),
        batch=batch,
        sequence=sequence,
        fused=entry.get("fused", False),
        precision=entry.get("precision", "bf16"),
        seconds=float(seconds),
        assumed=entry.get("assumed", ""),
    )


def fit(training: list[Run], seed: int = 0, tries: int = 600) -> Efficiency:
    """The efficiencies whose predictions miss least: mean |log(predicted/published)|.

    A random start, then smaller and smaller random steps: the error has kinks, where a
    message stops being hidden, so gradients do not help.
    """
    random = np.random.default_rng(seed)

    def error(values: np.ndarray) -> float:
        guess = Efficiency(*map(float, values))
        ratios = [run.predicted_s(guess) / run.seconds for run in training]
        return float(np.mean(np.abs(np.log(ratios))))

    span = HIGHEST - LOWEST
    starts = LOWEST + span * random.random((tries // 4, len(LOWEST)))
    errors = [error(start) for start in starts]
    best, least = starts[int(np.argmin(errors))], min(errors)
    for scale in (0.15, 0.05, 0.015):
        for _ in range(tries // 4):
            mask = random.random(len(LOWEST)) < 0.5
            step = scale * span * random.standard_normal(len(LOWEST)) * mask
            other = np.clip(best + step, LOWEST, HIGHEST)
            if (value := error(other)) < least:
                best, least = other, value
    return Efficiency(*(float(round(value, 3)) for value in best))


def families() -> list[str]:
    """The families of runs, in the order of the file."""
    return list(dict.fromkeys(run.family for run in runs()))


def without(family: str) -> list[Run]:
    """All runs but one family's."""
    return [run for run in runs() if run.family != family]


def refit() -> dict[str, dict[str, float]]:
    """The efficiencies fitted to all runs, and to all but each family in turn."""
    result = {EVERYTHING: asdict(fit(list(runs())))}
    for family in families():
        result[family] = asdict(fit(without(family)))
    return result


@cache
def fitted() -> dict[str, Efficiency]:
    """What :func:`refit` found, as recorded; keyed by the family left out."""
    data = yaml.safe_load(FITTED.read_text(encoding="utf-8"))
    return {name: Efficiency(**values) for name, values in data.items()}


@dataclass(frozen=True)
class Verdict:
    """One run predicted without its family, beside the best constant for it."""

    run: Run
    predicted_s: float
    constant_s: float

    @property
    def ratio(self) -> float:
        """Predicted over published time."""
        return self.predicted_s / self.run.seconds

    @property
    def constant_ratio(self) -> float:
        """The constant's time over the published one."""
        return self.constant_s / self.run.seconds


def verdicts() -> list[Verdict]:
    """Every run, predicted by the efficiencies of the other families.

    The constant is the median utilisation of the other families' runs.
    """
    result = []
    for run in runs():
        others = [other.utilisation for other in without(run.family)]
        constant_s = run.seconds * run.utilisation / float(np.median(others))
        predicted = run.predicted_s(fitted()[run.family])
        result.append(Verdict(run, predicted, constant_s))
    return result


@dataclass(frozen=True)
class Pair:
    """Two runs of one model: published and predicted ratio of accelerator-seconds."""

    first: Run
    second: Run
    published: float
    predicted: float

    @property
    def right_order(self) -> bool:
        """Whether the prediction says which of the two is cheaper."""
        return (self.published - 1) * (self.predicted - 1) > 0


def pairs(apart: float = 0.02) -> list[Pair]:
    """Every two runs of one model in one source whose cost a token differs by 2 %.

    Cost is accelerator-seconds a token, so a constant utilisation calls them all equal.
    """
    result = []
    for first, second in combinations(runs(), 2):
        if first.model != second.model or first.source != second.source:
            continue
        cost = [
            (seconds * run.cluster.count / run.batch / run.sequence)
            for run in (first, second)
            for seconds in (run.seconds, run.predicted_s(fitted()[run.family]))
        ]
        published, predicted = cost[0] / cost[2], cost[1] / cost[3]
        if abs(np.log(published)) >= apart:
            result.append(Pair(first, second, published, predicted))
    return result
