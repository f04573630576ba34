"""Decks: what they take from lessons, what the gate refuses, and the command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bookmaker import Book, code, new_output, printed, shown, text

from aiinfra.tools import cli, decks, excerpts, slides
from aiinfra.tools.check import slides as gate
from aiinfra.tools.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
LESSON = "04Train/02-ddp"
SOURCE = '''def half(x):
    """Half of it."""
    for _ in range(2):
        x = x / 2
    return x'''
SVG = '<svg role="img" aria-label="Two bars, the second twice as high"></svg>'
NOTES = "\n:::{notes}\n4 min. Say it.\n:::\n"


@pytest.fixture
def lesson(book) -> Book:
    """A book with one lesson: code, a table, a drawing, a formula, silence."""
    table = code("print(table)", "table")
    table.outputs = [printed("ranks   GB\n8  28.1\n1,000  32.1\n")]
    drawing = code("draw()", "drawing")
    drawing.outputs = [shown(html=SVG, plain="Drawing")]
    silent = code("x = 1", "silent")
    half = code(SOURCE, "half")
    formulas = "It sends 16.1 GB of it.\n\n$$a = b,$$\n\nand\n\n$$c = d .$$"
    book.lesson(LESSON, text("# L", "title"), half, table, drawing, silent)
    book.lesson(
        LESSON,
        *[text("# L", "title"), half, table, drawing, silent],
        text(formulas, "formulas"),
        text("$$e\n= f.$$", "formula"),
    )
    return book


def ask(book: Book, kind: str, argument: str, **options: str):
    """What a deck gets that asks for this."""
    return decks.Reference(kind, f"{argument}", 1, options).resolve(book.root)


# Excerpts


def test_code_whole_and_by_lines(lesson):
    assert ask(lesson, "cell-code", f"{LESSON}#half") == SOURCE
    cut = ask(lesson, "cell-code", f"{LESSON}#half", lines="1,3-5")
    assert cut == SOURCE.replace('    """Half of it."""\n', "")
    assert ask(lesson, "cell-code", f"{LESSON}#half", lines="5") == "return x"


def test_outputs_as_the_page_shows_them(lesson):
    (table,) = ask(lesson, "cell-output", f"{LESSON}#table", lines="1,3")
    assert table == excerpts.Shown("text", "ranks   GB\n1,000  32.1")
    (drawing,) = ask(lesson, "cell-output", f"{LESSON}#drawing")
    assert drawing == excerpts.Shown("html", SVG)


def test_a_picture_without_words_of_its_own_takes_the_cell_s(lesson):
    cell = code("plot()", "plot")
    cell.outputs = [shown(png="aGVsbG8=")]
    cell.metadata["mystnb"] = {"image": {"alt": "A valley near 25"}}
    lesson.lesson("04Train/03-plot", cell)
    (drawing,) = ask(lesson, "cell-output", "04Train/03-plot#plot")
    assert 'alt="A valley near 25"' in drawing.content
    assert 'src="data:image/png;base64,aGVsbG8="' in drawing.content


def test_formula_without_the_sentence_s_punctuation(lesson):
    assert ask(lesson, "cell-math", f"{LESSON}#formula") == "e\n= f"
    assert ask(lesson, "cell-math", f"{LESSON}#formulas", number="2") == "c = d"
    aligned = r"\begin{aligned} a &= b . \end{aligned}"
    lesson.lesson("04Train/03-more", text(f"$${aligned}$$", "aligned"))
    found = ask(lesson, "cell-math", "04Train/03-more#aligned")
    assert found == aligned.replace(" .", "")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("table: 8 {}", "28.1"),
        ("table: 1,000 {}", "32.1"),
        ("table: {} 32.1", "1,000"),
        ("table: _ GB {}", "8"),
        ("formulas: sends {} GB", "16.1"),
    ],
)
def test_value_is_the_one_word_among_others(lesson, wanted, found):
    assert ask(lesson, "value", f"{LESSON}#{wanted}") == found


def test_constant_of_the_registry(lesson):
    assert ask(lesson, "registry", "NVLink 4.one_way_bytes_per_s") == "450 GB/s"
    assert ask(lesson, "registry", "Llama 3 8B.layers") == "32"


@pytest.mark.parametrize(
    ("kind", "argument", "options", "message"),
    [
        ("cell-code", f"{LESSON}#haf", {}, "has no cell 'haf'; did you mean half?"),
        ("cell-code", "04Train/02-dpd#half", {}, f"did you mean {LESSON}?"),
        ("cell-code", LESSON, {}, "is not LESSON#CELL, as 04Train/02-ddp#ring-step"),
        ("cell-code", f"{LESSON}#title", {}, "is a markdown cell, expected a code"),
        ("cell-code", f"{LESSON}#half", {"lines": "4-6"}, "has 5 lines, not lines 4-6"),
        ("cell-code", f"{LESSON}#half", {"lines": "0-2"}, "has 5 lines, not lines 0-2"),
        ("cell-code", f"{LESSON}#half", {"lines": "a"}, "expected 3-9 or 1,7-20"),
        ("cell-code", f"{LESSON}#half", {"lines": "2-3"}, "are not whole statements"),
        ("cell-output", f"{LESSON}#silent", {}, "has no output to show"),
        ("cell-output", f"{LESSON}#drawing", {"lines": "1"}, "printed nothing to take"),
        ("cell-output", f"{LESSON}#table", {"state": "frame=1"}, "no moving figure"),
        ("cell-math", f"{LESSON}#title", {}, "displays no formula"),
        ("cell-math", f"{LESSON}#formulas", {}, "displays 2 formulas; say which"),
        ("cell-math", f"{LESSON}#formulas", {"number": "3"}, "2 formulas, not '3'"),
        ("value", f"{LESSON}#table: 16 {{}}", {}, "says nothing like it"),
        ("value", f"{LESSON}#table: _ {{}}", {}, "expected one word"),
        ("value", f"{LESSON}#table: 16", {}, "is not LESSON#CELL: words around {}"),
        ("registry", "NVLink4.bytes", {}, "no 'NVLink4' in the registry; did you mean"),
        ("registry", "NVLink 4.speed", {}, "NVLink 4 has no figure 'speed'"),
        ("registry", "NVLink 4", {}, "is not NAME.figure"),
    ],
)
def test_what_is_not_there_is_one_line(lesson, kind, argument, options, message):
    with pytest.raises(UserError) as error:
        ask(lesson, kind, argument, **options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_moving_figure_starts_where_the_slide_says(lesson):
    figures = pytest.importorskip("aiinfra.figures")
    ring = figures.holds(
        [[[{0}], [{1}]], *[[[{0, 1}], [{0, 1}]]] * 2],  # [step][rank][chunk]
        alt="Two ranks hold one chunk each, then both",
    )
    cell = code("ring", "ring")
    data = ring._repr_mimebundle_()[0]
    cell.outputs = [new_output("display_data", data={"text/html": data["text/html"]})]
    lesson.lesson("04Train/03-ring", cell)
    reference = "04Train/03-ring#ring"

    def state(html: str) -> int:
        return json.loads(excerpts.STATE.search(html)[1])["step"]

    (as_is,) = ask(lesson, "cell-output", reference)
    (begun,) = ask(lesson, "cell-output", reference, state="step=1")
    (still,) = ask(lesson, "cell-output", reference, still="step=2")
    assert [state(s.content) for s in (as_is, begun, still)] == [0, 1, 0]
    for shown_, step in ((as_is, 0), (begun, 1), (still, 2)):
        ring.step = step
        assert ring.svg() in shown_.content
    for bad, message in (
        ("step=9", "step must be from 0 to 2"),
        ("last", "not a state"),
    ):
        with pytest.raises(UserError, match=message):
            ask(lesson, "cell-output", reference, state=bad)


# A deck as the gate reads it


def slide(title: str, body: str = "Words.", notes: str = NOTES) -> str:
    """One slide's source."""
    return f"\n## {title}\n\n{body}\n{notes}"


def deck(*more: str, head: str = "", count: int = 12) -> str:
    """A deck that passes, and more slides."""
    names = ["Objectives", "Exercise", "Summary"]
    names += [f"Slide {n}" for n in range(count - 4 - len(more))]
    minutes = 4 * count
    head = head or f"lesson: {LESSON}\nminutes: {minutes}\ndescription: A deck.\n"
    title = f"---\n{head}---\n\n# The deck\n{NOTES}"
    return title + "".join(map(slide, names)) + "".join(more)


def judged(book: Book, source: str) -> str:
    """What the gate says of a deck."""
    book.write("04Train/slides/deck.md", source)
    return "\n".join(map(str, gate.check(book.root)))


def test_a_good_deck_passes(lesson):
    body = f"""\
Sixty words at most, of which this sentence has a few: `code`, $a+b$,
{{value}}`{LESSON}#table: 8 {{}}` GB over {{registry}}`NVLink 4.one_way_bytes_per_s`.

::::{{container}} columns
:::{{container}} narrow

```{{cell-code}} {LESSON}#half
:lines: 1,3-5
:class: small
```

:::
::::

```{{cell-output}} {LESSON}#table
```

```{{cell-math}} {LESSON}#formula
```"""
    assert judged(lesson, deck(slide("More", body))) == ""
    read = decks.read(lesson.root / "04Train/slides/deck.md")
    assert read.title == "The deck"
    kinds = [reference.kind for reference in read.references]
    assert kinds == ["cell-code", "cell-output", "cell-math", "value", "registry"]
    assert read.references[0].options == {"lines": "1,3-5"}
    assert read.slides[-1].words == 16


LONG = "word " * 60
CASES = {
    "61 words on 'More', at most 60": deck(slide("More", LONG)),
    "11 slides, expected 12 to 20": deck(count=11),
    "21 slides, expected 12 to 20": deck(count=21),
    "a second slide is called 'Summary'": deck(slide("Summary")),
    "the notes of 'More' do not begin with minutes": deck(slide("More", notes="")),
    "the notes plan 49 minutes, the front matter says 48": deck(
        slide("More", notes=NOTES.replace("4 min", "5 min"))
    ),
    "maths in the notes of 'More'": deck(
        slide("More", notes=NOTES.replace("it", "$x$"))
    ),
    "'More' has headings below its own": deck(slide("More", "### Deeper")),
    "python typed in; use cell-code": deck(slide("More", "```python\nx = 1\n```")),
    "a formula typed on 'More'; use cell-math": deck(slide("More", "$$x = 1$$")),
    "'16.1 GB' typed on 'More'; use value": deck(slide("More", "It has 16.1 GB.")),
    "'14 %' typed on 'More'; use value": deck(
        slide("More", notes=NOTES.replace("it", "14 %"))
    ),
    "has no cell 'haf'; did you mean half?": deck(
        slide("More", f"```{{cell-code}} {LESSON}#haf\n```")
    ),
    "says nothing like it": deck(slide("More", f"{{value}}`{LESSON}#table: 9 {{}}`")),
    "no 'NVLink' in the registry": deck(slide("More", "{registry}`NVLink.x`")),
    "cell-math has no such option: lines": deck(
        slide("More", f"```{{cell-math}} {LESSON}#formula\n:lines: 1\n```")
    ),
    "no slide with objectives in its heading": deck().replace("Objectives", "Aims"),
    "no slide with exercise in its heading": deck().replace("Exercise", "Work"),
    "no slide with summary in its heading": deck().replace("Summary", "End"),
    "front matter, lesson: no notebook '04Train/02-dpd'": deck(
        head="lesson: 04Train/02-dpd\nminutes: 48\ndescription: A deck.\n"
    ),
    "front matter has no description": deck(head=f"lesson: {LESSON}\nminutes: 48\n"),
    "a deck begins with front matter": "# No front matter\n",
    "no title; a deck begins with #": f"---\nlesson: {LESSON}\n---\n\nWords.\n",
}


@pytest.mark.parametrize("message", CASES)
def test_gate_refuses(lesson, message):
    assert message in judged(lesson, CASES[message])


def test_gate_says_where(lesson):
    source = deck(slide("More", f"```{{cell-output}} {LESSON}#silent\n```"))
    line = source.splitlines().index(f"```{{cell-output}} {LESSON}#silent") + 1
    assert judged(lesson, source).startswith(f"04Train/slides/deck.md:{line}: ")


def test_a_link_to_a_deck_that_is_not_there_is_refused(lesson):
    lesson.page(
        "04Train/index.md", "# Part\n\n{deck}`04Train/deck`, {deck}`x <04Train/x>`"
    )
    assert judged(lesson, deck()) == "04Train/index.md:3: no deck 04Train/x"


def test_words_that_are_no_words_on_the_slide(lesson):
    count = decks.count_words
    assert count("two words") == 2
    assert count("{cite}`someone2020` `code` $a + b$ <!-- a note -->") == 0
    assert count("{lesson}`two words <04Train/02-ddp>` [and two](https://x.y)") == 4
    assert count("| a | b |\n| --- | ---: |\n- c\n1. d") == 5  # the 1 is one


# The command


def test_no_decks_here(book, capsys):
    (book.root / "04Train").mkdir()
    assert cli.main(["slides"]) == 2
    assert "no deck in 04Train; decks are <part>/slides/*.md" in capsys.readouterr().err


def test_unknown_part_gets_the_nearest(lesson, capsys):
    assert cli.main(["slides", "04Trian"]) == 2
    assert "no part '04Trian'; did you mean 04Train" in capsys.readouterr().err


def test_the_book_without_decks_needs_no_slide_builder(book, monkeypatch):
    monkeypatch.setitem(sys.modules, "sphinx_revealjs", None)
    assert slides.build(book.root, book.root / "out") == []


@pytest.fixture
def dressed(lesson) -> Book:
    """The book with what decks are built from."""
    for name in ("_config.yml", "book/reference/references.bib"):
        lesson.write(name, (ROOT / name).read_text(encoding="utf-8"))
    (lesson.root / "book/static").symlink_to(ROOT / "book/static")
    (lesson.root / "book/aiinfra/figures").mkdir()
    (lesson.root / "book/aiinfra/figures/js").symlink_to(
        ROOT / "book/aiinfra/figures/js"
    )
    return lesson


def built(book: Book, **environment: str) -> subprocess.CompletedProcess:
    """`aiinfra slides` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "aiinfra.tools.cli", "slides"],
        cwd=book.root,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


BODY = f"""\
The number is {{value}}`{LESSON}#table: 8 {{}}`, see {{lesson}}`there <{LESSON}#half>`.

```{{cell-output}} {LESSON}#drawing
```

```{{cell-code}} {LESSON}#half
:lines: 3-4
```"""


def test_deck_is_built_from_the_lesson(dressed):
    dressed.write("04Train/slides/deck.md", deck(slide("More", BODY)))
    done = built(dressed)
    assert done.returncode == 0, done.stderr
    page = dressed.root / "_build/slides/04Train/slides/deck.html"
    assert done.stdout.endswith("_build/slides/04Train/slides/deck.html\n")
    html = page.read_text(encoding="utf-8")
    assert html.count('<section class="slide') == html.count("</section>") == 12
    assert 'The number is <span class="looked-up">28.1</span>' in html
    assert SVG in html
    assert '<aside class="notes"><p>4 min. Say it.</p>' in html
    assert 'href="../../../html/04Train/02-ddp.html#half"' in html
    for found in ("_static/revealjs/reveal.js", "_static/css/slides-code.css"):
        assert (dressed.root / "_build/slides" / found).is_file()
        assert f"../../{found}" in html

    assert "reading" in done.stdout and "reading" not in built(dressed).stdout
    site = {"AIINFRA_SITE_URL": "https://books.example/ai/"}
    assert "reading" in built(dressed, **site).stdout
    html = page.read_text(encoding="utf-8")
    assert 'href="https://books.example/ai/04Train/02-ddp.html#half"' in html
    assert 'content="https://books.example/ai/_static/img/card.png"' in html


def test_a_reference_that_is_lost_stops_the_build_in_one_line(dressed):
    lost = BODY.replace("#drawing", "#drawn").replace("8 {}", "9 {}")
    lost = lost.replace("#half>", ">").replace(f"there <{LESSON}", "there <04Train/9")
    source = deck(slide("More", lost))
    dressed.write("04Train/slides/deck.md", source)
    done = built(dressed)
    assert done.returncode == 1
    assert "no cell 'drawn'; did you mean drawing?" in done.stderr
    assert "says nothing like it" in done.stderr
    assert "no page 04Train/9 to link to" in done.stderr
    assert len(done.stderr.splitlines()) == 4  # one for each, and what to do
    line = source.splitlines().index(f"```{{cell-output}} {LESSON}#drawn") + 1
    assert f"04Train/slides/deck.md:{line}: " in done.stderr
    assert not (dressed.root / "_build/slides/04Train/slides/deck.html").exists()
