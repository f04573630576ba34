"""`aiinfra grade`: honest work gets its points, hostile work none and does no harm."""

import copy
import csv
import hashlib
import json
import os
import shutil
import socket
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell
from nbgrader.preprocessors import Execute
from nbgrader.utils import determine_grade

sys.path.insert(0, str(Path(__file__).parent / "hostile"))
import attacks
import source

from aiinfra.tools import grade, sandbox
from aiinfra.tools.cli import main
from aiinfra.tools.errors import UserError
from aiinfra.tools.grading.course import Course, is_other
from aiinfra.tools.grading.exam import Rules, Verdict, outputs_of

RULES = Rules(seconds=5, limits=sandbox.Limits(memory_gib=1.0, processes=100))
HONEST = f"def ring_bytes(n_ranks, n_bytes):\n    return {source.RIGHT}"

if not shutil.which("bwrap"):
    if os.environ.get("AIINFRA_REQUIRE_SANDBOX") == "1":
        pytest.fail("no bubblewrap, and AIINFRA_REQUIRE_SANDBOX=1 demands it")
    pytest.skip("no bubblewrap (`apt install bubblewrap`)", allow_module_level=True)


pytestmark = pytest.mark.timeout(900)  # dozens of notebooks, some up to their limits


def hashes(folder: Path) -> dict[str, str]:
    """Every file under a folder, and its hash; a link counts as what it says."""
    return {
        str(path): hashlib.sha256(
            os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        ).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def left_behind() -> list[psutil.Process]:
    """Processes that carry the sandbox's mark."""
    marked = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(sandbox.MARK) == str(os.getpid()):
                marked.append(process)
        except psutil.Error:
            pass
    return marked


@pytest.fixture(scope="module")
def service():
    """A service on this machine's loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    peer.sendall(b"hello")

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


EVERYWHERE = ["/tmp", "/work", "/home", "/root", "/proc/1/root"]


def filled_in(attack: str, folder: Path, port: int, places=EVERYWHERE) -> str:
    """An attack that knows where to look."""
    places = [str(folder), *places]
    known = f"PLACES, TARGET, PORT = {places!r}, {str(folder / 'written')!r}, {port}\n"
    return known + attack


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The assignment in nbgrader, its solution tried."""
    course = Course(tmp_path_factory.mktemp("course"), RULES)
    course.add("ring", source.assignment())
    course.prove("ring")
    return course


@pytest.fixture
def with_rules(course):
    """Grade by other rules for the length of a test."""

    def change(rules: Rules) -> Course:
        course.rules = rules
        return course

    yield change
    course.rules = RULES


@pytest.fixture(scope="module")
def graded(course, tmp_path_factory, service):
    """A class of hostile students and honest ones, graded by the command."""
    top = tmp_path_factory.mktemp("class")
    folder = top / "submissions"
    release = course.releases["ring"]
    (top / "private.txt").write_text("the teacher has retreated")

    def hand_in(student, ring, double=source.HONEST_SCALE):
        source.hand_in(folder, student, source.answered(release, ring, double))

    hand_in("honest", HONEST)
    hand_in("stub", source.by_id(release, "ring").source)
    for kind in (
        attacks.FORGERIES,
        attacks.READS,
        attacks.ENDS,
        attacks.NUISANCES,
        {"forged output": attacks.FORGED_OUTPUT},
    ):
        for student, attack in kind.items():
            hand_in(student, filled_in(attack, top, service))
    odd_files(folder, release)
    before = hashes(top)
    threads = threading.active_count()
    code = grade.grade(
        [grade.named(each, ["ring"]) for each in grade.collect(folder)],
        {"ring": source.assignment()},
        top / "out",
        RULES,
    )
    after = {
        path: digest
        for path, digest in hashes(top).items()
        if not path.startswith(str(top / "out"))
    }
    rows = list(csv.DictReader((top / "out/grades.csv").open(newline="")))
    return SimpleNamespace(
        top=top,
        code=code,
        before=before,
        after=after,
        rows=rows,
        threads=threading.active_count() - threads,
        points={(row["student"], row["question"]): row["points"] for row in rows},
        remarks={(row["student"], row["question"]): row["remark"] for row in rows},
    )


def odd_files(folder: Path, release) -> None:
    """Submissions that are not what they should be."""
    edited = source.answered(release, "ring_bytes = None")
    source.by_id(edited, "ring-test").source = "pass"
    source.hand_in(folder, "edits the tests", edited)

    marked = source.answered(release, "def ring_bytes(*_):\n    return 0")
    test = source.by_id(marked, "ring-test")
    test.source = "pass"
    test.metadata.nbgrader.update(points=1000, grade=False, solution=True, locked=False)
    source.by_id(marked, "double-test").metadata.nbgrader["points"] = 1000
    source.hand_in(folder, "edits the points", marked)

    retyped = source.answered(release, HONEST)
    for each in retyped.cells:
        each.metadata["nbgrader"] = {**each.metadata.get("nbgrader", {}), "task": 7}
    source.by_id(retyped, "ring").metadata["nbgrader"]["grade_id"] = ["ring"]
    source.hand_in(folder, "breaks the metadata", retyped)

    short = source.answered(release, HONEST)
    short.cells = [
        each
        for each in short.cells
        if each.metadata.get("nbgrader", {}).get("grade_id")
        not in ("ring-test", "double", "given")
    ]
    source.hand_in(folder, "loses cells", short)

    doubled = source.answered(release, attacks.WRONG)
    again = nbformat.from_dict(source.by_id(doubled, "ring"))
    again.source, again.id = HONEST, "again"
    doubled.cells.insert(3, again)
    extra = new_code_cell("def double(x):\n    x += x", id="more")
    doubled.cells.insert(-1, extra)
    source.hand_in(folder, "adds cells", doubled)

    (folder / "not a notebook").mkdir()
    (folder / "not a notebook/ring.ipynb").write_bytes(b"\x89PNG\r\n" + bytes(99))
    (folder / "deep").mkdir()
    (folder / "deep/ring.ipynb").write_text('{"cells": ' + "[" * 10**5)
    (folder / "no cells").mkdir()
    (folder / "no cells/ring.ipynb").write_text(
        json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [3]})
    )
    (folder / "link").mkdir()
    (folder / "link/ring.ipynb").symlink_to(folder / "honest/ring.ipynb")
    (folder / "whole link").symlink_to(folder / "honest")
    (folder / "pipe").mkdir()
    os.mkfifo(folder / "pipe/ring.ipynb")
    (folder / "other file").mkdir()
    shutil.copy(folder / "honest/ring.ipynb", folder / "other file/rings.ipynb")
    source.hand_in(folder, "=cmd()", source.answered(release, "raise OSError('=1')"))


def test_everybody_is_graded(graded):
    assert graded.code == 0
    students = {student for student, _ in graded.points}
    assert len(graded.rows) == 2 * len(students) and len(students) > 30


def test_an_honest_student_gets_all_points_and_a_stub_none(graded):
    assert graded.points["honest", "ring-test"] == "3"
    assert graded.points["honest", "double-test"] == "2"
    assert graded.remarks["honest", "ring-test"] == ""
    assert graded.points["stub", "ring-test"] == "0"
    assert graded.remarks["stub", "ring-test"] == "not answered"
    assert graded.points["stub", "double-test"] == "2"


@pytest.mark.parametrize(
    "student",
    [
        *attacks.FORGERIES,
        *attacks.READS,
        *attacks.ENDS,
        *attacks.NUISANCES,
        "forged output",
        "edits the tests",
        "edits the points",
    ],
)
def test_an_attack_gets_nothing_and_the_honest_answer_beside_it_all(graded, student):
    remark = graded.remarks[student, "ring-test"]
    assert graded.points[student, "ring-test"] == "0", remark
    assert remark
    assert graded.points[student, "double-test"] == "2", graded.remarks[
        student, "double-test"
    ]


def test_the_remark_names_the_limit(graded):
    for student, words in {
        "loops": "not finished within 5 s",
        "loops when called": "not finished within 5 s",
        "exits": "exit status 0",
        "10 GB": "MemoryError",
        "waits for input": "EOFError",
        "a huge answer": "64 MiB",
    }.items():
        assert words in graded.remarks[student, "ring-test"], (
            student,
            graded.remarks[student, "ring-test"],
        )


def test_a_broken_notebook_is_mended_as_far_as_it_goes(graded):
    points = graded.points
    assert points["breaks the metadata", "double-test"] == "2"
    assert points["loses cells", "ring-test"] == "3"
    assert points["loses cells", "double-test"] == "0"
    assert points["adds cells", "ring-test"] == "3"
    assert points["adds cells", "double-test"] == "2"


def test_what_is_no_notebook_gets_nothing_and_a_reason(graded):
    for student, words in {
        "not a notebook": "not a notebook",
        "deep": "not a notebook",
        "no cells": "not a notebook",
        "link": "a link",
        "pipe": "not a file",
        "other file": "not handed in",
    }.items():
        for question in ("ring-test", "double-test"):
            assert graded.points[student, question] == "0"
            assert words in graded.remarks[student, question]
    assert ("whole link", "ring-test") not in graded.points


def test_nothing_is_harmed(graded):
    assert graded.before == graded.after
    assert not (graded.top / "written").exists()
    assert left_behind() == []
    assert graded.threads == 0


def test_no_file_is_left_on_this_machine(graded):
    leftovers = [
        name
        for name in os.listdir("/tmp")
        if name.startswith(("aiinfra-course-", "aiinfra-ranks-"))
        and (Path("/tmp") / name).stat().st_mtime > os.path.getmtime(graded.top)
    ]
    assert leftovers == []


def test_feedback_is_the_students_own_and_small_and_hides_the_tests(graded):
    pages = sorted((graded.top / "out/feedback").rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        text = page.read_text("utf-8")
        assert source.SECRET not in text
        assert "<script" not in text and len(text) < 60_000


def test_the_table_starts_no_formula(graded):
    text = (graded.top / "out/grades.csv").read_text("utf-8")
    assert "\n'=cmd()," in text and "\n=" not in text and ",=" not in text


# What the walls and the second room are for


@pytest.mark.parametrize("attack", attacks.FORGERIES)
def test_in_one_kernel_a_forgery_gets_all_points(attack):
    nb = source.assignment()
    source.by_id(nb, "ring").source = attacks.FORGERIES[attack]
    source.by_id(nb, "double").source = source.HONEST_SCALE
    Execute(timeout=60).preprocess(nb, {})
    assert determine_grade(source.by_id(nb, "ring-test")) == (3, 3)


@pytest.mark.parametrize("attack", attacks.READS)
def test_without_walls_an_escape_succeeds(with_rules, service, attack, tmp_path):
    (tmp_path / "private.txt").write_text("the teacher has retreated")
    course = with_rules(replace(RULES, unsafe=True))
    text = filled_in(attacks.READS[attack], tmp_path, service, [str(tmp_path)])
    nb = source.answered(course.releases["ring"], text)
    assert course.grade("ring", nb).rows[0].points == 3
    assert left_behind() == []


def test_tests_on_ranks_see_through_a_patched_torch(with_rules):
    limits = sandbox.Limits(memory_gib=3.0)
    course = with_rules(Rules(seconds=60, limits=limits))
    course.add("ranks", source.assignment_on_ranks())
    course.prove("ranks")
    nb = copy.deepcopy(course.releases["ranks"])
    source.by_id(nb, "average").source = attacks.PATCHES_TORCH
    source.by_id(nb, "halve").source = "def halve(tensor):\n    return tensor / 2"
    average, halve = course.grade("ranks", nb).rows
    assert average.points == 0 and "the mean is" in average.remark
    assert halve.points == 2
    assert left_behind() == []


def test_a_test_may_give_part_of_its_points():
    cell = source.by_id(source.assignment(), "ring-test")
    for verdict, points in (
        (Verdict(True), 3),
        (Verdict(True, score=1.5), 1.5),
        (Verdict(False, "wrong"), 0),
    ):
        cell.outputs = outputs_of(verdict)
        assert determine_grade(cell) == (points, 3)


# What teachers may get wrong


def test_a_solution_that_does_not_pass_stops_the_grading(course):
    nb = source.assignment()
    source.by_id(nb, "ring").source = source.RING.replace("2 *", "3 *")
    course.add("wrong", nb)
    with pytest.raises(UserError, match="its own solution gets 0 of 3"):
        course.prove("wrong")


def test_an_assignment_that_nbgrader_refuses_is_named(course):
    nb = source.assignment()
    source.by_id(nb, "double").metadata.nbgrader["grade_id"] = "ring"
    with pytest.raises(UserError, match="Duplicate grade id: ring"):
        course.add("twice", nb)


def test_another_edition_is_told(tmp_path, course, capsys, monkeypatch):
    folder = tmp_path / "class"
    release = course.releases["ring"]
    source.hand_in(folder, "anna", source.answered(release, HONEST))
    found = [grade.named(each, ["ring"]) for each in grade.collect(folder)]
    other = {"ring": source.assignment(given="import math", factor=2)}
    with pytest.raises(UserError, match=r"anna/ring\.ipynb is made from another text"):
        grade.grade(found, other, tmp_path / "out", RULES)
    assert not (tmp_path / "out").exists()

    stamped = copy.deepcopy(release)
    stamped.metadata["aiinfra"] = {"assignment": "04Train/ring", "course": "spring"}
    path = source.hand_in(folder, "ben", source.answered(stamped, HONEST))
    ben = grade.Submission("ben", path, "ring")
    both = {found[0]: grade.read(found[0].path), ben: grade.read(path)}
    told = grade.other_editions(course, both)
    assert list(told) == [ben] and "04Train/ring --seed spring" in told[ben]
    assert "ben/ring.ipynb: made from" in capsys.readouterr().err

    monkeypatch.setitem(release.metadata, "aiinfra", stamped.metadata["aiinfra"])
    for cell in stamped.cells:
        if checksum := cell.metadata.get("nbgrader", {}).get("checksum"):
            cell.metadata.nbgrader.checksum = checksum[::-1]
    told = grade.other_editions(course, {**both, ben: stamped})
    assert "made from another text of 04Train/ring --seed spring" in told[ben]


def test_the_teachers_own_edition_is_no_other(course):
    release = course.releases["ring"]
    solved = source.answered(release, HONEST)
    for cell in solved.cells:
        cell.metadata.get("nbgrader", {}).pop("checksum", None)
    assert not is_other(solved, release)


@pytest.fixture
def classroom(book, monkeypatch):
    """A book with one part and one assignment, and an empty folder `class`."""
    (book.root / "04Train/exercises").mkdir(parents=True)
    (book.root / "00Hardware").mkdir()
    nbformat.write(source.assignment(), book.root / "04Train/exercises/ring.ipynb")
    (book.root / "class").mkdir()
    return book


@pytest.mark.parametrize(
    "words, message",
    [
        (["04Trian", "class"], "no part '04Trian'; did you mean 04Train"),
        (["00Hardware", "class"], "00Hardware has no assignments"),
        (["04Train", "nowhere"], "no folder"),
        (["04Train", "empty"], "no submissions in"),
        (["04Train", "loose"], "ring.ipynb lies in no student's folder"),
        (["04Train", "typo"], "did you mean ring?"),
        (["04Train", "class", "--seconds", "0"], "expected more than 0"),
        (["04Train", "class", "--memory", "nan"], "expected at least 0.5 GiB"),
        (["04Train", "class", "--out", "class/out"], "choose another"),
    ],
)
def test_wrong_use_is_one_clear_line(classroom, capsys, words, message):
    for folder in ("empty", "loose", "typo"):
        (classroom.root / folder).mkdir()
    release = source.assignment()
    source.hand_in(classroom.root, "class/anna", release)
    source.hand_in(classroom.root, "loose", release)
    source.hand_in(classroom.root, "typo/anna", release, "rign")
    assert main(["grade", *words]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


def test_the_command_grades(classroom, course, capsys):
    nb = source.answered(course.releases["ring"], HONEST)
    source.hand_in(classroom.root, "class/anna", nb)
    nb = source.answered(course.releases["ring"], attacks.WRONG)
    source.hand_in(classroom.root, "class/ben", nb)
    source.hand_in(classroom.root, "class/ben", nb, "rings")
    assert main(["grade", "04Train", "class", "--seconds", "10", "--memory", "1"]) == 0
    said = capsys.readouterr()
    assert "[1/2] anna  ring  5 of 5" in said.out
    assert "ring-test       1" in said.out and "double-test     2" in said.out
    assert "ben/rings.ipynb" in said.err
    assert (classroom.root / "class-graded/feedback/ben/ring.html").is_file()
    table = (classroom.root / "class-graded/grades.csv").read_text("utf-8")
    assert table.splitlines()[:3] == [
        "student,assignment,question,points,max,remark",
        "anna,ring,ring-test,3,3,",
        "anna,ring,double-test,2,2,",
    ]
