"""What tests of several folders share."""

import os

import pytest
from bookmaker import Book

from aiinfra.tools.browser import find_chromium

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture
def book(tmp_path, monkeypatch) -> Book:
    """A tiny book in a temporary folder, which is also the working directory."""
    monkeypatch.chdir(tmp_path)
    return Book(tmp_path)


@pytest.fixture(scope="session")
def chromium():
    """The one headless browser of a test run; give each test its own context.

    Skips without a browser, fails if AIINFRA_REQUIRE_BROWSER=1. Playwright runs once
    per process and lives until the run ends, so what starts its own is tested through
    `aiinfra`, in a process of its own.
    """
    path = find_chromium()
    if path is None:
        reason = "no Chromium on this machine (see `make doctor`)"
        if os.environ.get("AIINFRA_REQUIRE_BROWSER") == "1":
            pytest.fail(f"{reason}, and AIINFRA_REQUIRE_BROWSER=1 demands one")
        pytest.skip(reason)
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()
