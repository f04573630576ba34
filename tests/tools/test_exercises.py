"""`aiinfra exercises`: editions without leaks, and tests that tell wrong from right."""

import functools
import shutil
from pathlib import Path

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from aiinfra.tools import answers, cli, exercises, gates, notebook
from aiinfra.tools.check import assignments as gate
from aiinfra.tools.check import executed, form, lengths, spelling
from aiinfra.tools.errors import UserError
from aiinfra.tools.execute import kernel_environment
from aiinfra.tools.root import MARKER, assignments, find_root, notebooks

ROOT = find_root(Path(__file__))
SOURCES = assignments(ROOT)
PARTS = sorted({path.parent.parent.name for path in SOURCES})
NAME = "04Train/exercises/mean"

HEAD = """\
# The mean

Means of 4<!-- N_VALUES --> values, up to 1,000<!-- LARGEST -->.

| | |
| --- | --- |
| Before | nothing |
| Time | 5 minutes |
| Points | 3 |
"""
NUMBERS = """\
N_VALUES = 4  # values; one of 4, 6, 7
LARGEST = 1_000  # of them; one of 1_000, 2_000, 3_000"""
ANSWER = '''\
def mean(values):
    """The mean of some values."""
    ### BEGIN SOLUTION
    secret = sum(values)
    return secret / len(values)
    ### END SOLUTION'''
TEST = """\
assert mean([2.0]) == 2.0, f"the mean of one value is the value, not {mean([2.0])}"
### BEGIN HIDDEN TESTS
hidden = [LARGEST] + [0] * (N_VALUES - 1)
assert mean(hidden) == LARGEST / N_VALUES, f"{mean(hidden)} is no mean of {hidden}"
### END HIDDEN TESTS"""
WRONG = [
    {"name": "the sum", "why": "never divided", "code": "return sum(values)"},
    {"name": "the first", "why": "one is not all", "code": "return values[0]"},
    {
        "name": "one too few",
        "why": "the divisor of a variance",
        "code": "return sum(values) / max(len(values) - 1, 1)",
    },
]


def graded(name, **flags):
    """What nbgrader knows of a cell."""
    about = {"grade": False, "locked": False, "schema_version": 3, "solution": False}
    return {**about, "task": False, "grade_id": name, **flags}


def cell(cell_id, source, *tags, **flags):
    """A code cell of an assignment."""
    metadata = {"nbgrader": graded(cell_id, **flags)}
    if tags:
        metadata["tags"] = list(tags)
    return new_code_cell(source, id=cell_id, metadata=metadata)


def assignment(book, wrong=WRONG, **sources):
    """An assignment with one question in a tiny book; its path."""
    text = {"head": HEAD, "numbers": NUMBERS, "answer": ANSWER, "test": TEST, **sources}
    cells = [
        new_markdown_cell(text["head"], id="head"),
        cell("numbers", text["numbers"], "variant", locked=True),
        cell("mean", text["answer"], solution=True),
        cell("test-mean", text["test"], grade=True, locked=True, points=3),
    ]
    path = book.root / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    notebook.write(notebook.normalise(new_notebook(cells=cells)), path)
    listed = [{"question": "mean", **entry} for entry in wrong]
    book.write(f"{NAME}.yaml", yaml.safe_dump(listed))
    return path


def changed(path, change):
    """Let ``change`` edit the notebook at ``path``."""
    nb = nbformat.read(path, as_version=4)
    change({cell.id: cell for cell in nb.cells})
    nbformat.write(nb, path)


def whole(nb):
    """All sources of a notebook."""
    return "\n".join(cell.source for cell in nb.cells)


# Numbers of a course


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_without_a_course_the_text_is_the_committed_one(path):
    committed, made = nbformat.read(path, 4), exercises.seeded(path)
    for before, after in zip(committed.cells, made.cells, strict=True):
        if "variant" in notebook.tags(before):
            assert exercises.DECLARED.sub(r"\1 = \2  # \3", before.source) == (
                after.source
            )
        elif before.cell_type == "markdown":
            assert exercises.MARK.sub(r"\1", before.source) == after.source
        else:
            assert before.source == after.source


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_courses_differ_in_numbers_code_and_prose(path):
    numbers = {
        seed: exercises.draw(notebook.read(path), path, seed)
        for seed in answers.courses(path)
    }
    assert len(numbers) >= 3
    for name, texts in exercises.declared(notebook.read(path)).items():
        assert {drawn[name] for drawn in numbers.values()} == set(texts)
    prose = {
        "\n".join(c.source for c in exercises.seeded(path, seed).cells if "md" in c.id)
        + whole(exercises.seeded(path, seed))
        for seed in numbers
    }
    assert len(prose) == len(numbers)
    assert not [text for text in prose if "<!--" in text or "; one of" in text]


def test_numbers_reach_code_and_prose(book):
    path = assignment(book)
    made = whole(exercises.seeded(path, "autumn-2026"))
    drawn = exercises.draw(notebook.read(path), path, "autumn-2026")
    # By hash: this course has these numbers for ever.
    assert drawn == {"N_VALUES": "6", "LARGEST": "2_000"}
    assert "Means of 6 values, up to 2,000." in made
    assert "N_VALUES = 6  # values\nLARGEST = 2_000  # of them" in made
    about = exercises.seeded(path, " autumn-2026 ").metadata["aiinfra"]
    assert about == {"assignment": "04Train/mean", "course": "autumn-2026"}


def test_an_undeclared_mark_is_an_error(book):
    path = assignment(book, head=HEAD.replace("LARGEST", "LARGEAST"))
    with pytest.raises(UserError, match="LARGEAST is marked and not declared"):
        exercises.seeded(path)


# Editions


@pytest.fixture(scope="module")
def handed_out(tmp_path_factory):
    """Each part's student edition, for a course of its own."""
    out = tmp_path_factory.mktemp("student")
    return {
        path: made
        for part in PARTS
        for path, made in zip(
            assignments(ROOT, part),
            exercises.student_edition(ROOT, part, "autumn-2026", out / part),
            strict=True,
        )
    }


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_students_get_no_solutions_and_no_hidden_tests(path, handed_out):
    source = exercises.seeded(path, "autumn-2026")
    raw = handed_out[path].read_text("utf-8")
    student = nbformat.reads(raw, 4)
    text = whole(student)
    for words in ("BEGIN", "HIDDEN", "SOLUTION", "<!--"):
        assert words not in raw
    n_questions = len(exercises.questions(source))
    assert text.count("# YOUR CODE HERE\n") == n_questions
    for cell in source.cells:
        for pattern in (gate.SOLUTION, gate.HIDDEN):
            for region in pattern.finditer(cell.source):
                lines = {line.strip() for line in region[0].splitlines()}
                rest = pattern.sub("", whole(source))
                secret = {line for line in lines if len(line) > 20 and line not in rest}
                assert len(secret) >= 2 or pattern is gate.SOLUTION
                assert not [line for line in secret if line in text]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_student_notebooks_are_nbgraders(path, handed_out):
    from nbgrader.utils import compute_checksum

    nb = nbformat.read(handed_out[path], 4)
    nbformat.validate(nb)
    tests = {question.test for question in exercises.questions(nb)}
    for cell in notebook.code_cells(nb):
        assert cell.execution_count is None and not cell.outputs
        about = cell.metadata.nbgrader
        assert about.checksum == compute_checksum(cell)
        assert about.locked == (cell.metadata.get("editable") is False)
        assert about.grade == (cell.id in tests)


def test_the_same_course_gives_the_same_bytes(book):
    assignment(book)
    made = [
        exercises.student_edition(book.root, "04Train", seed, book.root / out)[0]
        for seed, out in (("a", "1"), ("a", "2"), ("autumn-2026", "3"))
    ]
    one, again, other = (path.read_bytes() for path in made)
    assert one == again != other


def test_the_command_makes_both_editions(book, capsys):
    assignment(book)
    words = ["exercises", "04Train", "--seed", "autumn 2026"]
    assert cli.main(words) == 0
    folder = book.root / "_build/exercises/04Train-autumn-2026"
    assert (folder / "mean.ipynb").is_file()
    assert "mean: N_VALUES " in capsys.readouterr().out

    assert cli.main([*words, "--instructor", "--out", "for-teachers"]) == 0
    nb = nbformat.read("for-teachers/mean.ipynb", 4)
    assert [c.execution_count for c in notebook.code_cells(nb)] == [1, 2, 3]
    assert "BEGIN SOLUTION" in whole(nb) and "BEGIN HIDDEN" in whole(nb)
    key = Path("for-teachers/mean.md").read_text("utf-8")
    assert "course *autumn 2026*" in key and "## mean (3 points)" in key
    assert "### one too few\n\nThe divisor of a variance.\n" in key
    assert "Only grading says:" in key and "is no mean of" in key
    before = {path: path.read_bytes() for path in Path("for-teachers").iterdir()}
    exercises.instructor_edition(book.root, "04Train", "autumn 2026", Path("again"))
    for path, content in before.items():
        assert Path("again", path.name).read_bytes() == content


def test_a_solution_that_fails_makes_no_instructors_edition(book, capsys):
    assignment(book, answer=ANSWER.replace("/ len(values)", ""))
    assert cli.main(["exercises", "04Train", "--instructor"]) == 2
    assert "its own solution fails" in capsys.readouterr().err


def test_what_cannot_be_made_is_said_in_one_line(book, capsys):
    path = assignment(book)
    answered = book.write("work/mean.ipynb", "somebody's answers")
    for words, told in (
        ([], "name a part; there are: 04Train"),
        (["04Trian"], "no assignments in '04Trian'; did you mean 04Train?"),
        (["04Train", "--seed", "a/b"], "expected the name of a course"),
        (["04Train", "--out", "work"], "may hold somebody's answers"),
        (["04Train", "--out", str(path.parent)], "may hold somebody's answers"),
        (["04Train", "--out", "pyproject.toml"], "is a file; name a folder"),
        (["--check", "--seed", "a"], "--check makes nothing"),
    ):
        assert cli.main(["exercises", *words]) == 2
        err = capsys.readouterr().err
        assert told in err and err.count("\n") == 1
    assert answered.read_text() == "somebody's answers"
    changed(path, lambda cells: cells["test-mean"].metadata.nbgrader.update(points=0))
    assert cli.main(["exercises", "04Train"]) == 2
    err = capsys.readouterr().err
    assert "04Train/exercises/mean.ipynb:" in err and "expected points above 0" in err


def test_a_released_part_makes_no_assignments(book, capsys):
    assignment(book)
    book.write(MARKER, "{}")
    assert cli.main(["exercises", "04Train"]) == 2
    assert "assignments are made from a clone" in capsys.readouterr().err


# Wrong answers


def check(book, capsys, wrong=WRONG, **sources):
    """Exit status and output of the check on one assignment."""
    assignment(book, wrong, **sources)
    status = cli.main(["exercises", "--check"])
    return status, capsys.readouterr().out


def test_wrong_answers_are_killed(book, capsys):
    status, out = check(book, capsys)
    assert status == 0
    assert f"{NAME}: 1 questions, numbers of 3 courses" in out
    assert out.count("  passes    ") == 3
    assert "  killed    mean, the first, by hidden tests: 4" not in out
    assert "  killed    mean, the first, by hidden tests: 1000 is no mean of" in out
    assert f"{NAME}: 3 of 3 wrong answers killed" in out


FAULTS = {
    "right": ("return sum(values) / len(values)", "survived", "no test failed"),
    "solution": (
        "### BEGIN SOLUTION\nsecret = sum(values)\nreturn secret / len(values)\n"
        "### END SOLUTION",
        "stale",
        "is the solution",
    ),
    "accident": ("return sum(value)", "wrong", "got NameError: name 'value' is not"),
    "no Python": ("return sum(values", "stale", "no longer applies: SyntaxError"),
    "endless": ("while True:\n    pass", "wrong", "got OvertimeError"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_answer_that_is_not_killed_fails(book, capsys, monkeypatch, fault):
    monkeypatch.setattr(answers, "CELL_LIMIT_S", 0.5)
    code, verdict, told = FAULTS[fault]
    status, out = check(
        book, capsys, [*WRONG, {"name": "planted", "why": "it is", "code": code}]
    )
    assert status == 1
    lines = [line for line in out.splitlines() if line.startswith(f"  {verdict} ")]
    assert len(lines) == 3 and all(told in line for line in lines)
    assert f"{NAME}: 3 of 4 wrong answers killed" in out


@pytest.mark.parametrize(
    ("sources", "told"),
    [
        (
            {"answer": ANSWER.replace("/ len(values)", "")},
            "cell test-mean fails with the solution: AssertionError: 1000 is no mean",
        ),
        (
            {"answer": ANSWER.replace("len(values)", "(4 if values[1:] else 1)")},
            "cell test-mean fails with the solution",
        ),
        (
            {
                "answer": ANSWER.replace(
                    "### BEGIN", "return sum(values) / 1\n    ### BEGIN"
                )
            },
            "fails with the solution",
        ),
        (
            {"test": "import sys\nprint('a warning', file=sys.stderr)\n" + TEST},
            "says 'a warning', which nbgrader counts as points",
        ),
        ({"test": TEST + "\n0.5"}, "says '0.5', which nbgrader counts as points"),
        (
            {"test": "assert True, 'nothing'\n" + TEST.split("\n", 1)[1]},
            "cell test-mean passes with no answer",
        ),
        (
            {"test": TEST.replace("mean([2.0])", "mena([2.0])")},
            "fails with no answer for another reason: NameError",
        ),
        (
            {
                "test": "assert hidden, 'none'\n"
                + TEST.replace("### BEGIN", "hidden = 1\n### BEGIN", 1)
            },
            "cell test-mean fails",
        ),
    ],
    ids=[
        "wrong solution",
        "solution for the committed numbers only",
        "answer outside the solution",
        "stderr",
        "value",
        "no visible test",
        "misspelt test",
        "visible test needs a hidden name",
    ],
)
def test_a_broken_assignment_fails(book, capsys, sources, told):
    status, out = check(book, capsys, **sources)
    assert status == 1
    assert "  broken    " in out and told in out


def test_parts_without_assignments_are_told(book, capsys):
    assert cli.main(["exercises", "--check"]) == 0
    assert "no part has assignments yet" in capsys.readouterr().out


# The gate that reads


def test_a_whole_assignment_has_no_flaws(book):
    assignment(book)
    assert gate.check(book.root) == []


FLAWS = {
    "no points": (
        lambda cells: cells["test-mean"].metadata.nbgrader.pop("points"),
        "expected points above 0",
    ),
    "outputs": (
        lambda cells: cells["numbers"].update(execution_count=1),
        "a source notebook holds no outputs",
    ),
    "another id": (
        lambda cells: cells["mean"].metadata.nbgrader.update(grade_id="middle"),
        "its grade_id is middle; expected its id",
    ),
    "old schema": (
        lambda cells: cells["mean"].metadata.nbgrader.update(schema_version=2),
        "of version 3",
    ),
    "solution in a locked cell": (
        lambda cells: cells["numbers"].update(source=NUMBERS + "\n" + ANSWER),
        "nbgrader must know it as an answer",
    ),
    "hidden test in an answer": (
        lambda cells: cells["mean"].update(source=ANSWER + "\n" + TEST),
        "nbgrader must know it as a test",
    ),
    "no solution": (
        lambda cells: cells["mean"].update(source="def mean(values): ..."),
        "expected one solution between",
    ),
    "nothing hidden": (
        lambda cells: cells["test-mean"].update(source="assert mean([2]) == 2, 'no'"),
        "expected tests between ### BEGIN HIDDEN",
    ),
    "nothing visible": (
        lambda cells: cells["test-mean"].update(source=TEST.split("\n", 1)[1]),
        "its visible tests assert nothing",
    ),
    "silent": (
        lambda cells: cells["test-mean"].update(
            source=TEST.replace(" == 2.0, f", " == 2.0\nf")
        ),
        "line 1: an assertion says nothing when it fails",
    ),
    "prose behind": (
        lambda cells: cells["head"].update(source=HEAD.replace("1,000", "1,001")),
        "1,001 is marked as LARGEST, which is 1,000",
    ),
    "unknown mark": (
        lambda cells: cells["head"].update(source=HEAD.replace("N_VAL", "N_VOL")),
        "N_VOLUES is marked; did you mean N_VALUES?",
    ),
    "two values": (
        lambda cells: cells["numbers"].update(source=NUMBERS.replace(", 7", "")),
        "N_VALUES: expected at least 3 values, of which the first is 4",
    ),
    "first is not the committed": (
        lambda cells: cells["numbers"].update(source=NUMBERS.replace("= 4", "= 5")),
        "of which the first is 5",
    ),
    "no declaration": (
        lambda cells: cells["numbers"].update(source="N_VALUES = 4"),
        "expected NAME = 1  # what; one of 1, 2, 3: N_VALUES = 4",
    ),
    "head": (
        lambda cells: cells["head"].update(source=HEAD.replace("Time", "When")),
        "its head has no row | Time |",
    ),
    "points in the head": (
        lambda cells: cells["head"].update(source=HEAD.replace("| 3", "| 4")),
        "its head should say | Points | 3",
    ),
    "test of nothing": (
        lambda cells: (
            cells["test-mean"].update(id="test-median"),
            cells["test-mean"].metadata.nbgrader.update(grade_id="test-median"),
        ),
        "expected one cell test-NAME behind each answer (mean), got test-median",
    ),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_flaws_are_found(book, flaw):
    change, told = FLAWS[flaw]
    path = assignment(book)
    changed(path, change)
    found = gate.check(book.root)
    assert [p for p in found if told in p.message], found
    assert all(p.path == f"{NAME}.ipynb" for p in found)


@pytest.mark.parametrize(
    ("listing", "told"),
    [
        (None, "has no wrong answers"),
        ("a: [", "while parsing"),
        ("name: x", "expected a list"),
        (
            "- {name: x}",
            "answer 1 must have exactly the texts code, name, question, why",
        ),
        ([{**WRONG[0], "question": "meen"}], "did you mean mean?"),
        ([{**WRONG[0], "question": "mean"}] * 2, "have the same name"),
        (
            [{**each, "question": "mean"} for each in WRONG[:2]],
            "2 wrong answers to mean",
        ),
    ],
)
def test_flaws_of_the_listing_are_found(book, listing, told):
    path = assignment(book).with_suffix(".yaml")
    if listing is None:
        path.unlink()
    else:
        path.write_text(
            listing if isinstance(listing, str) else yaml.safe_dump(listing)
        )
    (problem,) = gate.check(book.root)
    assert problem.path == f"{NAME}.yaml" and told in problem.message


def test_assignments_are_no_pages_but_are_read(book):
    book.lesson("04Train/01-mean")
    path = assignment(book, answer=ANSWER + "\n# wi" + "ch " + "x" * 90)
    assert [p.name for p in notebooks(book.root)] == ["01-mean.ipynb"]
    assert assignments(book.root, "04Train") == assignments(book.root) == [path]
    assert executed.check(book.root) == []
    assert "has 97 characters" in str(lengths.check(book.root)[0])
    assert "ch ==> which" in str(spelling.check(book.root)[0])
    changed(path, lambda cells: cells["mean"].metadata.update(tags=["checks"]))
    assert "unknown tag checks; did you mean check?" in str(form.check(book.root)[0])


def test_hidden_tests_do_not_count_as_lines_on_the_screen(book):
    long = "\n".join(f"assert {n}, 'no'" for n in range(1, 31))
    assignment(book, test=TEST.replace("hidden =", long + "\nhidden ="))
    assert lengths.check(book.root) == []
    assignment(book, test=long + "\n" + TEST)
    assert "cell test-mean has 31 lines, at most 25" in str(lengths.check(book.root)[0])


def test_the_gate_is_one_of_the_gates():
    assert "assignments" in gates.GATES


# nbgrader itself


@pytest.mark.filterwarnings("ignore:Object of type")  # sqlalchemy to nbgrader
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", PARTS)
def test_nbgrader_grades_solutions_full_and_stubs_zero(part, tmp_path, monkeypatch):
    from nbgrader import api
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config

    monkeypatch.chdir(tmp_path)
    # nbgrader calls the command alembic whenever it opens its database.
    monkeypatch.setenv("PATH", kernel_environment()["PATH"])
    once = functools.cache(api.get_alembic_version)
    monkeypatch.setattr(api, "get_alembic_version", once)
    points = {}
    for path in assignments(ROOT, part):
        nb = exercises.seeded(path, "autumn-2026")
        points[path.stem] = sum(q.points for q in exercises.questions(nb))
        for place in (f"source/{part}", f"submitted/solution/{part}"):
            exercises.save(nb, tmp_path / place / path.name)
    config = Config()
    config.CourseDirectory.root = str(tmp_path)
    config.Execute.timeout = 120
    nbgrader = NbGraderAPI(config=config)
    made = nbgrader.generate_assignment(part)
    assert made["success"], made["log"]
    shutil.copytree(f"release/{part}", f"submitted/stub/{part}")
    for student in ("solution", "stub"):
        done = nbgrader.autograde(part, student)
        assert done["success"], done["log"]
    with api.Gradebook(f"sqlite:///{tmp_path}/gradebook.db") as book:
        for name, full in points.items():
            for student, score in (("solution", full), ("stub", 0)):
                found = book.find_submission_notebook(name, part, student)
                assert (found.score, found.max_score) == (score, full), (name, student)
                assert not found.needs_manual_grade
