"""`aiinfra status`: what ran is recorded, and what is recorded ran as it is now."""

import json

import nbformat
import pytest
from bookmaker import code, printed, text

from aiinfra.tools import cli, doctor, status_page
from aiinfra.tools.check import status
from aiinfra.tools.status_page import digest, file_of, outdated, table

LESSON = "04Train/01-toy"
PAGE = """# Status

<!-- generated: notebook-runs -->
<!-- end -->

<!-- generated: runs -->
<!-- end -->
"""


def told(book) -> str:
    """What the gate says."""
    return "\n".join(map(str, status.check(book.root)))


@pytest.fixture
def lesson(book, monkeypatch):
    """A lesson that prints 1, a status page, and a machine without a GPU."""
    monkeypatch.setattr(doctor, "ask_torch", lambda: ("2.13.0", []))
    book.write("book/reference/status.md", PAGE)
    cell = code("print(1)", "one")
    cell.outputs = [printed("1\n")]
    return book.lesson(LESSON, text("# Toy"), cell)


@pytest.fixture
def recorded(book, lesson):
    """The lesson, with a record as `aiinfra status` writes it."""
    status_page.record(book.root, lesson, digest(lesson), 1, 2.4, [])
    return lesson


def change(path, cell: int, source: str) -> None:
    """Give one cell of a notebook another source."""
    nb = nbformat.read(path, 4)
    nb.cells[cell].source = source
    nbformat.write(nb, path)


def test_a_run_is_recorded_and_shown(book, lesson, capsys):
    assert f"{LESSON}.ipynb:1: has no recorded run; run `aiinfra status" in told(book)
    assert "| never | –" in table(book.root)
    assert cli.main(["status"]) == 0
    assert f"{LESSON}.ipynb  1 cells ok" in capsys.readouterr().out
    assert status.check(book.root) == []
    (entry,) = json.loads(file_of(book.root, lesson).read_text("utf-8")).values()
    assert set(entry) == status_page.FIELDS and entry["cells"] == 1
    page = (book.root / "book/reference/status.md").read_text("utf-8")
    row = next(line for line in page.splitlines() if LESSON in line)
    assert entry["date"] in row and f"python {entry['versions']['python']}" in row
    assert "a GPU |" in row
    assert cli.main(["status"]) == 0  # nothing is left to run
    assert "every notebook's run is recorded" in capsys.readouterr().out


def test_a_notebook_that_fails_is_not_recorded(book, lesson, capsys):
    change(lesson, 1, "print(2)")
    assert cli.main(["status", LESSON]) == 1
    assert "1 FAILED" in capsys.readouterr().out
    assert not file_of(book.root, lesson).exists()


def test_other_code_ages_a_run_and_better_prose_does_not(book, recorded):
    change(recorded, 0, "# A toy")
    assert status.check(book.root) == []
    change(recorded, 1, "print(1 + 0)")
    assert "has changed since its last recorded run" in told(book)
    assert "(the code has changed since)" in table(book.root)


def test_other_outputs_age_a_run(book, recorded):
    nb = nbformat.read(recorded, 4)
    nb.cells[1].outputs = [printed("one\n")]
    nbformat.write(nb, recorded)
    assert outdated(book.root, recorded)


def test_runs_on_other_systems_are_kept(book, lesson, monkeypatch):
    for system, never in [("Linux x86_64", "macOS, a GPU"), ("Darwin arm64", "a GPU")]:
        about = {"system": system}
        monkeypatch.setattr(status_page.machine, "described", lambda about=about: about)
        status_page.record(book.root, lesson, digest(lesson), 1, 3.0, [])
        assert f"| {never} |" in table(book.root)
    rows = [line for line in table(book.root).splitlines() if LESSON in line]
    assert len(rows) == 2


@pytest.mark.parametrize(
    ("count", "never"), [(1, "2 or more GPUs |"), (4, "| macOS |")]
)
def test_runs_on_accelerators_count(book, recorded, count, never):
    notebooks = {f"{LESSON}.ipynb": {"outcome": "passed"}}
    run = {"count": count, "notebooks": notebooks}
    book.write("book/reference/gpu-runs/one.json", json.dumps(run))
    assert never in table(book.root)
    run["notebooks"][f"{LESSON}.ipynb"]["outcome"] = "failed"
    book.write("book/reference/gpu-runs/one.json", json.dumps(run))
    assert "a GPU |" in table(book.root)


def test_accelerators_of_the_machine_are_named(book, lesson):
    status_page.record(book.root, lesson, digest(lesson), 1, 3.0, ["H200", "H200"])
    assert "2 × H200" in table(book.root)
    assert "GPU |" not in table(book.root)


def test_a_record_without_its_notebook_is_refused_and_removed(book, recorded, capsys):
    recorded.unlink()
    book.lesson("04Train/02-other", text("# Other"))
    assert "records runs of a notebook that is not there" in told(book)
    other = book.root / "04Train/02-other.ipynb"
    status_page.record(book.root, other, digest(other), 0, 0.0, [])
    assert cli.main(["status"]) == 0
    assert "removed, there is no such notebook" in capsys.readouterr().out
    assert status.check(book.root) == []


@pytest.mark.parametrize("content", ["no json", "[]", '{"Linux": {"date": "today"}}'])
def test_a_broken_record_is_told(book, recorded, content, capsys):
    file_of(book.root, recorded).write_text(content, encoding="utf-8")
    assert "expected for each system the fields accelerators, cells" in told(book)
    assert cli.main(["status"]) == 2
    assert (
        "remove it and run `aiinfra status 04Train/01-toy`" in capsys.readouterr().err
    )


def test_wrong_use(book, lesson, capsys):
    assert cli.main(["status", "--all", LESSON]) == 2
    assert "not both" in capsys.readouterr().err
    assert cli.main(["status", "04Train/01-toi"]) == 2
    assert "did you mean 04Train/01-toy" in capsys.readouterr().err
