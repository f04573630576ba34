"""First mentions of glossary terms are links; nothing else is."""

import itertools
import re
import subprocess
import sys

import pytest
from bookmaker import Book, code, printed, text
from conftest import toc_pages
from test_site_build import built, make_book

from aiinfra.tools.terms import pattern

GLOSSARY = """\
# Glossary

<!-- glossary: not hook -->

:::{glossary}
all-reduce
  A sum for every {term}`rank`.

DDP
  Copies that agree.

FLOP
FLOP/s
  One operation, and a rate.

hook
  A function that is called back.

latency
  Time.

rank
  A process. Has a latency.

ring
  A circle of ranks.

world size
  How many.
:::
"""
PAGE = """\
# A rank in a heading

**A rank in a line that stands for a heading?**

The low-rank `rank` of $rank$, rank-one and [the rank](https://example.org/) come
before two ranks. Another rank.

:::{note}
The message said “rank 1: latency”. Latencies add up. In Ring Attention there is a
ring. Another hook: FLOP/B, then 3 FLOPs, then FLOP/s.
:::

| latency | world size |
| --- | --- |
| 1 | 2 |

The world
size of DDP, not ddp. All
reduces end it, {term}`with an all-reduce <all-reduce>`.
"""
OTHER = """\
# Another page

<!-- glossary: not ring,
world size -->

A ring of this world size has {term}`a rank <rank>` and a rank.
"""
SINGLE = """
import sys
from aiinfra.tools import build
from pathlib import Path
from jupyter_book.config import get_final_config
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils
root = Path(sys.argv[1])
config, _ = get_final_config(user_yaml=root / "_config.yml", sourcedir=root,
    cli_config={"latex_individualpages": False, "nitpicky": True})
with patch_docutils(), docutils_namespace():
    Sphinx(srcdir=root, confdir=None, outdir=root / "single", doctreedir=root / "trees",
        buildername="singlehtml", confoverrides=config, status=None,
        freshenv=True, warningiserror=True).build(force_all=True)
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Book:
    """A tiny book with a glossary, two pages and a lesson, as a site."""
    book = make_book(tmp_path_factory.mktemp("terms"))
    book.page("book/reference/glossary.md", GLOSSARY)
    book.page("01Part/03-page.md", PAGE)
    book.page("01Part/04-other.md", OTHER)
    cell = code("print('rank')", "print")
    cell.outputs = [printed("rank\n")]
    prose = text("Each rank has a latency.", "end")
    book.lesson("01Part/05-lesson", text("# Lesson"), cell, prose)
    warnings, _ = built(book)
    assert warnings == []
    return book


def linked(html: str) -> list[tuple[str, str]]:
    """(text, entry) of every link to a glossary entry in an article."""
    article = html[html.index("<article") : html.index("</article>")]
    links = re.findall(
        r'<a class="reference internal" href="[^"]*#term-([^"]+)">'
        r'<span class="xref std std-term">([^<]+)</span></a>',
        article,
    )
    return [(" ".join(said.split()), entry) for entry, said in links]


def on_page(book: Book, name: str) -> list[tuple[str, str]]:
    """Links to the glossary on a page of the tiny site."""
    return linked((book.root / "_build/html" / name).read_text("utf-8"))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("rank", ["rank", "Rank", "ranks", "rank’s"]),
        ("latency", ["latency", "latencies"]),
        ("micro-batch", ["micro-batch", "micro-batches", "micro batch", "Micro‑batch"]),
        ("FLOP/s", ["FLOP/s"]),
        ("DDP", ["DDP", "DDPs"]),
        ("α–β model", ["α–β model", "α–β models"]),
    ],
)
def test_names_are_found(name, found):
    for said in found:
        match = pattern(["bandwidth", name]).search(f"a {said} b")
        assert match and match.lastindex == 2, said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("rank", "low-rank"),
        ("rank", "rank-one"),
        ("rank", "ranked"),
        ("rank", "frank"),
        ("rank", "RANK"),
        ("rank", "torch/rank"),
        ("FLOP", "FLOP/B"),
        ("FLOP", "TFLOP"),
        ("DDP", "ddp"),
        ("NVLink", "nvlink"),
        ("all-reduce", "all reduced"),
    ],
)
def test_other_words_are_not(name, said):
    assert not pattern([name]).search(f"a {said} b")


def test_first_mentions_in_running_text_are_linked(tiny):
    assert on_page(tiny, "01Part/03-page.html") == [
        ("ranks", "rank"),
        ("Latencies", "latency"),
        ("ring", "ring"),
        ("FLOPs", "FLOP"),
        ("world size", "world-size"),
        ("DDP", "DDP"),
        ("All reduces", "all-reduce"),
        ("with an all-reduce", "all-reduce"),
    ]


def test_a_bold_line_is_told_from_a_bold_beginning(tiny):
    html = (tiny.root / "_build/html/01Part/03-page.html").read_text("utf-8")
    assert '<p class="in-bold"><strong>A rank in a line that' in html
    begins = (tiny.root / "_build/html/01Part/01-page.html").read_text("utf-8")
    assert "<p><strong>A question?</strong> The first" in begins


def test_comments_keep_names_unlinked_here_and_everywhere(tiny):
    assert on_page(tiny, "01Part/04-other.html") == [("a rank", "rank")]


def test_a_notebook_is_linked_in_its_prose_only(tiny):
    found = on_page(tiny, "01Part/05-lesson.html")
    assert found == [("rank", "rank"), ("latency", "latency")]


def test_the_glossary_links_only_what_its_author_linked(tiny):
    found = on_page(tiny, "book/reference/glossary.html")
    assert found == [("rank", "rank")]


def test_a_book_on_one_page_links_each_of_its_pages(tiny):
    done = subprocess.run(
        [sys.executable, "-c", SINGLE, str(tiny.root)],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    html = (tiny.root / "single/book/index.html").read_text("utf-8")
    pages = [
        on_page(tiny, f"{name}.html")
        for name in (
            "book/reference/glossary",
            "01Part/03-page",
            "01Part/04-other",
            "01Part/05-lesson",
        )
    ]
    assert sorted(linked(html)) == sorted(itertools.chain(*pages))
    assert all(f'id="term-{entry}"' in html for page in pages for _, entry in page)


@pytest.mark.parametrize("path", toc_pages())
def test_no_link_where_none_belongs(site, path):
    html = (site / path).read_text("utf-8")
    for element in ("h[1-6]", "pre", "figcaption", "summary"):
        for block in re.findall(rf"<({element})\b(.*?)</\1>", html, re.S):
            assert "std-term" not in block[1], block[1][:200]


def test_the_lesson_links_its_first_words(site):
    found = linked((site / "04Train/02-ddp.html").read_text("utf-8"))
    first = [said for said, _ in found]
    assert first[0] == "accelerator"
    assert {"all-reduce", "buckets", "rank"} <= set(first[:8])
    automatic = [entry for said, entry in found if said == "all-reduce"]
    assert 1 <= len(automatic) <= 2  # at the first word, and where it is defined


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_term_looks_like_text_with_a_dotted_line(page, base, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto("04Train/02-ddp.html")
    term = page.locator("a:has(> .std-term)").first
    looks = (
        "e => { const s = getComputedStyle(e), p = getComputedStyle(e.parentElement);"
        " return [s.textDecorationLine, s.textDecorationStyle, s.color == p.color]; }"
    )
    assert term.evaluate(looks) == ["underline", "dotted", True]
    term.hover()
    page.wait_for_function(
        "() => { const e = document.querySelector('a:has(> .std-term)');"
        " return getComputedStyle(e).textDecorationStyle == 'solid'; }"
    )
    term.click()
    page.wait_for_url("**/glossary.html#term-accelerator")
    assert page.locator("dt#term-accelerator").is_visible()
