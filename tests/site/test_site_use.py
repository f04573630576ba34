"""What a reader does: turn pages, search, switch colours, copy, download, move."""

import json
import re
from itertools import pairwise

import pytest
from conftest import toc_pages
from pagechecks import settle

PAGES = toc_pages()


def link(html: str, name: str) -> str | None:
    """Address of the footer's link to the previous or next page."""
    found = re.search(rf'class="{name}"\s+href="([^"]+)"', html)
    return found[1] if found else None


def test_next_walks_the_table_of_contents_and_previous_back(site):
    from posixpath import dirname, join, normpath

    def follow(path: str, name: str) -> str | None:
        html = (site / path).read_text(encoding="utf-8")
        target = link(html, name)
        return normpath(join(dirname(path), target)) if target else None

    for here, there in pairwise(PAGES):
        assert follow(here, "right-next") == there
        assert follow(there, "left-prev") == here
    assert follow(PAGES[0], "left-prev") is None
    assert follow(PAGES[-1], "right-next") is None


def test_search_finds_a_page_and_its_link_works(page):
    page.goto("/")
    page.keyboard.press("Control+k")
    page.get_by_role("searchbox").first.fill("all-reduce")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=all-reduce*")
    first = page.locator("#search-results li a").first
    first.wait_for()
    with page.expect_navigation() as reply:
        first.click()
    assert reply.value.status == 200
    assert "all-reduce" in page.locator("article").inner_text().lower()


def test_front_page_found_by_search_opens(page):
    page.goto("/book/index.html")
    page.wait_for_url(re.compile(r"/index\.html$"))
    page.get_by_role("heading", level=1).wait_for()


def test_search_data_is_loaded_by_the_search_page_only(site):
    assert "searchindex.js" in (site / "search.html").read_text(encoding="utf-8")
    assert "searchindex.js" not in (site / "index.html").read_text(encoding="utf-8")


def test_colours_follow_the_reader_and_are_remembered(page):
    page.emulate_media(color_scheme="dark")
    page.goto("/")
    theme = "document.documentElement.dataset.theme"
    assert page.evaluate(theme) == "dark"
    while page.evaluate("document.documentElement.dataset.mode") != "light":
        page.locator(".theme-switch-button:visible").first.click()
    assert page.evaluate(theme) == "light"
    page.reload()
    assert page.evaluate(theme) == "light"


def test_phone_opens_the_contents_and_closes_them(page):
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto("/")
    page.locator(".primary-toggle").click()
    contents = page.locator("#pst-primary-sidebar-modal")
    contents.wait_for(state="visible")
    assert contents.get_by_role("link", name="Hardware").first.is_visible()
    page.keyboard.press("Escape")
    contents.wait_for(state="hidden")


def test_copy_gives_code_without_prompts(page):
    page.goto("/")
    block = page.locator(".highlight-pycon").first
    block.hover()
    block.get_by_role("button", name="Copy").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("import torch\n")
    assert ">>>" not in copied
    assert "[6, 6, 6, 6]" not in copied
    compile(copied, "copied", "exec")


def test_missing_page_is_styled_and_leads_back(page):
    reply = page.goto("/a/mistyped/address.html")
    assert reply.status == 404
    assert page.locator("h1").inner_text() == "No page here"
    assert page.locator(".bd-sidebar-primary").evaluate(
        "e => getComputedStyle(e).position"
    ) in ("sticky", "fixed")
    page.get_by_role("link", name="Back to the front page").click()
    page.wait_for_url(re.compile(r"/index\.html$"))
    page.goto("/a/mistyped/address.html")
    page.get_by_label("Search the book").fill("ring")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=ring*")


def with_text(site, text: str) -> list[str]:
    """Pages of the book that contain ``text``."""
    return [p for p in PAGES if text in (site / p).read_text(encoding="utf-8")]


def test_notebook_downloads_as_it_is(site, page):
    lessons = with_text(site, 'class="btn btn-sm pst-navbar-icon download-notebook"')
    assert lessons
    for path in lessons:
        page.goto(f"/{path}")
        with page.expect_download() as download:
            page.locator("a.download-notebook").click()
        assert download.value.suggested_filename.endswith(".ipynb")
        notebook = json.loads(download.value.path().read_text(encoding="utf-8"))
        assert notebook["nbformat"] == 4


def test_moving_figures_answer_the_keyboard(site, page):
    paths = with_text(site, 'class="bookfig"')
    if not paths:
        pytest.skip("no page has a moving figure")
    for path in paths:
        page.goto(f"/{path}")
        settle(page)
        figures = page.locator(".bookfig[data-ready]")
        assert figures.count() == page.locator(".bookfig").count()
        for number in range(figures.count()):
            figure = figures.nth(number)
            figure.locator("input[type=range]:visible").first.focus()
            at_start = drawn_after(page, figure, "Home", "")
            drawn_after(page, figure, "ArrowRight", at_start)


def drawn_after(page, figure, key: str, before: str) -> str:
    """The figure once ``key`` has moved it from ``before``; figures draw per frame."""
    page.keyboard.press(key)
    page.wait_for_timeout(200)
    page.wait_for_function(
        "([figure, before]) => figure.innerHTML !== before",
        arg=[figure.element_handle(), before],
    )
    return figure.inner_html()
