"""Run notebooks in order, first cell to last, and save their outputs.

A notebook is written only if every cell ran without an error.
"""

import argparse
import os
import re
import sys
import time
from pathlib import Path

from aiinfra.tools import notebook
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import find_notebook, find_root, notebooks, relative

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("notebooks", nargs="*", metavar="NOTEBOOK")
    parser.add_argument("--all", action="store_true", help="every notebook of the book")
    parser.add_argument(
        "--cell-timeout",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="longest time for one cell (default 120)",
    )


def run(args: argparse.Namespace) -> int:
    """Execute the notebooks named; 1 if any of them failed."""
    root = find_root()
    if args.all == bool(args.notebooks):
        raise UserError("name notebooks, for example 04Train/02-ddp, or say --all")
    if args.cell_timeout <= 0:
        raise UserError(f"--cell-timeout {args.cell_timeout:g}: expected more than 0 s")
    # All names are looked up before the first is run.
    paths = (
        notebooks(root)
        if args.all
        else [find_notebook(root, name) for name in args.notebooks]
    )
    failed = 0
    for path in paths:
        failed += not execute(path, relative(root, path), args.cell_timeout)
    return 1 if failed else 0


def execute(path: Path, name: str, cell_timeout_s: float = 120.0) -> bool:
    """Run one notebook and save it; False, and nothing written, on an error."""
    from nbclient import NotebookClient
    from nbclient.exceptions import (
        CellExecutionError,
        CellTimeoutError,
        DeadKernelError,
    )

    nb = notebook.read(path)
    clear(nb)
    total = sum(bool(cell.source.strip()) for cell in notebook.code_cells(nb))
    progress = Progress(name, total)
    client = NotebookClient(
        nb,
        timeout=cell_timeout_s,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
        # Without it every kernel warns on the terminal about its transport.
        extra_arguments=["--log-level=ERROR"],
        # No tag lets an error pass: it would be committed with its traceback.
        force_raise_errors=True,
        store_widget_state=False,
        on_cell_execute=progress.start,
        on_cell_executed=progress.end,
    )
    try:
        client.execute(env=kernel_environment())
    except CellExecutionError as error:
        return progress.failed(f"{error.ename}: {error.evalue}", str(error))
    except CellTimeoutError:
        return progress.failed(f"still running after {cell_timeout_s:g} s")
    except DeadKernelError:
        return progress.failed("the kernel died")
    notebook.write(notebook.normalise(nb), path)
    progress.done()
    for cell in notebook.code_cells(nb):
        for output in cell.outputs:
            if output.output_type == "error" or output.get("name") == "stderr":
                text = output.get("text") or f"{output.get('ename')}\n"
                line = text.strip().splitlines()[0][:100]
                print(f"  note: cell {cell.id} wrote to stderr: {line}")
    return True


def clear(nb) -> None:
    """Forget earlier outputs and counts."""
    for cell in notebook.code_cells(nb):
        cell.outputs = []
        cell.execution_count = None


def kernel_environment() -> dict[str, str]:
    """The environment of a kernel: this one, with this Python's commands first."""
    scripts = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", "")
    if path.split(os.pathsep)[0] != scripts:
        path = scripts + os.pathsep + path
    # The debugger's advice about frozen modules would land on the page's stderr.
    return {**os.environ, "PATH": path, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


class Progress:
    """One line per notebook: the running cell on a terminal, then the verdict."""

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total, self.count = name, total, 0
        self.cell_id, self.cell_began = "", 0.0
        self.began = time.perf_counter()
        self.slowest: tuple[float, str] = (0.0, "")
        self.live = sys.stdout.isatty()

    def start(self, cell, cell_index: int) -> None:
        """Called by nbclient before a cell runs."""
        if cell.cell_type != "code":
            return
        self.count += 1
        self.cell_id, self.cell_began = cell.id, time.perf_counter()
        if self.live:
            line = f"{self.name}  {self.count}/{self.total}  {cell.id}"
            print(f"\r\x1b[2K{line[:78]}", end="", flush=True)

    def end(self, cell, **_) -> None:
        """Called by nbclient after a cell has run."""
        took = time.perf_counter() - self.cell_began
        self.slowest = max(self.slowest, (took, cell.id))

    def line(self, text: str) -> None:
        """Replace the live line by ``text``."""
        print(("\r\x1b[2K" if self.live else "") + f"{self.name}  {text}", flush=True)

    def done(self) -> None:
        """All cells ran."""
        took = time.perf_counter() - self.began
        slow_s, slow_id = self.slowest
        slow = f"; slowest {slow_id} {slow_s:.1f} s" if slow_id else ""
        self.line(f"{self.count} cells in {took:.1f} s{slow}")

    def failed(self, cause: str, traceback: str = "") -> bool:
        """Name the cell that stopped the run; always False."""
        if traceback:
            print(ANSI.sub("", traceback).rstrip(), file=sys.stderr)
        cause = ANSI.sub("", cause).strip().splitlines()[0][:200]
        self.line(
            f"FAILED in cell {self.cell_id} ({self.count} of {self.total}): {cause}; "
            "the file is unchanged"
        )
        return False
