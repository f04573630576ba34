"""The drawing helper: legible, accessible, deterministic, and refusing bad input."""

import xml.etree.ElementTree as ET

import pytest

from aiinfra.diagram import SMALL, Diagram, LogScale

SVG = "{http://www.w3.org/2000/svg}"


def drawn() -> Diagram:
    d = Diagram("demo", 360, 100, title="A < B", description="One box & an arrow.")
    d.box(10, 10, 80, 40, "GPU\n80 GiB", colour="blue")
    d.arrow(90, 30, 200, 30)
    d.dot(210, 30, "orange")
    d.bar(10, 70, 33.33, 10, "green")
    return d


def test_is_well_formed_and_says_what_it_shows():
    root = ET.fromstring(drawn().svg())
    assert root.get("role") == "img"
    assert root.find(f"{SVG}title").text == "A < B"
    assert root.find(f"{SVG}desc").text == "One box & an arrow."
    ids = {element.get("id") for element in root} - {None}
    assert set(root.get("aria-labelledby").split()) == ids
    assert [t.text for t in root.iter(f"{SVG}text")] == ["GPU", "80 GiB"]


def test_same_calls_same_bytes():
    assert drawn().svg() == drawn().svg()


def test_text_follows_the_page_from_light_to_dark():
    root = ET.fromstring(drawn().svg())
    assert root.get("fill") == "currentColor"
    assert all(t.get("fill") is None for t in root.iter(f"{SVG}text"))


def test_saves_beside_the_script(tmp_path):
    target = drawn().save(str(tmp_path / "draws_demo.py"))
    assert target == tmp_path / "demo.svg"
    assert target.read_text(encoding="utf-8") == drawn().svg()


def test_log_scale():
    x = LogScale(1, 1000, 0, 30)
    assert [round(x(value), 9) for value in (1, 10, 100, 1000)] == [0, 10, 20, 30]
    assert LogScale(1e-5, 1e3, 0, 1).decades(2) == [1e-5, 1e-3, 1e-1, 1e1, 1e3]
    assert LogScale(0.5, 4096, 0, 1).decades() == [1, 10, 100, 1000]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: drawn().text(0, 0, "x", size=SMALL - 1), "unreadable on a phone"),
        (lambda: drawn().text(0, 0, "x", anchor="left"), "'left' is not one of"),
        (lambda: Diagram("a", 1, 1, title="t", description=""), "a description"),
        (lambda: LogScale(0, 1, 0, 1), "0 < low < high"),
        (lambda: LogScale(1, 10, 0, 1)(0), "use a value > 0"),
        (lambda: drawn().bar(0, 0, 1, 1, "pink"), "'pink' is not one of blue"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
