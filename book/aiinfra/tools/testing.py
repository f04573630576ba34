"""Run every check of the book, by stage; a failing stage does not stop the next."""

import argparse
import codecs
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import select
import signal
import statistics
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aiinfra.tools import machine, notebook
from aiinfra.tools.errors import UserError
from aiinfra.tools.execute import kernel_environment
from aiinfra.tools.root import find_root, nearest, notebooks, relative

RESULTS = Path("_build/test")
TIMES = RESULTS / "notebooks.json"
GPU_RUNS = Path("book/reference/gpu-runs")
ELSEWHERE = ("site", "bench", "release")  # tests that the stage unit leaves out
STYLE = ("ruff", "spelling", "workflows")  # the gates of the stage lint
PYTEST = [sys.executable, "-m", "pytest", "-q", "-o", "junit_family=xunit1"]
CELL_LIMIT_S, NOTEBOOK_LIMIT_S, STAGE_LIMIT_S = 120, 300, 2700
NBVAL = [
    "--nbval",
    "--nbval-current-env",
    f"--nbval-cell-timeout={CELL_LIMIT_S}",
    "--tb=short",
    "--color=no",
    "-p",
    "no:cacheprovider",
]


@dataclass
class Tally:
    """How many checks passed, failed, and could not be made here."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __iadd__(self, other: "Tally") -> "Tally":
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        return self


@dataclass
class Outcome:
    """What one program did: its exit status, and the end of what it printed."""

    code: int
    output: str
    seconds: float
    overtime: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument(
        "stages", nargs="*", metavar="STAGE", help=f"default all: {' '.join(STAGES)}"
    )
    parser.add_argument(
        "--gpu",
        action="store_true",
        help="run the notebooks on this machine's accelerators and keep a record",
    )


def run(args: argparse.Namespace) -> int:
    """Run the stages named, or all; 1 if any check failed."""
    root = find_root()
    if args.gpu:
        if args.stages:
            raise UserError("--gpu runs the notebooks only; leave the stages out")
        return on_accelerators(root)
    for name in args.stages:
        if name not in STAGES:
            raise UserError(f"no stage {name!r}; {nearest(name, list(STAGES))}")
    (root / RESULTS).mkdir(parents=True, exist_ok=True)
    rows = []
    for name in args.stages or STAGES:
        print(f"\n── {name}: {summary(STAGES[name])}", flush=True)
        began = time.perf_counter()
        try:
            tally = STAGES[name](root)
        except UserError as error:
            print(f"aiinfra: {error}", file=sys.stderr, flush=True)
            tally = Tally(failed=1)
        rows.append((name, tally, time.perf_counter() - began))
    return conclude(rows)


def summary(stage: Callable[[Path], Tally]) -> str:
    """The first line of a stage's docstring, as a heading."""
    first = (stage.__doc__ or "").splitlines()[0]
    return first.rstrip(".")


def conclude(rows: list[tuple[str, Tally, float]]) -> int:
    """Print each stage's counts and time, then the sum on a line of its own."""
    total = Tally()
    print(f"\n{'stage':<10} {'passed':>7} {'failed':>7} {'skipped':>8} {'time':>8}")
    for name, tally, seconds in rows:
        total += tally
        print(
            f"{name:<10} {tally.passed:>7} {tally.failed:>7} {tally.skipped:>8} "
            f"{seconds:>6.0f} s  {'FAILED' if tally.failed else 'ok'}"
        )
    seconds = sum(row[2] for row in rows)
    print(f"{'all':<10} {'':>7} {'':>7} {'':>8} {seconds:>6.0f} s\n")
    skipped = f", {total.skipped} skipped" if total.skipped else ""
    print(f"{total.passed} passed, {total.failed} failed{skipped}", flush=True)
    return 1 if total.failed else 0


def lint(root: Path) -> Tally:
    """Style and spelling of code, notebooks and prose."""
    return run_gates(root, list(STYLE))


def unit(root: Path) -> Tally:
    """The package's own tests."""
    return pytest(
        root, "unit", "tests", *(f"--ignore=tests/{stage}" for stage in ELSEWHERE)
    )


def run_notebooks(root: Path) -> Tally:
    """Every notebook runs again, and its outputs are compared."""
    tally, record = Tally(), read_times(root)
    for path in notebooks(root):
        name = relative(root, path)
        counts, outcome, seconds = nbval(root, path)
        tally += counts
        record[name] = {"seconds": round(seconds, 1), "sha256": sha256(path)}
        report_notebook(name, counts, outcome, seconds)
    present = {relative(root, path) for path in notebooks(root)}
    record = {name: record[name] for name in sorted(record) if name in present}
    notebook.write_text(root / TIMES, json.dumps(record, indent=1) + "\n")
    if record:
        middle = statistics.median(entry["seconds"] for entry in record.values())
        print(f"{len(record)} notebooks, median {middle:.0f} s")
    return tally


def mutants(root: Path) -> Tally:
    """Each lesson's planted mistakes are seen by its checks."""
    outcome = command(root, "mutants", show=True)
    verdicts = re.findall(
        r"^  (killed|survived|stale|wrong) ", outcome.output, re.MULTILINE
    )
    killed = verdicts.count("killed")
    tally = Tally(passed=killed, failed=len(verdicts) - killed)
    return settle(tally, outcome)


def assignments(root: Path) -> Tally:
    """Assignments: solutions pass; empty and wrong answers fail."""
    outcome = command(root, "exercises", "--check", show=True)
    verdicts = re.findall(
        r"^  (passes|killed|broken|survived|stale|wrong) ", outcome.output, re.MULTILINE
    )
    good = verdicts.count("passes") + verdicts.count("killed")
    return settle(Tally(passed=good, failed=len(verdicts) - good), outcome)


def generated(root: Path) -> Tally:
    """What is generated equals its source: lesson modules, registry tables."""
    tally = Tally()
    for words in (["export", "--check"], ["registry-pages", "--check"]):
        outcome = command(root, *words, show=True)
        tally += settle(Tally(passed=int(outcome.code == 0)), outcome)
    return tally


def build(root: Path) -> Tally:
    """The site builds without a warning."""
    outcome = command(root, "build", show=True)
    return settle(Tally(passed=int(outcome.code == 0)), outcome)


def gates(root: Path) -> Tally:
    """What can be checked by reading."""
    from aiinfra.tools.gates import GATES

    return run_gates(root, [name for name in GATES if name not in STYLE])


def site(root: Path) -> Tally:
    """The built site in a real browser."""
    if not (root / "_build/html/index.html").is_file():
        raise UserError("no built site to test; `aiinfra build` first")
    ensure_browser()
    return pytest(root, "site", "tests/site")


def release(root: Path) -> Tally:
    """The files of a release, and a part of it installed and run alone."""
    return pytest(root, "release", "tests/release")


STAGES: dict[str, Callable[[Path], Tally]] = {
    "lint": lint,
    "unit": unit,
    "notebooks": run_notebooks,
    "mutants": mutants,
    "assignments": assignments,
    "generated": generated,
    "build": build,
    "gates": gates,
    "site": site,
    "release": release,
}


def run_gates(root: Path, names: list[str]) -> Tally:
    """Run gates and count them."""
    from aiinfra.tools.gates import judge

    verdicts = judge(root, names)
    failed = sum(bool(verdict.problems) for verdict in verdicts)
    skipped = sum(bool(verdict.skipped) for verdict in verdicts)
    return Tally(len(verdicts) - failed - skipped, failed, skipped)


def pytest(root: Path, stage: str, *words: str) -> Tally:
    """Run pytest, showing what it prints, and count its tests."""
    report = root / RESULTS / f"{stage}.xml"
    report.unlink(missing_ok=True)
    outcome = program(
        root,
        [*PYTEST, f"--junitxml={report}", "-rfEs", "--durations=5", *words],
        STAGE_LIMIT_S,
        show=True,
    )
    return settle(read_junit(report)[0], outcome)


def nbval(root: Path, path: Path) -> tuple[Tally, Outcome, float]:
    """Run one notebook under strict nbval: counts, outcome, seconds in its cells."""
    report = root / RESULTS / "notebook.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    outcome = program(
        root,
        [*PYTEST, f"--junitxml={report}", *NBVAL, str(path)],
        NOTEBOOK_LIMIT_S,
    )
    tally, seconds = read_junit(report)
    if not tally.passed and not tally.failed and outcome.code == 0:
        tally.failed += 1  # nbval found no cell: nothing was checked
    return settle(tally, outcome), outcome, seconds or outcome.seconds


def report_notebook(name: str, counts: Tally, outcome: Outcome, seconds: float) -> None:
    """One line for a notebook; the end of pytest's words if it failed."""
    verdict = f"{counts.failed} FAILED" if counts.failed else "ok"
    print(f"{name}  {counts.passed} cells {verdict} ({seconds:.1f} s)", flush=True)
    if outcome.overtime:
        print(f"  stopped after {NOTEBOOK_LIMIT_S} s")
    if counts.failed:
        print("\n".join(f"  {line}" for line in outcome.output.splitlines()[-80:]))


def command(root: Path, *words: str, show: bool = False) -> Outcome:
    """Run one of our own commands in a process of its own."""
    words = (sys.executable, "-m", "aiinfra.tools.cli", *words)
    return program(root, list(words), STAGE_LIMIT_S, show=show)


def program(
    root: Path, words: list[str], limit_s: float, show: bool = False
) -> Outcome:
    """Run a program in a session of its own; past the limit, stop all of it.

    Its output is kept, and with ``show`` printed as it comes.
    """
    began = time.perf_counter()
    process = subprocess.Popen(
        words,
        cwd=root,
        env=kernel_environment() | {"PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    pieces: list[str] = []
    overtime = False
    try:
        while True:
            if select.select([process.stdout], [], [], 1.0)[0]:
                if not (chunk := os.read(process.stdout.fileno(), 65536)):
                    break
                pieces.append(decode(chunk))
                if show:
                    print(pieces[-1], end="", flush=True)
            elif process.poll() is not None:
                break  # it ended; something that it left behind holds the pipe
            if time.perf_counter() - began > limit_s and not overtime:
                overtime = True
                os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()
    if overtime and show:
        print(f"\nstopped after {limit_s:.0f} s", flush=True)
    return Outcome(code, "".join(pieces), time.perf_counter() - began, overtime)


def settle(tally: Tally, outcome: Outcome) -> Tally:
    """``tally``, with a failure added if the program failed and named none."""
    if (outcome.code or outcome.overtime) and not tally.failed:
        tally.failed = 1
    return tally


def read_junit(path: Path) -> tuple[Tally, float]:
    """Counts and seconds from pytest's report; nothing if it wrote none."""
    try:
        suites = ET.parse(path).getroot().iter("testsuite")
    except (OSError, ET.ParseError):
        return Tally(), 0.0
    tally, seconds = Tally(), 0.0
    for suite in suites:
        count = {key: int(suite.get(key, 0)) for key in COUNTS}
        failed = count["failures"] + count["errors"]
        tally += Tally(
            count["tests"] - failed - count["skipped"], failed, count["skipped"]
        )
        seconds += sum(float(case.get("time", 0)) for case in suite.iter("testcase"))
    return tally, seconds


COUNTS = ("tests", "failures", "errors", "skipped")


def read_times(root: Path) -> dict[str, dict[str, object]]:
    """The run times kept from earlier runs."""
    try:
        return json.loads((root / TIMES).read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def sha256(path: Path) -> str:
    """The hash of a file, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def ensure_browser() -> None:
    """Let Playwright fetch its own Chromium where the machine has none.

    Without a network the site's tests say themselves why they are skipped.
    """
    from aiinfra.tools.browser import find_chromium

    if find_chromium():
        return
    print("no Chromium here; asking Playwright for its own …", flush=True)
    outcome = program(
        find_root(), [sys.executable, "-m", "playwright", "install", "chromium"], 300
    )
    if outcome.code:
        last = (outcome.output.strip().splitlines() or ["no message"])[-1]
        print(f"none came ({last}); install your system's chromium", flush=True)


def on_accelerators(root: Path) -> int:
    """Run the notebooks on accelerators and write a dated record of what ran."""
    from aiinfra.tools.doctor import ask_torch

    version, devices = ask_torch()
    if not devices:
        raise UserError(
            f"torch {version} sees no accelerator here, so there is nothing to record; "
            "`make test` runs the same notebooks on the CPU"
        )
    kinds = sorted(set(devices))
    print(f"{len(devices)} × {', '.join(kinds)}, torch {version}")
    entries, total = {}, Tally()
    for path in notebooks(root):
        counts, outcome, seconds = nbval(root, path)
        total += counts
        name = relative(root, path)
        report_notebook(name, counts, outcome, seconds)
        entries[name] = {
            "outcome": "failed" if counts.failed else "passed",
            "cells_passed": counts.passed,
            "cells_failed": counts.failed,
            "seconds": round(seconds, 1),
            "sha256": sha256(path),
        }
    today = datetime.date.today().isoformat()
    record = {
        "date": today,
        "devices": devices,
        "count": len(devices),
        "torch": version,
        "nbval": importlib.metadata.version("nbval"),
        "machine": machine.described() | {"system": platform.system()},
        "notebooks": entries,
    }
    slug = re.sub(r"[^a-z0-9]+", "-", kinds[0].lower()).strip("-")
    path = root / GPU_RUNS / f"{today}-{slug}-x{len(devices)}.json"
    notebook.write_text(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    print(f"record: {relative(root, path)}")
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0
