"""Pack the whole book as an ePub, its mathematics as MathML."""

from __future__ import annotations

import argparse
import html
import os
import re
import shutil
import time
import uuid
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

from bs4 import BeautifulSoup, Tag

from aiinfra import __version__
from aiinfra.tools import paper
from aiinfra.tools.errors import UserError
from aiinfra.tools.paper import TITLE
from aiinfra.tools.printing import AUTHOR
from aiinfra.tools.root import committed_at, find_root, relative

OUT = Path("_build/book.epub")
STYLE = Path("book/static/css/epub.css")
COVER = Path("book/static/img/cover.png")
HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
# pandoc keeps an id on these; on others it would be lost, and links with it.
KEEPS_ID = {"a", "div", "img", "span", *HEADINGS}
ATTRIBUTES = {"id", "class", "href", "src", "alt", "lang", "start", "colspan"}
READER = "html+tex_math_single_backslash"
# On paper of its own, also where the reader turns the page dark.
PLATE = "color:#1f2933;background:#fff"
ANNOTATION = re.compile(rb"<annotation\b.*?</annotation>", re.DOTALL)
SVG = "http://www.w3.org/2000/svg"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument(
        "--force", action="store_true", help="pack even if nothing has changed"
    )


def run(args: argparse.Namespace) -> int:
    """Pack the book; 0 done."""
    root = find_root()
    out = root / OUT
    paper.ensure_site(root)
    if not args.force and paper.is_current(root, out):
        print(f"ePub unchanged: {relative(root, out)}")
        return 0
    chapters = make(root, out)
    paper.remember(root, out)
    size_mb = out.stat().st_size / 1e6
    print(f"packed {chapters} chapters, {size_mb:.1f} MB: {relative(root, out)}")
    return 0


def make(root: Path, out: Path) -> int:
    """Pack the book into ``out``; return the number of chapters."""
    folder = root / "_build/epub"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pages, drawings = paper.read(root)
    if lost := paper.lost_links(pages):
        raise UserError(f"a link leads nowhere in the ePub: {lost[0]}")
    for page in pages:
        simplify(page, drawings, root, folder)
    begin_at_titles(pages)
    sheet = folder / "index.html"
    text = "\n".join(page.article.decode_contents() for page in pages)
    sheet.write_text(f"<!doctype html><body>{text}</body>", encoding="utf-8")
    fresh = folder / "book.epub"
    pandoc(root, sheet, fresh)
    drop_annotations(fresh)
    shutil.move(fresh, out)
    return len(pages)


def pandoc(root: Path, sheet: Path, out: Path) -> None:
    """Turn the one page into an ePub with one file per page of the book.

    Raises UserError for what pandoc warns of, such as TeX that it can't translate.
    """
    import pypandoc

    metadata = {
        "title": TITLE,
        "author": AUTHOR,
        "lang": "en",
        "date": time.strftime("%Y-%m-%d", time.gmtime(committed_at(root))),
        "rights": "Text and figures: CC BY 4.0. Code: Apache-2.0.",
        "subject": paper.SUBJECT,
        "identifier": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, TITLE + __version__)}",
    }
    words = [f"--metadata={key}:{value}" for key, value in metadata.items()]
    words += ["--fail-if-warnings", "--mathml", "--syntax-highlighting=monochrome"]
    words += ["--toc", "--toc-depth=2", "--split-level=1"]
    words += [f"--css={root / STYLE}", f"--epub-cover-image={root / COVER}"]
    words += [f"--resource-path={sheet.parent}", "--epub-title-page=true"]
    # pandoc writes the time of day into the file unless it is told another.
    before = os.environ.get("SOURCE_DATE_EPOCH")
    os.environ["SOURCE_DATE_EPOCH"] = str(committed_at(root))
    try:
        pypandoc.convert_file(
            str(sheet), "epub3", format=READER, outputfile=str(out), extra_args=words
        )
    except RuntimeError as error:
        raise UserError(f"no ePub, since pandoc says: {error}") from error
    finally:
        if before is None:
            del os.environ["SOURCE_DATE_EPOCH"]
        else:
            os.environ["SOURCE_DATE_EPOCH"] = before


def drop_annotations(epub: Path) -> None:
    """Take the TeX out of the MathML: some e-readers print it beside the formula."""
    with zipfile.ZipFile(epub) as file:
        entries = [(info, file.read(info)) for info in file.infolist()]
    with zipfile.ZipFile(epub, "w") as file:
        for info, data in entries:
            if info.filename.endswith(".xhtml"):
                data = ANNOTATION.sub(b"", data)
            file.writestr(info, data)


def simplify(
    page: paper.Page, drawings: paper.Drawings, root: Path, folder: Path
) -> None:
    """Reduce a page to what an e-reader shows: text, code, pictures, mathematics."""
    article = page.article
    for block in article.select("div.highlight"):
        listing(block)
    for title in article.select("p.fold-title, p.admonition-title"):
        title.name = "div"  # pandoc keeps a class there
    for place in article.select("span.drawing"):
        picture(place, drawings, folder, page)
    for image in article.find_all("img", src=True):
        source = root / "_build/html" / image["src"]
        if source.is_file():
            shutil.copyfile(source, folder / source.name)
            image["src"] = source.name
    maker = BeautifulSoup("", "html.parser")
    for section in article.find_all("section"):
        # pandoc begins a chapter only at a heading that nothing encloses.
        section.find(HEADINGS)["id"] = section["id"]
        section.unwrap()
    for element in article.find_all(True):
        element.attrs = {k: v for k, v in element.attrs.items() if k in ATTRIBUTES}
        if "id" in element.attrs and element.name not in KEEPS_ID:
            element.insert(0, maker.new_tag("span", id=element.attrs.pop("id")))


def begin_at_titles(pages: list[paper.Page]) -> None:
    """Point links to a page at its title, which begins the page's file."""
    title = {page.mark: page.article.find("h1")["id"] for page in pages}
    for page in pages:
        for link in page.article.find_all("a", href=True):
            target = link["href"].removeprefix("#")
            link["href"] = "#" + title[target] if target in title else link["href"]


def listing(block: Tag) -> None:
    """A coloured listing as plain code; pandoc colours it for e-readers."""
    code = block.get_text().rstrip("\n")
    kind = " ".join(block.parent.get("class", [])) if block.parent else ""
    language = "python" if "python" in kind or "pycon" in kind else "text"
    escaped = html.escape(code, quote=False)
    fresh = BeautifulSoup(
        f'<pre class="{language}"><code>{escaped}</code></pre>', "html.parser"
    )
    block.replace_with(fresh)


def picture(
    place: Tag, drawings: paper.Drawings, folder: Path, page: paper.Page
) -> None:
    """An inline drawing as a file of its own, with its description as alt text.

    Raises UserError for a drawing that is not well-formed XML or has no description.
    """
    number = int(place["data-drawing"])
    try:
        root = ET.fromstring(drawings.pictures[number])
    except ET.ParseError as error:
        raise UserError(f"{page.docname}: a drawing is not XML: {error}") from error
    if root.get("aria-hidden") == "true":
        place.decompose()  # an ornament
        return
    alt = description(root)
    if not alt:
        raise UserError(f"{page.docname}: a drawing has no description")
    root.set("style", f"{root.get('style', '')};{PLATE}".lstrip(";"))
    ET.register_namespace("", SVG)
    ET.ElementTree(root).write(folder / f"drawing-{number}.svg", encoding="utf-8")
    maker = BeautifulSoup("", "html.parser")
    place.replace_with(maker.new_tag("img", src=f"drawing-{number}.svg", alt=alt))


def description(svg: ET.Element) -> str:
    """What a screen reader says of a drawing: its label, or its title and desc."""
    if label := svg.get("aria-label"):
        return label
    named = (svg.find(f"{{{SVG}}}{tag}") for tag in ("title", "desc"))
    return " ".join(
        part.text.strip() for part in named if part is not None and part.text
    )
