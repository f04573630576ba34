"""Build the decks of slides into _build/slides; with --pdf print them, too.

`aiinfra build` puts the same decks into the site, at <part>/slides/<deck>.html.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from aiinfra.tools import build as site
from aiinfra.tools import decks, printing
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import find_root, part_folders, relative

OUT = Path("_build/slides")
LIGHT, DARK = "github-light", "github-dark"  # as the pages
SHARED = ("book/static/vendor/mathjax", "book/static/img/mark.svg")
REVEAL = ("dist/reveal.css", "dist/reveal.js", "plugin/notes/notes.js", "LICENSE")
# On paper every slide is there, for bookmarks and screen readers too, and a link to a
# file beside the deck leads nowhere.
PREPARE = """() => {
  for (const slide of document.querySelectorAll('section.slide')) {
    slide.removeAttribute('aria-hidden');
    slide.removeAttribute('hidden');
  }
  for (const link of document.querySelectorAll('section.slide a[href]'))
    if (!/^([a-z]+:|#)/.test(link.getAttribute('href'))) link.removeAttribute('href');
}"""
LAID_OUT = "document.querySelector('.pdf-page') && Reveal.isReady()"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``aiinfra slides``."""
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="for example 04Train; default all"
    )
    parser.add_argument(
        "--pdf", action="store_true", help="print each deck, one slide a page"
    )
    parser.add_argument(
        "--force", action="store_true", help="build even if nothing has changed"
    )


def run(args: argparse.Namespace) -> int:
    """Build the decks asked for; 0 done, 1 a deck has warnings."""
    root = find_root()
    parts = [site.find_part(root, name) for name in args.parts]
    parts = parts or [folder.name for folder in part_folders(root)]
    if not decks.find(root, parts):
        raise UserError(f"no deck in {', '.join(parts)}; decks are <part>/slides/*.md")
    if warnings := make(root, parts, force=args.force):
        print("\n".join(warnings), file=sys.stderr)
        print("aiinfra: not built: mend the decks named above", file=sys.stderr)
        return 1
    made = [root / OUT / page for page in pages(root, parts)]
    if args.pdf:
        made = print_decks(root, parts)
    print("\n".join(relative(root, path) for path in made))
    return 0


def pages(root: Path, parts: list[str] | None) -> Iterator[Path]:
    """Where the decks go below a site: ``04Train/slides/ddp.html``."""
    for path in decks.find(root, parts):
        yield path.relative_to(root).with_suffix(".html")


def make(root: Path, parts: list[str], force: bool = False) -> list[str]:
    """Build the decks of ``parts`` that have changed; return the warnings."""
    out = root / OUT
    with site.one_build_at_a_time(root / "_build"):
        made_from = site.fingerprint(root)
        stale = [part for part in parts if force or not current(out, part, made_from)]
        warnings = build(root, out, stale, pages_at=address(root) or "../html/")
        for part in [] if warnings else stale:
            for page in pages(root, [part]):
                (out / page).with_suffix(".pdf").unlink(missing_ok=True)
            note(out, part).write_text(made_from, encoding="utf-8")
    return warnings


def current(out: Path, part: str, made_from: str) -> bool:
    """Whether the decks of a part in ``out`` are of the tree as it is now."""
    path = note(out, part)
    return path.is_file() and path.read_text(encoding="utf-8") == made_from


def note(out: Path, part: str) -> Path:
    """The file that says what a part's decks were made from."""
    return out / f".{part}.made-from"


def build(
    root: Path, out: Path, parts: list[str] | None = None, pages_at: str = ""
) -> list[str]:
    """Build decks with all that they load into ``out``; return the warnings.

    ``pages_at`` leads from ``out`` to the site's pages. Needs sphinx-revealjs.
    """
    found = list(pages(root, parts))
    if not found:
        return []
    fresh, doctrees = out.with_name(".slides.new"), out.with_name(".slides.doctrees")
    for folder in (fresh, doctrees):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        config = configuration(root, found, pages_at)
        warnings = site.configured(root, fresh, doctrees, config, 1, "revealjs")
        if not warnings:
            for page in found:
                copy(fresh / page, out / page)
            add_assets(root, out)
    finally:
        for folder in (fresh, doctrees):
            shutil.rmtree(folder, ignore_errors=True)
    return warnings


def settings(root: Path) -> dict:
    """What `_config.yml` says."""
    import yaml

    return yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))


def address(root: Path) -> str:
    """Where the site is, with a slash at its end; nothing if it has no address yet."""
    given = os.environ.get("AIINFRA_SITE_URL", settings(root)["html"]["baseurl"])
    return given.rstrip("/") + "/" if given else ""


def configuration(root: Path, found: list[Path], pages_at: str) -> dict:
    """Sphinx's configuration of decks: the book's own where they have one in common."""
    book = settings(root)
    shared = book["sphinx"]["config"]
    names = [page.with_suffix("").as_posix() for page in found]
    kept = {
        key: value
        for key, value in shared.items()
        if key.startswith("bibtex_")
        or key in ("language", "mathjax3_config", "project")
    }
    return kept | {
        "author": book["author"],
        "extensions": [
            "myst_parser",
            "sphinxcontrib.bibtex",
            "sphinx_revealjs",
            "aiinfra.tools.slidesext",
        ],
        # Said here, because Sphinx keeps what an earlier build in this process added.
        "source_suffix": {".md": "markdown"},
        "root_doc": names[0],
        "include_patterns": [f"{name}.md" for name in names],
        "exclude_patterns": [*book["exclude_patterns"], "book"],
        "templates_path": ["book/static/templates"],
        "myst_enable_extensions": book["parse"]["myst_enable_extensions"],
        "html_baseurl": address(root),
        "html_copy_source": False,
        "html_use_index": False,
        "pygments_style": LIGHT,
        "deck_pages": pages_at,
        "nitpicky": True,
    }


def add_assets(root: Path, out: Path) -> None:
    """Put what every deck loads under ``out``: reveal.js, styles, fonts, figures."""
    from pygments.formatters import HtmlFormatter

    static = out / "_static"
    reveal = resources.files("sphinx_revealjs") / "_static/revealjs"
    for name in REVEAL:
        with resources.as_file(reveal / name) as path:
            copy(path, static / "revealjs" / path.name)
    for name in SHARED:
        copy(root / name, static / Path(name).relative_to("book/static"))
    for name in ("css/slides.css", "js/deck.js"):
        copy(root / "book/static" / name, static / name)
    copy(root / "book/aiinfra/figures/js", static / "bookfig")
    colours = "\n".join(
        HtmlFormatter(style=style).get_style_defs(f'[data-theme="{theme}"] .highlight')
        for theme, style in (("light", LIGHT), ("dark", DARK))
    )
    (static / "css/slides-code.css").write_text(colours + "\n", encoding="utf-8")


def copy(source: Path, target: Path) -> None:
    """Copy a file or a folder, over what may be there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, target)


def print_part(root: Path, part: str) -> list[Path]:
    """A part's decks as PDFs, built and printed where they are not yet."""
    if warnings := make(root, [part]):
        raise UserError(f"the slides of {part} do not build: {warnings[0]}")
    return print_decks(root, [part])


def print_decks(root: Path, parts: list[str]) -> list[Path]:
    """Print those built decks of ``parts`` that have no PDF yet; return all PDFs."""
    found = list(zip(decks.find(root, parts), pages(root, parts), strict=True))
    wanted = [pair for pair in found if not pdf_of(root, pair[1]).is_file()]
    if wanted:
        with printing.chromium() as browser:
            for path, page in wanted:
                print_deck(browser, root, path, page)
    return [pdf_of(root, page) for _, page in found]


def pdf_of(root: Path, page: Path) -> Path:
    """The PDF of a built deck, beside it."""
    return (root / OUT / page).with_suffix(".pdf")


def print_deck(browser, root: Path, path: Path, page: Path) -> None:
    """Print one deck; UserError if it comes out with more pages than slides."""
    deck = decks.read(path)
    out = pdf_of(root, page)
    with printing.opened(browser, root / OUT / page, query="?print-pdf") as tab:
        tab.wait_for_function(LAID_OUT)
        tab.evaluate(PREPARE)
        printed = printing.print_tab(
            tab, out, title=deck.title, paper="16:9", footer=False, outline=True
        )
    if printed != len(deck.slides):
        out.unlink()
        raise UserError(
            f"{relative(root, path)}: {len(deck.slides)} slides make {printed} pages"
        )
