"""Plan a training run or a service on a cluster: does it fit, how fast, what cost?

aiinfra plan train --model llama-3.1-405b --cluster 'H100 SXM x16384' --tokens 15.6T
aiinfra plan train --model 'Llama 3 8B' --cluster 'H100 SXM x64' --layout tp=2,zero=1
aiinfra plan serve --model 'Llama 3 70B' --cluster 'H100 SXM x8'
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from aiinfra.tools.errors import UserError

SUFFIX = {"": 1, "k": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
CAUSES = {
    "products_s": "matrix products",
    "attention_s": "attention",
    "memory_bound_s": "norms, activations",
    "recompute_s": "recomputation",
    "vocabulary_s": "vocabulary and loss",
    "tensor_s": "tensor-parallel messages",
    "context_s": "context-parallel messages",
    "expert_s": "expert-parallel messages",
    "pipeline_s": "pipeline messages",
    "bubble_s": "pipeline bubble",
    "data_s": "data-parallel messages",
    "optimizer_s": "optimizer",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="train|serve")
    training = kinds.add_parser("train", help="a training run")
    service = kinds.add_parser("serve", help="an inference service")
    for sub in (training, service):
        sub.add_argument(
            "--model", required=True, help="a name in the registry, or a config.json"
        )
        sub.add_argument(
            "--cluster", required=True, metavar="'H100 SXM x64'", help="what, how many"
        )
        sub.add_argument("--network", help="the link between nodes, if not the usual")
        sub.add_argument(
            "--price", type=float, metavar="USD", help="of an accelerator-hour"
        )
        sub.add_argument("--json", action="store_true", help="print JSON")
    training.add_argument("--tokens", metavar="15.6T", help="to train on")
    training.add_argument("--batch", metavar="N", help="sequences in a global batch")
    training.add_argument("--seq", metavar="N", help="tokens in a sequence")
    training.add_argument(
        "--layout", metavar="tp=8,pp=16", help="this layout; without it, the best"
    )
    training.add_argument("--precision", default="bf16", choices=("bf16", "fp8"))
    service.add_argument("--prompt", default="2048", metavar="N", help="tokens")
    service.add_argument("--answer", default="256", metavar="N", help="tokens")
    service.add_argument("--weights", default="bf16", help="format of the weights")
    service.add_argument("--kv", default="bf16", help="format of the cache")


def run(args: argparse.Namespace) -> int:
    """Print the plan; 0 done."""
    from aiinfra import plan
    from aiinfra.registry import UnknownName

    try:
        machine = plan.cluster(
            args.cluster, network=args.network, price_per_hour=args.price
        )
        model = read_model(args.model)
        if args.kind == "train":
            result = plan.train(
                model,
                machine,
                tokens=amount("--tokens", args.tokens),
                global_batch=whole("--batch", args.batch),
                sequence=whole("--seq", args.seq),
                layout=read_layout(args.layout),
                precision=args.precision,
            )
            show = training_text
        else:
            result = plan.serve(
                model,
                machine,
                prompt=whole("--prompt", args.prompt),
                answer=whole("--answer", args.answer),
                weights=args.weights,
                kv=args.kv,
            )
            show = serving_text
    except (UnknownName, ValueError) as error:
        raise UserError(str(error)) from error
    print(json.dumps(result.to_dict(), indent=1) if args.json else show(result))
    return 0


def read_model(name: str):
    """The architecture meant: a name in the registry or a Hugging Face config.json."""
    from aiinfra import arch

    if name.endswith(".json"):
        if not Path(name).is_file():
            raise UserError(f"--model {name}: there is no such file")
        return arch.from_config(Path(name))
    return arch.named(name)


def amount(option: str, text: str | None) -> float | None:
    """``15.6T`` as 15.6e12; UserError for anything else."""
    if text is None:
        return None
    found = re.fullmatch(r"([\d.]+(?:e[+-]?\d+)?)\s*([kMBGT]?)", text.replace(",", ""))
    try:
        return float(found[1]) * SUFFIX[found[2]]  # type: ignore[index]
    except (TypeError, ValueError):
        raise UserError(
            f"{option} {text!r}: expected a number such as 300e9, 300B or 15.6T"
        ) from None


def whole(option: str, text: str | None) -> int | None:
    """A whole number, with an optional suffix; UserError for anything else."""
    value = amount(option, text)
    if value is None:
        return None
    if value != int(value):
        raise UserError(f"{option} {text!r}: expected a whole number")
    return int(value)


def read_layout(text: str | None) -> dict[str, Any] | None:
    """``tp=8,pp=16,recompute=full`` as a dict; UserError names what is not known."""
    if text is None:
        return None
    from dataclasses import fields

    from aiinfra.memory import Layout

    known = {field.name: str(field.type) for field in fields(Layout)}
    layout: dict[str, Any] = {}
    for piece in filter(None, text.split(",")):
        key, _, value = piece.partition("=")
        key = key.strip()
        if key not in known or not value:
            raise UserError(
                f"--layout {piece!r}: expected NAME=VALUE with a NAME of "
                f"{', '.join(known)}"
            )
        value = value.strip()
        if value.lower() in ("true", "false"):
            layout[key] = value.lower() == "true"
        else:
            layout[key] = int(value) if value.isdigit() else value
    return layout


def training_text(plan) -> str:
    """A training plan as a person reads it."""
    fit = "fits" if plan.fits else "DOES NOT FIT"
    lines = [
        f"{plan.model} on {plan.cluster}, {plan.precision}",
        f"  layout       {layout_text(plan.layout)}",
        f"  batch        {plan.global_batch:,} sequences of {plan.sequence:,} tokens",
        f"  memory       {gib(plan.memory_bytes)} of {gib(plan.memory_available_bytes)}"
        f" GiB an accelerator: {fit}",
        f"  step         {plan.step_time_s:.3g} s, {plan.tokens_per_s:,.0f} tokens/s",
        f"  MFU, HFU     {plan.mfu:.1%}, {plan.hfu:.1%}",
        f"  {plan.tokens / 1e12:.3g}T tokens  {plan.days:,.1f} days; "
        f"{plan.days_with_failures:,.1f} with failures (goodput {plan.goodput:.1%})",
    ]
    if plan.energy_j is not None:
        lines.append(f"  energy       {plan.energy_j / 3.6e12:,.3g} GWh at most")
    if plan.cost_usd is not None:
        lines.append(f"  cost         {plan.cost_usd / 1e6:,.3g} million USD")
    lines += ["", "  where a step's time goes"]
    total = sum(plan.breakdown.values())
    for key, name in CAUSES.items():
        value = plan.breakdown[key]
        if value > 0.0005 * total:
            lines.append(f"    {name:<28} {value:>9.3g} s {value / total:>7.1%}")
    lines += ["", "  what fills the fullest accelerator"]
    for key, value in plan.memory.items():
        if key != "total" and value:
            lines.append(f"    {key:<28} {gib(value):>9} GiB")
    if plan.losers:
        lines += ["", f"  why not another of the {plan.candidates:,} layouts"]
        lines += [f"    {loser['what']:<28} {loser['why']}" for loser in plan.losers]
    return "\n".join(lines)


def serving_text(plan) -> str:
    """A serving plan as a person reads it."""
    lines = [
        f"{plan.model} on {plan.cluster}: {plan.replicas:,} x tp {plan.tp}, weights in "
        f"{plan.weights}, cache in {plan.kv}",
        f"  request      {plan.prompt:,} tokens in, {plan.answer:,} out",
        f"  memory       {gib(plan.weight_bytes)} GiB of weights, room for "
        f"{plan.largest_batch:,} requests, in each replica",
        "",
        f"  {'batch':>6} {'TTFT ms':>9} {'TPOT ms':>9} {'tokens/s':>12} "
        f"{'USD/M tokens':>13}",
    ]
    for point in plan.frontier:
        cost = point["usd_per_million"]
        lines.append(
            f"  {point['batch']:>6,} {point['ttft_s'] * 1e3:>9.1f} "
            f"{point['tpot_s'] * 1e3:>9.2f} {point['tokens_per_s']:>12,.0f} "
            + (f"{cost:>13.3f}" if cost is not None else f"{'–':>13}")
        )
    lines += [
        "",
        "  Bounds from spec rates: no engine is faster, and none reaches them.",
    ]
    return "\n".join(lines)


def layout_text(layout: dict[str, Any]) -> str:
    """``TP 8 x PP 16 x DP 128, ZeRO-1, …``."""
    degrees = [
        f"{key.upper()} {layout[key]}"
        for key in ("tp", "pp", "cp", "ep", "dp")
        if layout[key] > 1
    ]
    rest = [
        f"ZeRO-{layout['zero']}" if layout["zero"] else "",
        f"micro-batch {layout['micro_batch']}",
        schedule_text(layout) if layout["pp"] > 1 else "",
        f"recompute {layout['recompute']}",
    ]
    return ", ".join([" x ".join(degrees) or "one", *filter(None, rest)])


def schedule_text(layout: dict[str, Any]) -> str:
    """``zb-h1``, or ``interleaved x3`` with three chunks a rank."""
    chunks = layout["virtual_stages"]
    return layout["schedule"] + (f" x{chunks}" if chunks > 1 else "")


def gib(value: float) -> str:
    """Bytes in GiB, short."""
    return f"{value / 2**30:.1f}"
