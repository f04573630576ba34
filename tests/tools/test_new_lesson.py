"""`aiinfra new-lesson`: what it writes runs; no gate takes it before it is filled."""

import re
from pathlib import Path

import nbformat
import pytest
from bookmaker import code, text

from aiinfra.tools import cli, doctor, gates, notebook
from aiinfra.tools.check import skeleton

ROOT = Path(__file__).resolve().parents[2]
LESSON = "04Train/03-zero"
PATHS = (
    f"{LESSON}.ipynb",
    f"tests/mutants/{LESSON}.yaml",
    "04Train/figures/zero.py",
)


def mutant(name: str, cell: str, replace: str, by: str, fails: str) -> str:
    """One planted mistake as YAML."""
    return (
        f"- name: {name}\n  why: the sum is wrong\n  cell: {cell}\n"
        f"  replace: {replace!r}\n  with: {by!r}\n  fails: {fails!r}\n"
    )


MUTANTS = "".join(
    [
        mutant("half", "fast", "@ x", "@ x / 2", "fast is not slow"),
        mutant("squares", "fast", "@ x", "@ x**2", "fast is not slow"),
        mutant("last missing", "fast", "@ x", "@ x - x[-1:].sum()", "fast is not slow"),
        mutant("first twice", "fast", "@ x", "@ x + x[:1].sum()", "fast is not slow"),
        mutant("double", "fast", "np.ones", "2 * np.ones", "fast is not slow"),
        mutant("negated", "fast", "@ x", "@ -x", "fast is not slow"),
        mutant("absolute", "fast", "@ x", "@ abs(x)", "fast is not slow"),
        mutant("starts at 1", "slow", "total = 0.0", "total = 1.0", "fast is not slow"),
    ]
)


@pytest.fixture
def part(book, monkeypatch):
    """A book with one part of two lessons, on a machine without a GPU."""
    monkeypatch.setattr(doctor, "ask_torch", lambda: ("2.13.0", []))
    for name in ("pyproject.toml", "tests/check/words.txt"):  # for ruff and codespell
        book.write(name, (ROOT / name).read_text("utf-8"))
    book.write("book/aiinfra/registry.py", '"""Stands for the package\'s own."""\n')
    book.page("04Train/index.md", "# Training\n")
    book.page("04Train/01-prose.md", "# Prose\n")
    book.lesson("04Train/02-ddp", text("# DDP\n\nFive minutes."), code("1", "one"))
    return book


def tree(root: Path) -> set[Path]:
    """Everything that lies in a book."""
    return {path for path in root.rglob("*") if "__pycache__" not in path.parts}


def fill(book) -> None:
    """Replace the placeholders of a new lesson by words, and list it."""
    for name in PATHS:
        path = book.root / name
        content = re.sub(
            r"«To be written: [^»]*»", "How long does it take?", path.read_text()
        )
        content = content.replace("«how many»", "20")
        path.write_text(re.sub(r"«([^»]*)»", r"\1", content), encoding="utf-8")
    (book.root / PATHS[1]).write_text(MUTANTS, encoding="utf-8")
    book.chapters.append(LESSON)
    book.toc()


def complaints(root: Path, names=gates.GATES) -> dict[str, str]:
    """What each gate says of the new lesson; gates that say nothing are left out."""
    found = {}
    for verdict in gates.judge(root, list(names)):
        mine = [
            str(p)
            for p in verdict.problems
            if "03-zero" in str(p) or "zero.py" in str(p)
        ]
        if mine:
            found[verdict.name] = "\n".join(mine)
    return found


def test_it_writes_three_files_and_says_what_comes_next(part, capsys):
    before = tree(part.root)
    assert cli.main(["new-lesson", "04Train", "03-zero", "--title", "ZeRO, built"]) == 0
    new = {p for p in tree(part.root) - before if p.is_file()}
    assert {p.relative_to(part.root).as_posix() for p in new} == set(PATHS)
    out = capsys.readouterr().out
    assert [out.index(f"{name}: written") for name in PATHS]
    for command in ("execute", "mutants", "status"):
        assert f"aiinfra {command} {LESSON}" in out
    nb = notebook.read(part.root / PATHS[0])
    assert notebook.title(nb, "") == "ZeRO, built"
    tags = set().union(*map(notebook.tags, nb.cells))
    assert tags == {"setup", "export", "check", "hide-cell"}
    headings = [
        line
        for cell in nb.cells
        if cell.cell_type == "markdown"
        for line in cell.source.splitlines()
        if line.startswith("## ")
    ]
    for section in ("At scale", "When it breaks", "Summary", "Exercises", "Sources"):
        assert any(section in heading for heading in headings), section
    assert headings[-1] == "## For the teacher"


def test_the_title_is_the_name_in_words_by_default(part):
    assert cli.main(["new-lesson", "04Train/", "05-tensor-parallel"]) == 0
    nb = notebook.read(part.root / "04Train/05-tensor-parallel.ipynb")
    assert notebook.title(nb, "") == "Tensor parallel"
    assert (part.root / "04Train/figures/tensor_parallel.py").is_file()


def test_two_skeletons_are_equal(part, tmp_path):
    assert cli.main(["new-lesson", "04Train", "03-zero"]) == 0
    first = {name: (part.root / name).read_bytes() for name in PATHS}
    for name in PATHS:
        (part.root / name).unlink()
    assert cli.main(["new-lesson", "04Train", "03-zero"]) == 0
    assert first == {name: (part.root / name).read_bytes() for name in PATHS}


def test_no_gate_of_content_takes_a_skeleton(part):
    assert cli.main(["new-lesson", "04Train", "03-zero"]) == 0
    said = complaints(part.root)
    assert "cell tools was never executed" in said["executed"]
    assert "is not listed in _toc.yml" in said["toc"]
    assert "To be written" in said["leftovers"]
    assert "has no recorded run" in said["status"]
    assert "does not say how many minutes" in said["budgets"]
    for name in PATHS:
        assert name in said["skeleton"]
    assert (
        "cell title: «What you build here, and what you measure.»" in said["skeleton"]
    )


def test_a_skeleton_runs_and_is_refused_still(part):
    assert cli.main(["new-lesson", "04Train", "03-zero"]) == 0
    assert cli.main(["execute", LESSON]) == 0
    part.chapters.append(LESSON)
    part.toc()
    said = complaints(part.root)
    assert set(said) == {"skeleton", "leftovers", "budgets", "status"}


def test_a_lesson_that_is_filled_passes(part, capsys):
    assert cli.main(["new-lesson", "04Train", "03-zero"]) == 0
    fill(part)
    assert cli.main(["execute", LESSON]) == 0
    assert cli.main(["export"]) == 0
    assert cli.main(["mutants", LESSON]) == 0
    assert cli.main(["status", LESSON]) == 0
    assert "8 of 8 mutants killed" in capsys.readouterr().out
    assert complaints(part.root) == {}
    nb = nbformat.read(part.root / PATHS[0], 4)
    printed = "".join(
        o.get("text", "") for c in notebook.code_cells(nb) for o in c.outputs
    )
    assert "slow = fast = NumPy" in printed and "expected a vector" in printed


@pytest.mark.parametrize("where", PATHS)
def test_one_placeholder_left_is_refused(part, where):
    assert cli.main(["new-lesson", "04Train", "03-zero"]) == 0
    fill(part)
    assert skeleton.check(part.root) == []
    path = part.root / where
    content = path.read_text("utf-8")
    old = "How long does it take?" if where.endswith("ipynb") else content[:3]
    path.write_text(content.replace(old, "«a word»", 1), "utf-8")
    (problem,) = skeleton.check(part.root)
    assert problem.path == where and "is still to be filled in" in problem.message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["04Train", "02-ddp"], "there is a 04Train/02-ddp already"),
        (["04Train", "01-prose"], "there is a 04Train/01-prose already"),
        (["04Train", "02-zero"], "04Train/02-ddp.ipynb has the number 02; 03 is free"),
        (["04Trane", "03-zero"], "no part '04Trane'; did you mean 04Train?"),
        (["04Train", "zero"], "'zero' is no name for a lesson: expected two digits"),
        (["04Train", "index"], "'index' is no name for a lesson"),
        (["04Train", "03-Zero"], "expected two digits and words in lower case"),
        (["04Train", "03_zero"], "expected two digits and words in lower case"),
        (["04Train", "3-zero"], "expected two digits and words in lower case"),
        (["04Train", "03-zero.ipynb"], "expected two digits and words in lower case"),
        (["04Train", "../03-zero"], "expected two digits and words in lower case"),
        (["04Train", "03-3fs"], "'3fs' is no Python name"),
        (["04Train", "03-import"], "'import' is a word of Python's own"),
        (
            ["05Infer", "03-ddp"],
            "04Train/02-ddp.ipynb would export to aiinfra.lessons.ddp",
        ),
        (["04Train", "03-zero", "--title", " "], "--title ' ': expected one line"),
        (["04Train", "03-zero", "--title", "a\nb"], "expected one line of words"),
    ],
)
def test_bad_input_is_one_clear_line_and_writes_nothing(part, words, message, capsys):
    part.page("05Infer/index.md", "# Inference\n")
    before = tree(part.root)
    assert cli.main(["new-lesson", *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and message in err
    assert err.startswith("aiinfra: ") and err.count("\n") == 1
    assert tree(part.root) == before


@pytest.mark.parametrize("taken", PATHS[1:])
def test_nothing_is_overwritten(part, taken, capsys):
    part.write(taken, "mine\n")
    before = tree(part.root)
    assert cli.main(["new-lesson", "04Train", "03-zero"]) == 2
    assert f"{taken} exists already" in capsys.readouterr().err
    assert tree(part.root) == before and (part.root / taken).read_text() == "mine\n"


def test_a_failure_half_way_leaves_nothing(part, monkeypatch, capsys):
    before, write = tree(part.root), notebook.write_text

    def full(path, content):
        if path.suffix == ".py":
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(notebook, "write_text", full)
    assert cli.main(["new-lesson", "04Train", "03-zero"]) == 2
    err = capsys.readouterr().err
    assert "cannot write 04Train/figures/zero.py: No space left on device" in err
    left = {
        p for p in tree(part.root) - before if p.name != "mutants" and p.name != "tests"
    }
    assert left == set()
