"""The figures without a browser: values, messages for bad input, determinism."""

import base64
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import traitlets
from figure_samples import (
    X_MB,
    events,
    exposed_ms,
    make_holds,
    make_sweep,
    make_texts,
    make_timeline,
    make_waves,
    ring,
)

from aiinfra import plot
from aiinfra.figures import _draw as d
from aiinfra.figures import holds, sweep, timeline
from aiinfra.figures._base import LIMIT_BYTES

MAKERS = [make_sweep, make_waves, make_timeline, make_holds, make_texts]


def minimal(fn=lambda g: [[1.0, 2.0]], **changes):
    arguments = dict(
        x=[1, 2],
        grid=[1, 2, 3],
        name="size",
        labels=["line"],
        x_label="x",
        y_label="y",
        alt="A line that rises",
    )
    return sweep(fn, **(arguments | changes))


@pytest.mark.parametrize("make", MAKERS)
def test_outputs_are_deterministic_and_carry_no_ids(make):
    first, again = make(), make()
    data, _ = first._repr_mimebundle_()
    other, _ = again._repr_mimebundle_()
    for key in ("text/html", "image/svg+xml", "text/plain"):
        assert data[key] == other[key]
    assert not re.search(r"\sid=|url\(#", data["text/html"])
    assert "0x" not in data["text/plain"] and "\n" not in data["text/plain"]


@pytest.mark.parametrize("make", MAKERS)
def test_html_is_a_picture_with_alt_and_the_state(make):
    figure = make()
    html = figure._html()
    head = f'<div class="bookfig" data-fig="{figure.fig}">'
    assert html.startswith(head) and "\n" not in html
    state = re.search(r'<script type="application/json">(.*)</script>', html)[1]
    assert "<" not in state
    assert json.loads(state)["data"] == figure.data
    for svg in (figure.svg(), figure.print_svg()):
        picture = ET.fromstring(svg)
        assert picture.get("role") == "img"
        assert picture.get("aria-label") == figure.data["alt"]
    title = ET.fromstring(figure.svg())[0]
    assert title.tag.endswith("title") and title.text == figure.summary()


@pytest.mark.parametrize("make", MAKERS)
def test_no_text_is_below_11_px(make):
    svg = make().svg() + make().print_svg()
    sizes = [float(s) for s in re.findall(r'font-size="([\d.]+)"', svg)]
    assert sizes and min(sizes) >= 11


def test_colours_come_from_the_book_s_palette():
    allowed = {colour.lower() for colour in plot.PALETTE.values()} | {"#fff", "#000"}
    for make in MAKERS:
        used = set(re.findall(r"#[0-9a-fA-F]{3,6}", make().svg()))
        assert {colour.lower() for colour in used} <= allowed


def test_sweep_reads_what_python_computed():
    figure = make_sweep()
    figure.k, figure.k2, figure.at = 3, 1, 7
    assert (figure.value, figure.value2) == (50.0, "far")
    expected = exposed_ms(50, 20.0)[:, 7]
    read = list(figure.reading.values())
    np.testing.assert_allclose(read, expected, rtol=1e-6)  # float32 table
    first = d.reading(expected[0])
    assert "bandwidth 50 GB/s, switch far." in figure.summary()
    assert f"At bucket size {d.num(X_MB[7])} MB: all-reduce {first} ms" in (
        figure.summary()
    )


def test_int16_tables_keep_gaps_and_four_digits():
    exact = make_sweep()
    short = make_sweep(dtype="int16")
    assert len(short.data["table"]) < 0.6 * len(exact.data["table"])
    for at in (0, 10, 40):
        exact.at = short.at = at
        for a, b in zip(exact.reading.values(), short.reading.values(), strict=True):
            assert np.isnan(a) == np.isnan(b)
            # Half a step of a log10 range below 4 decades: 7e-5 relative.
            assert np.isnan(a) or abs(a / b - 1) < 1e-4
    assert base64.b64decode(short.data["table"])


def test_timeline_shows_traces_and_events_alike():
    from aiinfra.trace import Event, Trace

    mine = [e for e in events(2, True) if e[5] in ("compute", "comm", "wait", "span")]
    trace = Trace([Event(*e) for e in mine])
    alt = "Three ranks over time"
    from_trace = timeline(trace, alt=alt)
    assert from_trace.svg() == timeline([mine], alt=alt).svg()
    assert from_trace.svg() == timeline(mine, alt=alt).svg()
    assert d.reading(trace.total_s * 1e3) in from_trace.summary()


@pytest.mark.parametrize(
    ("end_s", "unit"), [(3.0, "s"), (0.02, "ms"), (4e-5, "µs"), (2e-8, "ns")]
)
def test_timeline_chooses_its_unit(end_s, unit):
    figure = timeline(
        [(0, "link", "send", 0.0, end_s, "comm")], alt="One message on a link"
    )
    assert figure.data["unit"] == unit
    assert f"time ({unit})" in figure.svg()


def test_overlapping_events_of_a_lane_get_tracks_of_their_own():
    figure = timeline(
        [
            (0, "link", "send", 0.0, 2.0, "comm"),
            (0, "link", "receive", 1.0, 3.0, "comm"),
            (0, "link", "again", 2.0, 4.0, "comm"),
        ],
        alt="A link that sends and receives",
    )
    tracks = {
        figure.data["names"][e[2]]: e[1] for e in figure.data["frames"][0]["events"]
    }
    assert tracks == {"send": 0, "receive": 1, "again": 0}


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_the_ring_ends_with_every_sum_complete(n):
    figure = make_holds(n)
    last = figure.data["steps"][-1]
    assert last == [[list(range(n))] * n] * n
    figure.step = len(figure.data["steps"]) - 1
    figure.cell = 1
    whole = "+".join(map(str, range(n)))
    assert figure.summary().endswith(f"rank 0, chunk 1: {whole}.")


@pytest.mark.parametrize(
    ("make", "name", "value", "message"),
    [
        (make_sweep, "k", 5, "k must be from 0 to 4, got 5"),
        (make_sweep, "k2", -1, "k2 must be from 0 to 1, got -1"),
        (make_sweep, "at", 41, "at must be from 0 to 40, got 41"),
        (make_timeline, "frame", 3, "frame must be from 0 to 2, got 3"),
        (make_holds, "step", 7, "step must be from 0 to 6, got 7"),
    ],
)
def test_traits_refuse_places_that_do_not_exist(make, name, value, message):
    with pytest.raises(traitlets.TraitError, match=message):
        setattr(make(), name, value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: minimal(alt=""), "alt must say in words"),
        (lambda: minimal(alt="figure"), "alt must say in words"),
        (lambda: minimal(lambda g: [[1, 2, 3]]), r"fn\(1\) returned shape \(1, 3\)"),
        (lambda: minimal(labels=["a", "b"]), r"returned shape \(1, 2\); expected"),
        (lambda: minimal(labels=list("abcdefg")), "7 curves: a reader can tell"),
        (lambda: minimal(labels=[""]), "labels must be non-empty"),
        (lambda: minimal(grid=[]), "grid is empty"),
        (
            lambda: minimal(lambda g, h: [[1, 2]], grid2=[], name2="b"),
            "grid2 is empty",
        ),
        (lambda: minimal(name=""), "each slider needs a name"),
        (lambda: minimal(x=[2, 1]), "x must be one increasing row"),
        (lambda: minimal(x=[0, 1], log_x=True), "log_x needs x > 0"),
        (lambda: minimal(lambda g: [[0, 1]], log_y=True), "log_y needs values > 0"),
        (lambda: minimal(lambda g: [[np.inf, 1]]), "infinite"),
        (lambda: minimal(lambda g: [[np.nan, np.nan]]), "only NaN"),
        (lambda: minimal(y_range=(2, 1)), "y_range must be"),
        (lambda: minimal(dtype="float16"), "dtype must be"),
        (lambda: minimal(x_marks={"far": 9}), "'far' is at 9, outside the axis"),
        (lambda: timeline([], alt="No events at all"), "at least one trace"),
        (lambda: timeline([[]], alt="No events at all"), "frame 1 has no events"),
        (
            lambda: timeline([["abc"]], alt="No events at all"),
            "'abc' is not an event; expected",
        ),
        (
            lambda: timeline([(0, "link", "m", 2.0, 1.0, "comm")], alt="One bad event"),
            "'m' of rank 0 runs from 2 s to 1 s",
        ),
        (lambda: make_timeline(labels=["a"]), "1 labels for 3 frames"),
        (
            lambda: timeline(
                [(0, "link", "m", 0, 1, kind) for kind in "abcd"], alt="Many odd kinds"
            ),
            "at most 3 kinds besides",
        ),
        (lambda: holds([], alt="An empty grid here"), "at least one grid"),
        (lambda: holds([[[]]], alt="An empty grid here"), "at least one grid"),
        (
            lambda: holds([[["a", "b"], ["c"]]], alt="A ragged grid here"),
            r"step 0 has rows of \[2, 1\] cells",
        ),
        (
            lambda: holds([[["a"]], [["a", "b"]]], alt="A ragged grid here"),
            "step 1 has rows of",
        ),
        (lambda: make_holds(messages=[[]]), r"messages has 1 steps, steps has 7"),
        (
            lambda: make_holds(messages=[[(0, 4, 0)], *[[]] * 6]),
            r"step 0: message \(0, 4, 0\) must be",
        ),
        (lambda: make_holds(captions=["a"]), "1 captions for 7 steps"),
        (lambda: make_holds(rows=["a"]), "1 rows labels for a grid with 4 rows"),
        (lambda: make_holds(sources=[0, 1]), r"cells hold \[2, 3\], not in sources"),
        (lambda: make_holds(17, **ring(17)), "17 contributions"),
    ],
)
def test_bad_input_gets_one_clear_error(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_figure_too_large_for_a_page_is_refused():
    x = np.linspace(1, 2, 500)
    with pytest.raises(ValueError, match="a figure may have 200 kB") as caught:
        minimal(lambda g: [x * g], x=x, grid=range(1, 101))
    assert 'pass dtype="int16"' in str(caught.value)
    fits = minimal(lambda g: [x * g], x=x, grid=range(1, 101), dtype="int16")
    assert len(fits._html()) < LIMIT_BYTES
    many = [(0, "link", f"message {i}", i, i + 1, "comm") for i in range(5000)]
    with pytest.raises(ValueError, match="5000 events in 1 frames"):
        timeline(many, alt="Far too many messages")


def test_a_text_cannot_leave_its_place():
    figure = minimal(alt='An "alt" with </script><b>', labels=["</script><b>&"])
    html = figure._html()
    assert html.count("</script>") == 1 and "<b>" not in html
    assert ET.fromstring(figure.svg()).get("aria-label") == figure.data["alt"]


def test_import_without_anywidget_says_what_to_install():
    code = (
        "import sys; sys.modules['anywidget'] = None\n"
        "try: import aiinfra.figures\n"
        "except ModuleNotFoundError as e: print(e)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert "pip install 'aiinfra[lab]'" in done.stdout, done.stderr


def test_import_needs_no_torch():
    code = "import sys, aiinfra.figures; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize(
    ("value", "read", "stated"),
    [
        (0, "0", "0"),
        (12.345, "12.3", "12.35"),
        (0.36, "0.360", "0.36"),
        (999.7, "1,000", "999.7"),
        (1234.5, "1,235", "1,235"),
        (16384, "16,384", "16,384"),
        (-0.5, "−0.500", "−0.5"),
        (1.5e-5, "1.50×10⁻⁵", "1.5×10⁻⁵"),
        (3.2e9, "3.20×10⁹", "3.2×10⁹"),
        (float("nan"), "–", "–"),
    ],
)
def test_numbers_read_well(value, read, stated):
    assert d.reading(value) == read
    assert d.num(value) == stated


@pytest.mark.parametrize("low_high", [(0, 1), (0, 55.3), (-3, 12), (0, 4e-3), (7, 9e5)])
def test_linear_ticks_are_round_and_inside(low_high):
    low, high = low_high
    ticks = d.linear_ticks(low, high, 6)
    values = [value for value, _ in ticks]
    assert 3 <= len(ticks) <= 7
    assert low <= values[0] + 1e-12 and values[-1] <= high * (1 + 1e-12)
    np.testing.assert_allclose(np.diff(values), values[1] - values[0])
    for value, text in ticks:
        number = text.replace(",", "").replace("−", "-")
        assert "×" in text or float(number) == pytest.approx(value)


def test_log_ticks_thin_out_and_fill_in():
    assert [t for _, t in d.log_ticks(0.1, 1000, 9)] == [
        "0.1",
        "1",
        "10",
        "100",
        "1,000",
    ]
    wide = [t for _, t in d.log_ticks(1e-6, 1e6, 4)]
    assert wide == ["10⁻⁶", "0.01", "100", "10⁶"]
    assert [t for _, t in d.log_ticks(3, 60, 8)] == ["5", "10", "20", "50"]
    assert len(d.log_ticks(3.1, 3.3, 5)) >= 2
