"""Measure what the book claims about its own speed, and print the table.

Each tests/bench/bench_*.py has run(), which returns rows: mappings from column to
value. Times depend on the machine and on what else it does; compare the ratios.
"""

import argparse
import importlib.util
import time
from collections.abc import Mapping
from pathlib import Path

from aiinfra.tools import machine
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import find_root, nearest

FOLDER = Path("tests/bench")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="launch, …: only these"
    )


def run(args: argparse.Namespace) -> int:
    """Run the benchmarks named, or all."""
    root = find_root()
    files = {
        path.stem.removeprefix("bench_"): path
        for path in sorted((root / FOLDER).glob("bench_*.py"))
    }
    for name in args.names:
        if name not in files:
            raise UserError(f"no benchmark {name!r}; {nearest(name, list(files))}")
    about = machine.described()
    print(f"{about['processor']}, {about['cores']} cores, Python {about['python']}")
    for name in args.names or files:
        began = time.perf_counter()
        print(f"\n{name}", flush=True)
        rows = measure(files[name])
        print(table(rows))
        print(f"({time.perf_counter() - began:.0f} s)")
    return 0


def measure(path: Path) -> list[Mapping[str, object]]:
    """The rows that one benchmark file returns."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:  # pragma: no cover - the glob found it
        raise UserError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(getattr(module, "run", None)):
        raise UserError(f"{path} has no run(); expected one that returns rows")
    rows = list(module.run())
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        raise UserError(f"{path}: run() must return mappings from column to value")
    return rows


def table(rows: list[Mapping[str, object]]) -> str:
    """``rows`` as aligned text: words to the left, numbers to the right."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [columns] + [[show(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    right = [
        all(isinstance(row.get(column), int | float | None) for row in rows)
        for column in columns
    ]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in cells
    )


def show(value: object) -> str:
    """A number to three digits, anything else as it is."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value)
