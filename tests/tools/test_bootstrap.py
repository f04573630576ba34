"""book/bootstrap.py: readable by any Python, idempotent, clear when it fails."""

import ast
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from aiinfra.tools.root import find_root

SCRIPT = find_root(Path(__file__)) / "book" / "bootstrap.py"


@pytest.fixture
def bootstrap(tmp_path):
    """The script's names, laid in a folder with pins of its own."""
    folder = tmp_path / "book"
    folder.mkdir()
    (folder / "bootstrap.py").write_text(SCRIPT.read_text())
    (tmp_path / "pyproject.toml").write_text("[project]\n[tool.ruff]\nx = 1\n")
    (tmp_path / "constraints.txt").write_text("numpy==2.4.6\n")
    return runpy.run_path(str(folder / "bootstrap.py"))


def lay_venv(names, extras=("site",)):
    """A .venv as a complete install leaves it."""
    python = Path(names["VENV_PYTHON"])
    python.parent.mkdir(parents=True)
    python.touch()
    Path(names["UNDERWAY"]).touch()
    names["write_stamp"](sorted({one for e in extras for one in names["COVERS"][e]}))


def test_it_uses_no_syntax_that_an_old_python_cannot_read():
    tree = ast.parse(SCRIPT.read_text(), feature_version=(3, 4))
    for node in ast.walk(tree):
        assert not isinstance(node, ast.JoinedStr | ast.AnnAssign | ast.Nonlocal)
        if isinstance(node, ast.FunctionDef):
            assert node.returns is None and not node.args.kwonlyargs


@pytest.mark.parametrize("version", [(2, 7, 18), (3, 10, 4), (3, 14, 0)])
def test_an_unsupported_python_gets_one_line(bootstrap, monkeypatch, capsys, version):
    monkeypatch.setattr(sys, "version_info", version)
    assert bootstrap["main"](["site"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"needs 3.11 to 3.13, and this is {version[0]}.{version[1]}" in (
        err.replace("needs Python", "needs")
    )
    assert "PYTHON=" in err


@pytest.mark.parametrize("arguments", [[], ["nope"], ["site", "lab"]])
def test_bad_arguments_get_one_line(bootstrap, capsys, arguments):
    assert bootstrap["main"](arguments) == 2
    assert "usage: bootstrap.py" in capsys.readouterr().err


def test_nothing_is_done_twice(bootstrap):
    fresh, read = bootstrap["is_fresh"], bootstrap["read_stamp"]
    assert not fresh(read(), "site")
    lay_venv(bootstrap)
    assert fresh(read(), "site")
    assert not fresh(read(), "lab")
    assert bootstrap["main"](["site"]) == 0  # and does not touch the toy .venv


def test_the_test_extra_serves_all(bootstrap):
    lay_venv(bootstrap, ["test"])
    stamp = bootstrap["read_stamp"]()
    assert all(bootstrap["is_fresh"](stamp, extra) for extra in ("site", "lab", "test"))


def test_what_is_installed_follows_the_pins_not_the_linter(bootstrap, tmp_path):
    lay_venv(bootstrap)
    fresh, stamp = bootstrap["is_fresh"], bootstrap["read_stamp"]()
    project = tmp_path / "pyproject.toml"
    project.write_text(project.read_text().replace("x = 1", "x = 2"))
    assert fresh(stamp, "site")
    project.write_text("[project]\nname = 'x'\n")
    assert not fresh(stamp, "site")
    project.write_text("[project]\n[tool.ruff]\n")
    assert fresh(stamp, "site")
    (tmp_path / "constraints.txt").write_text("numpy==2.4.7\n")
    assert not fresh(stamp, "site")


def test_another_torch_index_is_another_install(bootstrap, monkeypatch):
    lay_venv(bootstrap)
    monkeypatch.setenv("TORCH_INDEX", "https://example.org/cpu")
    assert not bootstrap["is_fresh"](bootstrap["read_stamp"](), "site")


def test_cut_short_moved_or_of_another_python_is_remade(bootstrap, monkeypatch):
    remake, read = bootstrap["must_remake"], bootstrap["read_stamp"]
    lay_venv(bootstrap)
    assert not remake(read())
    assert remake(read() | {"folder": "/elsewhere/.venv"})
    assert remake(read() | {"python": "3.1"})
    Path(bootstrap["UNDERWAY"]).touch()
    assert remake(read())
    assert not bootstrap["is_fresh"](read(), "site")
    Path(bootstrap["UNDERWAY"]).unlink()
    Path(bootstrap["VENV_PYTHON"]).unlink()
    assert remake(read())


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "WARNING: Retrying … NewConnectionError: Failed to establish a new "
            "connection\nERROR: No matching distribution found for numpy",
            "the package index cannot be reached",
        ),
        ("Temporary failure in name resolution", "check the network"),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("SSLError(CERTIFICATE_VERIFY_FAILED)", "set PIP_CERT"),
        ("ERROR: [Errno 13] Permission denied: 'x'", "cannot be written"),
        (
            "ERROR: No matching distribution found for torch==2.13.0",
            "No matching distribution found for torch==2.13.0",
        ),
        ("", "pip ended with status 7"),
    ],
)
def test_a_failed_install_is_one_line_with_cause_and_remedy(bootstrap, said, told):
    line = bootstrap["explain"](said, 7)
    assert told in line and "\n" not in line


def test_no_network_is_told_and_the_next_run_repairs(tmp_path, bootstrap):
    (tmp_path / "pyproject.toml").write_text(
        "[build-system]\nrequires = ['setuptools']\n"
        "build-backend = 'setuptools.build_meta'\n[project]\nname = 'toy'\n"
        "version = '1'\n[project.optional-dependencies]\nsite = ['no-such-thing-3']\n"
    )
    done = subprocess.run(
        [sys.executable, str(tmp_path / "book" / "bootstrap.py"), "site"],
        env={
            "PATH": "/usr/bin:/bin",
            "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
            "PIP_CONFIG_FILE": "/dev/null",
        },
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "the package index cannot be reached; check the network" in done.stderr
    assert not Path(bootstrap["UNDERWAY"]).exists()
    assert not Path(bootstrap["STAMP"]).exists()
