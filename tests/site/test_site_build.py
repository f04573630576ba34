"""`aiinfra build`: a tiny book built once, its pages read; bad input; rebuilds."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from bookmaker import Book, code, printed, text
from conftest import ROOT

from aiinfra.tools import build
from aiinfra.tools.errors import UserError
from aiinfra.tools.sphinxext import lean_head, root_missing_page

PAGE = """\
# A page

**A question?** The first paragraph says what the page is about. A second sentence
that is long enough to be cut off, because descriptions end at the end of a sentence
and this one goes on and on and on.

Exists: {lesson}`01Part/02-lesson`, {lesson}`by name <01Part/02-lesson>`.
Planned: {lesson}`01Part/03-later-one`, {lesson}`by its name <01Part/03-later-one>`.

| | |
| --- | --- |
| Minutes | 75 |

Maths: $x^2$. A tilde's figure:

```{raw} html
<div class="bookfig" data-fig="sweep"></div>
```
"""
WITHOUT_TORCH = (
    "import sys; sys.modules['torch'] = None\n"
    "from pathlib import Path\n"
    "from aiinfra.tools.build import build\n"
    "warnings = build(Path(sys.argv[1]), Path(sys.argv[2]))\n"
    "print('\\n'.join(warnings))\n"
)


def make_book(root: Path) -> Book:
    """A book with this one's configuration and looks, and two pages."""
    book = Book(root)
    (root / "_config.yml").write_bytes((ROOT / "_config.yml").read_bytes())
    (root / "book/static").symlink_to(ROOT / "book/static")
    (root / "book/aiinfra/figures").mkdir()
    (root / "book/aiinfra/figures/js").symlink_to(ROOT / "book/aiinfra/figures/js")
    book.write("book/reference/references.bib", "@misc{key, title={T}, year={2020}}\n")
    book.write(
        "book/index.md", "# The front\n\nWhat this tiny book is, in a few words.\n"
    )
    book.page("01Part/01-page.md", PAGE)
    book.lesson(
        "01Part/02-lesson",
        text("# The lesson\n\nWhat the lesson teaches, in a sentence."),
        code("print(6)", "six"),
        executed=True,
    )
    return book


def built(book: Book, **environment: str) -> tuple[list[str], Path]:
    """Build in a process in which torch can't be imported; warnings and the site."""
    out = book.root / "_build/html"
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(book.root), str(out)],
        capture_output=True,
        text=True,
        timeout=280,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return [line for line in lines if line and not line.endswith("…")], out


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """read(name) -> text of a file of a tiny book's site."""
    book = make_book(tmp_path_factory.mktemp("tiny"))
    path = book.root / "01Part/02-lesson.ipynb"
    notebook = path.read_text(encoding="utf-8")
    state = '"metadata": {"widgets": {"application/vnd.jupyter.widget-state+json": '
    state += '{"state": {"planted": {}}, "version_major": 2, "version_minor": 0}}, '
    head, tail = notebook.rsplit('"metadata": {', 1)
    path.write_text(head + state + tail, encoding="utf-8")
    warnings, out = built(
        book,
        AIINFRA_SITE_URL="https://books.example/ai",
        AIINFRA_REPOSITORY_URL="https://code.example/us/ai",
    )
    assert not warnings
    return SimpleNamespace(out=out, read=lambda name: (out / name).read_text("utf-8"))


def test_front_page_is_at_the_root(tiny):
    assert "<title>The front" in tiny.read("index.html")
    assert "url=../index.html" in tiny.read("book/index.html")


def test_lesson_role_links_only_to_what_exists(tiny):
    page = tiny.read("01Part/01-page.html")
    article = page[page.index("<article") : page.index("</article>")]
    links = re.findall(r'<a [^>]*href="([^"]+)"[^>]*>(?:<[^>]+>)*([^<]+)', article)
    assert ("02-lesson.html", "The lesson") in links
    assert ("02-lesson.html", "by name") in links
    assert 'class="lesson-planned">later one</span>' in article
    assert 'class="lesson-planned">by its name</span>' in article
    assert "03-later-one.html" not in page


def test_description_is_whole_sentences_of_the_first_paragraph(tiny):
    page = tiny.read("01Part/01-page.html")
    said = re.search(r'<meta name="description" content="([^"]*)"', page)[1]
    assert said == "A question? The first paragraph says what the page is about."
    assert f'<meta property="og:description" content="{said}">' in page


def test_preview_addresses_are_absolute_once_the_site_has_one(tiny):
    page = tiny.read("01Part/01-page.html")
    assert 'content="https://books.example/ai/_static/img/card.png"' in page
    assert 'rel="canonical" href="https://books.example/ai/01Part/01-page.html"' in page
    assert (tiny.out / "_static/img/card.png").stat().st_size <= 100_000


def test_source_links_once_there_is_a_repository(tiny):
    page = tiny.read("01Part/01-page.html")
    assert 'href="https://code.example/us/ai/blob/main/01Part/01-page.md"' in page
    assert 'href="https://code.example/us/ai/issues"' in page


def test_notebook_can_be_downloaded(tiny):
    page = tiny.read("01Part/02-lesson.html")
    assert 'href="../_sources/01Part/02-lesson.ipynb" download' in page
    assert (tiny.out / "_sources/01Part/02-lesson.ipynb").is_file()


def test_widget_state_is_left_out(tiny):
    assert "planted" not in tiny.read("01Part/02-lesson.html")
    assert "widget-state" not in tiny.read("01Part/02-lesson.html")


def test_figure_host_only_where_there_is_a_figure(tiny):
    assert "_static/bookfig/host.js" in tiny.read("01Part/01-page.html")
    assert "host.js" not in tiny.read("01Part/02-lesson.html")
    assert (tiny.out / "_static/bookfig/sweep.js").is_file()


def test_maths_script_only_where_there_is_maths(tiny):
    assert "tex-chtml.js" in tiny.read("01Part/01-page.html")
    assert "tex-chtml.js" not in tiny.read("01Part/02-lesson.html")
    assert (tiny.out / "_static/vendor/mathjax/LICENSE").is_file()


def test_empty_header_row_becomes_row_names(tiny):
    page = tiny.read("01Part/01-page.html")
    table = page[page.index("<table") : page.index("</table>")]
    assert "<thead" not in table
    assert re.search(r'<th class="stub"[^>]*><p>Minutes</p>', table)


def test_missing_page_works_below_any_address(tiny):
    page = tiny.read("404.html")
    addresses = re.findall(r'(?:href|src|action)="([^"#][^"]*)"', page)
    relative = [a for a in addresses if not re.match(r"/ai/|[a-z]+:", a)]
    assert not relative
    assert 'data-content_root="/ai/"' in page


def test_missing_page_at_the_root_of_a_host(tmp_path):
    page = tmp_path / "404.html"
    page.write_text(
        '<a href="./a.html#b"><a href="#c"><a href="//h/x"><a href="mailto:x">'
    )
    root_missing_page(page, "")
    assert page.read_text() == (
        '<a href="/a.html#b"><a href="#c"><a href="//h/x"><a href="mailto:x">'
    )


def test_no_heavy_file_is_left(tiny):
    names = {path.name for path in (tiny.out / "_static").rglob("*")}
    assert not {"fontawesome.js", "bootstrap.js", "fa-brands-400.woff2"} & names
    assert not [name for name in names if name.endswith(".map")]
    page = tiny.read("index.html")
    assert "fontawesome.js" not in page
    assert "bootstrap.js" not in page


def test_lean_head_keeps_other_scripts():
    head = '<script src="scripts/pydata-sphinx-theme.js?digest=1"></script>'
    assert (
        lean_head(head + '<script defer src="scripts/bootstrap.js?d=1"></script>')
        == head
    )


@pytest.fixture
def book(tmp_path) -> Book:
    return make_book(tmp_path)


def test_warnings_fail_the_build_and_keep_the_old_site(book):
    old = book.write("_build/html/index.html", "the old site")
    book.write(
        "01Part/01-page.md",
        "# A page\n\n"
        "{doc}`nowhere`, {cite}`nobody`, {lesson}`Part/lesson`, {lost}`x`\n",
    )
    warnings, _ = built(book)
    report = "\n".join(warnings)
    for fault in ("nowhere", "nobody", "'Part/lesson' is not PART/NN-name", "lost"):
        assert fault in report
    assert old.read_text() == "the old site"
    assert not [
        p for p in (book.root / "_build").iterdir() if p.name.startswith(".html")
    ]


def test_unfinished_addresses_leave_no_dead_links(book):
    book.write(
        "01Part/01-page.md", "# A page\n\nOnly a few words of text for the page.\n"
    )
    warnings, out = built(book, AIINFRA_SITE_URL="", AIINFRA_REPOSITORY_URL="")
    assert not warnings
    page = (out / "01Part/01-page.html").read_text(encoding="utf-8")
    assert "blob/main" not in page
    assert 'rel="canonical"' not in page
    assert 'content="../_static/img/card.png"' in page


def test_fingerprint_sees_what_the_site_is_made_from(book, monkeypatch):
    before = build.fingerprint(book.root)
    book.write("01Part/__pycache__/x.pyc", "x")
    book.write("01Part/.ipynb_checkpoints/x.ipynb", "x")
    book.write("tests/test_x.py", "x")
    assert build.fingerprint(book.root) == before
    page = book.write("01Part/01-page.md", PAGE + "\nMore.\n")
    assert build.fingerprint(book.root) != before
    page.write_text(PAGE, encoding="utf-8")
    assert build.fingerprint(book.root) == before
    monkeypatch.setenv("AIINFRA_SITE_URL", "https://books.example")
    assert build.fingerprint(book.root) != before


def arguments(**given):
    return SimpleNamespace(**{"part": None, "force": False, "jobs": 1, **given})


def test_unchanged_tree_is_not_built_again(book, monkeypatch, capsys):
    monkeypatch.chdir(book.root)
    calls = []

    def pretend(root, out, **options):
        calls.append(options)
        book.write("_build/html/index.html", "")
        return []

    monkeypatch.setattr(build, "build", pretend)
    assert build.run(arguments()) == 0
    assert build.run(arguments()) == 0
    assert len(calls) == 1
    assert "site unchanged" in capsys.readouterr().out
    assert build.run(arguments(force=True)) == 0
    book.write("01Part/01-page.md", "# Changed\n")
    assert build.run(arguments()) == 0
    assert len(calls) == 3


def test_a_failed_build_is_tried_again(book, monkeypatch, capsys):
    monkeypatch.chdir(book.root)
    monkeypatch.setattr(build, "build", lambda *_, **__: ["page.md:3: WARNING: lost"])
    assert build.run(arguments()) == 1
    assert build.run(arguments()) == 1
    report = capsys.readouterr().err
    assert "page.md:3: WARNING: lost" in report
    assert "not built: 1 warning;" in report


@pytest.mark.parametrize(
    "given, message",
    [
        ({"part": "01Prat"}, "no part '01Prat'; did you mean 01Part"),
        ({"part": "zzz"}, "no part 'zzz'; there are: 01Part"),
        ({"jobs": 0}, "--jobs 0: expected a number of processes"),
    ],
)
def test_bad_input_is_one_clear_line(book, monkeypatch, given, message):
    monkeypatch.chdir(book.root)
    with pytest.raises(UserError, match=re.escape(message)):
        build.run(arguments(**given))


@pytest.mark.parametrize("name", ["_config.yml", "_toc.yml"])
def test_missing_configuration_is_named(book, name):
    (book.root / name).unlink()
    with pytest.raises(UserError, match=f"no {name}"):
        build.build(book.root, book.root / "_build/html")


def test_a_part_without_pages_says_so(book):
    book.write("02Empty/notes.txt", "")
    with pytest.raises(UserError, match=r"_toc\.yml lists no page of 02Empty"):
        build.part_toc(book.root, "02Empty")


def test_part_toc_keeps_the_part_and_what_it_cites(book):
    book.page("01Part/index.md", "# Part\n")
    book.page("02Other/index.md", "# Other\n")
    book.page("book/reference/bibliography.md", "# Bibliography\n")
    toc = build.part_toc(book.root, "02Other")
    assert toc["root"] == "02Other/index"
    assert [part["chapters"] for part in toc["parts"]] == [
        [{"file": "book/reference/bibliography"}]
    ]


def test_second_build_waits_for_the_first(tmp_path):
    waits = (
        "import sys; from pathlib import Path\n"
        "from aiinfra.tools.build import one_build_at_a_time\n"
        "with one_build_at_a_time(Path(sys.argv[1])): print('mine', flush=True)\n"
    )
    with build.one_build_at_a_time(tmp_path):
        second = subprocess.Popen(
            [sys.executable, "-c", waits, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert "waiting for it" in second.stdout.readline()
        assert second.poll() is None
    assert second.communicate(timeout=60)[0].strip() == "mine"


def test_progress_says_each_phase_once():
    import io

    stream = io.StringIO()
    progress = build.Progress(stream)
    progress.write(
        "loading…\nreading sources... [ 50%] a\nreading sources... [100%] b\n"
    )
    progress.write("writing output... [100%] a\n")
    progress.done()
    assert stream.getvalue() == "reading pages …\nwriting pages …\n"


def test_a_notebook_output_survives(book):
    book.lesson("01Part/02-lesson", text("# L\n\nA sentence about the lesson."), six())
    warnings, out = built(book)
    assert not warnings
    assert "[rank 0] 6" in (out / "01Part/02-lesson.html").read_text(encoding="utf-8")


def six():
    cell = code("print(6)", "six")
    cell.outputs = [printed("[rank 0] 6\n")]
    return cell
