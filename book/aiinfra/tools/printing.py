"""Print a page to PDF with Chromium, the same bytes from the same page.

Chromium stamps the time of day and a random id into a PDF; both are replaced, so that
a release made twice from one tree has one checksum.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from aiinfra.tools.browser import find_chromium
from aiinfra.tools.errors import UserError

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--allow-file-access-from-files",  # SVG and fonts beside the page
)
PAPER = {
    "A4": {"format": "A4"},
    "16:9": {"width": "1280px", "height": "720px"},
}
MARGIN = {"top": "18mm", "bottom": "18mm", "left": "18mm", "right": "18mm"}
NO_MARGIN = dict.fromkeys(MARGIN, "0")
FOOTER = (
    '<div style="width:100%;text-align:center;font:8px sans-serif;color:#555">'
    '<span class="pageNumber"></span></div>'
)
logging.getLogger("pikepdf").setLevel(logging.WARNING)  # it greets when imported
TIMEOUT_MS = 120_000
AUTHOR = "The authors of AI Infrastructure, Executed"
# All mathematics is drawn, all pictures and fonts are there.
READY = """async () => {
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  await document.fonts.ready;
  await Promise.all([...document.images].map(image => image.decode().catch(() => 0)));
}"""


@contextlib.contextmanager
def chromium() -> Iterator:
    """A headless browser that reaches no other machine.

    Raises UserError where there is none.
    """
    path = find_chromium()
    if path is None:
        raise UserError(
            "no Chromium on this machine, so nothing can be printed; install your "
            "system's chromium, or run `python -m playwright install chromium`"
        )
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def opened(browser, page: Path | str, css: str = "", query: str = "") -> Iterator:
    """A local page, loaded and at rest, with ``css`` added.

    Raises UserError if the page asks another machine for anything.
    """
    address = page if isinstance(page, str) else page.resolve().as_uri()
    outside: list[str] = []

    def guard(route) -> None:
        url = route.request.url
        if url.startswith(("file:", "data:", "blob:", "http://127.0.0.1")):
            route.continue_()
        else:
            outside.append(url)
            route.abort()

    context = browser.new_context(viewport={"width": 1280, "height": 720})
    try:
        context.set_default_timeout(TIMEOUT_MS)
        context.route("**/*", guard)
        tab = context.new_page()
        tab.goto(address + query, wait_until="load")
        if css:
            tab.add_style_tag(content=css)
        tab.evaluate(READY)
        if outside:
            raise UserError(f"{page} asks another machine for {outside[0]}")
        yield tab
    finally:
        context.close()


def print_pdf(
    page: Path | str,
    out: Path,
    *,
    title: str,
    paper: str = "A4",
    css: str = "",
    query: str = "",
    footer: bool = True,
    outline: bool = True,
) -> int:
    """Print a local page (a file or an address) and return the number of pages.

    ``paper`` is A4, with margins and page numbers, or 16:9, one slide a page.
    """
    if paper not in PAPER:
        raise ValueError(f"paper {paper!r}: expected one of {', '.join(PAPER)}")
    with chromium() as browser, opened(browser, page, css, query) as tab:
        return print_tab(
            tab, out, title=title, paper=paper, footer=footer, outline=outline
        )


def print_tab(
    tab, out: Path, *, title: str, paper: str, footer: bool, outline: bool
) -> int:
    """Print an opened page as it stands now; return the number of pages."""
    draw(tab, out, paper=paper, footer=footer, outline=outline)
    return normalise(out, title)


def draw(tab, out: Path, *, paper: str, footer: bool, outline: bool) -> None:
    """Print an opened page as it stands now, stamps and all."""
    slides = paper == "16:9"
    out.parent.mkdir(parents=True, exist_ok=True)
    tab.pdf(
        path=str(out),
        print_background=True,
        tagged=True,
        outline=outline,
        display_header_footer=footer and not slides,
        header_template="<span></span>",
        footer_template=FOOTER,
        margin=NO_MARGIN if slides else MARGIN,
        **PAPER[paper],
    )


def normalise(pdf: Path, title: str, subject: str = "") -> int:
    """Replace what differs from print to print; return the number of pages.

    The id follows from the bytes. Packing a tagged PDF's many small objects into
    streams halves it.
    """
    import pikepdf

    with pikepdf.open(pdf, allow_overwriting_input=True) as file:
        del file.docinfo
        file.docinfo = file.make_indirect(
            pikepdf.Dictionary(
                Title=title,
                Author=AUTHOR,
                Creator="AI Infrastructure, Executed",
                Producer="Chromium and qpdf",
                **({"Subject": subject} if subject else {}),
            )
        )
        file.Root.ViewerPreferences = pikepdf.Dictionary(DisplayDocTitle=True)
        if "/Outlines" in file.Root:
            file.Root.PageMode = pikepdf.Name.UseOutlines
        file.save(
            pdf,
            object_stream_mode=pikepdf.ObjectStreamMode.generate,
            deterministic_id=True,
        )
        return len(file.pages)
