"""plot: one style; SVG that is text, deterministic, and at home in any page."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from aiinfra import plot

ALT = "Time grows with the message's size & never shrinks."


def draw():
    fig, ax = plot.subplots()
    for rank, colour in enumerate(plot.RANK_COLOURS):
        ax.plot([1, 10, 100], [1, 2 + rank, 3.14159], "o-", color=colour)
    ax.set(xlabel="message, MB", ylabel=r"time, $\mu$s", xscale="log", title="π ≈ 3.14")
    ax.bar([3], [2], hatch="//", label="a label")
    ax.legend()
    return fig


def test_import_is_cheap():
    code = "import sys, aiinfra.plot; print('matplotlib' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout.strip() == "False", out.stderr


def test_pyplot_and_the_global_style_are_left_alone():
    code = (
        "import sys, matplotlib, aiinfra.plot as p\n"
        "before = matplotlib.rcParams.copy()\n"
        "fig, ax = p.subplots(); ax.plot([1, 2]); p.to_svg(fig, 'a line')\n"
        "assert matplotlib.rcParams.copy() == before\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr


@pytest.mark.parametrize("inline", [True, False])
def test_same_drawing_gives_the_same_bytes(inline):
    first = plot.to_svg(draw(), ALT, inline=inline)
    fig = draw()
    assert first == plot.to_svg(fig, ALT, inline=inline)
    assert first == plot.to_svg(fig, ALT, inline=inline), "drawing twice differs"
    assert not re.search(r"20\d\d-\d\d-\d\d|matplotlib", first)


@pytest.mark.parametrize("inline", [True, False])
def test_svg_is_well_formed_and_says_what_it_shows(inline):
    svg = plot.to_svg(draw(), ALT, inline=inline)
    root = ET.fromstring(svg)
    assert root.get("role") == "img"
    assert root.get("aria-label") == ALT
    assert "<style" not in svg, "a style sheet would leak into the page"


def test_text_stays_text_in_a_generic_font():
    svg = plot.to_svg(draw(), ALT, inline=True)
    assert ">message, MB<" in svg and ">π ≈ 3.14<" in svg
    assert "DejaVu" not in svg
    assert "sans-serif" in svg


def test_inline_ink_follows_the_page_and_print_is_black_on_white():
    page, paper = plot.to_svg(draw(), ALT, inline=True), plot.to_svg(draw(), ALT)
    assert "currentColor" in page and "#000000" not in page
    assert "currentColor" not in paper and 'fill="#ffffff"' in paper
    assert "#ffffff" not in page, "a white area would glare on a dark page"
    for colour in plot.RANK_COLOURS:
        assert colour.lower() in page.lower()


def test_two_figures_share_no_id():
    fig, ax = plot.subplots()
    ax.plot([1, 2], "o")
    ids = [
        set(re.findall(r' id="([^"]+)"', plot.to_svg(f, ALT, inline=True)))
        for f in (draw(), fig)
    ]
    assert ids[0] and ids[1] and not ids[0] & ids[1]


def test_every_reference_has_its_target():
    svg = plot.to_svg(draw(), ALT, inline=True)
    used = re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', svg)
    ids = re.findall(r' id="([^"]+)"', svg)
    assert {a or b for a, b in used} == set(ids)
    assert len(ids) == len(set(ids))


def test_numbers_in_labels_are_not_rounded():
    fig, ax = plot.subplots()
    ax.set_title("3.14159265")
    assert ">3.14159265<" in plot.to_svg(fig, ALT, inline=True)


def test_width_bends_to_the_page():
    fig, _ = plot.subplots(figsize=(10, 3))
    style = ET.fromstring(plot.to_svg(fig, ALT, inline=True)).get("style")
    assert "width:100%" in style and "height:auto" in style


@pytest.mark.parametrize("alt", ["", "  ", None, 3])
def test_missing_alt_text_is_refused(alt):
    fig, _ = plot.subplots()
    with pytest.raises(ValueError, match="needs alt text: pass alt="):
        plot.show(fig, alt)


def test_show_outside_a_notebook_says_so(capsys):
    assert plot.show(draw(), ALT) is None
    assert capsys.readouterr().out == f"[figure] {ALT}\n"


def test_show_in_a_notebook_sends_page_and_print(monkeypatch):
    import IPython
    import IPython.display

    sent = []
    monkeypatch.setattr(IPython, "get_ipython", lambda: object())
    monkeypatch.setattr(
        IPython.display, "display", lambda bundle, raw: sent.append((bundle, raw))
    )
    plot.show(draw(), ALT)
    ((bundle, raw),) = sent
    assert raw
    assert "currentColor" in bundle["text/html"]
    assert "currentColor" not in bundle["image/svg+xml"]
    assert bundle["text/plain"] == f"[figure] {ALT}"


def test_save_writes_the_svg(tmp_path):
    path = tmp_path / "a.svg"
    plot.save(draw(), path, ALT)
    assert path.read_text(encoding="utf-8") == plot.to_svg(draw(), ALT) + "\n"


def test_palette_is_the_published_one():
    assert plot.PALETTE["blue"] == "#0072B2" and plot.PALETTE["yellow"] == "#F0E442"
    assert len(set(plot.RANK_COLOURS)) == 6 == len(plot.RANK_COLOURS)
