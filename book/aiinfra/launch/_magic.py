"""The `%%ranks` cell magic."""

import ast
import sys

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from aiinfra.launch import _engine
from aiinfra.launch._ship import display_name, ipython


def register(shell: InteractiveShell) -> None:
    """Make `%%ranks` known to this notebook."""
    shell.register_magic_function(_ranks_cell(shell), "cell", "ranks")


def _ranks_cell(shell: InteractiveShell):
    def ranks(line: str, cell: str) -> None:
        """Run the cell's lines on every rank.

        `%%ranks` uses the Ranks made last, `%%ranks NAME` those in that variable.
        The lines know rank, world_size, torch, dist and device, every name that an
        earlier cell assigned on the ranks, and copies of the notebook's names. The
        value of a last expression is printed, rank by rank.
        """
        group = _find(shell, line.strip())
        # The line of the magic counts, so that errors name the line as seen.
        source = "\n" + cell
        filename = _cell_name(shell)
        tree = ast.parse(source, filename)
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        loads = {n.id for n in names if isinstance(n.ctx, ast.Load)}
        stores = {n.id for n in names if not isinstance(n.ctx, ast.Load)}
        group._run_cell(source, filename, loads, stores)

    return ranks


def _cell_name(shell: InteractiveShell) -> str:
    """What IPython calls the cell that is running."""
    frame = sys._getframe()
    while frame is not None and frame.f_globals is not shell.user_ns:
        frame = frame.f_back
    return display_name(frame.f_code.co_filename) if frame else "%%ranks cell"


def _find(shell: InteractiveShell, name: str) -> "_engine.Ranks":
    if name:
        group = shell.user_ns.get(name)
        if not isinstance(group, _engine.Ranks):
            raise UsageError(f"%%ranks {name}: {name} is not a Ranks object")
        return group
    group = _engine.newest()
    if group is None:
        raise UsageError("%%ranks: no ranks are alive; first run: ranks = Ranks(4)")
    return group


def register_if_notebook() -> None:
    """Register `%%ranks` if this is a notebook or an IPython terminal."""
    shell = ipython()
    if shell is not None:
        register(shell)
