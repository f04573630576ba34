"""Write what is generated in the reference pages: tables, downloads, contradictions.

A page keeps its own prose; what lies between ``<!-- generated: NAME -->`` and
``<!-- end -->`` is written here. The downloads hold every figure: one CSV file for each
kind of entry, and all of it as JSON. The page *Planner* computes in the browser with
what is written here, too. ``--check`` only says what is out of date.
"""

import argparse
import csv
import io
import json
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from aiinfra import registry
from aiinfra.registry import Entry, Figure, entries
from aiinfra.tools import status_page
from aiinfra.tools.check.problem import Problem
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import find_root

PAGES = (
    "book/reference/hardware.md",
    "book/reference/models.md",
    "book/reference/contradictions.md",
    "book/reference/planner.md",
    "book/reference/planner-check.md",
    "book/reference/status.md",
)
DOWNLOADS = "book/reference/downloads"
BLOCK = re.compile(r"<!-- generated: ([\w-]+) -->\n.*?<!-- end -->", re.S)
RUNS = "book/reference/gpu-runs"  # written by `make test-gpu`
MARKS = {
    "derived": "d",
    "measured": "m",
    "assumed": "a",
}  # none: as the maker prints it
PARTS = ("attention", "mlp", "norm", "positions")
SPELLED = {
    "mha": "MHA",
    "gqa": "GQA",
    "mqa": "MQA",
    "mla": "MLA",
    "swiglu": "SwiGLU",
    "gelu": "GELU",
    "relu": "ReLU",
    "layernorm": "LayerNorm",
    "rmsnorm": "RMSNorm",
    "rope": "RoPE",
    "alibi": "ALiBi",
}
BIASES = {
    "attention_bias": "attention",
    "qkv_bias": "QKV",
    "mlp_bias": "MLP",
    "norm_bias": "norm",
    "router_bias": "router",
}
EXTRAS = {
    "parallel_block": "parallel block",
    "qk_norm": "QK norm",
    "embedding_norm": "embedding norm",
    "attention_sinks": "attention sinks",
}
FORMATS = ("bf16", "fp8", "fp4", "int8", "fp32")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``aiinfra registry-pages``."""
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a page is stale"
    )


def run(args: argparse.Namespace) -> int:
    """Write pages and downloads, or with ``--check`` say which are stale."""
    root = find_root()
    if args.check:
        problems = stale(root)
        for problem in problems:
            print(problem)
        return 1 if problems else 0
    for name in PAGES:
        before = (root / name).read_text(encoding="utf-8")
        write_changed(root, name, fill(before, root))
    for name, text in files().items():
        write_changed(root, name, text)
    return 0


def write_changed(root: Path, name: str, text: str) -> None:
    """Write a file unless it says this already."""
    path = root / name
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"wrote {name}")


def stale(root: Path) -> list[Problem]:
    """The pages and downloads that do not say what the registry says now."""
    problems = []
    for name in PAGES:
        text = (root / name).read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            if fill(block[0], root) != block[0]:
                line = text.count("\n", 0, block.start()) + 1
                message = f"{block[1]} is not up to date: run `aiinfra registry-pages`"
                problems.append(Problem(name, line, message))
    for name, text in files().items():
        path = root / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            message = "is not up to date: run `aiinfra registry-pages`"
            problems.append(Problem(name, 1, message))
    return problems


def fill(text: str, root: Path) -> str:
    """``text`` with every generated part written anew."""

    def write(block: re.Match[str]) -> str:
        if block[1] not in WRITERS:
            raise UserError(
                f"nothing writes a part called {block[1]!r}; there are "
                + ", ".join(WRITERS)
            )
        body = WRITERS[block[1]](root)
        return f"<!-- generated: {block[1]} -->\n\n{body}\n\n<!-- end -->"

    return BLOCK.sub(write, text)


# Tables


def scrolling_table(
    label: str, head: list[str], rows: list[list[str]], sortable: bool = False
) -> str:
    """A Markdown table that scrolls by itself where it is wider than the page.

    ``sortable`` lets static/js/tables.js put a button into each heading.
    """
    kind = "scrolling sortable" if sortable else "scrolling"
    lines = [
        f'<div class="{kind}" style="overflow-x: auto" role="region" '
        f'tabindex="0" aria-label="{label}">',
        "",
        "| " + " | ".join(head) + " |",
        "| " + " | ".join("---" for _ in head) + " |",
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
        "</div>",
    ]
    return "\n".join(lines)


def value(entry: Entry, name: str) -> str:
    """A figure as a table cell, marked with its kind; a dash where there is none."""
    figure = entry.figures.get(name)
    return "–" if figure is None else cell(figure)


def cell(figure: Figure, text: str = "") -> str:
    """A figure as people read it, with the number to sort by and a mark of its kind."""
    shown = text or figure.text.replace(" parameters", "").replace(" tokens", "")
    if figure.unit == "count":
        shown = f"{figure:,.0f}"
    shown = f'<span data-sort="{float(figure):.6g}">{shown}</span>'
    if mark := MARKS.get(figure.kind):
        shown += f'<sup title="{figure.kind}">{mark}</sup>'
    return shown


def summed(entry: Entry, name: str) -> str:
    """The sum of a figure over the accelerators of a node, rack or pod."""
    each = entry.accelerator.figures.get(name)
    if each is None:
        return "–"
    fields = {"unit": each.unit, "kind": "derived", "source": "", "date": ""}
    return cell(Figure(entry.total(name), name=name, **fields))


def ridge(entry: Entry) -> str:
    """FLOP per byte where memory stops being the limit."""
    if not {"bf16_dense_flops", "memory_bytes_per_s"} <= set(entry.figures):
        return "–"
    at = entry.ridge_flop_per_byte
    return f'<span data-sort="{at:.6g}">{at:.0f}</span>'


def of_level(*levels: str) -> list[Entry]:
    """The hardware of these levels, in the order of the file."""
    return [e for e in entries("hardware") if e.traits["level"] in levels]


def accelerators(_: Path) -> str:
    """One row per accelerator or machine that computes."""
    rows = []
    for entry in of_level("accelerator", "machine"):
        rates = [
            value(entry, f"{name}_dense_{'ops' if name == 'int8' else 'flops'}")
            for name in FORMATS
        ]
        up = entry.scale_up.one_way_bytes_per_s if "scale_up" in entry.refs else None
        rows.append(
            [
                f"**{entry.name}**",
                *rates,
                value(entry, "memory_bytes"),
                str(entry.traits.get("memory", "–")),
                value(entry, "memory_bytes_per_s"),
                ridge(entry),
                cell(up) if up else "–",
                value(entry, "tdp_w"),
                value(entry, "price_per_hour").replace(" USD/h", ""),
            ]
        )
    head = ["name", *FORMATS, "memory", "of", "bandwidth", "ridge, FLOP/B"]
    head += ["scale-up", "power", "USD per hour"]
    return scrolling_table("Accelerators", head, rows, sortable=True)


def containers(_: Path) -> str:
    """One row per node, rack or pod; what it holds added up."""
    rows = [
        [
            f"**{entry.name}**",
            value(entry, "accelerators"),
            entry.accelerator.name,
            summed(entry, "bf16_dense_flops"),
            summed(entry, "memory_bytes"),
            entry.scale_up.name,
            str(entry.traits.get("topology", "–")),
            network(entry),
            value(entry, "power_w"),
        ]
        for entry in of_level("node", "rack", "pod")
    ]
    head = ["name", "holds", "of", "bf16 in all", "memory in all", "scale-up"]
    head += ["topology", "network", "power, at most"]
    mark = "<!-- registry: exempt, sums over what it holds -->"
    table = scrolling_table("Nodes, racks and pods", head, rows, sortable=True)
    return table.replace("\n\n|", f"\n\n{mark}\n|", 1)


def network(entry: Entry) -> str:
    """``8 × InfiniBand NDR``, or the link alone where cards aren't counted."""
    if "scale_out" not in entry.refs:
        return "–"
    many = f"{int(entry.nics)} × " if "nics" in entry.figures else ""
    return many + entry.scale_out.name


def stacks(_: Path) -> str:
    """One row per kind of memory stack."""
    rows = [
        [f"**{entry.name}**", value(entry, "pins"), value(entry, "memory_bytes_per_s")]
        for entry in of_level("stack")
    ]
    return scrolling_table("Memory", ["name", "pins", "bandwidth"], rows, sortable=True)


def links(_: Path) -> str:
    """One row per link."""
    rows = []
    for entry in entries("link"):
        rate = entry.one_way_bytes_per_s
        of = "–"
        if "links" in entry.figures:
            of = f"{int(entry.links)} × {entry.one_way_link_bytes_per_s.text}"
        rows.append(
            [
                f"**{entry.name}**",
                cell(rate),
                cell(rate, f"{8 * rate / 1e9:,.4g} Gb/s"),
                f"{rate.per}",
                of,
                value(entry, "latency_s"),
                entry.what,
            ]
        )
    head = ["name", "one-way bandwidth", "in bits", "per", "made of", "latency"]
    return scrolling_table("Links", [*head, "where"], rows, sortable=True)


def models(_: Path) -> str:
    """One row per model: its shape."""
    columns = {
        "parameters": "parameters",
        "active_parameters": "of them active",
        "layers": "layers",
        "d_model": "width",
        "heads": "heads",
        "kv_heads": "KV heads",
        "d_head": "head width",
        "d_ffn": "FFN width",
        "vocabulary": "vocabulary",
        "context": "context",
        "training_tokens": "trained on tokens",
    }
    rows = [
        [f"**{entry.name}**", *(value(entry, name) for name in columns)]
        for entry in entries("model")
    ]
    return scrolling_table("Models", ["name", *columns.values()], rows, sortable=True)


def traits(_: Path) -> str:
    """One row per model: what its blocks are made of."""
    rows = []
    for entry in entries("model"):
        has = entry.traits
        biases = [
            key.removesuffix("_bias").replace("attention", "all projections")
            for key in ("attention_bias", "qkv_bias", "mlp_bias", "norm_bias")
            if has.get(key)
        ]
        more = [
            key.replace("_", " ")
            for key in (
                "parallel_block",
                "qk_norm",
                "embedding_norm",
                "attention_sinks",
            )
            if has.get(key)
        ]
        rows.append(
            [
                f"**{entry.name}**",
                *(SPELLED.get(has[key], has[key]) for key in PARTS),
                "yes" if has["tied"] else "no",
                ", ".join(biases) or "none",
                ", ".join(more) or "–",
            ]
        )
    head = ["name", "attention", "MLP", "norm", "positions", "tied", "biases", "also"]
    return scrolling_table("Blocks", head, rows, sortable=True)


def columns_of(label: str, columns: dict[str, str]) -> Callable[[Path], str]:
    """Writer of a table of the models that have the first of these figures."""

    def write(_: Path) -> str:
        rows = [
            [f"**{entry.name}**", *(value(entry, name) for name in columns)]
            for entry in entries("model")
            if next(iter(columns)) in entry.figures
        ]
        head = ["name", *columns.values()]
        return scrolling_table(label, head, rows, sortable=True)

    return write


# Where figures come from


def sources(kind: str) -> Callable[[Path], str]:
    """Writer of the list of sources of a kind, each with the figures taken from it."""

    def write(_: Path) -> str:
        given: dict[str, dict[str, list[str]]] = {}
        for entry in entries(kind):
            for figure in entry.figures.values():
                title = figure.source
                if figure.url:
                    title = f"[{title}]({figure.url})"
                figures = given.setdefault(f"{title}, checked {figure.date}", {})
                figures.setdefault(entry.name, []).append(f"`{figure.name}`")
        lines = []
        for source, figures in given.items():
            alike: dict[str, list[str]] = {}
            for name, of in figures.items():
                alike.setdefault(", ".join(of), []).append(name)
            said = "; ".join(f"{', '.join(of)}: {what}" for what, of in alike.items())
            lines.append(f"- {source}. {said}.")
        return "\n".join(lines)

    return write


def notes(kind: str) -> Callable[[Path], str]:
    """Writer of the list of what is to be known of single figures of a kind."""

    def write(_: Path) -> str:
        alike: dict[str, list[str]] = {}
        for entry in entries(kind):
            for figure in entry.figures.values():
                if figure.note:
                    text = f"`{figure.name}` ({figure.kind}): {figure.note}."
                    alike.setdefault(text, []).append(f"**{entry.name}**")
        lines = [f"- {', '.join(names)}, {text}" for text, names in alike.items()]
        # The notes say what the figures are made of, and what makers print.
        mark = "<!-- registry: exempt, parts of the figures -->"
        return "\n".join([mark, "", *lines])

    return write


def contradictions(about: str) -> Callable[[Path], str]:
    """Writer of the contradictions known of one part of the registry."""

    def write(_: Path) -> str:
        known = [one for one in read_contradictions() if one["about"] == about]
        return "\n\n".join(map(contradiction, known))

    return write


def read_contradictions() -> list[dict[str, Any]]:
    """The file contradictions.yaml beside the registry."""
    path = Path(registry.__file__).with_name("contradictions.yaml")
    return yaml.safe_load(path.read_text(encoding="utf-8"))["contradictions"]


def contradiction(one: dict[str, Any]) -> str:
    """One contradiction: what each source says, and what the book takes, and why."""
    lines = [f"### {one['title']}", "", "<!-- registry: exempt, what sources claim -->"]
    for claim in one["claims"]:
        source = claim["source"]
        if "url" in claim:
            source = f"[{source}]({claim['url']})"
        lines.append(f"- {capital(claim['says'])} ({source}).")
    lines += [
        "",
        "<!-- registry: exempt, what sources claim -->",
        f"**Here:** {one['used']} {one['why']}",
    ]
    return "\n".join(lines)


def capital(sentence: str) -> str:
    """A sentence with its first letter in upper case."""
    return sentence[:1].upper() + sentence[1:]


# Files


def files() -> dict[str, str]:
    """Path and text of each file that is generated as a whole."""
    from aiinfra.tools import planner_page

    return downloads() | planner_page.files()


def downloads() -> dict[str, str]:
    """Path and text of each file to download."""
    files = {
        f"{DOWNLOADS}/{Path(name).stem}.csv": as_csv(kind)
        for kind, name in registry.FILES.items()
    }
    everything = {kind: as_data(kind) for kind in registry.FILES}
    text = json.dumps(everything, indent=1, ensure_ascii=False)
    files[f"{DOWNLOADS}/registry.json"] = text + "\n"
    return files


def as_csv(kind: str) -> str:
    """Every figure of a kind on a line of its own."""
    columns = ("unit", "kind", "per", "printed", "derivation", "note")
    columns += ("source", "url", "date")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["name", "figure", "value", *columns])
    for entry in entries(kind):
        for name, figure in entry.figures.items():
            said = [getattr(figure, column) for column in columns]
            said = ["" if one is None else one for one in said]
            writer.writerow([entry.name, name, number(figure), *said])
    return out.getvalue()


def as_data(kind: str) -> dict[str, Any]:
    """The entries of a kind as JSON has them; what a figure lacks is left out."""
    return {
        entry.name: {
            "what": entry.what,
            "aliases": entry.aliases,
            "traits": entry.traits,
            "refs": entry.refs,
            "figures": {
                name: {"value": number(figure)}
                | {k: v for k, v in vars(figure).items() if v and k != "name"}
                for name, figure in entry.figures.items()
            },
        }
        for entry in entries(kind)
    }


def number(figure: Figure) -> float | int:
    """The plain number, whole where it is whole."""
    return int(figure) if figure.is_integer() else float(figure)


# Runs on accelerators


def runs(root: Path) -> str:
    """What has been run on accelerators, from the records beside the page."""
    records = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in sorted((root / RUNS).glob("*.json"))
    ]
    most = max((record["count"] for record in records), default=0)
    if most == 0:
        said = "**Never run on a GPU**: no such run has been recorded."
    elif most == 1:
        said = "**Never run on 2 or more GPUs**: the largest recorded run had one."
    else:
        said = f"The largest recorded run had {most} GPUs."
    if not records:
        return said
    rows = [
        [
            record["date"],
            f"{record['count']} × {', '.join(sorted(set(record['devices'])))}",
            f"{record['torch']}, Python {record['machine']['python']}",
            _outcome(record["notebooks"]),
        ]
        for record in records
    ]
    head = ["date", "accelerators", "torch", "notebooks"]
    return f"{said}\n\n{scrolling_table('Recorded runs', head, rows)}"


def _outcome(notebooks: dict[str, dict[str, Any]]) -> str:
    """``1 of 2 passed (40 cells); failed: 04Train/02-ddp``."""
    cells = sum(one["cells_passed"] for one in notebooks.values())
    failed = [
        name.removesuffix(".ipynb")
        for name, one in notebooks.items()
        if one["outcome"] != "passed"
    ]
    said = f"{len(notebooks) - len(failed)} of {len(notebooks)} passed ({cells} cells)"
    return f"{said}; failed: {', '.join(failed)}" if failed else said


LATENT = {
    "kv_lora_rank": "KV rank",
    "q_lora_rank": "query rank",
    "d_qk_nope": "head width without RoPE",
    "d_qk_rope": "with RoPE",
    "d_v": "value width",
}
EXPERTS = {
    "experts": "experts",
    "experts_per_token": "per token",
    "shared_experts": "shared",
    "d_ffn_expert": "expert width",
    "dense_layers": "dense layers",
}
WINDOWS = {"window": "window, tokens", "windowed_layers": "layers that use it"}

# The planner against published runs


def planner_example(_: Path) -> str:
    """One layout, evaluated: what the page *Planner* shows where nothing moves."""
    from aiinfra.tools import planner_page

    return planner_page.example()


def planner_score(_: Path) -> str:
    """How the planner and the best constant do, in sentences."""
    from aiinfra.plan import published

    verdicts, pairs = published.verdicts(), published.pairs()
    errors = [abs(verdict.ratio - 1) for verdict in verdicts]
    constants = [abs(verdict.constant_ratio - 1) for verdict in verdicts]
    right = sum(pair.right_order for pair in pairs)
    misses = [abs(pair.predicted / pair.published - 1) for pair in pairs]
    fitted = published.fitted()[published.EVERYTHING]
    values = ", ".join(f"{key} {value:g}" for key, value in vars(fitted).items())
    return (
        f"Over {len(verdicts)} runs of {len(published.families())} families, each "
        f"family predicted by the others, the median error of the time of a step is "
        f"**{statistics.median(errors):.1%}** and the largest {max(errors):.0%}. The "
        f"best constant, the median utilisation of the other families, misses by "
        f"{statistics.median(constants):.1%} and {max(constants):.0%}.\n\n"
        f"Of {len(pairs)} pairs of runs of one model that differ, the planner names "
        f"the cheaper one in **{right}**; the median error of their ratio is "
        f"**{statistics.median(misses):.1%}**. A constant names none.\n\n"
        f"Fitted to all families: {values}."
    )


def planner_runs(_: Path) -> str:
    """Every published run, the planner's time for it, and the constant's."""
    from aiinfra.plan import published

    rows = [
        [
            verdict.run.family,
            verdict.run.name,
            f"{verdict.run.utilisation:.1%}",
            f"{verdict.run.seconds:.3g}",
            f"{verdict.predicted_s:.3g}",
            f"{verdict.ratio:.2f}",
            f"{verdict.constant_ratio:.2f}",
            verdict.run.assumed.replace("_", " ") or "–",
        ]
        for verdict in published.verdicts()
    ]
    head = ["family", "run", "MFU", "published s", "planner s", "ratio"]
    return scrolling_table(
        "Published runs", [*head, "constant's ratio", "assumed"], rows, sortable=True
    )


def planner_pairs(_: Path) -> str:
    """Pairs of runs of one model: published and predicted ratio of their cost."""
    from aiinfra.plan import published

    rows = [
        [
            f"{pair.first.family} {pair.first.name}",
            f"{pair.second.family} {pair.second.name}",
            f"{pair.published:.2f}",
            f"{pair.predicted:.2f}",
            "yes" if pair.right_order else "**no**",
        ]
        for pair in published.pairs()
    ]
    head = ["run", "against", "published", "planner", "right order"]
    return scrolling_table("Pairs of runs", head, rows, sortable=True)


def planner_sources(_: Path) -> str:
    """Where the runs were published."""
    from aiinfra.plan import published

    sources: dict[str, list[str]] = {}
    for run in published.runs():
        families = sources.setdefault(run.source, [])
        families += [run.family] * (run.family not in families)
    return "\n".join(f"- {', '.join(f)}: {source}" for source, f in sources.items())


WRITERS: dict[str, Callable[[Path], str]] = {
    "planner-example": planner_example,
    "planner-score": planner_score,
    "planner-runs": planner_runs,
    "planner-pairs": planner_pairs,
    "planner-sources": planner_sources,
    "accelerators": accelerators,
    "containers": containers,
    "stacks": stacks,
    "links": links,
    "models": models,
    "traits": traits,
    "experts": columns_of("Experts", EXPERTS),
    "latent": columns_of("Latent attention", LATENT),
    "windows": columns_of("Windows", WINDOWS),
    "sources-hardware": sources("hardware"),
    "sources-link": sources("link"),
    "sources-model": sources("model"),
    "notes-hardware": notes("hardware"),
    "notes-link": notes("link"),
    "notes-model": notes("model"),
    "contradictions-hardware": contradictions("hardware"),
    "contradictions-link": contradictions("link"),
    "contradictions-model": contradictions("model"),
    "contradictions-formula": contradictions("formula"),
    "runs": runs,
    "notebook-runs": status_page.table,
}
