"""registry-pages: what is generated in the reference pages is up to date."""

import argparse
import json
import re
import shutil
from pathlib import Path

import pytest

from aiinfra import registry
from aiinfra.tools import registry_pages, status_page
from aiinfra.tools.errors import UserError

ROOT = Path(__file__).parents[1]


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A copy of the reference pages, as a checkout of its own."""
    for name in ("pyproject.toml", *registry_pages.PAGES):
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


def test_every_entry_and_figure_is_on_the_page():
    text = (ROOT / "book/reference/hardware.md").read_text(encoding="utf-8")
    for kind in registry.FILES:
        for entry in registry.entries(kind):
            assert f"| **{entry.name}** |" in text
            for figure in entry.figures:
                assert re.search(rf"{entry.name}[^;`]*:[^;]*`{figure}`", text)


def test_a_stale_page_is_named_and_rewritten(book, capsys):
    path = book / "book/reference/hardware.md"
    good = path.read_text(encoding="utf-8")
    path.write_text(good.replace("3.35 TB/s (spec)", "3.53 TB/s (spec)"), "utf-8")
    assert run("--check") == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert "hardware.md:" in line and "accelerators is not up to date" in line
    assert run() == 0
    assert path.read_text(encoding="utf-8") == good
    assert run("--check") == 0


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
