"""Pages of the site become parts of one document."""

import json
import zipfile

import pytest
from bs4 import BeautifulSoup

from aiinfra.tools import epub, paper
from aiinfra.tools.epub import description, simplify
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import find_root

SVG = '<svg viewBox="0 0 2 1" aria-label="a step"><svg x="1"><path id="p"/></svg></svg>'


def page(body: str, docname: str = "04Train/02-ddp") -> paper.Page:
    text = f"<article>{body}</article>"
    article = BeautifulSoup(text, "html.parser").article
    return paper.Page(docname, "Title", "Parts", 1, article)


def test_a_drawing_survives_the_parser_letter_by_letter():
    drawings = paper.Drawings([])
    text = paper.take_drawings(f"<p>one</p>{SVG}<p>two</p>{SVG}", drawings)
    assert "<svg" not in text and len(drawings.pictures) == 2
    parsed = str(BeautifulSoup(text, "html.parser"))
    assert drawings.restore(parsed).count("viewBox") == 2


def test_two_drawings_never_share_an_id():
    drawings = paper.Drawings([])
    clip = '<svg><clipPath id="c"/><g clip-path="url(#c)"/><use href="#c"/></svg>'
    paper.take_drawings(clip + clip, drawings)
    first, second = drawings.pictures
    assert 'id="d0-c"' in first and "url(#d0-c)" in first and 'href="#d0-c"' in first
    assert 'id="d1-c"' in second and "d0-c" not in second


def test_links_turn_inward():
    one = page(
        '<h1 id="top">T</h1>'
        '<a href="#top">here</a> <a href="../02Comm/index.html">part</a> '
        '<a href="../02Comm/index.html#ring">place</a> '
        '<a href="../index.html">front</a>'
        ' <a href="https://example.org/">out</a> <a href="02-ddp.ipynb">file</a>'
    )
    known = {"04Train/02-ddp", "02Comm/index", "book/index"}
    paper.turn_inward(one.article, one.docname, known, front="book/index")
    links = [link["href"] for link in one.article.find_all("a")]
    assert links == [
        "#page-04Train-02-ddp--top",
        "#page-02Comm-index",
        "#page-02Comm-index--ring",
        "#page-book-index",
        "https://example.org/",
    ]
    assert "file" in one.article.get_text()
    lost = paper.lost_links([one])
    assert len(lost) == 3 and "#page-02Comm-index--ring" in lost[1]


def test_a_drawing_becomes_a_file_with_its_description(tmp_path):
    drawings = paper.Drawings([SVG])
    one = page('<section id="s"><h1>T</h1><span class="drawing" data-drawing="0">')
    simplify(one, drawings, tmp_path, tmp_path)
    assert one.article.img["alt"] == "a step"
    drawn = (tmp_path / "drawing-0.svg").read_text()
    assert 'viewBox="0 0 2 1"' in drawn and "background:#fff" in drawn


@pytest.mark.parametrize(
    ("svg", "complaint"),
    [("<svg><g></svg>", "not XML"), ("<svg></svg>", "no description")],
)
def test_a_drawing_that_no_reader_could_show_is_refused(tmp_path, svg, complaint):
    one = page('<section id="s"><h1>T</h1><span class="drawing" data-drawing="0">')
    with pytest.raises(UserError, match=f"04Train/02-ddp: a drawing.*{complaint}"):
        simplify(one, paper.Drawings([svg]), tmp_path, tmp_path)


def test_what_only_a_screen_can_use_goes():
    one = page('<h1>T<a class="headerlink">#</a></h1><p>x<button>Copy</button></p>')
    paper.tidy(one.article)
    assert one.article.get_text() == "Tx"


def test_what_is_folded_is_open_under_its_title():
    one = page(
        "<details><summary>Hint</summary><p>Add.</p></details>"
        '<details class="hide"><summary>Show code</summary><pre>1</pre></details>'
    )
    paper.tidy(one.article)
    assert not one.article.find(["details", "summary"])
    assert [fold.get_text(" ") for fold in one.article.select(".fold")] == [
        "Hint Add.",
        "Solution 1",
    ]


def test_tokens_in_the_colour_of_the_text_are_text():
    one = page(
        '<div class="highlight"><pre><span class="k">def</span>'
        '<span class="w"> </span><span class="n">f</span></pre></div>'
    )
    paper.tidy(one.article)
    assert str(one.article.pre) == '<pre><span class="k">def</span> f</pre>'


def notebook(folder, *outputs):
    path = folder / "02-ddp.ipynb"
    cells = [{"outputs": [{"data": data} for data in outputs]}]
    path.write_text(json.dumps({"cells": cells}))
    return path


MOVING = {"text/html": '<div class="bookfig">', "image/svg+xml": ["<svg>", "4</svg>"]}


def test_a_moving_figure_becomes_the_picture_for_paper(tmp_path):
    path = notebook(tmp_path, {"text/html": "<svg>"}, MOVING)
    drawings = paper.Drawings([])
    one = page('<div class="bookfig"><svg>1</svg><script>{}</script></div>')
    paper.hold_still(one.article, path, drawings)
    assert drawings.restore(str(one.article.div)) == (
        '<div class="bookfig"><svg>4</svg></div>'
    )


def test_a_moving_figure_without_a_picture_is_refused(tmp_path):
    one = page('<div class="bookfig"></div><div class="bookfig"></div>')
    with pytest.raises(UserError, match="2 moving figures on the page, 1 pictures"):
        paper.hold_still(one.article, notebook(tmp_path, MOVING), paper.Drawings([]))


def test_the_description_is_the_label_or_title_and_desc():
    import xml.etree.ElementTree as ET

    named = (
        '<svg xmlns="http://www.w3.org/2000/svg"><title>A.</title><desc>B.</desc></svg>'
    )
    assert description(ET.fromstring(named)) == "A. B."


def packed(tmp_path, body):
    sheet = tmp_path / "index.html"
    sheet.write_text(f"<!doctype html><body><h1>T</h1>{body}</body>")
    out = tmp_path / "book.epub"
    epub.pandoc(find_root(), sheet, out)
    epub.drop_annotations(out)
    with zipfile.ZipFile(out) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def test_a_formula_becomes_mathml_without_its_tex(tmp_path):
    held = packed(tmp_path, r"<p>half: <span>\(\frac{1}{2}\)</span></p>")
    chapter = held["EPUB/text/ch001.xhtml"].decode()
    assert "<mfrac>" in chapter and "frac{" not in chapter
    assert next(iter(held)) == "mimetype"


@pytest.mark.parametrize(
    "body", [r"<p>\(\nosuchmacro{1}\)</p>", '<img src="nowhere.png" alt="a">']
)
def test_what_the_epub_cannot_hold_stops_it(tmp_path, body):
    with pytest.raises(UserError, match="no ePub, since pandoc says"):
        packed(tmp_path, body)
