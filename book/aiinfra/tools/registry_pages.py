"""Write what is generated in the reference pages: tables of the registry, of runs.

A page keeps its own prose; what lies between ``<!-- generated: NAME -->`` and
``<!-- end -->`` is written here. ``--check`` only says whether the pages are up to
date.
"""

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiinfra.registry import Entry, entries
from aiinfra.tools import status_page
from aiinfra.tools.check.problem import Problem
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import find_root

PAGES = ("book/reference/hardware.md", "book/reference/status.md")
BLOCK = re.compile(r"<!-- generated: ([\w-]+) -->\n.*?<!-- end -->", re.S)
RUNS = "book/reference/gpu-runs"  # written by `make test-gpu`


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``aiinfra registry-pages``."""
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a page is stale"
    )


def run(args: argparse.Namespace) -> int:
    """Write the pages, or with ``--check`` say which are stale."""
    root = find_root()
    if args.check:
        problems = stale(root)
        for problem in problems:
            print(problem)
        return 1 if problems else 0
    for name in PAGES:
        path = root / name
        before = path.read_text(encoding="utf-8")
        after = fill(before, root)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"wrote {name}")
    return 0


def stale(root: Path) -> list[Problem]:
    """The pages whose generated parts are not what the registry says now."""
    problems = []
    for name in PAGES:
        text = (root / name).read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            if fill(block[0], root) != block[0]:
                line = text.count("\n", 0, block.start()) + 1
                message = f"{block[1]} is not up to date: run `aiinfra registry-pages`"
                problems.append(Problem(name, line, message))
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


def scrolling_table(label: str, head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table that scrolls by itself where it is wider than the page."""
    lines = [
        '<div class="scrolling" style="overflow-x: auto" role="region" '
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
    """A figure as a table cell, with its kind: ``450 GB/s (derived)``."""
    figure = entry.figures.get(name)
    if figure is None:
        return "–"
    if figure.unit == "count":
        return f"{int(figure):,}"
    return f"{figure.text.replace(' parameters', '')} ({figure.kind})"


def accelerators(_: Path) -> str:
    """One row per accelerator or machine that computes."""
    rows = [
        [
            f"**{entry.name}**",
            value(
                entry, "bf16_dense_flops" if _is_gpu(entry) else "fp32_dense_flops"
            ).replace(" (", " bf16 (" if _is_gpu(entry) else " fp32 ("),
            value(entry, "memory_bytes"),
            value(entry, "memory_bytes_per_s"),
            value(entry, "tdp_w"),
            entry.scale_up.name if "scale_up" in entry.refs else "–",
        ]
        for entry in entries("hardware")
        if "memory_bytes" in entry.figures
    ]
    head = ["name", "dense FLOP/s", "memory", "memory bandwidth", "power", "scale-up"]
    return scrolling_table("Accelerators", head, rows)


def _is_gpu(entry: Entry) -> bool:
    return "bf16_dense_flops" in entry.figures


def nodes(_: Path) -> str:
    """One row per node."""
    rows = [
        [
            f"**{entry.name}**",
            f"{value(entry, 'accelerators')} × {entry.accelerator.name}",
            f"{value(entry, 'nics')} × {entry.scale_out.name}",
            value(entry, "max_power_w"),
        ]
        for entry in entries("hardware")
        if "accelerator" in entry.refs
    ]
    return scrolling_table(
        "Nodes", ["name", "accelerators", "network", "power, at most"], rows
    )


def links(_: Path) -> str:
    """One row per link."""
    rows = []
    for entry in entries("link"):
        bandwidth = entry.one_way_bytes_per_s
        rows.append(
            [
                f"**{entry.name}**",
                f"{value(entry, 'one_way_bytes_per_s')} per {bandwidth.per}",
                f"{8 * bandwidth / 1e9:,.4g} Gb/s",
                value(entry, "latency_s"),
                entry.what,
            ]
        )
    head = ["name", "one-way bandwidth", "in bits", "latency", "where"]
    return scrolling_table("Links", head, rows)


def models(_: Path) -> str:
    """One row per model."""
    columns = {
        "parameters": "parameters",
        "layers": "layers",
        "d_model": "width",
        "heads": "heads",
        "kv_heads": "KV heads",
        "d_head": "head width",
        "d_ffn": "FFN width",
        "vocabulary": "vocabulary",
    }
    rows = [
        [f"**{entry.name}**", *(value(entry, name) for name in columns)]
        for entry in entries("model")
    ]
    return scrolling_table("Models", ["name", *columns.values()], rows)


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


WRITERS: dict[str, Callable[[Path], str]] = {
    "accelerators": accelerators,
    "nodes": nodes,
    "links": links,
    "models": models,
    "sources-hardware": sources("hardware"),
    "sources-link": sources("link"),
    "sources-model": sources("model"),
    "notes-hardware": notes("hardware"),
    "notes-link": notes("link"),
    "notes-model": notes("model"),
    "runs": runs,
    "notebook-runs": status_page.table,
}
