"""What the page *Planner* computes with, and the example it has on paper.

The page evaluates one layout in the reader's browser (book/static/planner/plan.js, the
twin of `aiinfra.plan.train`). Every constant it uses is written here, from the registry
and the planner's own modules, so that none is typed into a script. Written by
`aiinfra registry-pages`, as the tables of the reference pages are.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from typing import Any

from aiinfra import _numbers, arch, memory, pipeline, plan, registry
from aiinfra.plan import published, step
from aiinfra.plan.cluster import FORMATS, MOST_ACCELERATORS
from aiinfra.tools.plan import CAUSES, training_text

DATA = "book/static/planner/data.json"
# What a training plan asks of a model, by the names of its Architecture.
COUNTS = (
    "layers",
    "d_model",
    "heads",
    "kv_heads",
    "vocabulary",
    "d_ffn",
    "d_ffn_expert",
    "dense_layers",
    "experts",
    "experts_per_token",
    "shared_experts",
    "window",
    "windowed_layers",
    "context",
    "positions_learned",
    "attention",
    "tied",
    "embedding_norm",
    "parameters",
    "expert_parameters",
    "layer_matrices",
    "kv_elements_per_layer",
    "norms_per_layer",
    "norm_parameters",
    "router_parameters",
    "attention_matrices",
    "attention_vectors",
)
EXAMPLE = {
    "model": "Llama 3 70B",
    "accelerator": "H100 SXM",
    "accelerators": 512,
    "global_batch": 1024,
    "sequence": 8192,
    "layout": {
        "tp": 8,
        "pp": 4,
        "zero": 1,
        "recompute": "selective",
        "sequence_parallel": True,
    },
}


def files() -> dict[str, str]:
    """Path and text of the page's data."""
    text = json.dumps(data(), indent=1, ensure_ascii=False)
    return {DATA: text + "\n"}


def data() -> dict[str, Any]:
    """Models, accelerators and assumptions, ready for JSON."""
    return {
        "models": {entry.name: model(entry) for entry in registry.entries("model")},
        "accelerators": accelerators(),
        "schedules": list(pipeline.SCHEDULES),
        "recompute": list(arch.RECOMPUTE),
        "precisions": list(FORMATS),
        "causes": CAUSES,
        "layout": layout(),
        "example": EXAMPLE,
        "efficiency": vars(published.fitted()[published.EVERYTHING]),
        "assumed": {
            "bytes": step.BYTES,
            "norm_passes": step.NORM_PASSES,
            "optimizer_bytes": step.OPTIMIZER_BYTES,
            "precision": asdict(memory.MIXED),
            "margin": plan.MARGIN,
            "pue": plan.PUE,
            "failures_per_1000_node_days": plan.FAILURES_PER_1000_NODE_DAYS,
            "restart_s": plan.RESTART_S,
            "checkpoint_s": plan.CHECKPOINT_S,
            "node": plan.NODE,
            "day_s": plan.DAY_S,
        },
        "defaults": {
            "sequence": plan.SEQUENCE,
            "batch_tokens": plan.BATCH_TOKENS,
            "tokens_per_parameter": plan.TOKENS_PER_PARAMETER,
        },
        "limits": {
            "accelerators": MOST_ACCELERATORS,
            "sequence": plan.MOST_TOKENS,
            "global_batch": plan.MOST_SEQUENCES,
            "degree": memory.MOST_RANKS,
            "count": _numbers.MOST,
            "number": _numbers.LARGEST,
        },
    }


def layout() -> dict[str, Any]:
    """What a field of a layout is where nothing is said; dp follows from the rest."""
    return {
        name: value
        for name, value in asdict(memory.Layout()).items()
        if name not in ("dp", "layers_per_stage")
    }


def model(entry: registry.Entry) -> dict[str, Any]:
    """A model's sizes and counts, as far as a training plan asks for them."""
    shape = arch.named(entry.name)
    trained = entry.figures.get("training_tokens")
    return {name: getattr(shape, name) for name in COUNTS} | {
        "training_tokens": None if trained is None else int(trained),
        # One pair of tokens in one layer: a sequence of one token has one.
        "flop_per_pair": shape.attention_flops_per_token(1) / shape.layers,
        "activation_width": step.activation_width(shape),
        "dense_mlp": mlp(shape, shape.d_ffn),
        "expert_mlp": mlp(shape, shape.d_ffn_expert),
        "saved": {
            "dense": kept(shape, experts=False),
            "moe": kept(shape, experts=True),
        },
    }


def mlp(shape: arch.Architecture, width: int) -> dict[str, int]:
    """Parameters of an MLP, and those that tensor parallelism does not cut."""
    whole = shape.d_model if shape.mlp_bias else 0
    return {"parameters": shape.mlp_parameters(width), "whole": whole}


def kept(shape: arch.Architecture, *, experts: bool) -> list[dict[str, Any]] | None:
    """What a layer of that kind keeps for its backward; None if there is no such."""
    there = shape.moe_layers if experts else shape.layers - shape.moe_layers
    if not there:
        return None
    tensors = memory.saved_tensors(shape, shape.context or 1, experts=experts)
    return [tensor._asdict() for tensor in tensors]


def accelerators() -> dict[str, dict[str, Any]]:
    """Each accelerator that a cluster can be made of, in as large a one as there is."""
    known = {}
    for entry in registry.entries("hardware"):
        usable = "bf16_dense_flops" in entry.figures and "accelerator" not in entry.refs
        if usable:
            machine = asdict(plan.cluster(f"{entry.name} x{MOST_ACCELERATORS}"))
            del machine["name"], machine["count"]
            known[entry.name] = machine
    return known


def command(given: dict[str, Any]) -> str:
    """The command that plans the same run, as the page shows it."""
    cluster = f"{given['accelerator']} x{given['accelerators']}"
    cut = ",".join(f"{name}={value}" for name, value in given["layout"].items())
    options = {"--batch": given["global_batch"], "--seq": given["sequence"]}
    first = shlex.join(["--model", given["model"], "--cluster", cluster])
    second = shlex.join(str(word) for pair in options.items() for word in pair)
    return f"aiinfra plan train {first} \\\n    {second} --layout {cut}"


def example() -> str:
    """The page's first layout, evaluated: what it shows where nothing moves."""
    given = dict(EXAMPLE)
    cluster = f"{given.pop('accelerator')} x{given.pop('accelerators')}"
    found = plan.train(given.pop("model"), cluster, **given)
    return f"```text\n$ {command(EXAMPLE)}\n\n{training_text(found)}\n```"
