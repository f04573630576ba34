"""Which Chromium this machine has: its own, or the one that Playwright fetched."""

import os
import shutil
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> Path | None:
    """The browser that the site's tests drive, or None."""
    for name in NAMES:
        if path := shutil.which(name):
            return Path(path)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    with sync_playwright() as playwright:
        path = Path(playwright.chromium.executable_path)
    return path if os.access(path, os.X_OK) else None
