"""The whole book in one file, for paper and e-readers: assembled from the built site.

Every page's article is taken as the site shows it, in the order of _toc.yml, with ids
made unique and links turned inward. A moving figure becomes the picture that its
notebook keeps for paper: all its frames, if they are few. `pdf.py` prints the result,
`epub.py` packs it.
"""

from __future__ import annotations

import argparse
import copy
import json
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from bs4 import BeautifulSoup, Tag

from aiinfra import __version__
from aiinfra.tools import build
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import committed_at

TITLE = "AI Infrastructure, Executed"
SUBJECT = "Textbook of the infrastructure that trains and serves large AI models"
OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:|//")
# Of use on a screen only.
DROPPED = "a.headerlink, script, style.bookfig, button, input, form, noscript"
# Tokens that the site prints in the colour of the text. As elements of their own they
# would be half of what describes a listing to a screen reader.
PLAIN = ", ".join(f".highlight span.{name}" for name in ("n", "nn", "p", "w", "pm"))
SVG_ID = re.compile(
    r"""(?P<head>\bid=["']|url\(#|href=["']#|\b(?:labelledby|describedby)=["'])"""
    r"""(?P<name>[^"')]+)"""
)


@dataclass
class Page:
    """One page of the book: where it stands, its title, and its article."""

    docname: str
    title: str
    caption: str  # the group of _toc.yml that it stands in
    depth: int  # 0 for a chapter, 1 for a lesson below its part
    article: Tag

    @property
    def mark(self) -> str:
        """The id at which this page begins."""
        return mark(self.docname)


@dataclass
class Drawings:
    """SVG pictures taken out of a page before its HTML is parsed.

    An HTML parser writes ``viewBox`` as ``viewbox``, which no XML reader knows.
    """

    pictures: list[str]

    def placeholder(self, svg: str) -> str:
        """An element to stand for ``svg`` while the page is worked on."""
        self.pictures.append(own_ids(svg, f"d{len(self.pictures)}-"))
        return f'<span class="drawing" data-drawing="{len(self.pictures) - 1}"></span>'

    def restore(self, text: str) -> str:
        """``text`` with every picture where its placeholder was."""
        return re.sub(
            r'<span class="drawing" data-drawing="(\d+)"></span>',
            lambda found: self.pictures[int(found[1])],
            text,
        )


def mark(docname: str) -> str:
    """The id at which a page begins."""
    return "page-" + re.sub(r"[^A-Za-z0-9]+", "-", docname)


def order(root: Path) -> Iterator[tuple[str, str, int]]:
    """(docname, caption, depth) of the pages of _toc.yml, in reading order."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    yield toc["root"], "", 0
    for group in toc.get("parts", []):
        for entry in group.get("chapters", []):
            yield from below(entry, group.get("caption", ""), 0)


def below(entry: dict, caption: str, depth: int) -> Iterator[tuple[str, str, int]]:
    """An entry of _toc.yml and what stands under it."""
    if "file" in entry:
        yield entry["file"], caption, depth
    for section in entry.get("sections", []):
        yield from below(section, caption, depth + 1)


def read(root: Path) -> tuple[list[Page], Drawings]:
    """Every page of the built site, ready to stand in one document.

    Raises UserError when the site is not built, or a page lacks its article.
    """
    site = root / "_build/html"
    drawings = Drawings([])
    listed = list(order(root))
    known = {docname for docname, _, _ in listed}
    pages = []
    for docname, caption, depth in listed:
        path = site / ("index.html" if not pages else f"{docname}.html")
        if not path.is_file():
            raise UserError(
                f"{docname} is not in the built site; `aiinfra build` first"
            )
        text = take_drawings(path.read_text(encoding="utf-8"), drawings)
        article = BeautifulSoup(text, "html.parser").select_one("article.bd-article")
        if article is None:
            raise UserError(f"{docname}: the built page has no article")
        article = copy.copy(article)
        hold_still(article, root / f"{docname}.ipynb", drawings)
        tidy(article)
        turn_inward(article, docname, known, front=listed[0][0])
        heading = article.find("h1")
        title = heading.get_text(" ", strip=True) if heading else docname
        pages.append(Page(docname, title, caption, depth, article))
    return pages, drawings


def hold_still(article: Tag, path: Path, drawings: Drawings) -> None:
    """Replace each moving figure by the picture for paper that its notebook keeps.

    Raises UserError if page and notebook disagree about how many there are.
    """
    moving = article.select("div.bookfig")
    stills = list(still_pictures(path)) if path.is_file() else []
    if len(moving) != len(stills):
        raise UserError(
            f"{path.name}: {len(moving)} moving figures on the page, {len(stills)} "
            "pictures of them in the notebook; run `aiinfra execute` on it"
        )
    for figure, svg in zip(moving, stills, strict=True):
        figure.clear()
        figure.append(BeautifulSoup(drawings.placeholder(svg), "html.parser"))


def still_pictures(path: Path) -> Iterator[str]:
    """The SVG beside each moving figure among a notebook's outputs, in order."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            page = "".join(data.get("text/html", ""))
            if 'class="bookfig"' in page and "image/svg+xml" in data:
                yield "".join(data["image/svg+xml"])


def take_drawings(text: str, drawings: Drawings) -> str:
    """``text`` with each outermost ``<svg>`` replaced by a placeholder."""
    pieces, start, depth, begin = [], 0, 0, 0
    for found in re.finditer(r"<svg\b|</svg>", text):
        if found[0] == "<svg":
            if depth == 0:
                begin = found.start()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                svg = text[begin : found.end()]
                pieces += [text[start:begin], drawings.placeholder(svg)]
                start = found.end()
    return "".join([*pieces, text[start:]])


def own_ids(svg: str, prefix: str) -> str:
    """``svg`` with every id of its own, so that two can stand in one document."""

    def rename(found: re.Match) -> str:
        names = " ".join(prefix + name for name in found["name"].split())
        return found["head"] + names

    return SVG_ID.sub(rename, svg)


def tidy(article: Tag) -> None:
    """Take out what only a screen can use; unfold what is folded."""
    for element in article.select(DROPPED):
        element.decompose()
    for fold in article.find_all("details"):
        unfold(fold)
    for token in article.select(PLAIN):
        token.unwrap()
    for heading in article.find_all(re.compile(r"h[1-6]$")):
        for empty in heading.find_all("span", id=True):
            empty.unwrap()


def unfold(fold: Tag) -> None:
    """Make what folds a box under its title; a folded cell solves an exercise."""
    summary = fold.find("summary")
    title = "Solution" if "hide" in fold.get("class", []) else ""
    if summary:
        title = title or summary.get_text(" ", strip=True)
        summary.decompose()
    fold.name = "div"
    fold.attrs = {"class": ["fold"]}
    if title:
        heading = BeautifulSoup('<p class="fold-title"></p>', "html.parser").p
        heading.string = title
        fold.insert(0, heading)


def turn_inward(article: Tag, docname: str, known: set[str], front: str) -> None:
    """Give ids the page's name, and point links at places in the one document."""
    for element in article.find_all(id=True):
        element["id"] = f"{mark(docname)}--{element['id']}"
    for element in article.find_all(attrs={"aria-labelledby": True}):
        del element["aria-labelledby"]
    here = posixpath.dirname("" if docname == front else docname)
    for link in article.find_all("a", href=True):
        href = link["href"]
        if OUTSIDE.match(href):
            continue
        path, _, anchor = href.partition("#")
        target = docname
        if path:
            target = posixpath.normpath(posixpath.join(here, path))
            target = target.removesuffix(".html")
            target = front if target in ("index", ".") else target
        if target not in known:
            link.name = "span"  # a download: there is none here
            del link["href"]
        elif anchor:
            link["href"] = f"#{mark(target)}--{anchor}"
        else:
            link["href"] = f"#{mark(target)}"
    for image in article.find_all("img", src=True):
        if not OUTSIDE.match(image["src"]):
            image["src"] = posixpath.normpath(posixpath.join(here, image["src"]))


def lost_links(pages: list[Page]) -> list[str]:
    """Links inside the book that lead nowhere."""
    places = {page.mark for page in pages}
    for page in pages:
        places |= {element["id"] for element in page.article.find_all(id=True)}
    return [
        f"{page.docname}: {link['href']}"
        for page in pages
        for link in page.article.find_all("a", href=True)
        if link["href"].startswith("#") and link["href"][1:] not in places
    ]


def ensure_site(root: Path) -> None:
    """Build the site if it isn't current: the book on paper is made from it."""
    if build.run(argparse.Namespace(part=None, force=False, jobs=2)):
        raise UserError("the site does not build, so there is nothing to make it from")


def is_current(root: Path, out: Path) -> bool:
    """Whether ``out`` was made from the book as it is now."""
    note = made_from(out)
    return (
        out.is_file()
        and note.is_file()
        and note.read_text(encoding="utf-8") == edition(root)
    )


def remember(root: Path, out: Path) -> None:
    """Note what ``out`` was made from."""
    made_from(out).write_text(edition(root), encoding="utf-8")


def made_from(out: Path) -> Path:
    """The file that says what ``out`` was made from."""
    return out.with_name(f".{out.name}.made-from")


def edition(root: Path) -> str:
    """What a PDF or an ePub depends on: the text, and the version and day it prints."""
    return f"{build.fingerprint(root)} {__version__} {committed_at(root)}"
