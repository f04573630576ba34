"""`aiinfra execute`: outputs saved only if every cell ran."""

import json

import pytest
from bookmaker import code, text

from aiinfra.tools import cli, notebook

LESSON = "04Train/01-tiny"


def test_counts_outputs_and_metadata(book, capsys):
    path = book.lesson(
        LESSON,
        text("# Tiny"),
        code("print('a')\nprint('b')", "hello", "check"),
        code("import pathlib; pathlib.Path.cwd().name", "where"),
        executed=False,
    )
    noisy = json.loads(path.read_text())
    noisy["metadata"]["widgets"] = {"state": {}}
    noisy["cells"][1]["metadata"]["ExecuteTime"] = {"start_time": "2026-01-01"}
    path.write_text(json.dumps(noisy))
    assert cli.main(["execute", LESSON]) == 0
    assert "2 cells in" in capsys.readouterr().out
    nb = notebook.read(path)
    hello, where = notebook.code_cells(nb)
    assert (hello.execution_count, where.execution_count) == (1, 2)
    assert [output.text for output in hello.outputs] == ["a\nb\n"]
    assert where.outputs[0].data["text/plain"] == "'04Train'"  # runs where it lies
    assert dict(hello.metadata) == {"tags": ["check"]}
    assert "widgets" not in nb.metadata
    assert "version" not in nb.metadata.language_info


def test_twice_gives_the_same_bytes(book):
    path = book.lesson(LESSON, code("print(6 * 7)", "answer"), executed=False)
    cli.main(["execute", LESSON])
    first = path.read_bytes()
    cli.main(["execute", LESSON])
    assert path.read_bytes() == first


@pytest.mark.parametrize("tags", [(), ("raises-exception",)])
def test_error_names_the_cell_and_writes_nothing(book, capsys, tags):
    path = book.lesson(
        LESSON, code("x = 0", "zero"), code("1 / x", "divide", *tags), executed=False
    )
    before = path.read_bytes()
    assert cli.main(["execute", LESSON]) == 1
    captured = capsys.readouterr()
    assert "FAILED in cell divide (2 of 2): ZeroDivisionError" in captured.out
    assert "Traceback" in captured.err
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_cell_that_hangs_ends(book, capsys):
    book.lesson(LESSON, code("import time; time.sleep(60)", "sleep"), executed=False)
    assert cli.main(["execute", LESSON, "--cell-timeout", "1"]) == 1
    assert "cell sleep (1 of 1): still running after 1 s" in capsys.readouterr().out


def test_a_kernel_that_dies_is_told(book, capsys):
    book.lesson(LESSON, code("import os; os._exit(3)", "die"), executed=False)
    assert cli.main(["execute", LESSON]) == 1
    assert "cell die (1 of 1): the kernel died" in capsys.readouterr().out


def test_stderr_is_pointed_out(book, capsys):
    source = "import sys; print('careful', file=sys.stderr)"
    book.lesson(LESSON, code(source, "warn"), executed=False)
    assert cli.main(["execute", LESSON]) == 0
    assert "cell warn wrote to stderr: careful" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "name notebooks"),
        (["--all", LESSON], "name notebooks"),
        (["04Train/09-none"], "no notebook '04Train/09-none'"),
        (["--cell-timeout", "-1", LESSON], "expected more than 0 s"),
    ],
)
def test_bad_input_is_one_line(book, capsys, arguments, told):
    book.lesson(LESSON, code("1", "one"))
    assert cli.main(["execute", *arguments]) == 2
    err = capsys.readouterr().err
    assert told in err and err.count("\n") == 1


def test_a_file_that_is_no_notebook_is_told(book, capsys):
    book.write("04Train/01-tiny.ipynb", "{")
    assert cli.main(["execute", LESSON]) == 2
    assert "is not a notebook" in capsys.readouterr().err


def test_widget_views_go_where_a_picture_stays():
    nb = notebook.nbformat.v4.new_notebook(cells=[code("figure", "figure")])
    view = {notebook.WIDGET_VIEW: {"model_id": "af31"}, "text/plain": "Figure"}
    for data in ({**view, "text/html": "<svg/>"}, dict(view)):
        nb.cells[0].outputs.append(
            notebook.nbformat.v4.new_output("display_data", data=data)
        )
    notebook.normalise(nb)
    with_picture, without = nb.cells[0].outputs
    assert set(with_picture.data) == {"text/html", "text/plain"}
    assert notebook.WIDGET_VIEW in without.data
