"""The Planner page: a form that answers at once, and an address that keeps it."""

import json
import shlex
import subprocess
import sys
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from pagechecks import OVERFLOW, RUN_AXE, SCHEMES, Visit, show, watch, weight

PAGE = "book/reference/planner.html"


@pytest.fixture
def planner(page, base):
    """The page, its form in place; says afterwards that nothing left this machine."""
    page.seen = Visit(PAGE)
    watch(page, base, page.seen, [])
    page.goto(PAGE)
    page.locator(".planner[data-ready]").wait_for()
    yield page
    assert page.seen.external == page.seen.failed == page.seen.errors == []


def field(page, name):
    return page.locator(f"#planner-{name}")


def verdict(page) -> str:
    return page.locator(".planner-verdict").inner_text()


def figure(page, name: str) -> str:
    box = page.locator(".planner-figures > div").filter(has_text=name).first
    return box.locator("dd").first.inner_text()


def test_the_example_is_there_at_once_and_its_print_is_not(planner):
    assert verdict(planner).startswith("Fits")
    assert figure(planner, "MFU") == "42.0 %"
    assert not planner.locator(".planner-still").is_visible()
    assert field(planner, "dp").inner_text() == "16"


def test_a_change_is_answered_and_kept_in_the_address(planner, base):
    field(planner, "tp").fill("4")
    field(planner, "zero").select_option("3")
    field(planner, "model").select_option("Llama 3 405B")
    assert "Does not fit" in verdict(planner)
    before = planner.locator(".planner-results").inner_text()
    kept = parse_qs(urlsplit(planner.url).query)
    assert kept["tp"] == ["4"] and kept["model"] == ["Llama 3 405B"]
    planner.reload()
    planner.locator(".planner[data-ready]").wait_for()
    assert field(planner, "zero").input_value() == "3"
    assert planner.locator(".planner-results").inner_text() == before


def test_every_part_of_the_bars_has_a_colour_of_its_own(planner):
    colours = planner.evaluate(
        """() => [...document.querySelectorAll(".planner-bar .planner-part")]
          .map((part) => getComputedStyle(part).backgroundColor)"""
    )
    assert len(set(colours)) == 5 and "rgba(0, 0, 0, 0)" not in colours
    widths = planner.evaluate(
        """() => [...document.querySelectorAll(".planner-bar .planner-part")]
          .map((part) => part.getBoundingClientRect().width)"""
    )
    bar = planner.locator(".planner-bar").bounding_box()["width"]
    assert sum(widths) / bar == pytest.approx(31.0 / 80, abs=0.005)


def test_copy_link_copies_what_reopens_it(planner):
    field(planner, "schedule").select_option("zb-h1")
    planner.get_by_role("button", name="Copy link").click()
    link = planner.evaluate("navigator.clipboard.readText()")
    planner.get_by_role("button", name="Start again").click()
    assert field(planner, "schedule").input_value() == "1f1b"
    assert "?" not in planner.url
    planner.goto(link)
    planner.locator(".planner[data-ready]").wait_for()
    assert field(planner, "schedule").input_value() == "zb-h1"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("tp", "128", "tp must be a divisor of the 64 heads; got 128"),
        ("tp", "", "tp must be a whole number, 1 or more, got ''"),
        ("pp", "none", "pp must be a whole number, 1 or more, got 'none'"),
        ("accelerators", "500", "tp x pp x cp = 32 must divide the cluster's 500"),
        ("tokens", "-1", "tokens must be a finite number greater than 0, got -1"),
        ("sequence", "9" * 30, "sequence must be at most 100,000,000"),
        ("micro_batch", "9" * 30, "micro_batch must be at most 1,000,000, got 999"),
        ("micro_batch", "0", "micro_batch must be a whole number, 1 or more, got 0"),
        ("global_batch", "7", "global_batch must be a multiple of dp * micro_batch"),
        ("price_per_hour", "<b>", "price_per_hour must be a finite number 0 or more"),
    ],
)
def test_a_value_that_cannot_be_is_named(planner, name, text, message):
    field(planner, name).fill(text)
    assert message in verdict(planner)
    assert field(planner, name).get_attribute("aria-invalid") == "true"
    assert field(planner, name).get_attribute("aria-describedby") == "planner-message"
    assert not planner.locator(".planner-results").is_visible()
    spoken = planner.locator(".planner [role=status]")
    spoken.filter(has_text=message).wait_for(state="attached")


def test_an_address_with_nonsense_is_refused_in_words(planner):
    planner.goto(f"{PAGE}?model=<img src=x onerror=alert(1)>&tp=two&what=ever")
    planner.locator(".planner[data-ready]").wait_for()
    assert "model must be one of" in verdict(planner)
    field(planner, "model").select_option("Llama 3 8B")
    assert "tp must be a whole number" in verdict(planner)


def test_an_empty_field_says_what_it_stands_for(planner):
    assert field(planner, "tokens").get_attribute("placeholder") == "15T"
    field(planner, "global_batch").fill("")
    assert field(planner, "global_batch").get_attribute("placeholder") == "2048"
    assert "2,048 × 8,192 tokens" in planner.locator(".planner-figures").inner_text()
    field(planner, "tokens").fill("1.5T")
    assert planner.locator(".planner-figures").inner_text().count("1.5T tokens") == 1


@pytest.mark.parametrize("price", ["", "3.25"])
def test_the_command_and_the_call_plan_the_same(planner, price):
    field(planner, "price_per_hour").fill(price)
    field(planner, "tokens").fill("2T")
    shown = planner.locator(".planner-code").first.inner_text()
    words = shlex.split(shown.replace("\\\n", " "))
    tool = [sys.executable, "-m", "aiinfra.tools.cli", *words[1:], "--json"]
    done = subprocess.run(tool, capture_output=True, text=True, check=True)
    plan = json.loads(done.stdout)
    assert figure(planner, "MFU") == f"{plan['mfu']:.1%}".replace("%", " %")
    assert figure(planner, "Cost") == f"{plan['cost_usd'] / 1e6:.3g} million USD"
    room: dict = {}
    code = planner.locator(".planner-code").nth(1).inner_text()
    exec(code.replace("plan.train(", "found = plan.train("), room)
    assert room["found"].to_dict() == plan


def test_all_of_it_with_the_keyboard(planner):
    field(planner, "model").focus()
    for name in ("tokens", "global_batch", "sequence", "precision", "accelerator"):
        planner.keyboard.press("Tab")
        assert planner.evaluate("document.activeElement.id") == f"planner-{name}"
    planner.keyboard.press("Tab")
    planner.keyboard.press("Control+a")
    planner.keyboard.type("1024")
    assert field(planner, "dp").inner_text() == "32"
    planner.keyboard.press("Enter")  # sends nothing anywhere
    assert urlsplit(planner.url).path == f"/{PAGE}"
    field(planner, "sequence_parallel").focus()
    planner.keyboard.press("Space")
    assert not field(planner, "sequence_parallel").is_checked()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("text", ["8", "3", "1"])
def test_axe_finds_nothing(planner, scheme, text):
    field(planner, "tp").fill(text)  # fits, refused, does not fit
    planner.evaluate(AXE_SCRIPT)
    show(planner, scheme)
    assert planner.evaluate(RUN_AXE) == []


@pytest.mark.parametrize("text", ["8", "3", "1"])
def test_a_phone_need_not_scroll_sideways(planner, text):
    planner.set_viewport_size({"width": 360, "height": 800})
    field(planner, "tp").fill(text)
    assert planner.evaluate(OVERFLOW) == []


def test_what_it_weighs(visited):
    sizes = visited(PAGE).sizes
    mine = sum(size for path, size in sizes.items() if "/planner/" in path)
    assert 0 < mine < 40_000
    assert mine + weight(sizes)[1] < 120_000


def test_other_pages_do_not_load_it(page):
    page.goto("book/reference/planner-check.html")
    assert page.locator("[src*='planner/'], [href*='planner/page']").count() == 0


def test_without_a_script_the_example_is_read(chromium, base):
    context = chromium.new_context(base_url=base, java_script_enabled=False)
    page = context.new_page()
    page.goto(PAGE)
    assert "matrix products" in page.locator(".planner-still").inner_text()
    context.close()
