"""Every figure says in words what it shows."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import Cell, cells, joined, markdown_pages, prose
from aiinfra.tools.root import relative

SHORTEST = 10  # characters; "figure" or "plot" says nothing
IMAGE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<target>[^)\s]+)")
DIRECTIVE = re.compile(
    r"^(?P<fence>`{3,}|:{3,})\{(?P<name>image|figure)\}(?P<rest>.*?)^(?P=fence)\s*$",
    re.MULTILINE | re.DOTALL,
)
RAW_FILE = re.compile(r"^:file:\s*(?P<file>\S+\.(?:svg|html))\s*$", re.MULTILINE)
FENCED = re.compile(r"^(`{3,})(?!\{raw\})[^`\n]*\n.*?^\1\s*$", re.MULTILINE | re.DOTALL)
PICTURES = ("image/svg+xml", "image/png", "image/jpeg")


def check(root: Path) -> list[Problem]:
    """Images, figures, SVG and outputs without words of at least ten characters."""
    problems = []
    for path, line, text in prose(root):
        for offset, message in wordless(text):
            at = line + text.count("\n", 0, offset) if line == 1 else line
            problems.append(Problem(path, at, message))
    for page in markdown_pages(root):
        problems += included(root, page)
    for cell in cells(root, "code"):
        for message in wordless_outputs(cell):
            problems.append(Problem(cell.path, cell.line, message))
    return problems


def wordless(text: str) -> Iterator[tuple[int, str]]:
    """(offset, message) of each figure in Markdown that has no words."""
    for found in DIRECTIVE.finditer(text):
        alt = re.search(r"^:alt:(.*)$", found["rest"], re.MULTILINE)
        if not alt or len(alt.group(1).strip()) < SHORTEST:
            yield found.start(), f"{found['name']} directive without :alt:"
    # Code that is only shown is no figure.
    plain = FENCED.sub(lambda found: "\n" * found.group(0).count("\n"), text)
    for found in IMAGE.finditer(plain):
        if len(found["alt"].strip()) < SHORTEST:
            offset = text.find(found.group(0))
            yield max(offset, 0), f"image {found['target']} without alt text"
    for message in wordless_html(plain):
        yield max(text.find("<svg"), text.find("<img"), 0), message


def included(root: Path, page: Path) -> Iterator[Problem]:
    """Drawings that a page takes in from a file."""
    text = page.read_text("utf-8")
    for found in RAW_FILE.finditer(text):
        line = 1 + text.count("\n", 0, found.start())
        file = page.parent / found["file"]
        where = relative(root, page)
        if not file.is_file():
            yield Problem(where, line, f"{found['file']} is missing")
            continue
        for message in wordless_html(file.read_text("utf-8")):
            yield Problem(where, line, f"{found['file']}: {message}")


def wordless_outputs(cell: Cell) -> Iterator[str]:
    """Messages for the pictures that a cell shows without words."""
    image = cell.metadata.get("mystnb", {}).get("image", {})
    for output in cell.outputs:
        data = output.get("data", {})
        html = joined(data.get("text/html", ""))
        drawn = "<svg" in html or "<img" in html or 'class="bookfig"' in html
        if drawn:
            for message in wordless_html(html):
                yield f"cell {cell.id}: {message}"
            if 'class="bookfig"' in html and "<svg" not in html:
                yield f"cell {cell.id}: moving figure without a picture to fall back on"
        elif any(kind in data for kind in PICTURES) and (
            len(str(image.get("alt", "")).strip()) < SHORTEST
        ):
            yield (
                f"cell {cell.id} shows a picture without alt text; use "
                "plot.show(fig, alt=…)"
            )


def wordless_html(html: str) -> list[str]:
    """Messages for the ``<img>`` and ``<svg>`` in ``html`` that have no words."""
    finder = Finder()
    finder.feed(html)
    finder.close()
    return finder.messages


class Finder(HTMLParser):
    """Collects outermost drawings without words; scripts are not looked into."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []
        self.depth = 0  # of nested <svg>
        self.named = False
        self.in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An opening tag."""
        have = {name: (value or "").strip() for name, value in attrs}
        hidden = have.get("aria-hidden") == "true"
        if tag == "img" and not hidden and len(have.get("alt", "")) < SHORTEST:
            self.messages.append(f"<img src={have.get('src', '')!r}> without alt text")
        if tag == "svg":
            if not self.depth:
                label = len(have.get("aria-label", "")) >= SHORTEST
                self.named = hidden or "aria-labelledby" in have or label
            self.depth += 1
        self.in_title = bool(self.depth) and tag in ("title", "desc")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag that closes itself."""
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_data(self, data: str) -> None:
        """Text: a title inside a drawing names it."""
        if self.in_title and len(data.strip()) >= SHORTEST:
            self.named = True

    def handle_endtag(self, tag: str) -> None:
        """A closing tag."""
        self.in_title = False
        if tag == "svg" and self.depth:
            self.depth -= 1
            if not self.depth and not self.named:
                self.messages.append("<svg> without aria-label or <title>")
