"""Examples in prose give what they show: every ``>>>`` of a page is run."""

import contextlib
import doctest
import io
from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import markdown_pages
from aiinfra.tools.root import relative


def check(root: Path) -> list[Problem]:
    """Examples whose result is not the one printed below them."""
    problems = []
    for path in markdown_pages(root):
        name = relative(root, path)
        text = path.read_text("utf-8").replace("\n```\n", "\n\n")
        try:
            test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
        except ValueError as error:
            problems.append(Problem(name, 1, str(error)))
            continue
        runner = Runner(name, problems)
        with contextlib.redirect_stdout(io.StringIO()):
            runner.run(test, clear_globs=True)
    return problems


class Runner(doctest.DocTestRunner):
    """Runs examples, noting those that fail."""

    def __init__(self, name: str, problems: list[Problem]) -> None:
        super().__init__(verbose=False)
        self.name, self.problems = name, problems

    def note(self, example: doctest.Example, got: str) -> None:
        """Remember one failure."""
        message = (
            f">>> {example.source.strip()}: expected {example.want.strip()!r}, got "
        )
        self.problems.append(
            Problem(self.name, example.lineno + 1, message + repr(got.strip()))
        )

    def report_failure(
        self, out: object, test: object, example: doctest.Example, got: str
    ) -> None:
        """Called by doctest for a wrong result."""
        self.note(example, got)

    def report_unexpected_exception(
        self, out: object, test: object, example: doctest.Example, exc_info: tuple
    ) -> None:
        """Called by doctest for an error."""
        self.note(example, f"{exc_info[0].__name__}: {exc_info[1]}")
