"""Code that a reader may import is typed and documented.

That is: cells tagged ``export`` and the package's rooms, save ``tools``, which only
the command ``aiinfra`` opens. Of a module ``_name.py``, what the room's ``__init__``
names.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import cells, ours
from aiinfra.tools.root import relative

# The modules in lessons are generated from the cells, which are checked.
ELSEWHERE = ("book/aiinfra/tools/", "book/aiinfra/lessons/")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def check(root: Path) -> list[Problem]:
    """Public functions, classes and methods without a docstring or annotations.

    The line of a finding in a notebook is that of its cell.
    """
    problems = []
    for cell in cells(root, "code"):
        if "export" in cell.tags:
            problems += [
                Problem(cell.path, cell.line, f"cell {cell.id}, line {line}: {message}")
                for line, message in lacking(cell.source)
            ]
    for path in ours(root, ".py"):
        name = relative(root, path)
        if not name.startswith("book/aiinfra/") or name.startswith(ELSEWHERE):
            continue
        door = None
        if path.stem.startswith("_") and path.stem != "__init__":
            door = imported((path.parent / "__init__.py").read_text("utf-8"))
        problems += [
            Problem(name, line, message)
            for line, message in lacking(path.read_text("utf-8"), door)
        ]
    return problems


def imported(source: str) -> set[str]:
    """The names that a package's ``__init__`` takes from its modules."""
    return {
        alias.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def lacking(source: str, door: set[str] | None = None) -> Iterator[tuple[int, str]]:
    """(line, what is missing) for each public definition in ``source``.

    With ``door``, only for the names that it holds; there, a method that overrides
    another may inherit its docstring.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        yield error.lineno or 1, f"no Python: {error.msg}"
        return
    for node in tree.body:
        if not isinstance(node, Function | ast.ClassDef):
            continue
        if door is not None and node.name not in door:
            continue
        if isinstance(node, Function):
            yield from lacking_function(node, node.name)
        elif not node.name.startswith("_"):
            if not ast.get_docstring(node):
                yield node.lineno, f"class {node.name} has no docstring"
            inherits = door is not None and bool(node.bases)
            for item in node.body:
                if isinstance(item, Function):
                    name = f"{node.name}.{item.name}"
                    yield from lacking_function(item, name, inherits)


def lacking_function(
    node: Function, name: str, inherits: bool = False
) -> Iterator[tuple[int, str]]:
    """What one function lacks. Of the special methods, only two are called by name."""
    special = node.name in ("__init__", "__call__")
    if node.name.startswith("_") and not special:
        return
    documented = special or inherits or is_overload(node) or ast.get_docstring(node)
    if not documented:
        yield node.lineno, f"{name} has no docstring"
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [each for each in (arguments.vararg, arguments.kwarg) if each]
    untyped = [
        each.arg
        for each in every
        if each.annotation is None and each.arg not in ("self", "cls")
    ]
    if untyped:
        yield node.lineno, f"{name} does not say the type of {', '.join(untyped)}"
    if node.returns is None and node.name != "__init__":
        yield node.lineno, f"{name} does not say what type it returns"


def is_overload(node: Function) -> bool:
    """Whether ``node`` only declares a signature, or is a property's setter."""
    names = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(name.endswith(("overload", ".setter")) for name in names)
