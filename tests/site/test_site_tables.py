"""Tables that their headings sort: by click or key, and whole without a script."""

import re

import pytest

HARDWARE = "book/reference/hardware.html"
RIDGE = "ridge, FLOP/B"


def column(page, heading):
    """The texts of a column of the first table, top to bottom."""
    return page.evaluate(
        """heading => {
          const table = document.querySelector(".sortable table");
          const heads = [...table.tHead.rows[0].cells].map(c => c.textContent.trim());
          const index = heads.indexOf(heading);
          return [...table.tBodies[0].rows].map(r => r.cells[index].textContent.trim());
        }""",
        heading,
    )


def heading(page, name):
    headings = page.locator(".sortable table").first.locator("th")
    return headings.filter(has_text=re.compile(f"^{re.escape(name)}$"))


def press(page, name, key="Enter"):
    heading(page, name).get_by_role("button").focus()
    page.keyboard.press(key)


def numbers(texts):
    return [float(text) for text in texts if text != "–"]


def test_a_key_sorts_by_number_largest_first_then_smallest_then_as_it_was(page):
    page.goto(HARDWARE)
    before = column(page, "name")
    press(page, RIDGE)
    falling = column(page, RIDGE)
    assert numbers(falling) == sorted(numbers(falling), reverse=True)
    assert falling[-1] == "–" and falling[0] != "–"
    assert heading(page, RIDGE).get_attribute("aria-sort") == "descending"
    press(page, RIDGE, "Space")
    rising = column(page, RIDGE)
    assert numbers(rising) == sorted(numbers(falling)) and rising[-1] == "–"
    assert heading(page, RIDGE).get_attribute("aria-sort") == "ascending"
    assert column(page, "name") != before
    press(page, RIDGE)
    assert column(page, "name") == before
    assert heading(page, RIDGE).get_attribute("aria-sort") is None


def test_units_do_not_mislead(page):
    page.goto(HARDWARE)
    heading(page, "bandwidth").get_by_role("button").click()
    rates = column(page, "bandwidth")
    assert rates[0] == "8 TB/s" and "1.638 TB/s" in rates
    assert rates.index("1.638 TB/s") < rates.index("819 GB/s") < rates.index("360 GB/s")


def test_text_sorts_by_alphabet_and_one_heading_at_a_time(page):
    page.goto(HARDWARE)
    press(page, RIDGE)
    press(page, "name")
    names = column(page, "name")
    assert names == sorted(names, key=str.casefold)
    assert heading(page, "name").get_attribute("aria-sort") == "ascending"
    assert heading(page, RIDGE).get_attribute("aria-sort") is None


def test_the_name_stays_in_sight_on_a_phone(page):
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto(HARDWARE)
    box = page.locator(".sortable .pst-scrollable-table-container").first
    name = page.locator(".sortable tbody td").first
    before = name.bounding_box()["x"]
    box.evaluate("box => { box.scrollLeft = 300 }")
    assert box.evaluate("box => box.scrollLeft") == 300
    assert name.bounding_box()["x"] == pytest.approx(before, abs=1)


def test_without_a_script_the_tables_are_whole(chromium, base):
    context = chromium.new_context(base_url=base, java_script_enabled=False)
    page = context.new_page()
    page.goto(HARDWARE)
    row = page.locator(".sortable tbody tr", has_text="H100 SXM").first
    assert "989.4 TFLOP/s" in row.inner_text()
    assert page.locator(".sortable button").count() == 0
    context.close()


@pytest.mark.parametrize("name", ["hardware.csv", "links.csv", "registry.json"])
def test_downloads_arrive(page, name):
    page.goto(HARDWARE)
    with page.expect_download() as download:
        page.get_by_role("link", name=name).click()
    assert download.value.suggested_filename == name


def test_the_script_comes_with_the_tables_only(page):
    page.goto("book/reference/glossary.html")
    assert page.locator("script[src*='tables.js']").count() == 0
    page.goto("book/reference/models.html")
    assert page.locator("script[src*='tables.js']").count() == 1
