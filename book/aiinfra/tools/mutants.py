"""Plant each lesson's known mistakes; the lesson's own checks must see them.

tests/mutants/<part>/<lesson>.yaml lists plausible mistakes. For each, the lesson's
cells tagged setup, export and check run in order in one process, with one text in one
cell replaced; the run must end in an assertion that names what is wrong.
"""

import argparse
import ast
import contextlib
import gc
import io
import linecache
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml

from aiinfra.tools import notebook
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import find_root, lesson_name, nearest, notebooks

FOLDER = Path("tests/mutants")
KEYS = {"name", "why", "cell", "replace", "with", "fails"}
RUN = {"setup", "export", "check"}
AT_LEAST = 8  # a lesson of algorithms has at least so many ways to go wrong


class OvertimeError(BaseException):
    """A mutant outlived its limit. No Exception: a cell must not swallow it."""


@dataclass(frozen=True)
class Mutant:
    """One planted mistake: in ``cell``, ``replace`` becomes ``by``."""

    name: str
    why: str
    cell: str
    replace: str
    by: str
    fails: str


@dataclass(frozen=True)
class Failure:
    """How a run of a lesson's cells ended early."""

    cell: str
    error: BaseException
    text: str  # what a reader would see: messages and the failing source lines

    @property
    def first_line(self) -> str:
        """The error in one line."""
        message = notebook.first_line(self.error)
        return f"{type(self.error).__name__}: {message}"[:160]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="04Train/02-ddp")
    parser.add_argument(
        "--limit",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="longest time for one mutant (default 120)",
    )
    parser.add_argument(
        "--at-least",
        type=int,
        default=AT_LEAST,
        metavar="N",
        help=f"mutants that a lesson with exported code must have (default {AT_LEAST})",
    )


def run(args: argparse.Namespace) -> int:
    """Run the mutants of the lessons named, or of all; 1 if any is not killed."""
    root = find_root()
    if args.limit <= 0:
        raise UserError(f"--limit {args.limit:g}: expected more than 0 s")
    lessons = choose(root, args.lessons)
    if len(lessons) == 1:
        return run_lesson(root, lessons[0], args.limit, args.at_least)
    if not lessons:
        print("mutants: no lesson exports code yet")
    return run_lessons(root, lessons, args.limit, args.at_least)


def run_lessons(root: Path, lessons: list[str], limit_s: float, at_least: int) -> int:
    """Run each lesson in a process of its own, as many at a time as there are cores.

    A process each: one lesson's modules and ranks must not meet the next one's. What
    it prints comes when it ends, in the order of ``lessons``.
    """

    def in_process(lesson: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "aiinfra.tools.cli", "mutants", lesson]
        command += ["--limit", str(limit_s), "--at-least", str(at_least)]
        return subprocess.run(
            command,
            cwd=root,
            env={"OMP_NUM_THREADS": "1", **os.environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    status = 0
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for done in pool.map(in_process, lessons):
            print(done.stdout, end="", flush=True)
            status |= bool(done.returncode)
    return status


def choose(root: Path, names: list[str]) -> list[str]:
    """The lessons meant by ``names``; by default all that have code to break."""
    known = {lesson_name(root, path): path for path in notebooks(root)}
    for name in names:
        if name.removesuffix(".ipynb") not in known:
            raise UserError(f"no lesson {name!r}; {nearest(name, list(known))}")
    if names:
        return [name.removesuffix(".ipynb") for name in names]
    orphans = [
        name
        for path in sorted((root / FOLDER).rglob("*.yaml"))
        if (name := path.relative_to(root / FOLDER).with_suffix("").as_posix())
        not in known
    ]
    if orphans:
        raise UserError(
            f"{FOLDER}/{orphans[0]}.yaml belongs to no notebook; remove or rename it"
        )
    return [
        name
        for name, path in known.items()
        if (root / FOLDER / f"{name}.yaml").exists()
        or any("export" in notebook.tags(cell) for cell in notebook.read(path).cells)
    ]


def run_lesson(root: Path, lesson: str, limit_s: float, at_least: int) -> int:
    """Run one lesson's mutants, printing each verdict; 1 if any is not killed."""
    began = time.perf_counter()
    path = root / f"{lesson}.ipynb"
    cells = [
        cell
        for cell in notebook.code_cells(notebook.read(path))
        if notebook.tags(cell) & RUN
    ]
    mutants = load(root / FOLDER / f"{lesson}.yaml", lesson)
    sources = {cell.id: cell.source for cell in cells}
    checks = {cell.id for cell in cells if "check" in notebook.tags(cell)}
    if not checks:
        raise UserError(f"{lesson} has no cell tagged check: nothing could fail")
    with Lesson(path.parent) as shell:
        failure = shell.run(sources, limit_s)
        if failure:
            print(failure.text, file=sys.stderr)
            print(f"{lesson}: fails unmutated in cell {failure.cell}")
            print(f"{lesson}: 0 of {len(mutants)} mutants killed")
            return 1
        shell.forget()
        gc.freeze()  # what the libraries keep for ever: not searched for each mutant
        baseline_s = time.perf_counter() - began
        print(f"{lesson}: {len(sources)} cells pass unmutated ({baseline_s:.1f} s)")
        killed = 0
        for mutant in mutants:
            start = time.perf_counter()
            verdict, detail = judge(shell, sources, checks, mutant, limit_s)
            killed += verdict == "killed"
            took = time.perf_counter() - start
            print(f"  {verdict:<8}  {mutant.name} ({took:.1f} s): {detail}", flush=True)
    total_s = time.perf_counter() - began
    print(f"{lesson}: {killed} of {len(mutants)} mutants killed ({total_s:.0f} s)")
    if len(mutants) < at_least:
        print(f"{lesson}: expected at least {at_least} mutants, found {len(mutants)}")
        return 1
    return 0 if killed == len(mutants) else 1


def load(path: Path, lesson: str) -> list[Mutant]:
    """The mutants listed in ``path``.

    Raises UserError naming the entry that is not as it should be.
    """
    try:
        entries = yaml.safe_load(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise UserError(
            f"{lesson} exports code but {FOLDER}/{lesson}.yaml is missing; list "
            "plausible mistakes there"
        ) from error
    except yaml.YAMLError as error:
        raise UserError(f"{path}: {' '.join(str(error).split())}") from error
    if not isinstance(entries, list):
        raise UserError(f"{path}: expected a list of mutants")
    mutants = []
    for number, entry in enumerate(entries, 1):
        keys = set(entry) if isinstance(entry, dict) else set()
        if keys != KEYS or not all(isinstance(entry[key], str) for key in KEYS):
            raise UserError(
                f"{path}: mutant {number} must have exactly the texts "
                f"{', '.join(sorted(KEYS))}"
            )
        words = {key: text for key, text in entry.items() if key != "with"}
        mutants.append(Mutant(**words, by=entry["with"]))
        if entry["with"] == entry["replace"] or not entry["fails"].strip():
            raise UserError(
                f"{path}: mutant {entry['name']!r} changes nothing or says no text "
                "that must occur in the failing assertion"
            )
    names = [mutant.name for mutant in mutants]
    if len(set(names)) < len(names):
        raise UserError(f"{path}: two mutants have the same name")
    return mutants


def judge(
    shell: "Lesson",
    sources: dict[str, str],
    checks: set[str],
    mutant: Mutant,
    limit_s: float,
) -> tuple[str, str]:
    """``killed``, ``survived``, ``stale`` or ``wrong``, and why."""
    source = sources.get(mutant.cell)
    if source is None or mutant.cell in checks:
        return "stale", (
            f"{mutant.cell} is no cell of the lesson tagged setup or export; "
            f"{nearest(mutant.cell, [cell for cell in sources if cell not in checks])}"
        )
    if (count := source.count(mutant.replace)) != 1:
        return "stale", (
            f"the text to replace occurs {count} times in cell {mutant.cell}, "
            "expected once"
        )
    mutated = source.replace(mutant.replace, mutant.by)
    failure = shell.run({**sources, mutant.cell: mutated}, limit_s)
    if failure is None:
        return "survived", f"no check failed; {mutant.why}"
    if isinstance(failure.error, OvertimeError):
        return "wrong", f"still running after {limit_s:g} s in cell {failure.cell}"
    if not is_check_failure(failure.error):
        return "wrong", f"expected a failing assertion, got {failure.first_line}"
    if mutant.fails not in failure.text:
        return "wrong", (
            f"{failure.first_line}, in cell {failure.cell}, "
            f"does not say {mutant.fails!r}"
        )
    return "killed", f"by cell {failure.cell}"


def is_check_failure(error: BaseException) -> bool:
    """Whether ``error`` is an assertion that failed, here or on a rank."""
    if isinstance(error, AssertionError):
        return True
    launch = sys.modules.get("aiinfra.launch")
    return launch is not None and isinstance(error, launch.RankError)


class Lesson:
    """An IPython shell in this process that runs a lesson's cells from the start.

    IPython, because cells may carry magics (``%%ranks``); one process, because a
    kernel and an import of torch per mutant would cost more than the checks.
    """

    def __init__(self, folder: Path) -> None:
        os.environ.setdefault("MPLBACKEND", "agg")
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        config = Config()
        config.HistoryManager.enabled = False
        self.main = sys.modules["__main__"]
        self.shell = InteractiveShell.instance(config=config)
        # Failures are told by `told`; drawing each in colour costs a second.
        self.shell.showtraceback = self.shell.showsyntaxerror = lambda *_, **__: None
        self.folder = folder
        self.before = Path.cwd()

    def __enter__(self) -> "Lesson":
        os.chdir(self.folder)  # as a kernel does
        sys.path.insert(0, str(self.folder))
        return self

    def __exit__(self, *error: object) -> None:
        self.forget()
        sys.path.remove(str(self.folder))
        os.chdir(self.before)
        type(self.shell).clear_instance()
        sys.modules["__main__"] = self.main

    def run(self, sources: dict[str, str], limit_s: float) -> Failure | None:
        """Run the cells in order in a fresh namespace; how the run failed, if so."""
        self.forget()
        running = ""
        try:
            with quiet(), time_limit(limit_s):
                for running, source in sources.items():
                    result = self.shell.run_cell(source, store_history=False)
                    error = result.error_before_exec or result.error_in_exec
                    if error is not None:
                        return Failure(running, error, told(error))
        except OvertimeError as error:
            return Failure(running, error, told(error))
        return None

    def forget(self) -> None:
        """Drop every name the cells defined, and stop the ranks they kept alive."""
        launch = sys.modules.get("aiinfra.launch")
        for value in list(self.shell.user_ns.values()):
            if launch is not None and isinstance(value, launch.Ranks):
                value.close()
        self.shell.reset(new_session=False)
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
        gc.collect()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Swallow what cells print."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        yield


@contextlib.contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    """Raise OvertimeError in the block once ``limit_s`` seconds have passed."""

    def ring(signum: int, frame: object) -> None:
        raise OvertimeError(f"still running after {limit_s:g} s")

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def told(error: BaseException) -> str:
    """The error's message, its ranks' tracebacks, and its failing source lines."""
    parts = [f"{type(error).__name__}: {error}"]
    parts += [str(text) for text in getattr(error, "failures", {}).values()]
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.lineno is not None and "site-packages" not in frame.filename:
            parts.append(statement(frame.filename, frame.lineno))
    return "\n".join(parts)


def statement(filename: str, lineno: int) -> str:
    """The whole simple statement at a line: an assertion may span several lines."""
    lines = linecache.getlines(filename)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return linecache.getline(filename, lineno)
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt)
        and not hasattr(node, "body")
        and node.lineno <= lineno <= (node.end_lineno or node.lineno)
    ]
    if not around:
        return linecache.getline(filename, lineno)
    node = min(around, key=lambda node: (node.end_lineno or 0) - node.lineno)
    return "".join(lines[node.lineno - 1 : node.end_lineno])
