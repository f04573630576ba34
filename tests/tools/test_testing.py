"""`aiinfra test`: stages go on after a failure, end in time, and are counted."""

import json
import os
import sys
import time

import pytest
from bookmaker import code

from aiinfra.tools import cli, doctor, testing
from aiinfra.tools.errors import UserError
from aiinfra.tools.testing import Tally

LESSON = "04Train/01-toy"


def test_a_failing_stage_does_not_stop_the_next(book, monkeypatch, capsys):
    def good(root):
        """All is well."""
        return Tally(passed=3, skipped=1)

    def bad(root):
        """One fails."""
        return Tally(passed=1, failed=2)

    def refuses(root):
        """Cannot run."""
        raise UserError("no site")

    stages = {"bad": bad, "refuses": refuses, "good": good}
    monkeypatch.setattr(testing, "STAGES", stages)
    assert cli.main(["test"]) == 1
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[-1] == "4 passed, 3 failed, 1 skipped"
    rows = [line.split() for line in lines]
    assert ["bad", "1", "2", "0", "0", "s", "FAILED"] in rows
    assert ["good", "3", "0", "1", "0", "s", "ok"] in rows
    assert captured.err == "aiinfra: no site\n"


def test_all_well_is_zero(book, monkeypatch, capsys):
    def good(root):
        """All is well."""
        return Tally(passed=2)

    monkeypatch.setattr(testing, "STAGES", {"a": good})
    assert cli.main(["test", "a"]) == 0
    assert capsys.readouterr().out.endswith("\n2 passed, 0 failed\n")


def test_unknown_stage_gets_the_nearest(book, capsys):
    assert cli.main(["test", "mutant"]) == 2
    assert "no stage 'mutant'; did you mean mutants" in capsys.readouterr().err


def test_notebooks_are_compared_and_timed(book, capsys):
    book.lesson(LESSON, code("print(1)", "one"), executed=False)
    assert cli.main(["execute", LESSON]) == 0
    assert cli.main(["test", "notebooks"]) == 0
    record = json.loads((book.root / testing.TIMES).read_text())
    assert record[f"{LESSON}.ipynb"]["seconds"] > 0
    path = book.root / f"{LESSON}.ipynb"
    path.write_text(path.read_text().replace('"1\\n"', '"2\\n"'))
    capsys.readouterr()
    assert cli.main(["test", "notebooks"]) == 1
    out = capsys.readouterr().out
    assert f"{LESSON}.ipynb  0 cells 1 FAILED" in out
    assert "mismatch 'stdout'" in out
    assert out.endswith("0 passed, 1 failed\n")


def test_a_notebook_in_which_nothing_is_checked_fails(book, capsys):
    book.lesson(LESSON)
    assert cli.main(["test", "notebooks"]) == 1
    assert "FAILED" in capsys.readouterr().out


def test_pytest_is_counted(book, capfd):
    book.write("pyproject.toml", "")
    book.write(
        "tests/test_toy.py",
        "import pytest\n\n\ndef test_good():\n    pass\n\n\n"
        "def test_bad():\n    assert 1 == 2\n\n\n"
        "def test_absent():\n    pytest.skip('no GPU')\n",
    )
    assert cli.main(["test", "unit"]) == 1
    out = capfd.readouterr().out
    assert "assert 1 == 2" in out
    assert out.endswith("1 passed, 1 failed, 1 skipped\n")


def test_no_tests_at_all_is_a_failure(book, capfd):
    (book.root / "tests").mkdir()
    assert cli.main(["test", "unit"]) == 1
    assert capfd.readouterr().out.endswith("0 passed, 1 failed\n")


def test_generated_and_mutants_are_counted(book, monkeypatch, capsys):
    book.lesson(
        LESSON,
        code('def f() -> int:\n    """One."""\n    return 1', "f", "export"),
        code("assert f() == 1, 'f is one'", "check-f", "check"),
    )
    mutant = (
        "- {{name: n{0}, why: w, cell: f, replace: '1', with: '{0}', fails: one}}\n"
    )
    listing = "".join(mutant.format(number) for number in range(2, 10))
    book.write(f"tests/mutants/{LESSON}.yaml", listing)
    assert testing.mutants(book.root) == Tally(passed=8)
    book.write(
        f"tests/mutants/{LESSON}.yaml", listing.replace("with: '2'", "with: '1.0'")
    )
    assert testing.mutants(book.root) == Tally(passed=7, failed=1)
    book.write(f"tests/mutants/{LESSON}.yaml", listing[: len(listing) // 2])
    assert testing.mutants(book.root).failed == 1  # too few of them


def test_site_needs_a_site(book, capsys):
    assert cli.main(["test", "site"]) == 1
    assert "no built site to test" in capsys.readouterr().err


def test_a_program_past_its_limit_is_stopped_with_all_it_started(book):
    # The child keeps the pipe open, as a kernel does.
    script = (
        "import subprocess, sys, time; "
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
        "print(p.pid, flush=True); time.sleep(60)"
    )
    began = time.monotonic()
    outcome = testing.program(book.root, [sys.executable, "-c", script], 2)
    assert outcome.overtime and outcome.code < 0
    assert time.monotonic() - began < 40
    with pytest.raises(ProcessLookupError):
        for _ in range(100):  # until the system has taken it away
            os.kill(int(outcome.output), 0)
            time.sleep(0.1)


def test_what_a_program_leaves_behind_does_not_hold_it_up(book):
    script = (
        "import subprocess, sys; "
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)'], "
        "start_new_session=True); print('done')"
    )
    outcome = testing.program(book.root, [sys.executable, "-c", script], 60)
    assert (outcome.code, outcome.output, outcome.overtime) == (0, "done\n", False)
    assert outcome.seconds < 25


def test_output_split_within_a_letter_is_whole(book):
    script = (
        "import sys, time; b = '→'.encode(); sys.stdout.buffer.write(b[:1]); "
        "sys.stdout.flush(); time.sleep(0.3); sys.stdout.buffer.write(b[1:])"
    )
    outcome = testing.program(book.root, [sys.executable, "-c", script], 60)
    assert outcome.output == "→"


def test_gpu_is_refused_without_one(book, monkeypatch, capsys):
    monkeypatch.setattr(doctor, "ask_torch", lambda: ("2.13.0", []))
    assert cli.main(["test", "--gpu"]) == 2
    err = capsys.readouterr().err
    assert "sees no accelerator here" in err and err.count("\n") == 1
    assert cli.main(["test", "--gpu", "unit"]) == 2
    assert not (book.root / testing.GPU_RUNS).exists()


def test_gpu_writes_a_dated_record_without_a_host_name(book, monkeypatch, capsys):
    devices = ["cuda: NVIDIA H200", "cuda: NVIDIA H200"]
    monkeypatch.setattr(doctor, "ask_torch", lambda: ("2.13.0", devices))
    monkeypatch.setattr(testing.platform, "node", lambda: "ada-laptop")
    book.lesson(LESSON, code("print(1)", "one"), executed=False)
    assert cli.main(["execute", LESSON]) == 0
    assert cli.main(["test", "--gpu"]) == 0
    assert capsys.readouterr().out.endswith("1 passed, 0 failed\n")
    (path,) = (book.root / testing.GPU_RUNS).iterdir()
    assert path.name.endswith("-cuda-nvidia-h200-x2.json")
    record = json.loads(path.read_text())
    assert record["count"] == 2 and record["torch"] == "2.13.0"
    ran = record["notebooks"][f"{LESSON}.ipynb"]
    assert (ran["outcome"], ran["cells_passed"], ran["cells_failed"]) == (
        "passed",
        1,
        0,
    )
    assert "ada-laptop" not in path.read_text()
