"""Pages of the site become parts of one document."""

import pytest
from bs4 import BeautifulSoup

from aiinfra.tools import paper
from aiinfra.tools.epub import description, simplify
from aiinfra.tools.errors import UserError

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
    assert (tmp_path / "drawing-0.svg").read_text() == SVG


@pytest.mark.parametrize(
    ("svg", "complaint"),
    [("<svg><g></svg>", "not XML"), ("<svg></svg>", "no description")],
)
def test_a_drawing_that_no_reader_could_show_is_refused(tmp_path, svg, complaint):
    one = page('<section id="s"><h1>T</h1><span class="drawing" data-drawing="0">')
    with pytest.raises(UserError, match=f"04Train/02-ddp: a drawing.*{complaint}"):
        simplify(one, paper.Drawings([svg]), tmp_path, tmp_path)


def test_what_only_a_screen_can_use_goes():
    one = page('<h1>T<a class="headerlink">#</a></h1><details><p>x</p></details>')
    paper.tidy(one.article)
    assert one.article.h1.get_text() == "T"
    assert one.article.details.has_attr("open")


def test_the_description_is_the_label_or_title_and_desc():
    import xml.etree.ElementTree as ET

    named = (
        '<svg xmlns="http://www.w3.org/2000/svg"><title>A.</title><desc>B.</desc></svg>'
    )
    assert description(ET.fromstring(named)) == "A. B."
