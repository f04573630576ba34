"""registry-pages: what is generated in the reference pages is up to date."""

import argparse
import csv
import io
import json
import re
import shutil
from pathlib import Path

import jsonschema
import pytest

from aiinfra import registry
from aiinfra.tools import registry_pages, status_page
from aiinfra.tools.errors import UserError

ROOT = Path(__file__).parents[1]


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A copy of the reference pages, as a checkout of its own."""
    files = registry_pages.files()
    for name in ("pyproject.toml", *registry_pages.PAGES, *files):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "book/aiinfra").mkdir()
    monkeypatch.chdir(tmp_path)
    status_page.write_page(tmp_path)  # of a book without notebooks
    return tmp_path


def run(*argv):
    parser = argparse.ArgumentParser()
    registry_pages.add_arguments(parser)
    return registry_pages.run(parser.parse_args(argv))


def record(count, **outcomes):
    """A record as ``make test-gpu`` writes it."""
    return {
        "date": "2026-12-01",
        "devices": ["NVIDIA H200"] * count,
        "count": count,
        "torch": "2.13.0",
        "machine": {"python": "3.12.3"},
        "notebooks": {
            f"04Train/{name}.ipynb": {"outcome": outcome, "cells_passed": 20}
            for name, outcome in outcomes.items()
        },
    }


def test_the_committed_pages_are_up_to_date():
    assert registry_pages.stale(ROOT) == []


@pytest.mark.parametrize(
    ("name", "kinds"), [("hardware", ("hardware", "link")), ("models", ("model",))]
)
def test_every_entry_and_figure_is_on_the_page(name, kinds):
    text = (ROOT / f"book/reference/{name}.md").read_text(encoding="utf-8")
    for kind in kinds:
        for entry in registry.entries(kind):
            assert f"| **{entry.name}** |" in text
            for figure in entry.figures:
                pattern = rf"{re.escape(entry.name)}[^;`]*:[^;]*`{figure}`"
                assert re.search(pattern, text)


def test_a_stale_page_is_named_and_rewritten(book, capsys):
    path = book / "book/reference/hardware.md"
    good = path.read_text(encoding="utf-8")
    path.write_text(good.replace(">3.35 TB/s<", ">3.53 TB/s<"), "utf-8")
    assert run("--check") == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert "hardware.md:" in line and "accelerators is not up to date" in line
    assert run() == 0
    assert path.read_text(encoding="utf-8") == good
    assert run("--check") == 0


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("x")])
def test_a_stale_download_is_named_and_rewritten(book, capsys, damage):
    path = book / "book/reference/downloads/links.csv"
    good = path.read_text(encoding="utf-8")
    damage(path)
    assert run("--check") == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert "downloads/links.csv:1: is not up to date" in line
    assert run() == 0
    assert path.read_text(encoding="utf-8") == good


@pytest.mark.parametrize("kind", registry.FILES)
def test_downloads_say_what_the_registry_says(kind):
    rows = list(csv.DictReader(io.StringIO(registry_pages.as_csv(kind))))
    data = json.loads(
        registry_pages.downloads()["book/reference/downloads/registry.json"]
    )
    figures = {
        (entry.name, name): figure
        for entry in registry.entries(kind)
        for name, figure in entry.figures.items()
    }
    assert len(rows) == len(figures)
    for row in rows:
        figure = figures[row["name"], row["figure"]]
        again = data[kind][row["name"]]["figures"][row["figure"]]
        assert float(row["value"]) == again["value"] == figure
        assert row["unit"] == again["unit"] == figure.unit
        assert row["source"] == again["source"] == figure.source
        assert row["printed"] == str(again.get("printed", ""))


def test_a_cell_is_marked_with_its_kind_and_has_a_number_to_sort_by():
    nvlink = registry.link("NVLink 4")
    assert registry_pages.value(nvlink, "one_way_bytes_per_s") == (
        '<span data-sort="4.5e+11">450 GB/s</span><sup title="derived">d</sup>'
    )
    chip = registry.hardware("H100 SXM")
    assert registry_pages.value(chip, "tdp_w") == '<span data-sort="700">700 W</span>'
    assert registry_pages.value(chip, "fp4_dense_flops") == "–"


def test_contradictions_match_the_schema_and_are_all_on_the_page():
    folder = Path(registry.__file__).parent
    schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))
    known = registry_pages.read_contradictions()
    part = {"$ref": "#/$defs/contradictions", "$defs": schema["$defs"]}
    jsonschema.validate({"contradictions": known}, part)
    with pytest.raises(jsonschema.ValidationError):
        lonely = known[0] | {"claims": known[0]["claims"][:1]}
        jsonschema.validate({"contradictions": [lonely]}, part)
    text = (ROOT / "book/reference/contradictions.md").read_text(encoding="utf-8")
    for one in known:
        assert f"### {one['title']}\n" in text
        for claim in one["claims"]:
            assert f"- {registry_pages.capital(claim['says'])} (" in text


def test_prose_around_the_tables_is_kept(book):
    path = book / "book/reference/hardware.md"
    path.write_text("A word.\n" + path.read_text(encoding="utf-8"), "utf-8")
    assert run("--check") == 0


def test_an_unknown_part_is_refused(book):
    with pytest.raises(UserError, match="nothing writes a part called 'prices'"):
        registry_pages.fill("<!-- generated: prices -->\n<!-- end -->", book)


def test_tables_scroll_by_themselves_and_can_be_reached_by_keyboard():
    table = registry_pages.links(ROOT)
    assert 'tabindex="0"' in table and 'role="region"' in table
    assert "overflow-x: auto" in table and 'aria-label="Links"' in table


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "**Never run on a GPU**"),
        ([record(1, a="passed")], "**Never run on 2 or more GPUs**"),
        ([record(1, a="passed")], "| 1 × NVIDIA H200 | 2.13.0, Python 3.12.3 |"),
        (
            [record(1, a="passed", b="failed")],
            "1 of 2 passed (40 cells); failed: 04Train/b",
        ),
        ([record(1), record(8, a="passed")], "The largest recorded run had 8 GPUs"),
    ],
)
def test_status_says_what_the_records_say(book, records, said):
    folder = book / registry_pages.RUNS
    folder.mkdir()
    for number, one in enumerate(records):
        (folder / f"{number}.json").write_text(json.dumps(one), encoding="utf-8")
    run()
    assert said in (book / "book/reference/status.md").read_text(encoding="utf-8")
