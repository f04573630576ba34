"""`aiinfra rerun`: a record is remade, compared, and told apart from another."""

import hashlib
import json

import pytest

from aiinfra.tools import cli
from aiinfra.tools.rerun import compare

PROGRAM = """
import json, random, sys
random.seed(int(sys.argv[1]))
json.dump({"loss": [random.random() for _ in range(3)], "ok": True},
          open(sys.argv[2], "w"))
"""
MANIFEST = {
    "what": "Three random numbers.",
    "command": "python 04Train/data/toy.py {seed} {record}",
    "seed": 7,
    "record": "toy.record.json",
    "sha256": "",
    "versions": {"numpy": ""},
    "machine": {},
    "date": "",
    "minutes": 0.1,
    "tolerance": {"relative": 1e-12, "absolute": 0},
}


@pytest.fixture
def recorded(book):
    """A book with one recorded run."""
    book.write("04Train/data/toy.py", PROGRAM)
    book.write("04Train/data/toy.json", json.dumps(MANIFEST))
    assert cli.main(["rerun", "toy", "--save"]) == 0
    return book


def manifest(book, **changes):
    """Change the manifest."""
    path = book.root / "04Train/data/toy.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_save_tells_what_ran_and_where(recorded):
    about = json.loads((recorded.root / "04Train/data/toy.json").read_text())
    record = (recorded.root / "04Train/data/toy.record.json").read_bytes()
    assert about["sha256"] == hashlib.sha256(record).hexdigest()
    assert about["versions"]["numpy"][0].isdigit()
    assert set(about["machine"]) >= {"processor", "cores", "memory_gib", "python"}
    assert about["date"].count("-") == 2


def test_the_same_command_remakes_it(recorded, capsys):
    assert cli.main(["rerun", "toy"]) == 0
    assert "toy: remade in" in capsys.readouterr().out


def test_another_seed_is_seen(recorded, capsys):
    manifest(recorded, seed=8)
    assert cli.main(["rerun", "toy"]) == 1
    assert "toy: differs at loss[" in capsys.readouterr().out


def test_a_record_changed_by_hand_is_seen(recorded, capsys):
    (recorded.root / "04Train/data/toy.record.json").write_text("{}")
    assert cli.main(["rerun", "toy"]) == 2
    assert "is not the file that was recorded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"seed": "7"}, "expected the field 'seed', a int"),
        ({"tolerance": {}}, "expected tolerance"),
        ({"record": "toy.npz"}, "ends in .json or .csv"),
        ({"command": "python x.py"}, "expected {record}"),
        ({"command": "no-such-program {record}"}, "cannot run no-such-program"),
        ({"command": "python -c pass {record}"}, "wrote no {record}"),
        ({"command": "python -c 1/0 {record}"}, "ended with status 1"),
    ],
)
def test_bad_manifest_is_told(recorded, capsys, changes, told):
    manifest(recorded, **changes)
    assert cli.main(["rerun", "toy"]) == 2
    assert told in capsys.readouterr().err


def test_unknown_name_gets_the_nearest_and_no_name_the_list(recorded, capsys):
    assert cli.main(["rerun", "tay"]) == 2
    assert "did you mean toy?" in capsys.readouterr().err
    assert cli.main(["rerun"]) == 0
    assert "toy  Three random numbers." in capsys.readouterr().out
    assert cli.main(["rerun", "--save"]) == 2


@pytest.mark.parametrize(
    ("recorded", "remade", "agrees"),
    [
        ({"a": 1.0}, {"a": 1.0009}, True),
        ({"a": 1.0}, {"a": 1.002}, False),
        ({"a": 1.0}, {"b": 1.0}, False),
        ([1, 2], [1, 2, 3], False),
        (["x"], ["y"], False),
        ([float("nan")], [float("nan")], True),
        ([float("inf")], [1.0], False),
        ([True], [1], True),
        ([True], [0], False),
        ([], [], True),
    ],
)
def test_compare(recorded, remade, agrees):
    worst = compare(recorded, remade, {"relative": 1e-3, "absolute": 0.0})
    assert (worst.excess <= 1) is agrees
