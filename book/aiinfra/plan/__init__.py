"""Will it fit, how fast will it run, what will it cost: plans for a cluster.

    from aiinfra import plan

    plan.train("Llama 3 405B", "H100 SXM x16384", tokens=15.6e12)
    plan.train("Llama 3 8B", "H100 SXM x64", layout={"tp": 1, "pp": 1, "zero": 3})
    plan.serve("Llama 3 70B", "H100 SXM x8", prompt=2048, output=256)

`train` judges one layout, or every layout that there is, and says why the others lose.
Times are those of a model (:mod:`aiinfra.plan.step`) whose efficiencies were fitted
to published runs; the page *Planner against published runs* shows every miss.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from aiinfra import _numbers, arch, memory, pipeline, registry, reliability, serving
from aiinfra.arch import RECOMPUTE
from aiinfra.plan import published, search
from aiinfra.plan.cluster import Cluster, cluster
from aiinfra.plan.step import Efficiency, Layouts, times

__all__ = ["Cluster", "ServingPlan", "TrainingPlan", "cluster", "serve", "train"]

PUE = 1.2  # assumed: a modern hall's power over its machines'
# Assumed for goodput: failures as often as in Llama 3's run, a restart of ten minutes,
# a checkpoint that stops training for half a minute.
FAILURES_PER_1000_NODE_DAYS = 3.79
RESTART_S, CHECKPOINT_S = 600.0, 30.0
NODE = 8  # accelerators that one failure stops, where the fast domain is larger
MARGIN = 0.06  # of memory, for fragmentation, the runtime and the network's buffers
DAY_S = 86_400
INNER = ("tp", "pp", "cp")  # degrees that leave the rest of the accelerators to dp
MOST_TOKENS = MOST_SEQUENCES = 10**8  # in one sequence, in one batch
# What a caller may leave out.
SEQUENCE = 8192
BATCH_TOKENS = 16 * 2**20
TOKENS_PER_PARAMETER = 20


@dataclass(frozen=True)
class TrainingPlan:
    """One layout of one training run, and what follows from it.

    Times in s, memory in bytes on the fullest accelerator, energy in J with the
    building's share, cost in USD (None where no price is known). ``fits`` compares
    ``memory_bytes`` with the accelerator's memory; ``losers`` says, for a search, how
    the best layouts of other kinds compare.
    """

    model: str
    cluster: str
    layout: dict[str, Any]
    global_batch: int
    sequence: int
    tokens: float
    precision: str
    fits: bool
    memory_bytes: float
    memory_available_bytes: float
    memory: dict[str, float]
    step_time_s: float
    breakdown: dict[str, float]
    mfu: float
    hfu: float
    tokens_per_s: float
    days: float
    goodput: float
    days_with_failures: float
    energy_j: float | None
    cost_usd: float | None
    candidates: int = 1
    losers: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return asdict(self)


def train(
    model: str | arch.Architecture,
    cluster: str | Cluster,
    *,
    tokens: float | None = None,
    global_batch: int | None = None,
    sequence: int | None = None,
    layout: dict[str, Any] | None = None,
    precision: str = "bf16",
    fused: bool = True,
    efficiency: Efficiency | None = None,
) -> TrainingPlan:
    """The plan for ``layout``, or the fastest layout that fits.

    ``global_batch`` in sequences (default: about 16 million tokens); ``sequence`` in
    tokens (default: 8,192, or the model's context if shorter); ``tokens`` to train on
    (default: what the model was trained on, else 20 a parameter). Raises ValueError for
    a layout that does not divide, and when no layout fits, saying by how much the best
    one misses.
    """
    shape = arch.named(model) if isinstance(model, str) else model
    machine = _cluster(cluster)
    sequence = _sequence(shape, sequence)
    batch = _batch(machine, sequence, global_batch, layout)
    total = _tokens(shape, tokens)
    if layout is not None:
        layouts = _one(shape, machine, layout, batch, sequence)
    else:
        layouts = search.candidates(
            shape, machine, global_batch=batch, sequence=sequence
        )
        if len(layouts):
            good = as_layout(layouts).allowed(shape, batch, sequence)
            layouts = layouts[np.asarray(good)]
        if not len(layouts):
            raise ValueError(
                f"no layout divides {machine.count} accelerators, {batch} sequences "
                f"and {shape.heads} heads; try a global_batch with more divisors"
            )
    seconds = times(
        shape,
        machine,
        layouts,
        global_batch=batch,
        sequence=sequence,
        efficiency=efficiency or published.fitted()[published.EVERYTHING],
        fused=fused,
        precision=precision,
    )
    held = memory_of(shape, layouts, batch, sequence, fused)
    room = machine.memory_bytes * (1 - MARGIN)
    fits = held["total"] <= room
    step_s = seconds["step_s"]
    best = int(np.argmin(np.where(fits, step_s, np.inf)))
    if layout is None and not fits.any():
        least = float(held["total"].min())
        raise ValueError(
            f"{shape.name} does not fit on {machine}: the leanest of {len(layouts):,} "
            f"layouts needs {least / 2**30:.0f} GiB an accelerator and "
            f"{room / 2**30:.0f} GiB are free; more accelerators, or larger ones"
        )
    losers = []
    if layout is None:
        losers = _losers(layouts, step_s, held["total"], fits, best)
    return _plan(
        shape, machine, layouts, seconds, held, best,
        batch=batch, sequence=sequence, tokens=total, precision=precision,
        candidates=len(layouts), losers=losers,
    )  # fmt: skip


def _cluster(text: str | Cluster) -> Cluster:
    return text if isinstance(text, Cluster) else cluster(text)


def _sequence(model: arch.Architecture, sequence: int | None) -> int:
    if sequence is None:
        return int(min(SEQUENCE, model.context or SEQUENCE))
    return int(_numbers.whole("sequence", sequence, high=MOST_TOKENS))


def _tokens(model: arch.Architecture, tokens: float | None) -> float:
    if tokens is not None:
        return float(_numbers.number("tokens", tokens, above_zero=True))
    with suppress(registry.UnknownName):
        figures = registry.model(model.name).figures
        if "training_tokens" in figures:
            return float(figures["training_tokens"])
    return float(TOKENS_PER_PARAMETER * model.parameters)


def _batch(
    machine: Cluster, sequence: int, batch: int | None, layout: dict[str, Any] | None
) -> int:
    """The batch given, or about 16 million tokens in a number that divides well."""
    if batch is not None:
        return int(_numbers.whole("global_batch", batch, high=MOST_SEQUENCES))
    wanted = max(1, BATCH_TOKENS // sequence)
    unit = machine.count  # its odd part has to divide the batch, and some twos
    while unit % 2 == 0:
        unit //= 2
    unit *= min(8, machine.count // unit)
    if layout:
        said = {name: _numbers.whole(name, layout.get(name, 1)) for name in INNER}
        rest = max(1, machine.count // math.prod(said.values()))
        unit = _numbers.whole("dp", layout.get("dp", rest))
        unit *= _numbers.whole("micro_batch", layout.get("micro_batch", 1))
    return unit * max(1, round(wanted / unit))


def _one(
    model: arch.Architecture,
    machine: Cluster,
    given: dict[str, Any],
    batch: int,
    sequence: int,
) -> Layouts:
    """One layout as arrays; the degree left out, usually dp, follows from the count."""
    known = dict(given)
    recompute = known.get("recompute", "none")
    _numbers.one_of("recompute", recompute, RECOMPUTE)
    inner = math.prod(
        _numbers.whole(degree, known.setdefault(degree, 1)) for degree in INNER
    )
    if "dp" not in known and machine.count % inner:
        raise ValueError(
            f"tp x pp x cp = {inner} must divide the cluster's {machine.count} "
            "accelerators; the rest is dp"
        )
    known.setdefault("dp", machine.count // inner)
    checked = memory.Layout(**known)
    checked.check(model, batch, sequence)
    if checked.world_size != machine.count:
        raise ValueError(
            f"tp x pp x cp x dp = {checked.world_size}, but the cluster has "
            f"{machine.count} accelerators"
        )
    values = {
        "tp": checked.tp,
        "pp": checked.pp,
        "cp": checked.cp,
        "ep": checked.ep,
        "dp": checked.dp,
        "zero": checked.zero,
        "micro_batch": checked.micro_batch,
        "virtual_stages": checked.virtual_stages,
        "recompute": RECOMPUTE.index(checked.recompute),
        "sequence_parallel": checked.sequence_parallel,
        "schedule": pipeline.SCHEDULES.index(checked.schedule),
    }
    arrays = {
        key: np.array([value if isinstance(value, bool) else float(value)])
        for key, value in values.items()
    }
    return Layouts(**arrays)


def _plan(
    model: arch.Architecture,
    machine: Cluster,
    layouts: Layouts,
    seconds: dict[str, np.ndarray],
    held: dict[str, np.ndarray],
    best: int,
    *,
    batch: int,
    sequence: int,
    tokens: float,
    precision: str,
    candidates: int,
    losers: list[dict[str, Any]],
) -> TrainingPlan:
    """What follows from one layout of many."""
    step_s = float(seconds["step_s"][best])
    per_s = batch * sequence / step_s
    peak = machine.flops_per_s(precision) * machine.count
    recompute = RECOMPUTE[int(layouts.recompute[best])]
    useful = float(model.flops_per_token(sequence))
    done = float(model.flops_per_token(sequence, recompute=recompute))
    train_s = tokens / per_s
    goodput = expected_goodput(machine)
    wall_s = train_s / goodput if goodput else float("inf")
    hours = machine.count * wall_s / 3600
    power, price = machine.power_w, machine.price_per_hour
    return TrainingPlan(
        model=model.name,
        cluster=str(machine),
        layout=described(layouts, best),
        global_batch=batch,
        sequence=sequence,
        tokens=tokens,
        precision=precision,
        fits=bool(held["total"][best] <= machine.memory_bytes * (1 - MARGIN)),
        memory_bytes=float(held["total"][best]),
        memory_available_bytes=machine.memory_bytes,
        memory={key: float(value[best]) for key, value in held.items()},
        step_time_s=step_s,
        breakdown={
            key: float(value[best]) for key, value in seconds.items() if key != "step_s"
        },
        mfu=useful * per_s / peak,
        hfu=done * per_s / peak,
        tokens_per_s=per_s,
        days=train_s / DAY_S,
        goodput=goodput,
        days_with_failures=wall_s / DAY_S,
        energy_j=power * machine.count * wall_s * PUE if power else None,
        cost_usd=price * hours if price is not None else None,
        candidates=candidates,
        losers=losers,
    )


def memory_of(
    model: arch.Architecture,
    layouts: Layouts,
    batch: int,
    sequence: int,
    fused: bool,
) -> dict[str, np.ndarray]:
    """Bytes on the fullest accelerator by kind; "total" is their sum."""
    held = memory.training(
        model,
        as_layout(layouts),
        global_batch=batch,
        sequence=sequence,
        flash=fused,
    )
    kinds = ("weights", "gradients", "optimizer", "activations", "buffers")
    result = {kind: np.atleast_1d(getattr(held, kind)) for kind in kinds}
    result["total"] = np.atleast_1d(held.total)
    return result


def as_layout(layouts: Layouts) -> memory.Layout:
    """The same layouts, as the memory model takes them."""
    degrees = ("dp", "tp", "pp", "cp", "ep", "zero", "micro_batch", "virtual_stages")
    return memory.Layout(
        **{key: getattr(layouts, key).astype(np.int64) for key in degrees},
        sequence_parallel=layouts.sequence_parallel,
        schedule=np.array(pipeline.SCHEDULES)[layouts.schedule.astype(int)],
        recompute=np.array(RECOMPUTE)[layouts.recompute.astype(int)],
    )


def expected_goodput(machine: Cluster) -> float:
    """The share of time that counts, with failures as often as in Llama 3's run."""
    nodes = -(-machine.count // min(NODE, machine.domain))
    node_s = reliability.node_mtbf_s(FAILURES_PER_1000_NODE_DAYS)
    mtbf_s = reliability.system_mtbf_s(node_s, nodes)
    interval_s = reliability.best_interval_s(CHECKPOINT_S, mtbf_s)
    return float(reliability.goodput(interval_s, CHECKPOINT_S, mtbf_s, RESTART_S))


def described(layouts: Layouts, index: int) -> dict[str, Any]:
    """One layout of many as a dict of degrees and choices."""
    one = layouts[index]
    return {
        **{
            key: int(getattr(one, key))
            for key in ("tp", "pp", "cp", "ep", "dp", "zero", "micro_batch")
        },
        "virtual_stages": int(one.virtual_stages),
        "schedule": pipeline.SCHEDULES[int(one.schedule)],
        "recompute": RECOMPUTE[int(one.recompute)],
        "sequence_parallel": bool(one.sequence_parallel),
    }


def _losers(
    layouts: Layouts,
    step_s: np.ndarray,
    held: np.ndarray,
    fits: np.ndarray,
    best: int,
) -> list[dict[str, Any]]:
    """The best layout of each other kind, and why it loses to the one chosen.

    A kind is another value of one choice, whatever the rest: no tensor parallelism, no
    pipeline, ZeRO-3, full recomputation …
    """
    choices = {
        "without tensor parallelism": layouts.tp == 1,
        "with tensor parallelism": layouts.tp > 1,
        "without a pipeline": layouts.pp == 1,
        "with a pipeline": layouts.pp > 1,
        "without context parallelism": layouts.cp == 1,
        "without ZeRO": layouts.zero == 0,
        "with ZeRO-1": layouts.zero == 1,
        "with ZeRO-3": layouts.zero == 3,
        "with expert parallelism": layouts.ep > 1,
        "without recomputation": layouts.recompute == 0,
        "with full recomputation": layouts.recompute == 2,
        "without interleaving": layouts.virtual_stages == 1,
    }
    losers = []
    for what, which in choices.items():
        if which[best] or not which.any():
            continue
        places = np.flatnonzero(which)
        good = places[fits[places]]
        if len(good):
            index = int(good[np.argmin(step_s[good])])
            slower = step_s[index] / step_s[best] - 1
            why = f"slower by {slower:.1%}"
        else:
            index = int(places[np.argmin(held[places])])
            why = f"does not fit: needs {held[index] / 2**30:,.0f} GiB at least"
        losers.append({"what": what, "why": why, "layout": described(layouts, index)})
    return losers


# ------------------------------------------------------------------------- serving


@dataclass(frozen=True)
class ServingPlan:
    """A service of equal replicas of ``tp`` accelerators each, and what it can do.

    ``frontier`` has a point for batch sizes up to the largest that fits: latencies in
    s, output tokens/s of the whole cluster, USD for a million output tokens. Bounds
    from spec rates, prefill and decode on the same accelerators.
    """

    model: str
    cluster: str
    tp: int
    replicas: int
    prompt: int
    answer: int
    weights: str
    kv: str
    weight_bytes: float
    kv_bytes_per_token: float
    largest_batch: int
    frontier: list[dict[str, float | None]]

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return asdict(self)


def serve(
    model: str | arch.Architecture,
    cluster: str | Cluster,
    *,
    prompt: int = 2048,
    answer: int = 256,
    weights: str = "bf16",
    kv: str = "bf16",
    tp: int | None = None,
) -> ServingPlan:
    """The fewest accelerators a replica needs, and latency against throughput.

    ``weights`` and ``kv`` are formats of :data:`aiinfra.arch.FORMATS`. Raises
    ValueError when the model does not fit a fast domain.
    """
    shape = arch.named(model) if isinstance(model, str) else model
    machine = _cluster(cluster)
    request = serving.Request(
        prompt=_numbers.whole("prompt", prompt, high=MOST_TOKENS),
        answer=_numbers.whole("answer", answer, high=MOST_TOKENS),
    )
    store = arch.format_of("weights", weights)
    held = store.bytes(shape.parameters)
    per_token = float(shape.kv_bytes_per_token(kv))
    full = float(shape.kv_bytes(int(request.largest_context), 1, kv))
    room = machine.memory_bytes * (1 - MARGIN)
    sizes = [k for k in search.divisors(machine.count, machine.domain)]
    if tp is not None:
        sizes = [_numbers.whole("tp", tp)]
    enough = [k for k in sizes if held + full <= room * k]
    if not enough:
        raise ValueError(
            f"{shape.name} in {weights} with one request needs "
            f"{(held + full) / 2**30:,.0f} GiB; {max(sizes)} accelerators that share a "
            f"fast link have {room * max(sizes) / 2**30:,.0f} GiB"
        )
    degree = enough[0]
    replicas = machine.count // degree
    largest = int(serving.largest_batch(room * degree, held, full))
    batches = np.unique([*(2**k for k in range(largest.bit_length())), largest])
    points = serving.frontier(
        request,
        batches,
        weight_bytes=held,
        kv_bytes_per_token=full / request.largest_context,
        flop_per_token=float(
            shape.flops_per_token(int(request.mean_context), backward=False)
        ),
        bytes_per_s=machine.memory_bytes_per_s * degree,
        flops_per_s=machine.flops_per_s("bf16") * degree,
        memory_bytes=room * degree,
        read_bytes=lambda batch: store.bytes(1) * read_parameters(shape, batch),
    )
    rows = []
    for index in range(len(points["batch"])):
        row: dict[str, float | None] = {k: float(v[index]) for k, v in points.items()}
        row["batch"] = int(row["batch"])
        row["tokens_per_s"] *= replicas
        row["usd_per_million"] = None
        if machine.price_per_hour is not None:
            row["usd_per_million"] = float(
                serving.cost_per_million_tokens(
                    machine.price_per_hour, machine.count, row["tokens_per_s"]
                )
            )
        rows.append(row)
    return ServingPlan(
        model=shape.name,
        cluster=str(machine),
        tp=degree,
        replicas=replicas,
        prompt=int(request.prompt),
        answer=int(request.answer),
        weights=weights,
        kv=kv,
        weight_bytes=float(held),
        kv_bytes_per_token=per_token,
        largest_batch=largest,
        frontier=rows,
    )


def read_parameters(model: arch.Architecture, batch: np.ndarray) -> np.ndarray:
    """Parameters that a decode step of ``batch`` sequences reads.

    All of a dense model but the embedding it looks up; of a layer with experts only
    those that some token of the batch is sent to.
    """
    parts = model.parameters_by_part()
    read = model.parameters - (0 if model.tied else parts["embedding"])
    if not model.moe_layers:
        return np.full(len(batch), float(read))
    met = serving.distinct_experts(model.experts, model.experts_per_token, batch)
    return read - parts["experts"] * (1 - met / model.experts)
