"""What a new lesson starts from: the cells, planted mistakes and picture to replace.

Everything runs as it stands, so that a writer can execute, break and rebuild it before
the first word is changed. What is to be written stands in «guillemets», which the gate
``skeleton`` refuses. TITLE, LESSON and MODULE are filled in by ``aiinfra new-lesson``.
"""

# (cell id, tags, source); Markdown where tags is None.
Cell = tuple[str, tuple[str, ...] | None, str]

CELLS: tuple[Cell, ...] = (
    (
        "title",
        None,
        """\
# TITLE

**The question.** «To be written: one sentence that somebody who runs these systems
would ask.»

«What you build here, and what you measure.»

| | |
| --- | --- |
| Before | «what to know first, as links» |
| Time | «how many» minutes |
| Tier | «laptop CPU, one GPU, or several GPUs; what the CPU path shows» |""",
    ),
    (
        "tools",
        ("setup",),
        """\
from figures.MODULE import picture
from IPython.display import HTML

from aiinfra.registry import hardware""",
    ),
    ("imports", ("export",), "import numpy as np"),
    (
        "toy-text",
        None,
        """\
## «The failure before the cure»

«What goes wrong without the idea of this page, on an input small enough to print whole.
Choose one in which no wrong answer is right by chance: no ones, no equal sizes.»""",
    ),
    (
        "toy",
        ("setup",),
        """\
x = np.array([2.0, 3.0, 7.0, 11.0, 13.0])  # [N]
print(x.tolist())""",
    ),
    ("picture-text", None, "«What the picture shows, before the formula.»"),
    ("picture", (), "HTML(picture().svg())"),
    (
        "slow-text",
        None,
        """\
## «The obvious way»

«The equation, in the symbols of the notation page and of the code below.» **Predict**
«what the next cell prints.»""",
    ),
    (
        "slow",
        ("setup",),
        '''\
def slow_sum(x):
    """«What it returns.»"""
    total = 0.0
    for value in x:
        total += value
    return total


print(slow_sum(x))''',
    ),
    (
        "fast-text",
        None,
        """\
## «The better way»

«What changes from the version above, and what that saves.»""",
    ),
    (
        "fast",
        ("export",),
        '''\
def fast_sum(x: np.ndarray) -> float:
    """«The claim or formula.»

    ``x`` is a vector of N numbers «in which unit».

    Raises ValueError for another shape. «Source: author (year).»
    """
    if x.ndim != 1:
        raise ValueError(
            f"expected a vector, got shape {list(x.shape)}; pass x.reshape(-1)"
        )
    return float(np.ones(len(x)) @ x)''',
    ),
    (
        "check-text",
        None,
        """\
«Why both must agree, with each other and with the library that people use, and to which
tolerance, for which reason.»""",
    ),
    (
        "check-fast",
        ("check",),
        """\
for n in (0, 1, 5, 1_000):
    values = np.random.default_rng(n).normal(3.0, 2.0, n)
    # «The reason for the tolerance»: float64, another order of additions.
    room = 1e-12 * max(1.0, np.abs(values).sum())
    assert abs(fast_sum(values) - slow_sum(values)) <= room, "fast is not slow"
    assert abs(fast_sum(values) - values.sum()) <= room, "fast is not NumPy's"
print("slow = fast = NumPy")""",
    ),
    (
        "scale-text",
        None,
        """\
## At scale: 8, 1,000, 100,000 accelerators

«What changes, with numbers from the registry. Where real systems do it: the class or
the file, and as of which version.»""",
    ),
    (
        "scale",
        (),
        """\
peak = hardware("H100 SXM").bf16_dense_flops
for n_ranks in (8, 1_000, 100_000):
    print(f"{n_ranks:7,} accelerators: at most {n_ranks * peak:.2e} FLOP/s")""",
    ),
    (
        "breaks-text",
        None,
        """\
## When it breaks

«What the failure looks like in a log, and how to tell it from its neighbours. Enter the
literal message into the failure index.»""",
    ),
    (
        "breaks",
        (),
        """\
try:
    fast_sum(x[:4].reshape(2, 2))
except ValueError as error:
    print(error)""",
    ),
    (
        "summary",
        None,
        """\
## Summary

1. «The claim.»
2. «What it costs.»
3. «When to use it.»

**Limits of the model.** «What was left out, and where it would show.»""",
    ),
    (
        "exercise-1",
        None,
        """\
## Exercises

### 1. «Its name» (predict)

«The question.» *Expected: «the value».*

:::{dropdown} Hint
«The first step, not the answer.»
:::""",
    ),
    ("solution-1", ("hide-cell",), "print(fast_sum(np.arange(1.0, 5.0)))"),
    (
        "end",
        None,
        """\
## Sources

«Each work that the page rests on, cited from the bibliography.»

## For the teacher

- *Misconception:* «what most of the room believes.»
- *Ask the room:* «a prediction, and the wrong answers to expect.»
- *Minutes:* «for which section how many.»""",
    ),
)

MUTANTS = """\
# Plausible mistakes in LESSON: each must fail the lesson's own checks.
# At least eight, and such as a reader would make.

- name: «short-name-of-the-mistake»
  why: «what a reader would see»
  cell: fast
  replace: np.ones(len(x)) @ x
  with: np.ones(len(x)) @ x / len(x)
  fails: "fast is not slow"
"""

FIGURE = '''\
"""«What the picture shows, in one line.»

``LESSON`` shows it.
"""

from aiinfra.diagram import Diagram


def picture() -> Diagram:
    """«What stands in it.»"""
    d = Diagram(
        "MODULE",
        360,
        60,
        title="«A title for who cannot see it»",
        description="«What the picture shows, in words.»",
    )
    d.box(8, 10, 150, 40, "«before»", colour="blue")
    d.arrow(160, 30, 200, 30)
    d.box(202, 10, 150, 40, "«after»", colour="green")
    return d


if __name__ == "__main__":
    print(picture().svg())
'''
