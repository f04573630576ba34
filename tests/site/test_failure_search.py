"""Who pastes an error into the search finds the failure index."""

import re
from urllib.parse import quote

import pytest
from conftest import ROOT

from aiinfra.tools.check.failures import ENTRY, INDEX, messages

TEXT = (ROOT / INDEX).read_text("utf-8")
# What surely stands in the reader's own message: a piece without the varying parts.
PASTED = sorted(
    {
        max(re.split("…", message), key=len).strip(" ,;:.()")
        for entry in ENTRY.finditer(TEXT)
        for message in messages(entry["body"])
    }
)


@pytest.mark.parametrize("words", PASTED)
def test_a_pasted_message_leads_to_the_failure_index(page, words):
    page.goto(f"/search.html?q={quote(words)}", wait_until="commit")
    page.locator("#search-results li a", has_text="Failure index").first.wait_for()
