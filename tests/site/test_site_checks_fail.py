"""Each check of a page fails on a page made for it, and passes on a clean one."""

import pytest
from conftest import ROOT
from pagechecks import (
    OWN_BUDGET,
    SHARED_BUDGET,
    incomplete,
    missing_glyphs,
    overweight,
    visit,
)

from aiinfra.tools.serve import serving

HEAD = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
<title>A page</title><meta name="description" content="A page to test with.">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta property="og:title" content="A page"><meta property="og:image" content="card.png">
<link rel="icon" href="data:,"></head>"""
CLEAN = HEAD + "<body><main><h1>A page</h1><p>Some text.</p></main></body></html>"
BROKEN = """<!DOCTYPE html><html><head></head><body>
<div style="width: 2000px">wide</div>
<p style="color: #eee; background: #fff">hardly readable</p>
<img src="http://example.invalid/picture.png">
<img src="missing.png">
<span class="math">\\(x\\)</span>
<mjx-container><mjx-math></mjx-math></mjx-container>
<div class="bookfig"></div>
<i class="fa-nothing" style="display: inline-block; width: 9px; height: 9px"></i>
<script>throw new Error("planted")</script></body></html>"""


@pytest.fixture(scope="module")
def planted(chromium, tmp_path_factory):
    """Visits of a clean and of a broken page."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / "index.html").write_text(CLEAN, encoding="utf-8")
    (folder / "broken.html").write_text(BROKEN, encoding="utf-8")
    with serving(folder) as base:
        yield {
            "clean": visit(chromium, base, "index.html"),
            "broken": visit(chromium, base, "broken.html"),
        }


def test_clean_page_passes(planted):
    seen = planted["clean"]
    assert seen.status == 200
    assert not (seen.external or seen.failed or seen.errors)
    assert not overweight(seen.sizes)
    assert not incomplete(seen.facts)
    assert not any(seen.axe.values())
    assert not any(seen.overflow.values())


def test_request_to_another_machine_is_seen(planted):
    assert planted["broken"].external == ["http://example.invalid/picture.png"]


def test_missing_file_is_seen(planted):
    assert any("404" in f and "missing.png" in f for f in planted["broken"].failed)


def test_exception_is_seen(planted):
    assert any("planted" in error for error in planted["broken"].errors)


def test_wide_page_is_seen_at_every_width(planted):
    for width, culprits in planted["broken"].overflow.items():
        assert any(f"in {width} px" in line for line in culprits), width


@pytest.mark.parametrize(
    ("rule", "scheme"),
    [
        ("color-contrast", "light"),
        ("color-contrast", "dark"),
        ("image-alt", "light"),
        ("html-has-lang", "light"),
    ],
)
def test_broken_accessibility_rule_is_seen(planted, rule, scheme):
    assert any(line.startswith(rule) for line in planted["broken"].axe[scheme])


@pytest.mark.parametrize(
    "problem",
    [
        "no title",
        "no description",
        "no lang",
        "no ogImage",
        "no icon",
        "0 h1 headings",
        "maths not typeset",
        "maths that screen readers can't read",
        "0 of 1 moving figures",
        "icons that draw nothing",
    ],
)
def test_incomplete_page_is_seen(planted, problem):
    assert any(problem in line for line in incomplete(planted["broken"].facts))


def test_heavy_page_is_seen():
    light = {"/page.html": OWN_BUDGET, "/_static/a.js": SHARED_BUDGET}
    assert not overweight(light)
    assert "own: " in overweight({**light, "/picture.svg": 1})[0]
    assert "shared: " in overweight({**light, "/_static/b.js": 1})[0]


def test_icon_outside_the_font_is_seen():
    facts = {"icons": ['"\uf0c9"', '"\uf0c8"']}
    assert missing_glyphs(facts, {"\uf0c9"}) == {"\uf0c8"}


def test_map_is_what_the_parts_say_today():
    import runpy

    draw = runpy.run_path(str(ROOT / "book/figures/map.py"))["draw"]
    committed = (ROOT / "book/figures/map.html").read_text(encoding="utf-8")
    assert committed == draw(), "run python book/figures/map.py"
