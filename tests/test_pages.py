"""The code in prose pages runs and yields the results that the page prints."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    path
    for pattern in ("[0-9][0-9]*/*.md", "book/*.md", "book/*/*.md")
    for path in ROOT.glob(pattern)
    if ">>> " in path.read_text(encoding="utf-8")
)


def failures(text: str, name: str) -> list[str]:
    """The examples of a page that print something else than it says."""
    # A page's examples end at the closing fence, which is no part of the output.
    code = re.sub(r"^```.*$", "", text, flags=re.M)
    test = doctest.DocTestParser().get_doctest(code, {}, name, name, 0)
    report: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    return report


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_code_in_the_page_prints_what_the_page_says(page):
    report = failures(page.read_text(encoding="utf-8"), page.name)
    assert not report, "".join(report)


def test_a_wrong_result_is_seen():
    page = "Six bytes:\n\n```pycon\n>>> 2 * 3\n7\n```\n"
    assert "Expected:\n    7" in "".join(failures(page, "page"))
    assert not failures(page.replace("7", "6"), "page")
