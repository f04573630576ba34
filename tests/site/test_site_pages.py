"""Every page: self-contained, light, accessible, and no wider than the window."""

import pytest
from conftest import ROOT, toc_pages
from fontTools.ttLib import TTFont
from pagechecks import SCHEMES, WIDTHS, incomplete, missing_glyphs, overweight

MISSING = "no/such/page"  # answered with the 404 page, below the root
PAGES = [*toc_pages(), "search.html", MISSING]
ICON_FONT = ROOT / "book/static/vendor/fontawesome/webfonts/fa-solid-900.woff2"

# A long lesson takes a while on a busy machine: thousands of elements, both schemes.
pytestmark = pytest.mark.timeout(900)
each_page = pytest.mark.parametrize("path", PAGES)


@each_page
def test_asks_no_other_machine(visited, path):
    assert not visited(path).external


@each_page
def test_loads_without_errors(visited, path):
    seen = visited(path)
    assert seen.status == (404 if path == MISSING else 200)
    assert not seen.failed
    assert not seen.errors


@each_page
def test_stays_within_its_weight(visited, path):
    assert not overweight(visited(path).sizes)


@each_page
@pytest.mark.parametrize("scheme", SCHEMES)
def test_breaks_no_accessibility_rule(visited, path, scheme):
    assert not visited(path).axe[scheme]


@each_page
@pytest.mark.parametrize("width", WIDTHS)
def test_never_scrolls_sideways(visited, path, width):
    assert not visited(path).overflow[str(width)]


@each_page
def test_says_what_it_is(visited, path):
    assert not incomplete(visited(path).facts)


@each_page
def test_icons_are_in_the_cut_font(visited, path):
    glyphs = {chr(code) for code in TTFont(ICON_FONT).getBestCmap()}
    assert not missing_glyphs(visited(path).facts, glyphs)


def test_descriptions_differ(visited):
    said = {}
    for path in toc_pages():
        said.setdefault(visited(path).facts["description"], []).append(path)
    assert not [paths for paths in said.values() if len(paths) > 1]
