"""Run notebooks again and record, for the status page, when and where each ran.

Without a name, those are run whose record is missing or older than their code. A
record is written only if nothing failed: every cell ran again, and its output, where
pages promise equal ones, was equal.
"""

import argparse
import datetime
import hashlib
import importlib.metadata
import json
import platform
from pathlib import Path
from typing import Any

from aiinfra.tools import machine, notebook, testing
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import (
    find_notebook,
    find_root,
    lesson_name,
    notebooks,
    relative,
)

PAGE = Path("book/reference/status.md")
RUNS = Path("book/reference/runs")  # one file for each notebook
FIELDS = {"date", "seconds", "cells", "cores", "accelerators", "versions", "sha256"}
VERSIONS = ("python", "torch", "nbval")
SYSTEMS = {"Linux": "Linux", "Darwin": "macOS"}  # that the book is said to run on

Run = dict[str, Any]  # the fields above


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("notebooks", nargs="*", metavar="NOTEBOOK")
    parser.add_argument("--all", action="store_true", help="every notebook of the book")


def run(args: argparse.Namespace) -> int:
    """Run and record notebooks, then write the page; 1 if a notebook failed."""
    from aiinfra.tools.doctor import ask_torch

    root = find_root()
    if args.all and args.notebooks:
        raise UserError("name notebooks or say --all, not both")
    if args.notebooks:
        paths = [find_notebook(root, name) for name in args.notebooks]
    else:
        paths = [p for p in notebooks(root) if args.all or outdated(root, p)]
    accelerators = ask_torch()[1] if paths else []
    failed = 0
    for path in paths:
        name = relative(root, path)
        before = digest(path)
        counts, outcome, seconds = testing.nbval(root, path)
        testing.report_notebook(name, counts, outcome, seconds)
        if counts.failed or digest(path) != before:
            failed += 1
            print(f"{name}  not recorded")
            continue
        record(root, path, before, counts.passed, seconds, accelerators)
    if not paths:
        print("every notebook's run is recorded")
    for path in orphans(root):
        path.unlink()
        print(f"{relative(root, path)}: removed, there is no such notebook")
    write_page(root)
    return 1 if failed else 0


def write_page(root: Path) -> None:
    """Bring the tables of the status page up to date."""
    from aiinfra.tools.registry_pages import fill

    page = root / PAGE
    if page.is_file():
        before = page.read_text("utf-8")
        if (after := fill(before, root)) != before:
            notebook.write_text(page, after)
            print(f"wrote {PAGE}")


def digest(path: Path) -> str:
    """A hash of what runs and what it printed: code cells, with their outputs.

    Prose is left out, since a better sentence does not age a run.
    """
    cells = [
        [cell.source, cell.outputs] for cell in notebook.code_cells(notebook.read(path))
    ]
    text = json.dumps(cells, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def file_of(root: Path, path: Path) -> Path:
    """Where the runs of the notebook at ``path`` are recorded."""
    return root / RUNS / f"{lesson_name(root, path)}.json"


def record(
    root: Path,
    path: Path,
    sha256: str,
    cells: int,
    seconds: float,
    accelerators: list[str],
) -> None:
    """Note that the notebook ran here and now; other systems' runs are kept."""
    system = str(machine.described()["system"])
    entry = {
        "date": datetime.date.today().isoformat(),
        "seconds": round(seconds, 1),
        "cells": cells,
        "cores": machine.cores(),
        "accelerators": accelerators,
        "versions": {name: version(name) for name in VERSIONS},
        "sha256": sha256,
    }
    known = {**runs_of(root, path), system: entry}
    text = json.dumps(known, indent=1, sort_keys=True, ensure_ascii=False)
    notebook.write_text(file_of(root, path), text + "\n")


def version(name: str) -> str:
    """The version of Python, or of a package."""
    if name == "python":
        return platform.python_version()
    return importlib.metadata.version(name)


def runs_of(root: Path, path: Path) -> dict[str, Run]:
    """The recorded runs of a notebook, by system; UserError if they are not as told."""
    file = file_of(root, path)
    if not file.is_file():
        return {}
    try:
        runs = json.loads(file.read_text("utf-8"))
        good = all(set(entry) == FIELDS for entry in runs.values())
    except (ValueError, AttributeError, TypeError):
        good = False
    if not good:
        raise UserError(
            f"{relative(root, file)}: expected for each system the fields "
            f"{', '.join(sorted(FIELDS))}; remove it and run "
            f"`aiinfra status {lesson_name(root, path)}`"
        )
    return runs


def outdated(root: Path, path: Path) -> str:
    """Why the notebook's runs do not vouch for it as it is; empty if one does."""
    runs = runs_of(root, path)
    if not runs:
        return "has no recorded run"
    current = digest(path)
    if all(entry["sha256"] != current for entry in runs.values()):
        return "has changed since its last recorded run"
    return ""


def orphans(root: Path) -> list[Path]:
    """Records of notebooks that no longer exist."""
    known = {file_of(root, path) for path in notebooks(root)}
    return sorted(set((root / RUNS).rglob("*.json")) - known)


def table(root: Path) -> str:
    """The status page's table: one row for each notebook and system it ran on."""
    from aiinfra.tools.registry_pages import scrolling_table

    rows = []
    for path in notebooks(root):
        title = f"{{doc}}`{lesson_name(root, path)} </{lesson_name(root, path)}>`"
        current, never = digest(path), ", ".join(untried(root, path)) or "–"
        runs = runs_of(root, path)
        if not runs:
            rows.append([title, "never", "–", "–", "–", never])
        for system, entry in sorted(runs.items()):
            stale = " (the code has changed since)"
            date = entry["date"] + (stale if entry["sha256"] != current else "")
            versions = ", ".join(f"{k} {entry['versions'][k]}" for k in VERSIONS)
            on = f"{system}, {entry['cores']} cores"
            on = ", ".join([on, *devices(entry["accelerators"])])
            seconds = f"{entry['seconds']:.0f}"
            rows.append([title, date, seconds, versions, on, never])
    head = ["notebook", "last run", "seconds", "versions", "on", "never tried on"]
    return scrolling_table("Notebooks", head, rows) if rows else "No notebook yet."


def devices(accelerators: list[str]) -> list[str]:
    """``2 × NVIDIA H200`` for each kind."""
    return [
        f"{accelerators.count(kind)} × {kind}" for kind in sorted(set(accelerators))
    ]


def untried(root: Path, path: Path) -> list[str]:
    """The hardware and systems that no record of this notebook tells of."""
    runs = runs_of(root, path)
    most = max((len(entry["accelerators"]) for entry in runs.values()), default=0)
    for file in sorted((root / testing.GPU_RUNS).glob("*.json")):
        gpu_run = json.loads(file.read_text("utf-8"))
        entry = gpu_run["notebooks"].get(relative(root, path), {})
        if entry.get("outcome") == "passed":
            most = max(most, gpu_run["count"])
    seen = " ".join(runs)
    never = [said for system, said in SYSTEMS.items() if system not in seen]
    if most < 2:
        never.append("2 or more GPUs" if most else "a GPU")
    return never
