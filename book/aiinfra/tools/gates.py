"""Run the gates: what must hold of every page, figure and line of code."""

import argparse
import importlib
import time
from dataclasses import dataclass, field
from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import Skip
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import find_root, nearest

# One module of aiinfra.tools.check each, with check(root) -> list of problems.
GATES = (
    "form",
    "executed",
    "errors",
    "lengths",
    "portable",
    "alt",
    "numbers",
    "public",
    "examples",
    "spelling",
    "ruff",
    "toc",
    "skeleton",
    "glossary",
    "bibliography",
    "failures",
    "slides",
    "leftovers",
    "sizes",
    "assignments",
    "records",
    "status",
    "budgets",
    "workflows",
    "links",
)


@dataclass
class Verdict:
    """What one gate said."""

    name: str
    seconds: float
    problems: list[Problem] = field(default_factory=list)
    skipped: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("gates", nargs="*", metavar="GATE", help="default: all")
    parser.add_argument("--list", action="store_true", help="say what each gate is for")


def run(args: argparse.Namespace) -> int:
    """Run the gates named, or all; 1 if any found a problem."""
    if args.list:
        width = max(map(len, GATES))
        for name in GATES:
            doc = module(name).__doc__ or ""
            print(f"{name:<{width}}  {' '.join(doc.split(chr(10) * 2)[0].split())}")
        return 0
    verdicts = judge(find_root(), choose(args.gates))
    failed = sum(bool(verdict.problems) for verdict in verdicts)
    skipped = sum(bool(verdict.skipped) for verdict in verdicts)
    found = sum(len(verdict.problems) for verdict in verdicts)
    print(
        f"gates: {len(verdicts) - failed - skipped} hold, {failed} fail with {found} "
        f"problems, {skipped} skipped"
    )
    return 1 if failed else 0


def choose(names: list[str]) -> list[str]:
    """The gates meant; UserError names the nearest to an unknown one."""
    for name in names:
        if name not in GATES:
            raise UserError(f"no gate {name!r}; {nearest(name, list(GATES))}")
    return names or list(GATES)


def judge(root: Path, names: list[str]) -> list[Verdict]:
    """Run gates one after the other, printing what each finds as it finds it."""
    width = max(map(len, names))
    verdicts = []
    for name in names:
        began = time.perf_counter()
        verdict = Verdict(name, 0.0)
        try:
            verdict.problems = sorted(module(name).check(root))
        except Skip as reason:
            verdict.skipped = str(reason)
        verdict.seconds = time.perf_counter() - began
        verdicts.append(verdict)
        count = len(verdict.problems)
        said = f"{count} problem{'s' * (count > 1)}" if count else "holds"
        if verdict.skipped:
            said = f"skipped: {verdict.skipped}"
        print(f"{name:<{width}}  {said}  ({verdict.seconds:.1f} s)", flush=True)
        for problem in verdict.problems:
            print(f"  {problem}")
    return verdicts


def module(name: str):
    """The module behind a gate."""
    return importlib.import_module(f"aiinfra.tools.check.{name}")
