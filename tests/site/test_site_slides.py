"""Every deck on the site: each slide fits its box, is legible, and needs no network."""

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from conftest import ROOT
from pagechecks import RUN_AXE, SCHEMES, Visit, incomplete, overweight, watch, weigh
from pypdf import PdfReader

from aiinfra.tools import decks, slides

DECKS = [page.as_posix() for page in slides.pages(ROOT, None)]
SMALLEST_PX, SMALLEST_EXPONENT_PX = 16, 11  # of a slide 720 px high
SIZE = {"width": 1280, "height": 720}

pytestmark = pytest.mark.timeout(900)
each_deck = pytest.mark.parametrize("path", DECKS)


@dataclass
class Show(Visit):
    """What one deck did and looked like, slide by slide."""

    slides: list[dict] = field(default_factory=list)  # facts, each slide's
    ids: list[str] = field(default_factory=list)


def show(browser, base: str, path: str) -> Show:
    """Go through a deck by keyboard; ask axe about its first slide, then about all.

    Laid out for paper, all slides are there at once.
    """
    seen, responses = Show(path), []
    context = browser.new_context(viewport=SIZE, reduced_motion="reduce")
    try:
        page = context.new_page()
        watch(page, base, seen, responses)
        seen.status = page.goto(base + path, wait_until="load").status
        page.evaluate(READY)
        for _ in range(page.evaluate("Reveal.getTotalSlides()")):
            page.evaluate(SHOWN)
            seen.slides.append(page.evaluate(SLIDE))
            page.keyboard.press("ArrowRight")
        seen.facts = page.evaluate(FACTS)
        seen.ids = page.evaluate(
            "[...document.querySelectorAll('[id]')].map(e => e.id)"
        )
        seen.sizes = weigh(responses)
        for query in ("", "?print-pdf"):
            page.goto(base + path + query, wait_until="load")
            page.evaluate(READY)
            if query:
                page.evaluate(slides.PREPARE)
            page.evaluate(AXE_SCRIPT)
            for scheme in SCHEMES:
                page.evaluate(DRESS, scheme)
                found = page.evaluate(RUN_AXE)
                seen.axe[scheme] = seen.axe.get(scheme, []) + found
    finally:
        context.close()
    return seen


@pytest.fixture(scope="module")
def shown(chromium, base):
    """shown(path) -> Show, each deck gone through once."""
    return cache(lambda path: show(chromium, base, path))


@pytest.fixture
def deck(chromium, base):
    """A fresh browser page on a screen of another size than a slide's."""
    context = chromium.new_context(viewport={"width": 1600, "height": 1000})
    yield context.new_page()
    context.close()


@pytest.mark.skipif(not DECKS, reason="the book has no decks")
@each_deck
def test_asks_no_other_machine_and_raises_nothing(shown, path):
    seen = shown(path)
    assert seen.status == 200
    assert not (seen.external or seen.failed or seen.errors)


@each_deck
def test_arrow_keys_lead_through_every_slide_of_the_source(shown, path):
    source = decks.read(ROOT / path.replace(".html", ".md"))
    assert [s["title"] for s in shown(path).slides] == [s.title for s in source.slides]


@each_deck
def test_no_slide_overflows(shown, path):
    assert not [problem for s in shown(path).slides for problem in overfull(s)]


@each_deck
def test_no_text_is_tiny(shown, path):
    assert not [problem for s in shown(path).slides for problem in tiny(s)]


@each_deck
def test_figures_move_and_maths_is_drawn(shown, path):
    assert not incomplete(shown(path).facts)


@each_deck
@pytest.mark.parametrize("scheme", SCHEMES)
def test_breaks_no_accessibility_rule(shown, path, scheme):
    assert not shown(path).axe[scheme]


@each_deck
def test_ids_are_unique(shown, path):
    ids = shown(path).ids
    assert sorted(set(ids)) == sorted(ids)


@each_deck
def test_stays_within_a_page_s_weight(shown, path):
    assert not overweight(shown(path).sizes)


def test_a_slide_that_overflows_and_tiny_text_are_seen(chromium, base):
    context = chromium.new_context(viewport=SIZE)
    page = context.new_page()
    page.goto(base + DECKS[0])
    page.evaluate(READY)
    page.evaluate(
        """() => Reveal.getCurrentSlide().insertAdjacentHTML('beforeend',
        '<div style="height: 900px; width: 2000px; font-size: 9px">planted</div>')"""
    )
    facts = page.evaluate(SLIDE)
    context.close()
    assert [p.split(": ")[1].split(" of ")[0] for p in overfull(facts)] == [
        "width",
        "height",
    ]
    assert any("'planted' is 9.0 px" in problem for problem in tiny(facts))


def overfull(slide: dict) -> list[str]:
    """Directions in which a slide's content leaves its box."""
    return [
        f"{slide['title']}: {what} of {slide[what][0]} px in {slide[what][1]} px"
        for what in ("width", "height")
        if slide[what][0] > slide[what][1]
    ]


def tiny(slide: dict) -> list[str]:
    """Texts of a slide that the last row can't read."""
    return [
        f"{slide['title']}: {text!r} is {size:.1f} px"
        for text, size, exponent in slide["sizes"]
        if size < (SMALLEST_EXPONENT_PX if exponent else SMALLEST_PX)
    ]


# In use -----------------------------------------------------------------------------


@pytest.fixture
def ring(deck, base):
    """A deck open at its first slide with a moving figure, and that figure."""
    deck.goto(base + DECKS[0])
    deck.evaluate(READY)
    deck.evaluate(
        """() => Reveal.slide(Reveal.getIndices(
             document.querySelector('.bookfig').closest('section')).h)"""
    )
    deck.evaluate(SHOWN)
    return deck.locator("section.present .bookfig").first


def test_keys_go_on_after_a_slider_was_dragged(deck, ring):
    slider = ring.locator("input[type=range]").first
    slider.click()
    at = deck.evaluate("Reveal.getIndices().h")
    deck.keyboard.press("ArrowRight")
    assert deck.evaluate("Reveal.getIndices().h") == at + 1


def test_arrow_keys_move_a_slider_that_has_the_focus(deck, ring):
    slider = ring.locator("input[type=range]").first
    slider.focus()
    before, at = slider.input_value(), deck.evaluate("Reveal.getIndices().h")
    deck.keyboard.press("ArrowRight")
    assert int(slider.input_value()) == int(before) + 1
    assert deck.evaluate("Reveal.getIndices().h") == at


def test_pointer_reads_what_is_under_it_on_any_screen(deck, base):
    """reveal.js scales the slide, so a pixel of the screen is none of the figure."""
    deck.goto(base + DECKS[0])
    deck.evaluate(READY)
    deck.evaluate(
        """() => Reveal.slide(Reveal.getIndices(
             document.querySelector('[data-fig=timeline]').closest('section')).h)"""
    )
    deck.evaluate(SHOWN)
    figure = deck.locator("section.present .bookfig").first
    link = figure.locator(".aifig-stage svg rect[fill-opacity='0.05']").nth(1)
    row = link.bounding_box()
    deck.mouse.move(row["x"] + 0.4 * row["width"], row["y"] + row["height"] / 2)
    note = figure.locator(".aifig-note").inner_text()
    total = re.search(r"total ([\d.]+)", figure.locator(".aifig-stage").inner_html())[1]
    start, length = map(float, re.findall(r"(?:from|for) ([\d.]+)", note))
    assert note.startswith("rank 0, link")
    assert start <= 0.4 * float(total) <= start + length, note


def test_the_link_on_a_slide_leads_to_the_lesson(deck, base):
    deck.goto(base + DECKS[0])
    link = deck.locator("section.title a").first
    assert deck.request.get(link.evaluate("a => a.href")).ok


def test_the_speaker_s_view_has_the_notes(deck, base):
    deck.goto(base + DECKS[0])
    deck.evaluate(READY)
    with deck.expect_popup() as popup:
        deck.keyboard.press("s")
    view = popup.value
    view.wait_for_function(
        "document.querySelector('.speaker-controls-notes .value')?.textContent.length"
    )
    source = decks.read(ROOT / DECKS[0].replace(".html", ".md"))
    said = view.locator(".speaker-controls-notes .value").inner_text()
    first = " ".join(source.slides[0].notes).split()[:6]
    assert " ".join(said.split()).startswith(" ".join(first))


# On paper ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def printed(chromium):
    """Print all decks in a process of its own, twice -> the PDFs, the digests."""
    digests = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "aiinfra.tools.cli", "slides", "--pdf", "--force"],
            cwd=ROOT,
            env=os.environ | {"AIINFRA_SITE_URL": "https://books.example/ai"},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        paths = [ROOT / line for line in done.stdout.splitlines() if "…" not in line]
        digests.append([hashlib.sha256(p.read_bytes()).hexdigest() for p in paths])
    return dict(zip(DECKS, paths, strict=True)), digests


@each_deck
def test_a_slide_is_a_page(printed, path):
    reader = PdfReader(printed[0][path])
    source = decks.read(ROOT / path.replace(".html", ".md"))
    titles = [slide.title for slide in source.slides]
    assert len(reader.pages) == len(titles)
    for page, title in zip(reader.pages, titles, strict=True):
        width, height = page.mediabox.width, page.mediabox.height
        assert width / height == pytest.approx(16 / 9)
        assert "".join(title.split()) in "".join(page.extract_text().split())


@each_deck
def test_paper_says_what_it_is_and_leads_to_the_site(printed, path):
    reader = PdfReader(printed[0][path])
    source = decks.read(ROOT / path.replace(".html", ".md"))
    assert reader.metadata.title == source.title
    assert reader.trailer["/Root"]["/Lang"] == "en"
    marks = next(entry for entry in reader.outline if isinstance(entry, list))
    assert [mark.title for mark in marks] == [s.title for s in source.slides[1:]]
    links = {
        note.get_object().get("/A", {}).get("/URI", "")
        for page in reader.pages
        for note in page.get("/Annots", [])
    }
    assert any(link.startswith("https://books.example/ai/") for link in links)
    assert not any(link.startswith(("file:", "http://127")) for link in links)


def test_the_same_decks_print_to_the_same_bytes(printed):
    assert printed[1][0] == printed[1][1]


# In the page ------------------------------------------------------------------------

READY = """async () => {
  while (!Reveal.isReady()) await new Promise(done => setTimeout(done, 20));
  await window.MathJax?.startup?.promise;
  await document.fonts.ready;
}"""

# Light or dark; laid out for paper each page keeps the paper's colour.
DRESS = """scheme => {
  document.documentElement.dataset.theme = scheme;
  for (const page of document.querySelectorAll('.pdf-page'))
    page.style.background = 'none';
}"""

# The slide's figures are mounted.
SHOWN = """async () => {
  const unmounted = () => Reveal.getCurrentSlide()
    .querySelector('.bookfig:not([data-ready])');
  for (let n = 0; n < 200 && unmounted(); n++)
    await new Promise(done => setTimeout(done, 25));
  await new Promise(requestAnimationFrame);
}"""

SLIDE = r"""() => {
  const slide = Reveal.getCurrentSlide();
  const frame = slide.getBoundingClientRect();
  const scale = frame.width / 1280;
  const inside = [...slide.querySelectorAll('*')].filter(e =>
    e.checkVisibility() && !e.closest('aside.notes, mjx-assistive-mml, .aifig-quiet'));
  const texts = inside.filter(e => !e.closest('mjx-container') &&
    [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()));
  // A figure's own zoom, its picture's scale: height of a line against its font size.
  const size = e => {
    const svg = e.closest('svg');
    let px = parseFloat(getComputedStyle(e).fontSize);
    if (svg) px *= svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    else px *= e.currentCSSZoom * scale;
    return px / scale;
  };
  const boxes = inside.map(e => e.getBoundingClientRect()).filter(b => b.width);
  return {
    title: slide.querySelector('h1, h2').textContent,
    width: [Math.round(Math.max(slide.scrollWidth,
      ...boxes.map(b => (b.right - frame.left) / scale))), slide.clientWidth],
    height: [Math.round(Math.max(slide.scrollHeight,
      ...boxes.map(b => (b.bottom - frame.top) / scale))), slide.clientHeight],
    sizes: texts.filter(e => !e.matches('title')).map(e =>
      [e.textContent.trim().slice(0, 30), size(e), e.matches('tspan')]),
  };
}"""

FACTS = r"""() => {
  const all = selector => [...document.querySelectorAll(selector)];
  return {
    title: document.title,
    description: document.querySelector('meta[name=description]')?.content,
    lang: document.documentElement.lang,
    ogTitle: document.querySelector('meta[property="og:title"]')?.content,
    ogImage: document.querySelector('meta[property="og:image"]')?.content,
    icon: document.querySelector('link[rel~=icon]')?.href,
    h1: all('h1').length,
    unset: all('.math').filter(e => !e.querySelector('mjx-container'))
      .map(e => e.textContent.slice(0, 60)),
    mathErrors: all('mjx-merror').map(e => e.textContent.slice(0, 60)),
    mute: all('mjx-container').filter(e => !e.querySelector('mjx-assistive-mml math'))
      .map(e => e.outerHTML.slice(0, 60)),
    figures: all('.bookfig').length,
    figuresReady: all('.bookfig[data-ready]').length,
  };
}"""
