"""Every committed diagram is what its script draws today, and fits a phone."""

import runpy
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from aiinfra import diagram

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted(
    path
    for path in ROOT.glob("[0-9][0-9]*/figures/*.py")
    if ".save(__file__)" in path.read_text(encoding="utf-8")
)
PARTS = sorted(path.parent.name for path in ROOT.glob("[0-9][0-9]*/index.md"))
SVG = "{http://www.w3.org/2000/svg}"


def committed(script: Path) -> Path:
    return script.with_suffix(".svg")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_committed_svg_is_what_the_script_draws(script, tmp_path, monkeypatch):
    before = committed(script).read_text(encoding="utf-8")
    drawn = {}

    def catch(self, path):
        drawn[Path(path).with_name(f"{self.name}.svg")] = self.svg()

    monkeypatch.setattr(diagram.Diagram, "save", catch)
    runpy.run_path(str(script), run_name="__main__")
    assert drawn == {committed(script): before}, (
        f"{committed(script).name} is not what {script.relative_to(ROOT)} draws; "
        "run the script again"
    )


def length_of(text: str, size: float, bold: bool) -> float:
    """Length of a text in DejaVu Sans, wider than what most browsers use."""
    font = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    return TextPath((0, 0), text, size=size, prop=font).get_extents().width


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_text_stays_on_the_canvas(script):
    root = ET.parse(committed(script)).getroot()
    width, height = (float(side) for side in root.get("viewBox").split()[2:])
    assert width <= 360, "wider than a small phone: its text would shrink below 11 px"
    for text in root.iter(f"{SVG}text"):
        size = float(text.get("font-size"))
        assert size >= diagram.SMALL
        length = length_of(text.text, size, bool(text.get("font-weight")))
        share = {"start": 0, "middle": 0.5, "end": 1}[text.get("text-anchor")]
        left = float(text.get("x")) - share * length
        label = f"{text.text!r} in {script.stem}"
        assert left >= -1 and left + length <= width + 1, f"{label} is cut off"
        assert 0 < float(text.get("y")) <= height, f"{label} is off the canvas"


@pytest.mark.parametrize("part", PARTS)
def test_every_part_page_shows_a_diagram(part):
    page = (ROOT / part / "index.md").read_text(encoding="utf-8")
    drawn = [committed(s).name for s in SCRIPTS if s.parts[-3] == part]
    assert drawn, f"{part}/figures has no script"
    assert any(f":file: figures/{name}" in page for name in drawn)


def test_there_are_eight_parts():
    assert len(PARTS) == 8
