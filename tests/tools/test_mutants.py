"""`aiinfra mutants`: a planted mistake must be seen by the check that names it."""

import subprocess
import sys

import pytest
import yaml
from bookmaker import code

from aiinfra.tools import cli

LESSON = "04Train/01-mean"
CELLS = (
    code("values = [1.0, 2.0, 6.0]\nlog = []", "data", "setup"),
    code(
        "def mean(values):\n    log.append('called')\n"
        "    return sum(values) / len(values)",
        "mean",
        "export",
    ),
    code("raise SystemExit('untagged cells do not run')", "talk"),
    code(
        "print('noise')\nassert (\n    mean(values)\n    == 3.0\n), 'mean of three'\n"
        "assert log == ['called']",
        "check-mean",
        "check",
    ),
)
KILLED = {
    "name": "sum instead of mean",
    "why": "forgets to divide",
    "cell": "mean",
    "replace": " / len(values)",
    "with": "",
    "fails": "mean of three",
}


def mutants(book, *entries, cells=CELLS, arguments=()):
    """Run these mutants of a tiny lesson; the command's exit status."""
    book.lesson(LESSON, *cells)
    book.write(f"tests/mutants/{LESSON}.yaml", yaml.safe_dump(list(entries)))
    return cli.main(["mutants", LESSON, "--at-least", "1", *arguments])


def test_killed_by_message_and_by_source_line(book, capsys):
    by_line = {**KILLED, "name": "by source", "fails": "== 3.0"}
    assert mutants(book, KILLED, by_line) == 0
    out = capsys.readouterr().out
    assert "3 cells pass unmutated" in out
    assert "killed    sum instead of mean" in out and "by cell check-mean" in out
    assert f"{LESSON}: 2 of 2 mutants killed" in out
    assert "noise" not in out


def test_survivor_fails(book, capsys):
    survivor = {**KILLED, "name": "harmless", "with": " / max(1, len(values))"}
    assert mutants(book, KILLED, survivor) == 1
    out = capsys.readouterr().out
    assert "survived  harmless" in out and "forgets to divide" in out
    assert "1 of 2 mutants killed" in out


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"replace": "no such text"}, "occurs 0 times in cell mean"),
        ({"replace": "values"}, "occurs 3 times in cell mean"),
        ({"cell": "meen"}, "did you mean mean?"),
        ({"cell": "check-mean", "replace": "3.0"}, "tagged setup or export"),
        ({"cell": "talk", "replace": "untagged"}, "tagged setup or export"),
    ],
)
def test_stale_fails(book, capsys, change, told):
    assert mutants(book, {**KILLED, **change}) == 1
    out = capsys.readouterr().out
    assert "stale     sum instead of mean" in out and told in out


def test_wrong_assertion_fails(book, capsys):
    assert mutants(book, {**KILLED, "fails": "median"}) == 1
    out = capsys.readouterr().out
    assert "wrong     sum instead of mean" in out
    assert "does not say 'median'" in out


def test_an_error_that_is_no_assertion_fails(book, capsys):
    crash = {**KILLED, "with": " / length", "fails": "length"}
    assert mutants(book, crash) == 1
    assert "expected a failing assertion, got NameError" in capsys.readouterr().out


def test_a_mutant_that_hangs_ends(book, capsys):
    hang = {
        **KILLED,
        "replace": "return",
        "with": "while True: pass\n    return",
    }
    assert mutants(book, hang, arguments=["--limit", "1"]) == 1
    assert "still running after 1 s in cell check-mean" in capsys.readouterr().out


def test_lesson_that_fails_unmutated_fails(book, capsys):
    cells = (*CELLS, code("assert mean([2.0]) == 1.0, 'off'", "broken", "check"))
    assert mutants(book, KILLED, cells=cells) == 1
    captured = capsys.readouterr()
    assert "fails unmutated in cell broken" in captured.out
    assert "off" in captured.err


def test_too_few_mutants_fail(book, capsys):
    assert mutants(book, KILLED, arguments=["--at-least", "8"]) == 1
    assert "expected at least 8 mutants, found 1" in capsys.readouterr().out


def test_state_does_not_leak_from_one_run_to_the_next(book):
    # check-mean also asserts that the list of the setup cell holds one call only.
    assert mutants(book, KILLED, {**KILLED, "name": "again"}) == 0


def test_lessons_run_side_by_side_and_are_told_in_order(book, capsys):
    other = "04Train/02-mean"
    book.lesson(LESSON, *CELLS)
    book.lesson(other, *CELLS)
    listing = [{**KILLED, "name": f"sum {n}"} for n in range(8)]
    harmless = {**KILLED, "name": "harmless", "with": " / max(1, len(values))"}
    book.write(f"tests/mutants/{LESSON}.yaml", yaml.safe_dump([*listing, harmless]))
    book.write(f"tests/mutants/{other}.yaml", yaml.safe_dump(listing))
    assert cli.main(["mutants"]) == 1
    out = capsys.readouterr().out
    first, second = (
        f"{name}: {n} of {m} mutants killed"
        for name, n, m in ((LESSON, 8, 9), (other, 8, 8))
    )
    assert 0 < out.index("survived  harmless") < out.index(first) < out.index(second)


@pytest.mark.parametrize(
    ("listing", "told"),
    [
        ("a: [", "while parsing"),
        ("name: x", "expected a list"),
        ("- {name: x}", "mutant 1 must have exactly the texts cell, fails"),
    ],
)
def test_bad_listing_is_one_line(book, capsys, listing, told):
    book.lesson(LESSON, *CELLS)
    book.write(f"tests/mutants/{LESSON}.yaml", listing)
    assert cli.main(["mutants", LESSON]) == 2
    err = capsys.readouterr().err
    assert told in err and err.count("\n") == 1


def test_listing_errors_a_schema_cannot_see(book, capsys):
    assert mutants(book, KILLED, KILLED) == 2
    assert "two mutants have the same name" in capsys.readouterr().err
    assert mutants(book, {**KILLED, "with": KILLED["replace"]}) == 2
    assert "changes nothing" in capsys.readouterr().err


def test_lesson_with_exported_code_needs_a_listing(book, capsys):
    book.lesson(LESSON, *CELLS)
    assert cli.main(["mutants"]) == 2
    assert f"tests/mutants/{LESSON}.yaml is missing" in capsys.readouterr().err


def test_listing_without_a_lesson_is_told(book, capsys):
    book.write("tests/mutants/04Train/09-gone.yaml", "[]")
    assert cli.main(["mutants"]) == 2
    assert "belongs to no notebook" in capsys.readouterr().err


def test_unknown_lesson_gets_the_nearest(book, capsys):
    book.lesson(LESSON, *CELLS)
    assert cli.main(["mutants", "04Train/01-meen"]) == 2
    assert f"did you mean {LESSON}?" in capsys.readouterr().err


def test_mutants_on_live_ranks(book):
    pytest.importorskip("aiinfra.launch")
    cells = (
        code(
            "import torch.distributed as dist\n"
            "from aiinfra.launch import Ranks, launch\n"
            "ranks = Ranks(2)",
            "ranks",
            "setup",
        ),
        code("def double(x):\n    return 2 * x", "double", "export"),
        code(
            "def on_rank():\n    assert double(3) == 6, 'double on a rank'\n\n"
            "launch(on_rank, world_size=2)",
            "check-launch",
            "check",
        ),
        code("%%ranks\nassert world_size == 2", "check-ranks", "check"),
    )
    book.lesson(LESSON, *cells)
    wrong = {
        "name": "triple",
        "why": "a wrong factor",
        "cell": "double",
        "replace": "2 *",
        "with": "3 *",
        "fails": "double on a rank",
    }
    book.write(f"tests/mutants/{LESSON}.yaml", yaml.safe_dump([wrong]))
    # As from a terminal: ranks take the command's own process for their parent.
    done = subprocess.run(
        [sys.executable, "-m", "aiinfra.tools.cli", "mutants", "--at-least", "1"],
        cwd=book.root,
        capture_output=True,
        text=True,
        timeout=280,  # a cold import of torch on a busy machine
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 mutants killed" in done.stdout
