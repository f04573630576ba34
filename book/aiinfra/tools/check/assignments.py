"""Assignments are whole: each question has a solution, tests, points, wrong answers.

Whether solutions pass and wrong answers fail, the stage `assignments` finds out.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import Cell, cells_of, read_notebook
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import assignments, nearest, relative

FLAGS = {"grade", "grade_id", "locked", "schema_version", "solution", "task"}
KINDS = {  # (grade, solution, locked)
    (False, True, False): "answer",
    (True, False, True): "test",
    (False, False, True): "given",
}
SOLUTION = re.compile(r"^ *### BEGIN SOLUTION$.+?^ *### END SOLUTION$", re.M | re.S)
HIDDEN = re.compile(r"^### BEGIN HIDDEN TESTS$.+?^### END HIDDEN TESTS$", re.M | re.S)
ROWS = ("| Before |", "| Time |", "| Points |")
LEAST_VALUES = 3


def check(root: Path) -> list[Problem]:
    """Flaws of the notebooks, and of the wrong answers listed beside them."""
    from aiinfra.tools import answers

    problems = []
    for path in assignments(root):
        found = list(flaws(root, path))
        problems += [Problem(relative(root, path), *flaw) for flaw in found]
        if found:
            continue
        listing = path.with_suffix(".yaml")
        try:
            answers.load(path)
        except UserError as error:
            message = str(error).replace(f"{root}/", "")
            problems.append(Problem(relative(root, listing), 1, message))
    return problems


def flaws(root: Path, path: Path) -> Iterator[tuple[int, str]]:
    """(line, message) for each thing wrong with one source notebook."""
    raw = read_notebook(path)
    if not raw["cells"]:
        yield 1, "no notebook"
        return
    cells = cells_of(root, path)
    kinds = [kind_of(cell) for cell in cells]
    for cell, kind in zip(cells, kinds, strict=True):
        yield from (
            (cell.line, f"cell {cell.id}: {flaw}") for flaw in alone(cell, kind)
        )
    if missing := [row for row in ROWS if row not in cells[0].source]:
        yield cells[0].line, f"its head has no row {missing[0]}"
    yield from numbers(cells)
    graded = [cell for cell, kind in zip(cells, kinds, strict=True) if kind == "test"]
    answered = [
        cell for cell, kind in zip(cells, kinds, strict=True) if kind == "answer"
    ]
    tests = [cell.id for cell in graded]
    if tests != [f"test-{cell.id}" for cell in answered]:
        names = ", ".join(cell.id for cell in answered) or "none"
        yield (
            1,
            (
                f"expected one cell test-NAME behind each answer ({names}), got "
                f"{', '.join(tests) or 'none'}"
            ),
        )
    total = sum(cell.metadata["nbgrader"].get("points", 0) for cell in graded)
    if f"| Points | {total:g}" not in cells[0].source:
        yield cells[0].line, f"its head should say | Points | {total:g}"


def kind_of(cell: Cell) -> str:
    """``answer``, ``test``, ``given``; "" for cells that nbgrader leaves alone."""
    about = cell.metadata.get("nbgrader")
    if about is None:
        return ""
    key = tuple(bool(about.get(flag)) for flag in ("grade", "solution", "locked"))
    return KINDS.get(key, "unknown")


def alone(cell: Cell, kind: str) -> Iterator[str]:
    """What is wrong with a cell, whatever the others are."""
    if cell.count is not None or cell.outputs:
        yield "has been run; a source notebook holds no outputs"
    if "BEGIN SOLUTION" in cell.source and kind != "answer":
        yield "holds a solution, so nbgrader must know it as an answer"
    if "BEGIN HIDDEN" in cell.source and kind != "test":
        yield "holds hidden tests, so nbgrader must know it as a test"
    if not kind:
        if "variant" in cell.tags:
            yield "declares numbers, so it must be locked"
        return
    about = cell.metadata["nbgrader"]
    if set(about) - {"points"} != FLAGS or about["schema_version"] != 3:
        yield f"expected nbgrader's {', '.join(sorted(FLAGS))}, of version 3"
    elif kind == "unknown" or cell.kind != "code":
        yield "expected an answer, a test or a locked cell, all of them code"
    elif about["grade_id"] != cell.id:
        yield f"its grade_id is {about['grade_id']}; expected its id"
    if kind == "answer" and len(SOLUTION.findall(cell.source)) != 1:
        yield "expected one solution between ### BEGIN SOLUTION and ### END SOLUTION"
    if kind == "test":
        yield from test_flaws(cell)


def test_flaws(cell: Cell) -> Iterator[str]:
    """What is wrong with a cell of tests."""
    if not cell.metadata["nbgrader"].get("points", 0) > 0:
        yield "expected points above 0"
    if not HIDDEN.search(cell.source):
        yield "expected tests between ### BEGIN HIDDEN TESTS and ### END HIDDEN TESTS"
    visible = HIDDEN.sub("", cell.source)
    for what, source in (("visible", visible), ("whole", cell.source)):
        try:
            tree = ast.parse(source)
        except SyntaxError as error:
            yield f"its {what} tests are no Python: {error.msg}"
            continue
        silent = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Assert) and node.msg is None
        ]
        if what == "whole" and silent:
            yield f"line {silent[0].lineno}: an assertion says nothing when it fails"
        if not any(isinstance(node, ast.Assert) for node in ast.walk(tree)):
            yield f"its {what} tests assert nothing"


def numbers(cells: list[Cell]) -> Iterator[tuple[int, str]]:
    """What is wrong with the numbers that differ from course to course."""
    from aiinfra.tools.exercises import DECLARED, MARK, VARIANT, as_prose

    values: dict[str, str] = {}
    for cell in cells:
        if VARIANT not in cell.tags:
            continue
        for line in cell.source.splitlines():
            found = DECLARED.fullmatch(line)
            if not found:
                if re.match(r"[A-Z]", line):
                    yield (
                        cell.line,
                        f"expected NAME = 1  # what; one of 1, 2, 3: {line}",
                    )
                continue
            texts = [text.strip() for text in found["values"].split(", ")]
            values[found["name"]] = found["value"]
            if texts[0] != found["value"] or len(set(texts)) < LEAST_VALUES:
                yield (
                    cell.line,
                    (
                        f"{found['name']}: expected at least {LEAST_VALUES} values, of "
                        f"which the first is {found['value']}"
                    ),
                )
    if not values:
        yield 1, f"no cell tagged {VARIANT} declares numbers"
    for cell in cells:
        if cell.kind != "markdown":
            continue
        for found in MARK.finditer(cell.source):
            name = found["name"]
            if name not in values:
                yield cell.line, f"{name} is marked; {nearest(name, list(values))}"
            elif found["number"] != as_prose(values[name]):
                yield (
                    cell.line,
                    (
                        f"{found['number']} is marked as {name}, which is "
                        f"{as_prose(values[name])}"
                    ),
                )
