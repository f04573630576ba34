"""The figures on a static page, moved with mouse, keyboard and finger in Chromium."""

import re

import pytest
from figure_samples import make_holds, make_sweep, make_texts, make_timeline, make_waves

from aiinfra.figures import _holds, _sweep, _timeline


def title(page, nth: int = 0) -> str:
    return page.locator(".aifig-stage svg[role=img] > title").nth(nth).text_content()


def drawn(page, nth: int = 0) -> str:
    """The picture as the module wrote it, and the width it was drawn for."""
    return page.evaluate(
        """(nth) => {
          const svg = document.querySelectorAll(".aifig-stage svg[role=img]")[nth];
          return [svg.outerHTML, Number(svg.getAttribute("width"))];
        }""",
        nth,
    )


def reparsed(page, svg: str) -> str:
    """The same text after a trip through the browser's parser."""
    return page.evaluate(
        "(s) => { const e = document.createElement('div'); e.innerHTML = s;"
        " return e.innerHTML; }",
        svg,
    )


def wait_for_title(page, text: str) -> None:
    page.wait_for_function(
        "(t) => [...document.querySelectorAll('.aifig-stage svg > title')]"
        ".some((e) => e.textContent === t)",
        arg=text,
    )


def slide(page, box, to: float) -> None:
    """Drags a slider's thumb with the mouse to a share of its length."""
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * (to + 0.5) / 2, y)
    page.mouse.move(box["x"] + box["width"] * to, y)
    page.mouse.up()


def test_sweep_slider_by_mouse_and_keyboard(visit):
    figure = make_sweep()
    page = visit(figure)
    assert title(page) == figure.summary()
    slider = page.get_by_role("slider", name="bandwidth")
    slide(page, slider.bounding_box(), 0.99)
    figure.k = 4
    wait_for_title(page, figure.summary())
    svg, width = drawn(page)
    state = (figure.data, figure.k, figure.k2, figure.at, width, False)
    assert svg == reparsed(page, _sweep.scene(*state))
    assert "450 GB/s" in page.locator(".aifig-controls").inner_text()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    figure.k = 2
    wait_for_title(page, figure.summary())
    assert slider.get_attribute("aria-valuetext") == "12.5 GB/s"
    page.get_by_role("slider", name="switch").focus()
    page.keyboard.press("Home")
    figure.k2 = 0
    wait_for_title(page, figure.summary())
    assert drawn(page)[0] != svg


def test_sweep_is_read_by_pointer_and_keyboard(visit):
    figure = make_sweep()
    page = visit(figure)
    probe = page.get_by_role("slider", name="Read the curves")
    box = probe.bounding_box()
    # 0.1 to 1000 MB: three quarters of the log axis is 100 MB, index 30 of 41.
    page.mouse.move(box["x"] + 0.75 * box["width"], box["y"] + 40)
    figure.at = 30
    wait_for_title(page, figure.summary())
    probe.focus()
    for key, at in [("ArrowLeft", 29), ("PageDown", 25), ("End", 40), ("Home", 0)]:
        page.keyboard.press(key)
        figure.at = at
        wait_for_title(page, figure.summary())
    assert probe.get_attribute("aria-valuetext").startswith("bucket size 0.1 MB: all")


def test_timeline_frames_and_events(visit):
    figure = make_timeline()
    page = visit(figure)
    next_button = page.get_by_role("button", name="Next version")
    previous = page.get_by_role("button", name="Previous version")
    assert previous.is_disabled() and "eight buckets" in page.inner_text(".aifig")
    next_button.click()
    next_button.click()
    figure.frame = 2
    wait_for_title(page, figure.summary())
    assert (
        next_button.is_disabled()
        and page.locator("output").inner_text() == "overlapped"
    )
    page.get_by_role("slider", name="version", exact=True).focus()
    page.keyboard.press("ArrowLeft")
    figure.frame = 1
    wait_for_title(page, figure.summary())

    probe = page.get_by_role("slider", name="Read the events")
    box = probe.bounding_box()
    events = figure.data["frames"][1]["events"]
    rows = figure.data["rows"]
    row = next(i for i, r in enumerate(rows) if r[:2] == ["rank 0", "compute"])
    _, width = drawn(page)
    layout = _timeline.layout(figure.data, width, False)
    y = layout["rows"][row][0] + 10 - layout["plot_top"]
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + y)
    figure.event = next(
        i
        for i, e in enumerate(events)
        if e[0] == row and e[3] <= 0.2 * figure.data["end_s"] <= e[4]
    )
    wait_for_title(page, figure.summary())
    note = page.locator(".aifig-note").inner_text()
    assert note.startswith("rank 0, compute: ") and ", from " in note
    cursor, unit = page.locator(".aifig-stage text").last.text_content().split()
    at_s = float(cursor) / figure.data["per_s"]
    assert unit == "ms" and at_s == pytest.approx(0.2 * figure.data["end_s"], rel=0.01)

    probe.focus()
    page.keyboard.press("ArrowRight")
    figure.event += 1
    wait_for_title(page, figure.summary())
    figure.time_s = events[figure.event][3]
    state = (figure.data, 1, figure.event, figure.time_s, drawn(page)[1], False)
    assert drawn(page)[0] == reparsed(page, _timeline.scene(*state))
    page.keyboard.press("ArrowDown")
    page.wait_for_function(
        "(e) => e.getAttribute('aria-valuetext').startsWith('rank 0, link')",
        arg=probe.element_handle(),
    )


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_holds_steps_play_and_pause(visit, motion):
    figure = make_holds()
    page = visit(figure, reduced_motion=motion)
    page.get_by_role("button", name="Next step").click()
    figure.step = 1
    wait_for_title(page, figure.summary())
    # Once the messages have arrived, the picture is Python's.
    state = (figure.data, 1, -1, drawn(page)[1], False)
    expected = reparsed(page, _holds.scene(*state))
    page.wait_for_function(
        "(t) => document.querySelector('.aifig-stage svg').outerHTML === t",
        arg=expected,
    )
    assert page.get_by_text(figure.caption).first.is_visible()
    page.get_by_role("button", name="Play").click()
    figure.step = 2
    wait_for_title(page, figure.summary())
    page.get_by_role("button", name="Pause").click()
    stopped = title(page)
    page.wait_for_timeout(2500)
    assert title(page) == stopped
    page.get_by_role("button", name="Previous step").click()
    figure.step = 1
    wait_for_title(page, figure.summary())
    page.get_by_role("slider", name="step", exact=True).focus()
    page.keyboard.press("End")
    figure.step = 6
    wait_for_title(page, figure.summary())
    assert page.get_by_role("button", name="Next step").is_disabled()


def test_holds_moves_messages_only_if_motion_is_welcome(visit):
    count = """() => new Promise((done) => {
      const seen = new Set();
      const end = performance.now() + 500;
      document.querySelector('[aria-label="Next step"]').click();
      const look = () => {
        seen.add(document.querySelector('.aifig-stage svg').outerHTML);
        performance.now() < end ? requestAnimationFrame(look) : done(seen.size);
      };
      requestAnimationFrame(look);
    })"""
    assert visit(make_holds(), reduced_motion="no-preference").evaluate(count) > 3
    assert visit(make_holds(), reduced_motion="reduce").evaluate(count) <= 2


def test_nothing_moves_by_itself(visit):
    page = visit(make_holds(), make_timeline())
    before = [title(page, 0), title(page, 1)]
    page.wait_for_timeout(1800)
    assert [title(page, 0), title(page, 1)] == before


def test_holds_cells_are_read(visit):
    figure = make_holds()
    page = visit(figure)
    probe = page.get_by_role("slider", name="Read the cells")
    box = probe.bounding_box()
    page.mouse.move(box["x"] + 10, box["y"] + box["height"] - 10)
    figure.cell = 12
    wait_for_title(page, figure.summary())
    probe.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    figure.cell = 9
    wait_for_title(page, figure.summary())
    assert page.get_by_text("rank 2, chunk 1: 2", exact=True).is_visible()


ALL = [make_sweep, make_waves, make_timeline, make_holds, make_texts]


@pytest.mark.parametrize("width", [360, 1440])
def test_every_width_fits_and_stays_legible(visit, width):
    figures = [make() for make in ALL] + [make_holds(8)]
    page = visit(*figures, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    facts = page.evaluate(
        """() => [...document.querySelectorAll(".aifig")].map((figure) => {
          const svg = figure.querySelector(".aifig-stage svg");
          const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
          const box = svg.getBoundingClientRect();
          const texts = [...svg.querySelectorAll("text")];
          const out = texts.filter((t) => {
            const r = t.getBoundingClientRect();
            return r.left < box.left - 1 || r.right > box.right + 1;
          });
          const size = (e) => parseFloat(getComputedStyle(e).fontSize);
          const sizes = texts.map((t) => size(t) * scale);
          const html = [...figure.querySelectorAll("label, .aifig-note")].map(size);
          return [Math.min(...sizes, ...html), out.map((t) => t.textContent)];
        })"""
    )
    assert len(facts) == len(figures)
    for smallest, outside in facts:
        assert smallest >= 11
        assert outside == []


def test_the_picture_follows_the_width(visit):
    page = visit(make_sweep())
    wide = drawn(page)[1]
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_function(
        "() => document.querySelector('.aifig-stage svg').clientWidth < 400"
    )
    assert drawn(page)[1] == 400 - 32 < wide


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_takes_the_page_s_colour(visit, theme):
    page = visit(*[make() for make in ALL], attributes=f"data-theme={theme}")
    colours = page.evaluate(
        """() => [...document.querySelectorAll(".aifig-stage svg")].map(
          (e) => getComputedStyle(e).fill)"""
    )
    expected = {"light": "rgb(0, 0, 0)", "dark": "rgb(206, 214, 221)"}[theme]
    assert set(colours) == {expected}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("live", [True, False])
def test_axe_finds_nothing(visit, theme, live):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = visit(
        *[make() for make in ALL],
        attributes=f"data-theme={theme}",
        live=live,
        host=live,
    )
    found = axe.Axe().run(page).response["violations"]
    assert [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in found] == []


def test_without_javascript_the_picture_stays(visit):
    figures = [make() for make in ALL]
    page = visit(*figures, live=False, java_script_enabled=False)
    pictures = page.locator(".bookfig-fallback svg[role=img]")
    assert pictures.count() == len(figures)
    for i, figure in enumerate(figures):
        assert pictures.nth(i).is_visible()
        assert pictures.nth(i).locator("> title").text_content() == figure.summary()


def test_a_module_that_fails_leaves_the_picture(visit):
    figure = make_waves()
    figure.fig = "absent"  # no such module on the site
    page = visit(figure, live=False)
    page.wait_for_timeout(500)
    assert page.locator(".bookfig-fallback svg[role=img]").is_visible()
    assert any("absent" in error for error in page.errors)
    page.errors.clear()


def test_a_module_that_breaks_while_drawing_leaves_the_picture(visit):
    page = visit(make_waves(), host=False, live=False)
    broken = "export default { render() { throw new Error('broken'); } };"
    page.route(
        "**/sweep.js",
        lambda route: route.fulfill(body=broken, content_type="text/javascript"),
    )
    page.add_script_tag(type="module", url="figures/host.js")
    page.wait_for_timeout(500)
    assert page.locator(".bookfig-fallback svg[role=img]").is_visible()
    assert page.locator(".aifig").count() == 0
    assert page.errors == ["broken"]
    page.errors.clear()


def test_keys_stay_inside_the_figure(visit):
    page = visit(make_sweep(), make_timeline(), make_holds())
    page.evaluate(
        "() => { window.keys = []; document.addEventListener('keydown',"
        " (e) => window.keys.push(e.key)); }"
    )
    for locator in page.locator(
        ".aifig :is(input, button:enabled, .aifig-probe)"
    ).all():
        locator.focus()
        for key in ("ArrowLeft", "ArrowUp", "Home", "ArrowRight", "Tab"):
            page.keyboard.press(key)
    assert set(page.evaluate("window.keys")) == {"Tab"}


def test_focus_is_visible(visit):
    page = visit(make_sweep(), make_timeline(), make_holds())
    page.locator("body").focus()
    reached = set()
    for _ in range(14):
        page.keyboard.press("Tab")
        name, style = page.evaluate(
            """() => {
              const e = document.activeElement;
              return [e.className || e.tagName, getComputedStyle(e).outlineStyle];
            }"""
        )
        if name == "BODY":
            break
        reached.add(name)
        assert style == "solid", name
    assert {"aifig-probe", "INPUT", "BUTTON"} <= reached


def test_touch_reads_and_steps(visit):
    figure, steps = make_sweep(), make_holds()
    page = visit(figure, steps, width=360, has_touch=True, is_mobile=True)
    probe = page.get_by_role("slider", name="Read the curves")
    probe.scroll_into_view_if_needed()
    box = probe.bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] - 2, box["y"] + 30)
    figure.at = 40
    wait_for_title(page, figure.summary())
    page.get_by_role("button", name="Next step").tap()
    steps.step = 1
    wait_for_title(page, steps.summary())


def test_changes_are_spoken_once_they_rest(visit):
    figure = make_sweep()
    page = visit(figure)
    spoken = page.locator("[aria-live=polite]")
    assert spoken.text_content() == ""  # a page that opens says nothing
    page.get_by_role("slider", name="bandwidth").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    figure.k = 4
    page.wait_for_function(
        "(t) => document.querySelector('[aria-live]').textContent === t",
        arg=figure.summary(),
    )


def test_the_page_asks_only_its_own_server(visit):
    page = visit(live=False)
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.reload()
    page.wait_for_timeout(300)
    assert requests and all(
        re.match(r"http://127\.0\.0\.1:|data:", r) for r in requests
    )
