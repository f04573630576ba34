"""Print the whole book as one PDF, with page numbers in its contents."""

from __future__ import annotations

import argparse
import contextlib
import html
import json
import shutil
import subprocess
import time
from pathlib import Path

from aiinfra import __version__
from aiinfra.tools import paper, printing
from aiinfra.tools.errors import UserError
from aiinfra.tools.paper import TITLE
from aiinfra.tools.root import committed_at, find_root, relative

OUT = Path("_build/book.pdf")
STYLES = (
    "pygments.css",
    "styles/theme.css",
    "styles/pydata-sphinx-theme.css",
    "styles/sphinx-book-theme.css",
    "mystnb.*.css",
    "sphinx-design.min.css",
    "css/book.css",
)
PRINT = Path("book/static/css/print.css")
PASSES = 3  # numbers go in, the contents may grow by a page, numbers go in again


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument(
        "--force", action="store_true", help="print even if nothing has changed"
    )


def run(args: argparse.Namespace) -> int:
    """Print the book; 0 done."""
    root = find_root()
    out = root / OUT
    paper.ensure_site(root)
    if not args.force and paper.is_current(root, out):
        print(f"PDF unchanged: {relative(root, out)}")
        return 0
    warn_of_missing_letters()
    pages = make(root, out)
    paper.remember(root, out)
    size_mb = out.stat().st_size / 1e6
    print(f"printed {pages} pages, {size_mb:.1f} MB: {relative(root, out)}")
    return 0


def warn_of_missing_letters() -> None:
    """Say so if this machine's fonts lack the glossary's Japanese and Chinese."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        for language in ("ja", "zh"):
            words = ["fc-list", f":lang={language}", "family"]
            if not subprocess.check_output(words, text=True).strip():
                print(
                    f"no font here has the letters of :lang={language}: the glossary "
                    "prints boxes for them; Debian's fonts-noto-cjk has them"
                )


def make(root: Path, out: Path) -> int:
    """Print the book into ``out``; return the number of pages."""
    folder = root / "_build/paper"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pages, drawings = paper.read(root)
    if lost := paper.lost_links(pages):
        raise UserError(f"a link leads nowhere on paper: {lost[0]}")
    sheet = folder / "index.html"
    sheet.write_text(document(root, pages, drawings), encoding="utf-8")
    fresh = folder / "book.pdf"
    with printing.chromium() as browser, printing.opened(browser, sheet) as tab:
        numbers: dict[str, int] = {}
        for _ in range(PASSES):
            printing.draw(tab, fresh, paper="A4", footer=True, outline=True)
            found = page_numbers(fresh)
            if found == numbers:
                break
            numbers = found
            tab.evaluate(FILL, numbers)
        else:
            raise UserError("the contents' page numbers do not settle")
    count = printing.normalise(fresh, TITLE, paper.SUBJECT)
    shutil.move(fresh, out)
    return count


def page_numbers(pdf: Path) -> dict[str, int]:
    """The page on which each place that something links to stands, from 1."""
    import pikepdf

    with pikepdf.open(pdf) as file:
        number = {page.objgen: page.index + 1 for page in file.pages}
        places = file.Root.Dests.items()
        return {name.lstrip("/"): number[place[0].objgen] for name, place in places}


FILL = """numbers => {
  for (const place of document.querySelectorAll(".book-contents [data-page]"))
    place.textContent = numbers[place.dataset.page] ?? "";
}"""


def document(root: Path, pages: list[paper.Page], drawings: paper.Drawings) -> str:
    """The whole book as one HTML page: title, contents, every article."""
    static = root / "_build/html/_static"
    styles = "\n".join(
        f'<link rel="stylesheet" href="../html/_static/{relative(static, path)}">'
        for pattern in STYLES
        for path in sorted(static.glob(pattern))
    )
    config = mathjax_settings(root)
    bodies = "\n".join(body(page) for page in pages)
    return drawings.restore(
        f"""<!doctype html>
<html lang="en" data-theme="light" data-mode="light">
<head>
<meta charset="utf-8">
<title>{TITLE}</title>
{styles}
<style>{(root / PRINT).read_text(encoding="utf-8")}</style>
<script>window.MathJax = {config}</script>
<script defer src="../html/_static/vendor/mathjax/tex-chtml.js"></script>
</head>
<body>
{title_page(root)}
{contents(pages)}
{bodies}
</body>
</html>
"""
    )


def mathjax_settings(root: Path) -> str:
    """The site's own settings for mathematics, for paper, as JavaScript."""
    import yaml

    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    settings = dict(config["sphinx"]["config"].get("mathjax3_config", {}))
    settings["options"] = {
        "enableAssistiveMml": False,
        "processHtmlClass": "tex2jax_process|mathjax_process|math",
    }
    return json.dumps(settings)


def title_page(root: Path) -> str:
    """The title and the edition, and on the next page who may do what with the book."""
    edition = f"Version {__version__}{dated(root)}"
    return f"""<section class="title-page">
<img src="../html/_static/img/mark.svg" alt="">
<p class="book-title">{TITLE}</p>
<p>How large AI models are trained and served, from one chip to a hundred thousand.
A textbook whose pages are programs.</p>
<p class="edition">{edition}</p>
</section>
<section class="colophon">
<p><strong>{TITLE}</strong><br>{edition}</p>
<p>By its authors. You may share and adapt the text and the figures if you say where
they are from (<a href="https://creativecommons.org/licenses/by/4.0/">CC BY 4.0</a>),
and the code under the
<a href="https://www.apache.org/licenses/LICENSE-2.0">Apache License&nbsp;2.0</a>.</p>
<p>These are the pages of the site. What moves there is a still picture here; hints,
answers and solutions, folded there, are open. The notebooks, to be run, come with each
release.</p>
</section>"""


def dated(root: Path) -> str:
    """``, 1 December 2026``: the day of the last change, or nothing without git."""
    seconds = committed_at(root)
    if not seconds:
        return ""
    day = time.strftime("%d %B %Y", time.gmtime(seconds))
    return f", {day.lstrip('0')}"


def contents(pages: list[paper.Page]) -> str:
    """The contents: every page by its group, each with a place for its number."""
    lines, caption = [], None
    for page in pages[1:]:
        if page.caption != caption:
            caption = page.caption
            lines.append(f'<p class="contents-group">{html.escape(caption)}</p>')
        lines.append(
            f'<p class="contents-line depth-{page.depth}"><a href="#{page.mark}">'
            f"<span>{html.escape(page.title)}</span><i></i>"
            f'<span data-page="{page.mark}">000</span></a></p>'
        )
    title = '<p class="contents-title">Contents</p>'
    return "\n".join([f'<nav class="book-contents">{title}', *lines, "</nav>"])


def body(page: paper.Page) -> str:
    """One page of the book, with the theme's own classes around it."""
    for heading in page.article.find_all(["h1", "h2", "h3", "h4"]):
        # Chromium nests the outline by it: a lesson stands below its part.
        heading["aria-level"] = int(heading.name[1]) + page.depth
    return (
        f'<div class="book-page" id="{page.mark}"><main class="bd-main">'
        f'<div class="bd-content">{page.article}</div></main></div>'
    )
