"""The command line: help, unknown commands, errors for people."""

import subprocess
import sys

import pytest

from aiinfra.tools import cli
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import find_notebook, find_root, nearest, part_folders


def test_help_names_every_command(capsys):
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    for command in cli.COMMANDS:
        assert f"  {command} " in out


def test_no_command_prints_the_help(capsys):
    assert cli.main([]) == 0
    assert "usage: aiinfra COMMAND" in capsys.readouterr().out


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "--help"])
    assert stop.value.code == 0
    assert f"usage: aiinfra {command}" in capsys.readouterr().out


def test_unknown_command_gets_the_nearest(capsys):
    assert cli.main(["bild"]) == 2
    assert capsys.readouterr().err == (
        "aiinfra: unknown command 'bild'; did you mean build?\n"
    )


def test_unknown_command_far_from_all_gets_the_list(capsys):
    assert cli.main(["zzz"]) == 2
    assert "there are: doctor, build" in capsys.readouterr().err


def test_missing_package_is_told_with_the_remedy(monkeypatch, capsys):
    def absent(name):
        raise ModuleNotFoundError("No module named 'nbclient'", name="nbclient")

    monkeypatch.setattr(cli.importlib, "import_module", absent)
    assert cli.main(["execute"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "nbclient" in err and "make lab" in err


def test_missing_module_of_ours_is_a_bug_and_shows(monkeypatch):
    def absent(name):
        raise ModuleNotFoundError("No module named 'aiinfra.x'", name="aiinfra.x")

    monkeypatch.setattr(cli.importlib, "import_module", absent)
    with pytest.raises(ModuleNotFoundError):
        cli.main(["execute"])


def test_importing_the_command_imports_nothing_heavy():
    program = (
        "import sys, aiinfra.tools.cli; "
        "print({'torch', 'numpy', 'nbformat', 'yaml'} & set(sys.modules))"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert out.stdout == "set()\n"


def test_root_is_found_from_below(book, monkeypatch):
    folder = book.root / "04Train" / "data"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    assert find_root() == book.root


def test_part_folders_are_numbered_and_capitalised(book):
    for name in ("04Train", "00Hardware", "tests", "99x"):
        (book.root / name).mkdir()
    assert [p.name for p in part_folders(book.root)] == ["00Hardware", "04Train"]


def test_notebook_by_name_or_path_and_the_nearest(book):
    path = book.lesson("04Train/02-ddp")
    assert find_notebook(book.root, "04Train/02-ddp") == path
    assert find_notebook(book.root, "04Train/02-ddp.ipynb") == path
    with pytest.raises(UserError, match="did you mean 04Train/02-ddp"):
        find_notebook(book.root, "04Train/02-dp")


def test_nearest_says_when_there_is_nothing():
    assert nearest("x", []) == "there are none yet"
