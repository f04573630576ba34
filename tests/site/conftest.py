"""The built site, served, for all tests that look at it."""

import re
from functools import cache
from pathlib import Path

import pytest
from pagechecks import visit

from aiinfra.tools import build
from aiinfra.tools.serve import serving

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the site, built from the tree as it is now."""
    out = ROOT / "_build/html"
    with build.one_build_at_a_time(ROOT / "_build"):
        if not build.is_current(ROOT, out):
            made_from = build.fingerprint(ROOT)
            warnings = build.build(ROOT, out)
            assert not warnings, "\n".join(warnings)
            build.remember(out, made_from)
    return out


@pytest.fixture(scope="session")
def base(site) -> str:
    """The address of the site."""
    with serving(site) as address:
        yield address


@pytest.fixture(scope="session")
def visited(chromium, base):
    """visited(path) -> Visit, each page loaded once for all tests."""
    return cache(lambda path: visit(chromium, base, path))


@pytest.fixture
def page(chromium, base):
    """A fresh browser page at laptop size, with access to the clipboard."""
    context = chromium.new_context(
        viewport={"width": 1440, "height": 900},
        base_url=base,
        permissions=["clipboard-read", "clipboard-write"],
    )
    yield context.new_page()
    context.close()


def toc_pages() -> list[str]:
    """Site paths of the pages in _toc.yml, in reading order; index.html first."""
    import yaml

    def files(entry: dict):
        if "file" in entry:
            yield entry["file"]
        for key in ("parts", "chapters", "sections"):
            for child in entry.get(key, []):
                yield from files(child)

    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    return [
        "index.html",
        *(f"{re.sub(r'.(md|ipynb)$', '', f)}.html" for f in files(toc)),
    ]
