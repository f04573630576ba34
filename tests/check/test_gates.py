"""Each gate passes what is right and refuses what is wrong."""

import hashlib
import json
import shutil

import pytest
from bookmaker import code, new_output, printed, shown, text

from aiinfra.tools import cli, gates
from aiinfra.tools.check import (
    alt,
    budgets,
    errors,
    examples,
    executed,
    form,
    leftovers,
    lengths,
    links,
    portable,
    public,
    records,
    ruff,
    sizes,
    spelling,
    toc,
    workflows,
)
from aiinfra.tools.check.tree import Skip

LESSON = "04Train/02-ddp"
SVG = '<svg role="img" aria-label="Two bars, the second twice as high"></svg>'


def told(problems) -> str:
    """All messages as one text."""
    return "\n".join(map(str, problems))


def with_output(cell, *outputs):
    """A cell that printed or displayed something."""
    cell.outputs = list(outputs)
    return cell


# The command


def test_unknown_gate_gets_the_nearest(book, capsys):
    assert cli.main(["check", "lengthz"]) == 2
    assert "no gate 'lengthz'; did you mean lengths" in capsys.readouterr().err


def test_problems_are_listed_and_fail(book, capsys):
    book.lesson(LESSON, code("x = 1", "one"), executed=False)
    assert cli.main(["check", "executed", "errors"]) == 1
    out = capsys.readouterr().out
    assert "executed  1 problem" in out and "errors    holds" in out
    assert f"  {LESSON}.ipynb:" in out
    assert "1 hold, 1 fail with 1 problems, 0 skipped" in out


def test_a_skipped_gate_says_why_and_does_not_fail(book, capsys):
    assert cli.main(["check", "links"]) == 0
    assert "skipped: no built site" in capsys.readouterr().out


def test_list_says_what_each_gate_is_for(capsys):
    assert cli.main(["check", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(gates.GATES)
    assert all(len(line) > 30 for line in lines)


def test_an_empty_book_passes(book):
    for gate in (alt, budgets, errors, executed, form, lengths, portable, public):
        assert gate.check(book.root) == []


# Notebooks


def test_executed(book):
    book.lesson(LESSON, code("1", "one"), text("prose", "p"), code("2", "two"))
    assert executed.check(book.root) == []


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((1, None), "cell two was never executed"),
        ((1, 3), "cell two is out of order: count 3, expected 2"),
        ((2, 3), "cell one is out of order: count 2, expected 1"),
    ],
)
def test_executed_refuses(book, counts, message):
    cells = code("1", "one"), code("2", "two")
    for cell, count in zip(cells, counts, strict=True):
        cell.execution_count = count
    book.lesson(LESSON, *cells, executed=False)
    assert message in told(executed.check(book.root))


def test_executed_refuses_an_empty_cell(book):
    book.lesson(LESSON, code(" ", "empty"))
    assert "cell empty is empty" in told(executed.check(book.root))


def test_errors(book):
    book.lesson(LESSON, with_output(code("1", "one"), printed("fine")))
    assert errors.check(book.root) == []
    book.lesson(LESSON, with_output(code("1", "one"), printed("careful", "stderr")))
    assert "cell one writes to stderr: careful" in told(errors.check(book.root))
    failure = new_output("error", ename="ValueError", evalue="", traceback=[])
    book.lesson(LESSON, with_output(code("1", "one"), failure))
    assert "cell one ends in ValueError" in told(errors.check(book.root))


def test_lengths(book):
    lines = "\n".join(f"x{n} = {n}" for n in range(26))
    book.lesson(LESSON, code(lines, "long", "long-cell"), code("#" + 87 * "x", "wide"))
    assert lengths.check(book.root) == []
    book.lesson(LESSON, code(lines, "long"), code("#" + 88 * "x", "wide"))
    found = told(lengths.check(book.root))
    assert "cell long has 26 lines, at most 25" in found
    assert "cell wide, line 1 has 89 characters, at most 88" in found
    longest = "\n".join(f"x{n} = {n}" for n in range(41))
    book.lesson(LESSON, code(longest, "long", "long-cell"))
    assert "has 41 lines, at most 40" in told(lengths.check(book.root))


@pytest.mark.parametrize(
    ("output", "what"),
    [
        ("/home/ada/book/x.py", "a path"),
        ("in /opt/python/lib/site.py", "a path"),
        ("C:\\Users", "a path"),
        ("<object at 0x7f3a2c00>", "a memory address"),
        ("listening on 127.0.0.1", "a network address"),
        ("http://localhost:8888", "a network address"),
        ("pid 4711", "a process id"),
        ("2026-01-31", "a date"),
        ("at 12:30:59", "a time of day"),
        ("took 12.3 ms", "a time"),
        ("0.004s", "a time"),
        ("5e-06 s", "a time"),
        ("3 seconds", "a time"),
        ("450 µs", "a time"),
    ],
)
def test_portable_refuses_in_compared_outputs_only(book, output, what):
    for where in (printed(output), shown(plain=output)):
        book.lesson(LESSON, with_output(code("1", "one"), where))
        assert f"cell one prints {what}, " in told(portable.check(book.root))
        book.lesson(LESSON, with_output(code("1", "one", "nbval-ignore-output"), where))
        assert portable.check(book.root) == []


@pytest.mark.parametrize(
    "output",
    [
        "4 ranks, 3 steps, 2 s-curves? no: 2 samples",
        "[rank 0] torch.Size([2, 3])",
        "1/2 and 3/4/5",
        "12 MB of gradients, 400 Gb/s",
        "0xff",
        "0.6667  0.1 steps",
        "04Train/02-ddp",
    ],
)
def test_portable_passes(book, output):
    problems = []
    book.lesson(LESSON, with_output(code("1", "one", "virtual-time"), printed(output)))
    problems += portable.check(book.root)
    assert problems == []


def test_portable_lets_virtual_time_pass_but_no_path(book):
    cell = code("1", "one", "virtual-time")
    book.lesson(LESSON, with_output(cell, printed("step takes 12.3 ms")))
    assert portable.check(book.root) == []
    book.lesson(LESSON, with_output(cell, printed("12.3 ms in /home/ada/x")))
    assert "a path" in told(portable.check(book.root))


def test_portable_knows_this_machine(book, monkeypatch):
    monkeypatch.setattr(portable.platform, "node", lambda: "ada-laptop")
    book.lesson(LESSON, with_output(code("1", "one"), printed("on ada-laptop")))
    assert "the host's name" in told(portable.check(book.root))


def test_form(book):
    book.lesson(LESSON, text("# A"), code("1", "ring-all-reduce-2", "check"))
    assert form.check(book.root) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda nb: nb.update(nbformat_minor=4), "no valid notebook"),
        (lambda nb: nb.update(nbformat_minor=6), "format 4.6, expected 4.5"),
        (lambda nb: nb["metadata"].update(widgets={}), "holds widget state"),
        (lambda nb: nb["metadata"].pop("kernelspec"), "kernel is not python3"),
        (lambda nb: nb["cells"][0].update(id="3f2a9c1b"), "say what it does"),
        (lambda nb: nb["cells"][0].update(id="Ring Reduce"), "notebook"),
        (lambda nb: nb["cells"][0].update(id="Ring_Reduce"), "say what it does"),
        (
            lambda nb: nb["cells"][0]["metadata"].update(tags=["exports"]),
            "unknown tag exports; did you mean export?",
        ),
        (
            lambda nb: nb["cells"][0]["metadata"].update(tags=["nbval-skip"]),
            "unknown tag nbval-skip",
        ),
        (
            lambda nb: nb["cells"][0]["metadata"].update(scrolled=True),
            "carries an editor's notes",
        ),
        (lambda nb: nb["cells"][0].pop("outputs"), "no valid notebook"),
    ],
)
def test_form_refuses(book, change, message):
    path = book.lesson(LESSON, code("1", "one"))
    nb = json.loads(path.read_text())
    change(nb)
    path.write_text(json.dumps(nb))
    assert message in told(form.check(book.root))


def test_form_refuses_what_is_no_notebook(book):
    book.write(f"{LESSON}.ipynb", "{")
    assert "no valid notebook" in told(form.check(book.root))


# Figures


@pytest.mark.parametrize(
    "source",
    [
        "![A ring of four ranks, each sending right](ring.svg)",
        "```{figure} ring.svg\n:alt: A ring of four ranks\n\nCaption\n```",
        f"```{{raw}} html\n{SVG}\n```",
        "```{raw} html\n<svg><title>Two bars of one height</title></svg>\n```",
        '<img src="x.svg" alt="Two bars of one height">',
        '<svg aria-hidden="true"></svg>',
        "```html\n<img src='shown-as-code.svg'>\n```",
    ],
)
def test_alt_passes(book, source):
    book.page("04Train/index.md", f"# A\n\n{source}\n")
    assert alt.check(book.root) == []


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("![](ring.svg)", "image ring.svg without alt text"),
        ("![plot](ring.svg)", "image ring.svg without alt text"),
        ("```{figure} ring.svg\n\nCaption\n```", "figure directive without :alt:"),
        (":::{image} ring.svg\n:width: 3em\n:::", "image directive without :alt:"),
        ("```{raw} html\n<svg><rect/></svg>\n```", "<svg> without aria-label"),
        ("<svg><title>Plot</title></svg>", "<svg> without aria-label"),
        ('<img src="x.svg">', "<img src='x.svg'> without alt text"),
        ("```{raw} html\n:file: gone.svg\n```", "gone.svg is missing"),
        ("```{raw} html\n:file: bare.svg\n```", "bare.svg: <svg> without"),
    ],
)
def test_alt_refuses(book, source, message):
    book.write("04Train/bare.svg", "<svg><rect/></svg>")
    book.page("04Train/index.md", f"# A\n\n{source}\n")
    found = alt.check(book.root)
    assert message in told(found)
    assert found[0].line == 3 + ("{raw}" in source)
    book.page("04Train/index.md", "# A\n")
    if "file:" not in source:
        book.lesson(LESSON, text(source))
        assert message in told(alt.check(book.root))


def test_alt_of_outputs(book):
    drawn = code("plot", "plot")
    for output, message in [
        (shown(png="aaaa"), "cell plot shows a picture without alt text"),
        (shown(svg="<svg/>"), "cell plot shows a picture without alt text"),
        (shown(html="<svg></svg>"), "cell plot: <svg> without"),
        (
            shown(html='<div class="bookfig"><script>{"a": "<svg>"}</script></div>'),
            "<svg",
        ),
        (shown(html='<div class="bookfig"></div>'), "without a picture to fall back"),
    ]:
        book.lesson(LESSON, with_output(drawn, output))
        problems = told(alt.check(book.root))
        if "script" in output.data.get("text/html", ""):
            assert "<svg> without aria-label" not in problems  # a script is no figure
        else:
            assert message in problems
    book.lesson(LESSON, with_output(drawn, shown(html=SVG, svg="<svg/>")))
    assert alt.check(book.root) == []
    drawn.metadata["mystnb"] = {"image": {"alt": "Loss falls from 2.3 to 0.1"}}
    book.lesson(LESSON, with_output(drawn, shown(png="aaaa")))
    assert alt.check(book.root) == []


# Code


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f():\n    'Doc.'", "f does not say what type it returns"),
        ("def f() -> int:\n    return 1", "f has no docstring"),
        ("def f(x) -> int:\n    'Doc.'", "f does not say the type of x"),
        ("def f(*xs) -> int:\n    'Doc.'", "f does not say the type of xs"),
        ("class C:\n    pass", "class C has no docstring"),
        ("class C:\n    'Doc.'\n    def m(self) -> int:\n        pass", "C.m has no"),
        (
            "class C:\n    'Doc.'\n    def __init__(self, n):\n        pass",
            "C.__init__ does not say the type of n",
        ),
    ],
)
def test_public_refuses(book, source, message):
    book.lesson(LESSON, code(source, "cell", "export"))
    found = told(public.check(book.root))
    assert message in found and "cell cell, line " in found
    book.lesson(LESSON, code(source, "cell"))  # not exported: nobody imports it
    assert public.check(book.root) == []
    book.write("book/aiinfra/room.py", source)
    assert message in told(public.check(book.root))


def test_public_passes(book):
    source = (
        "def _private(x):\n    pass\n\n\n"
        "def f(x: int) -> int:\n    'Doc.'\n\n    def inner(y):\n        return y\n"
        "    return inner(x)\n\n\n"
        "class C:\n    'Doc.'\n\n"
        "    def __init__(self, n: int):\n        self.n = n\n\n"
        "    def __len__(self):\n        return self.n\n"
    )
    book.lesson(LESSON, code(source, "cell", "export"))
    book.write("book/aiinfra/tools/free.py", "def f(x):\n    pass\n")
    book.write("book/aiinfra/room/__init__.py", "from ._a import shown\n")
    book.write(
        "book/aiinfra/room/_a.py",
        "def hidden(x):\n    pass\n\n\ndef shown() -> None:\n    'Doc.'\n",
    )
    assert public.check(book.root) == []
    book.write("book/aiinfra/room/_a.py", "def shown() -> None:\n    pass\n")
    assert "shown has no docstring" in told(public.check(book.root))


def test_ruff(book):
    shutil.copy(gates.find_root(public.Path(__file__).parent) / "pyproject.toml", ".")
    path = book.write("book/aiinfra/room.py", "import os\n\nx = os.sep\n")
    assert ruff.check(book.root) == []
    path.write_text("import os\nx = 1\n")
    book.lesson(LESSON, code("x = 1", "one"), code("import os\ny=1", "two"))
    found = told(ruff.check(book.root))
    assert "book/aiinfra/room.py:1: F401 `os` imported but unused" in found
    assert "cell two, line 1: F401" in found
    assert "book/aiinfra/room.py:1: run `ruff format`" in found
    assert "cell two: run `ruff format`" in found
    assert "cell one: run" not in found


def test_ruff_tells_a_broken_configuration(book):
    book.write("pyproject.toml", "[tool.ruff]\nline-lenght = 88\n")
    assert "ruff failed" in told(ruff.check(book.root))


def test_spelling(book):
    wrong = "rec" + "ieve"
    book.page("04Train/index.md", "# Parallel\n\nRanks receive.\n")
    book.lesson(LESSON, text("# A"), code("receive = 1", "one"))
    assert spelling.check(book.root) == []
    book.page("04Train/index.md", f"# Parallel\n\nRanks {wrong}.\n")
    book.lesson(LESSON, text("# A"), code(f"{wrong} = 1", "one"))
    found = spelling.check(book.root)
    assert {p.path for p in found} == {f"{LESSON}.ipynb", "04Train/index.md"}
    assert f"04Train/index.md:3: {wrong} ==> receive" in told(found)
    book.write("tests/check/words.txt", f"{wrong}\n")
    assert spelling.check(book.root) == []


def test_examples(book):
    page = "# A\n\n```pycon\n>>> 6 * 7\n42\n\n```\n\n```pycon\n>>> 1 + 1\n2\n```\n"
    book.page("04Train/index.md", page)
    assert examples.check(book.root) == []
    book.page("04Train/index.md", page.replace("42", "43"))
    found = examples.check(book.root)
    assert [(p.path, p.line) for p in found] == [("04Train/index.md", 4)]
    assert ">>> 6 * 7: expected '43', got '42'" in told(found)
    book.page("04Train/index.md", page.replace("6 * 7", "1 / 0"))
    assert "got 'ZeroDivisionError: division by zero'" in told(
        examples.check(book.root)
    )


# The tree


def test_toc(book):
    book.page("04Train/index.md", "# A")
    book.lesson(LESSON)
    book.write("04Train/slides/deck.md", "# Deck")
    book.write("04Train/exercises/01-x.ipynb", "{}")
    assert toc.check(book.root) == []


def test_toc_refuses(book):
    book.page("04Train/index.md", "# A")
    book.chapters += ["04Train/gone", "04Train/index", "00Hardware/index"]
    book.toc()
    book.write("00Hardware/index.md", "# H")
    book.write("04Train/03-unlisted.md", "# U")
    book.write("04Train/Odd_Name.md", "# O")
    book.lesson(LESSON)
    book.write(f"{LESSON}.md", "# Twice")
    found = told(toc.check(book.root))
    for message in (
        "04Train/gone is listed, and there is no such page",
        "04Train/index is listed twice",
        "04Train/03-unlisted.md:1: is not listed",
        "04Train/Odd_Name.md:1: expected index or NN-name",
        f"{LESSON}.md:1: is a page and a notebook",
        "00Hardware/index comes after 04Train",
    ):
        assert message in found
    assert "_toc.yml:1: no YAML" in told(
        (book.write("_toc.yml", "a: ["), toc.check(book.root))[1]
    )
    (book.root / "_toc.yml").unlink()
    assert "_toc.yml:1: missing" in told(toc.check(book.root))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("x = 1  # TO" + "DO: more", "a note to self"),
        ("FIX" + "ME", "a note to self"),
        ("More lessons are coming" + " soon.", "a promise"),
        ("see /home/" + "ada/book", "a path of one machine"),
        ("see ../sha" + "red/x.md", "a folder outside the book"),
        ("<<<<" + "<<< HEAD", "a conflict of a merge"),
    ],
)
def test_leftovers_refuses(book, line, what):
    book.page("04Train/index.md", f"# A\n\n{line}\n")
    found = told(leftovers.check(book.root))
    assert f"04Train/index.md:3: {what}" in found


def test_leftovers_refuses_editors_files_and_passes_the_rest(book):
    book.write("04Train/index.md~", "")
    book.write("04Train/.DS_Store", "")
    assert len(leftovers.check(book.root)) == 2
    (book.root / "04Train/index.md~").unlink()
    (book.root / "04Train/.DS_Store").unlink()
    (book.root / "font.woff2").write_bytes(b"\xff\x00TO" + b"DO")
    book.page("04Train/index.md", "The method todo_list is soon called; a shared bus.")
    assert leftovers.check(book.root) == []


def test_sizes(book):
    big = "x" * (sizes.MB + 1)
    book.write("book/static/vendor/lib.js", big)
    book.write("04Train/data/run.json", big)
    assert sizes.check(book.root) == []
    book.write("04Train/figures/plot.svg", big)
    assert "04Train/figures/plot.svg:1: 1.0 MB, at most 1 MB" in told(
        sizes.check(book.root)
    )


def test_sizes_of_the_whole(book, monkeypatch):
    monkeypatch.setattr(sizes, "REPOSITORY", 10)
    assert "the tree has" in told(sizes.check(book.root))


def test_records(book):
    record = book.write("04Train/data/run.record.json", "{}")
    about = {
        "what": "A run.",
        "command": "python x.py {record}",
        "seed": 0,
        "record": record.name,
        "sha256": hashlib.sha256(b"{}").hexdigest(),
        "versions": {},
        "machine": {},
        "date": "2026-01-31",
        "minutes": 1,
        "tolerance": {"relative": 0, "absolute": 0},
    }
    book.write("04Train/data/run.json", json.dumps(about))
    assert records.check(book.root) == []
    record.write_text("{ }")
    assert "is not the file that was recorded" in told(records.check(book.root))
    del about["seed"]
    book.write("04Train/data/run.json", json.dumps(about))
    assert "04Train/data/run.json:1" in told(records.check(book.root))


def test_budgets(book):
    path = book.lesson(LESSON, text("# DDP\n\n75 minutes. Laptop CPU."))
    with pytest.raises(Skip, match="aiinfra test notebooks"):
        budgets.check(book.root)

    def measured(seconds, sha256=None):
        entry = {"seconds": seconds, "sha256": sha256 or budgets.digest(path)}
        record = json.dumps({f"{LESSON}.ipynb": entry})
        book.write("_build/test/notebooks.json", record)

    measured(59)
    assert budgets.check(book.root) == []
    measured(61)
    assert "ran for 61 s, at most 60" in told(budgets.check(book.root))
    measured(61, sha256="of an older notebook")
    with pytest.raises(Skip):
        budgets.check(book.root)
    book.lesson(LESSON, text("# DDP"))
    assert "how many minutes" in told(budgets.check(book.root))


def test_budgets_of_the_median(book):
    record = {}
    for number, seconds in enumerate((5, 25, 30), 1):
        path = book.lesson(f"04Train/0{number}-x", text("# X\n\n20 min"))
        name = path.relative_to(book.root).as_posix()
        record[name] = {"seconds": seconds, "sha256": budgets.digest(path)}
    book.write("_build/test/notebooks.json", json.dumps(record))
    assert "median run time is 25 s, at most 20" in told(budgets.check(book.root))


WORKFLOW = """
name: tests
on: [push]
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - run: make test
"""


def test_workflows(book):
    with pytest.raises(Skip, match="no workflows"):
        workflows.check(book.root)
    book.write("Makefile", "test:\n\techo\n")
    path = book.write(".github/workflows/tests.yml", WORKFLOW)
    assert workflows.check(book.root) == []
    path.write_text(WORKFLOW.replace("make test", "make tests"))
    assert "no make tests; did you mean test?" in told(workflows.check(book.root))
    path.write_text(WORKFLOW.replace("runs-on", "run-on"))
    assert "tests.yml:1: $.jobs.test" in told(workflows.check(book.root))
    path.write_text("a: [")
    assert "no YAML" in told(workflows.check(book.root))


def test_links(book):
    page = "<html><body><h1 id='top'>A</h1><a href='{}'>x</a></body></html>"
    index = book.write("_build/html/index.html", page.format("b.html#part"))
    book.write("_build/html/b.html", "<h2 id='part'>B</h2>")
    assert links.check(book.root) == []
    index.write_text(page.format("gone.html"))
    assert "gone.html leads nowhere" in told(links.check(book.root))
    index.write_text(page.format("b.html#no-such-part"))
    assert "b.html#no-such-part leads nowhere" in told(links.check(book.root))
    index.write_text(page.format("https://example.org/not-followed"))
    assert links.check(book.root) == []
