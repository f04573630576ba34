"""doctor, lab, bench: what they say, and what they refuse."""

import argparse
import socket
import subprocess
import sys

import pytest

from aiinfra.tools import cli, doctor, lab


def test_doctor_names_what_it_looked_for_and_what_follows(capsys):
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    for word in ("Python", "cores", "memory", "Chromium", "Slurm", "read the book"):
        assert word in out


def test_doctor_says_why_not():
    found = {f.name: f for f in doctor.findings()}
    found["torch"] = doctor.Finding("torch", False, "")
    found["accelerators"] = doctor.Finding("accelerators", False, "")
    rows = {name: (yes, detail) for name, yes, detail in doctor.abilities(found)}
    assert rows["run them on accelerators"] == (False, "needs torch, accelerators")
    assert rows["run the lessons"][0] is False


def test_doctor_works_without_any_package(book):
    """As `make doctor` calls it on a fresh machine: the standard library only."""
    package = cli.__file__.removesuffix("/aiinfra/tools/cli.py")
    program = (
        f"import sys; sys.path.append({package!r}); "
        "from aiinfra.tools import cli; sys.exit(cli.main(['doctor']))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "not installed; `make lab` installs it" in done.stdout


def arguments(**changes):
    """What the parser of `aiinfra lab` gives."""
    return argparse.Namespace(
        **{"notebook": None, "port": None, "no_browser": False} | changes
    )


def test_lab_opens_on_the_lessons_and_asks_nobody(book):
    for part in ("00Hardware", "04Train"):
        book.write(f"{part}/index.md", "# Part\n")
    words = lab.command(arguments(no_browser=True))
    assert f"--ServerApp.root_dir={book.root}" in words
    assert "--LabApp.default_url=/lab/tree/04Train" in words
    assert "--no-browser" in words
    assert any("NeverCheckForUpdate" in word for word in words)


def test_lab_opens_on_the_part_that_there_is(book):
    book.write("05Infer/index.md", "# Inference\n")
    assert "--LabApp.default_url=/lab/tree/05Infer" in lab.command(arguments())


def test_lab_opens_on_a_notebook(book):
    book.lesson("04Train/02-ddp")
    words = lab.command(arguments(notebook="04Train/02-ddp"))
    assert "--LabApp.default_url=/lab/tree/04Train/02-ddp.ipynb" in words


def test_lab_refuses_a_port_in_use(book, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["lab", "--port", str(port)]) == 2
    err = capsys.readouterr().err
    assert f"port {port} cannot be used" in err and err.count("\n") == 1


@pytest.mark.parametrize("port", ["0", "70000", "-1"])
def test_lab_refuses_what_is_no_port(book, capsys, port):
    assert cli.main(["lab", "--port", port]) == 2
    assert "expected a number from 1 to 65535" in capsys.readouterr().err


def test_bench_prints_rows(book, capsys):
    book.write(
        "tests/bench/bench_toy.py",
        "def run():\n"
        "    return [{'what': 'a', 'seconds': 0.12345}, {'what': 'bb', 'ratio': 21}]\n",
    )
    assert cli.main(["bench"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert "what  seconds  ratio" in out
    assert "a       0.123" in out
    assert "bb                21" in out


@pytest.mark.parametrize("body", ["", "run = 3", "def run():\n    return [1]\n"])
def test_bench_refuses_a_file_without_rows(book, capsys, body):
    book.write("tests/bench/bench_toy.py", body)
    assert cli.main(["bench", "toy"]) == 2
    assert "run()" in capsys.readouterr().err


def test_bench_unknown_name(book, capsys):
    book.write("tests/bench/bench_launch.py", "")
    assert cli.main(["bench", "lunch"]) == 2
    assert "did you mean launch?" in capsys.readouterr().err
