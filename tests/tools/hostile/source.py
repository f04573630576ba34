"""A small assignment of two questions, and what students hand in for it."""

import copy
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

SECRET = "the tests hide 123.2"  # stands in a comment of the hidden tests
GIVEN = "import math\nimport numpy as np"
RIGHT = "2 * (n_ranks - 1) / n_ranks * n_bytes"
RING = f"""\
def ring_bytes(n_ranks, n_bytes):
    ### BEGIN SOLUTION
    return {RIGHT}
    ### END SOLUTION
"""
RING_TEST = f"""\
got = ring_bytes(2, 8)
assert got == 8, f"ring_bytes(2, 8) is 8, not {{got}}"
### BEGIN HIDDEN TESTS
expected = 123.2  # {SECRET}
assert math.isclose(ring_bytes(5, 77), expected)
np.testing.assert_allclose(ring_bytes(7, 49), 84)
### END HIDDEN TESTS
"""
SCALE = """\
def double(x):
    ### BEGIN SOLUTION
    x *= 2
    ### END SOLUTION
"""
SCALE_TEST = """\
x = np.arange(4.0)
double(x)
assert x.tolist() == [0, 2, 4, 6], f"double changes its argument, to {x}"
"""
HONEST_SCALE = "def double(x):\n    x *= 2"


def cell(text: str, grade_id: str, points: int = 0, solution: bool = False):
    """A cell that nbgrader knows."""
    metadata = {
        "grade_id": grade_id,
        "schema_version": 3,
        "task": False,
        "grade": bool(points),
        "solution": solution,
        "locked": not solution,
    }
    if points:
        metadata["points"] = points
    return new_code_cell(text, metadata={"nbgrader": metadata})


def assignment(given: str = GIVEN, factor: int = 1) -> NotebookNode:
    """The source; ``factor`` makes another edition of it."""
    return new_notebook(
        cells=[
            new_markdown_cell(f"# Bytes on a ring, edition {factor}"),
            cell(given, "given"),
            cell(RING, "ring", solution=True),
            cell(RING_TEST + f"edition = {factor}\n", "ring-test", points=3),
            cell(SCALE, "double", solution=True),
            cell(SCALE_TEST + f"edition = {factor}\n", "double-test", points=2),
        ],
        metadata={
            "kernelspec": {
                "display_name": "Python 3",
                "language": "python",
                "name": "python3",
            }
        },
    )


def answered(
    release: NotebookNode, ring: str, double: str = HONEST_SCALE
) -> NotebookNode:
    """The students' edition with these answers."""
    nb = copy.deepcopy(release)
    by_id(nb, "ring").source = ring
    by_id(nb, "double").source = double
    return nb


def by_id(nb: NotebookNode, grade_id: str) -> NotebookNode:
    """The cell with this grade id."""
    return next(
        each
        for each in nb.cells
        if each.metadata.get("nbgrader", {}).get("grade_id") == grade_id
    )


def hand_in(folder: Path, student: str, nb: NotebookNode, name: str = "ring") -> Path:
    """Put a notebook where a student's belongs."""
    path = folder / student / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nb, path)
    return path


RANKS_GIVEN = """\
import torch
import torch.distributed as dist

from aiinfra.launch import launch
"""
AVERAGE = """\
def average(tensor):
    ### BEGIN SOLUTION
    dist.all_reduce(tensor)
    tensor /= dist.get_world_size()
    ### END SOLUTION
"""
AVERAGE_TEST = """\
def on_rank(vectors):
    tensor = torch.tensor(vectors[dist.get_rank()])
    average(tensor)
    return tensor


for got in launch(on_rank, [[1.0, 5.0], [4.0, 9.0]], world_size=2):
    expected = torch.tensor([2.5, 7.0])
    assert torch.equal(got, expected), f"the mean is {expected}, not {got}"
"""
HALVE = """\
def halve(tensor):
    ### BEGIN SOLUTION
    return tensor / 2
    ### END SOLUTION
"""
HALVE_TEST = """\
def gradient(x):
    x.requires_grad_()
    halve(x).sum().backward()
    return x.grad


got = halve(torch.tensor([2.0, 7.0]))
assert torch.allclose(got, torch.tensor([1.0, 3.5]))
(got,) = launch(gradient, torch.tensor([2.0, 7.0]), world_size=1)
assert torch.allclose(got, torch.tensor([0.5, 0.5])), f"the gradient is {got}"
"""


def assignment_on_ranks() -> NotebookNode:
    """A source whose first question runs on two ranks, over the loopback."""
    nb = assignment()
    nb.cells = [
        cell(RANKS_GIVEN, "given"),
        cell(AVERAGE, "average", solution=True),
        cell(AVERAGE_TEST, "average-test", points=3),
        cell(HALVE, "halve", solution=True),
        cell(HALVE_TEST, "halve-test", points=2),
    ]
    return nb
