"""Ranks in a notebook: cells on ranks, names, errors that point at cells, restarts."""

import os
import sys
import time
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

# One notebook for all tests of this file: (name, source) of its cells.
CELLS = [
    (
        "setup",
        """\
from aiinfra.launch import RankError, Ranks, launch
import torch, torch.distributed as dist

class Scale(torch.nn.Module):
    def forward(self, x):
        return scaled(x)

def scaled(x):
    return factor * x

factor = 3
weights = torch.ones(2)
rank = "the notebook's"
lock = __import__("threading").Lock()
ranks = Ranks(2)""",
    ),
    ("names", "%%ranks\nprint(rank, world_size, torch.ones(1).item(), device())"),
    ("value", "%%ranks\nx = torch.full((2,), float(rank))\nx"),
    ("no value", "%%ranks\nx;"),
    ("none", "%%ranks\nNone"),
    ("from the notebook", "%%ranks\nmodel = Scale()\nmodel(x)"),
    ("collective", "%%ranks\ndist.all_reduce(x)\nx"),
    ("rebind here", "factor = 4"),
    ("functions see it", "%%ranks\nmodel(x)"),
    ("change on ranks", "%%ranks\nweights += rank\nweights"),
    ("it stays", "%%ranks\nweights"),
    ("call sees it", "print(ranks(lambda: (weights + x).tolist()))"),
    ("rebind weights", "weights = torch.zeros(2)"),
    ("follows", "%%ranks\nweights"),
    ("get", "x = [x.tolist() for x in ranks.get('x')]\nprint(x)"),
    ("theirs", "%%ranks\nx"),
    ("assigned there", "%%ranks\nlock = 'mine'\nlock"),
    ("unsendable", "%%ranks\nother = handle"),
    ("make handle", "handle = __import__('threading').Lock()"),
    ("unsendable too", "%%ranks\nhandle"),
    (
        "pickle by name",
        "%%ranks\nout = [None] * 2\n"
        "dist.all_gather_object(out, Scale)\nout[0] is Scale",
    ),
    (
        "error in a cell",
        "%%ranks\nhere = 1\nif rank == 1:\n    here / 0",
    ),
    ("alive after it", "%%ranks\nhere"),
    (
        "error in a function",
        """\
def outer():
    return inner(1)

def inner(value):
    assert value == 2, "not 2"

try:
    ranks(outer)
except RankError as error:
    print(error)""",
    ),
    ("uncaught", "launch(outer)"),
    ("syntax error", "%%ranks\nx = (1"),
    ("second", "pair = Ranks(3)"),
    ("newest", "%%ranks\nworld_size"),
    ("named", "%%ranks ranks\nworld_size"),
    ("unknown", "%%ranks nobody\n1"),
    ("lambda", "print(launch(lambda y: y + dist.get_rank(), 5, world_size=3))"),
    ("launched", "print(launch(lambda: rank), ranks(lambda: rank))"),
    ("closed", "ranks.close(); pair.close()"),
    ("none alive", "%%ranks\n1"),
]


@pytest.fixture(scope="module")
def out():
    """Output text of each cell, by the cell's name."""
    cells = [nbformat.v4.new_code_cell(source) for _, source in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, allow_errors=True, timeout=120).execute()
    texts = {}
    for (name, _), cell in zip(CELLS, notebook.cells, strict=True):
        texts[name] = "".join(
            o.get("text") or "\n".join(o.get("traceback", [])) for o in cell.outputs
        )
    return texts


def number(name: str) -> int:
    return [n for n, _ in CELLS].index(name) + 1


def test_a_cell_runs_on_every_rank(out):
    device = out["names"].split()[-1]
    assert out["names"] == f"[rank 0] 0 2 1.0 {device}\n[rank 1] 1 2 1.0 {device}\n"


def test_the_last_expression_is_printed(out):
    assert out["value"] == "[rank 0] tensor([0., 0.])\n[rank 1] tensor([1., 1.])\n"
    assert out["no value"] == out["none"] == ""


def test_names_persist_and_the_notebooks_are_known(out):
    assert out["from the notebook"].endswith("[rank 1] tensor([3., 3.])\n")
    assert out["collective"] == "".join(
        f"[rank {rank}] tensor([1., 1.])\n" for rank in (0, 1)
    )


def test_a_name_follows_the_notebook_unless_the_ranks_assigned_it(out):
    assert out["functions see it"].startswith("[rank 0] tensor([4., 4.])")
    changed = "[rank 0] tensor([1., 1.])\n[rank 1] tensor([2., 2.])\n"
    assert out["change on ranks"] == out["it stays"] == changed
    assert out["call sees it"] == "[[2.0, 2.0], [3.0, 3.0]]\n"
    assert out["follows"].endswith("[rank 1] tensor([0., 0.])\n")
    assert out["get"] == "[[1.0, 1.0], [1.0, 1.0]]\n"
    assert out["theirs"].endswith("[rank 1] tensor([1., 1.])\n")


def test_a_name_that_cannot_be_sent_is_told_unless_the_cell_assigns_it(out):
    assert out["assigned there"] == "[rank 0] 'mine'\n[rank 1] 'mine'\n"
    assert "NameError: name 'handle' is not defined" in out["unsendable"]
    assert "the notebook's 'handle' (lock) cannot be sent" in out["unsendable too"]


def test_notebook_classes_are_importable_on_the_ranks(out):
    """Plain pickle, which torch.distributed uses, looks them up in __main__."""
    assert out["pickle by name"] == "[rank 0] True\n[rank 1] True\n"


def test_errors_point_at_the_cell_and_line(out):
    n = number("error in a cell")
    assert out["error in a cell"] == (
        "RankError: rank 1 of 2 failed: ZeroDivisionError: division by zero\n"
        f"  Cell In[{n}], line 4: here / 0\n"
        "The ranks are still alive."
    )
    assert out["alive after it"] == "[rank 0] 1\n[rank 1] 1\n"
    n = number("error in a function")
    lines = (
        "ranks 0, 1 of 2 failed: AssertionError: not 2\n"
        f"  Cell In[{n}], line 2, in outer: return inner(1)\n"
        f'  Cell In[{n}], line 5, in inner: assert value == 2, "not 2"'
    )
    assert out["error in a function"] == f"{lines}\nThe ranks are still alive.\n"
    assert out["uncaught"] == f"RankError: {lines}"
    assert "SyntaxError" in out["syntax error"]
    assert f"In[{number('syntax error')}]" in out["syntax error"]


def test_the_newest_or_the_named_ranks_are_used(out):
    assert out["newest"].endswith("[rank 2] 3\n")
    assert out["named"] == "[rank 0] 2\n[rank 1] 2\n"
    assert "%%ranks nobody: nobody is not a Ranks object" in out["unknown"]
    assert "no ranks are alive; first run: ranks = Ranks(4)" in out["none alive"]


def test_lambdas_are_launched_from_a_cell(out):
    assert out["lambda"] == "[5, 6, 7]\n"


def test_only_live_ranks_have_names_of_their_own(out):
    theirs = '["the notebook\'s", "the notebook\'s"]'
    assert out["launched"] == f"{theirs} [0, 1]\n"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_kernel_restart_leaves_no_rank_behind():
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        said = []
        client.execute_interactive(
            "from aiinfra.launch import Ranks, _start; import os\n"
            "ranks = Ranks(2)\n"
            "print(_start._server._process.pid, *ranks(os.getpid))",
            timeout=120,
            output_hook=lambda m: said.append(m["content"].get("text", "")),
        )
        pids = [int(word) for word in "".join(said).split()]
        assert len(pids) == 3
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        manager.restart_kernel(now=True)
        deadline = time.monotonic() + 30
        while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not any(is_running(pid) for pid in pids)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"
