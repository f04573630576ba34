"""JavaScript and Python draw the same picture: same string for the same state."""

import json
import math
import random
import re

import pytest
from figure_samples import (
    make_gather,
    make_holds,
    make_sweep,
    make_texts,
    make_timeline,
    make_waves,
)

from aiinfra.figures import _draw as d
from aiinfra.figures import _holds, _sweep, _timeline
from aiinfra.figures._base import JS, module

WIDTHS = [300, 328, 513, 680, 727]

CALL = """async ([file, name, calls]) => {
  const module = await import(`./figures/${file}.js`);
  return calls.map((args) => module[name](...args));
}"""


def call(page, file: str, name: str, calls: list[list]) -> list:
    return page.evaluate(CALL, [file, name, calls])


def camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda m: m[1].upper(), name)


def numbers() -> list[float]:
    """Ordinary values, ties, powers of ten and their neighbours, of both signs."""
    chance = random.Random(7)
    out = [chance.uniform(-1, 1) * 10 ** chance.randint(-9, 12) for _ in range(400)]
    out += [n / 8 for n in range(-40, 4000, 37)] + [0.05 * n for n in range(200)]
    for exponent in range(-6, 10):
        power = float(f"1e{exponent}")
        out += [power, math.nextafter(power, 0), math.nextafter(power, 1e300)]
    return [*out, 0.0, 999.5, 9.995, 0.9995, 999_999.5]


@pytest.mark.parametrize("name", ["fixed", "reading", "num", "exponent10"])
def test_number_formats(module_page, name):
    values = [v for v in numbers() if v or name != "exponent10"]
    expected = [getattr(d, name)(v) for v in values]
    assert call(module_page, "common", name, [[v] for v in values]) == expected


@pytest.mark.parametrize("name", ["linear_ticks", "log_ticks"])
def test_ticks(module_page, name):
    chance = random.Random(3)
    calls = []
    for _ in range(300):
        low = chance.uniform(0.1, 10) * 10 ** chance.randint(-6, 6)
        calls.append([low, low * chance.uniform(1.05, 10 ** chance.randint(1, 8)), 6])
        calls.append([low, low * 1e3, chance.randint(1, 12)])
    expected = [[list(t) for t in getattr(d, name)(*c)] for c in calls]
    got = call(module_page, "common", camel(name), calls)
    for e, g in zip(expected, got, strict=True):
        assert [text for _, text in g] == [text for _, text in e]
        assert [v for v, _ in g] == pytest.approx([v for v, _ in e], rel=1e-12)


def test_texts(module_page):
    texts = ["", "all-reduce 3", "Wait – (µs) 10⁻⁵ → ranks", "lorem ipsum " * 9, "MMMM"]
    for name, rest in [("text_width", [12]), ("shorten", [40, 12]), ("wrap", [90, 13])]:
        expected = [getattr(d, name)(t, *rest) for t in texts]
        assert call(
            module_page, "common", camel(name), [[t, *rest] for t in texts]
        ) == (expected)


def states(figure):
    chance = random.Random(11)
    for _ in range(6):
        if figure.fig == "sweep":
            yield [chance.randrange(figure.data["shape"][axis]) for axis in (0, 1, 3)]
        elif figure.fig == "timeline":
            frame = chance.randrange(len(figure.data["frames"]))
            event = chance.randrange(-1, len(figure.data["frames"][frame]["events"]))
            yield [frame, event, chance.choice([0, 0.012345, figure.data["end_s"]])]
        else:
            cells = len(figure.data["rows"]) * len(figure.data["columns"])
            yield [
                chance.randrange(len(figure.data["steps"])),
                chance.randrange(-1, cells),
            ]


PYTHON = {"sweep": _sweep, "timeline": _timeline, "holds": _holds}


@pytest.mark.parametrize(
    "make",
    [
        make_sweep,
        make_waves,
        lambda: make_sweep(dtype="int16", y_range=(1, 1e5)),
        lambda: make_sweep(log_x=False, log_y=False, labels=["a", "b", "c"]),
        make_timeline,
        make_holds,
        lambda: make_holds(8),
        make_gather,
        make_texts,
    ],
)
def test_scenes_are_the_same_string(module_page, make):
    figure = make()
    data = json.loads(json.dumps(figure.data))
    calls = [
        [data, *state, width, still]
        for state in states(figure)
        for width in WIDTHS
        for still in (True, False)
    ]
    expected = [PYTHON[figure.fig].scene(*c) for c in calls]
    got = call(module_page, figure.fig, "scene", calls)
    assert len(set(got)) > len(calls) // 4  # states and widths do differ
    for e, g in zip(expected, got, strict=True):
        assert g == e


@pytest.mark.parametrize("make", [make_sweep, make_timeline, make_holds])
def test_the_widget_s_module_is_the_site_s(module_page, make):
    figure = make()
    assert figure._esm == module(figure.fig)
    assert not re.search(r"^import |from \"\.", str(figure._esm), re.MULTILINE)
    assert (JS / "common.js").read_text(encoding="utf-8") in str(figure._esm)
    state = next(states(figure))
    got = module_page.evaluate(
        """async ([name, source, data, rest]) => {
          const blob = new Blob([source], {type: "text/javascript"});
          const widget = await import(URL.createObjectURL(blob));
          const site = await import(`./figures/${name}.js`);
          return [widget.scene(data, ...rest) === site.scene(data, ...rest),
                  typeof widget.default.render];
        }""",
        [figure.fig, str(figure._esm), figure.data, [*state, 680, True]],
    )
    assert got == [True, "function"]
