"""What decks add to Sphinx: excerpts of lessons, notes, the page around the slides.

A page of the book gets one role from here, ``{deck}`04Train/ddp```: a link to the
slides, plain text where there are none, as in a part that was downloaded alone.
"""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinx.util.osutil import relative_uri

from aiinfra.tools import decks, excerpts
from aiinfra.tools.errors import UserError
from aiinfra.tools.sphinxext import CARD, accessible

logger = logging.getLogger(__name__)
SHORT_LINES, SHORT_LINE = 10, 70  # lines, characters: fits in large type
TARGET = re.compile(r"(?P<text>.+?)\s*<(?P<target>[^<>]+)>", re.S)


class notes(nodes.General, nodes.Element):  # noqa: N801 - as docutils names nodes
    """What the speaker sees and the room does not."""


class Notes(SphinxDirective):
    """``{notes}``: for the speaker's view."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Parse the content as Markdown."""
        found = notes()
        self.state.nested_parse(self.content, self.content_offset, found)
        return [found]


class Excerpt(SphinxDirective):
    """A directive that shows a part of a lesson; what it can't find is a warning."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {"class": directives.class_option}  # noqa: RUF012 - docutils' way

    def run(self) -> list[nodes.Node]:
        """The nodes that ``show`` gives."""
        options = {key: text for key, text in self.options.items() if key != "class"}
        try:
            shown = self.show(Path(self.env.srcdir), self.arguments[0], options)
        except UserError as error:
            logger.warning("%s", error, location=self.get_location())
            return []
        for node in shown:
            node["classes"] += self.options.get("class", [])
        return shown

    def show(self, root: Path, reference: str, options: dict) -> list[nodes.Element]:
        """What takes the directive's place."""
        raise NotImplementedError


class CellCode(Excerpt):
    """``{cell-code} 04Train/02-ddp#ring-step``: a cell's source, or lines of it."""

    option_spec = Excerpt.option_spec | {"lines": directives.unchanged_required}

    def show(self, root: Path, reference: str, options: dict) -> list[nodes.Element]:
        """One block of Python."""
        source = excerpts.code(root, reference, **options)
        return [literal(source, "python", "cell-code")]


class CellOutput(Excerpt):
    """``{cell-output} 04Train/02-ddp#ring-figure``: what a cell printed or drew."""

    option_spec = Excerpt.option_spec | {
        "lines": directives.unchanged_required,
        "state": directives.unchanged_required,
        "still": directives.unchanged_required,
    }

    def show(self, root: Path, reference: str, options: dict) -> list[nodes.Element]:
        """Blocks of plain text, and drawings."""
        found = []
        for shown in excerpts.outputs(root, reference, **options):
            if shown.kind == "text":
                found.append(literal(shown.content, "none", "cell-output"))
            else:
                drawing = nodes.raw("", shown.content, format="html")
                found.append(nodes.container("", drawing, classes=["cell-figure"]))
        return found


class CellMath(Excerpt):
    """``{cell-math} 04Train/02-ddp#ring-bytes``: a formula that a lesson displays."""

    option_spec = Excerpt.option_spec | {"number": directives.unchanged_required}

    def show(self, root: Path, reference: str, options: dict) -> list[nodes.Element]:
        """One displayed formula."""
        source = excerpts.formula(root, reference, **options)
        return [nodes.math_block(source, source, nowrap=False, number=None, label=None)]


def literal(text: str, language: str, name: str) -> nodes.literal_block:
    """A block of code or of output."""
    lines = text.splitlines()
    short = len(lines) <= SHORT_LINES and max(map(len, lines)) <= SHORT_LINE
    classes = [name, "short"] if short else [name]
    block = nodes.literal_block(text, text, language=language, classes=classes)
    block["linenos"] = False
    return block


class Looked(SphinxRole):
    """A role whose text is looked up; what is not found is a warning."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The text found, as text."""
        try:
            found = self.look_up(" ".join(self.text.split()))
        except UserError as error:
            logger.warning("%s", error, location=self.get_location())
            return [], []
        return [nodes.inline(self.rawtext, found, classes=["looked-up"])], []

    def look_up(self, text: str) -> str:
        """What takes the role's place."""
        raise NotImplementedError


class Value(Looked):
    """``{value}`04Train/02-ddp#scale-table: 1,000 {}```: a number a lesson prints."""

    def look_up(self, text: str) -> str:
        """The one word."""
        return excerpts.value(Path(self.env.srcdir), text)


class Constant(Looked):
    """``{registry}`NVLink 4.one_way_bytes_per_s```: a constant with its unit."""

    def look_up(self, text: str) -> str:
        """The figure as people write it."""
        return excerpts.constant(text)


class LessonLink(SphinxRole):
    """``{lesson}`text <04Train/02-ddp#exercises>```: a link from a slide to a page."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """A reference that the page of the lesson resolves."""
        given = TARGET.fullmatch(self.text)
        text, target = (given["text"], given["target"]) if given else (self.text,) * 2
        page, _, anchor = target.strip().partition("#")
        root = Path(self.env.srcdir)
        if not any(
            (root / f"{page}{suffix}").is_file() for suffix in (".ipynb", ".md")
        ):
            logger.warning("no page %s to link to", page, location=self.get_location())
            return [], []
        uri = f"{self.env.config.deck_pages}{page}.html"
        if "://" not in uri:
            uri = relative_uri(f"{self.env.docname}.html", uri)
        uri += f"#{anchor}" if anchor else ""
        reference = nodes.reference(self.rawtext, text, refuri=uri, internal=True)
        return [reference], []


class DeckLink(SphinxRole):
    """``{deck}`slides <04Train/ddp>``` on a page: a link to the deck, if there is."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """A link, or its text."""
        given = TARGET.fullmatch(self.text)
        text, target = (given["text"], given["target"]) if given else (None, self.text)
        part, _, name = target.strip().partition("/")
        source = Path(self.env.srcdir, part, "slides", f"{name}.md")
        if not source.is_file():
            return [nodes.inline(self.rawtext, text or name)], []
        here = self.env.app.builder.get_target_uri(self.env.docname)
        uri = relative_uri(here, f"{part}/slides/{name}.html")
        text = text or decks.read(source).title
        return [nodes.reference(self.rawtext, text, refuri=uri, internal=True)], []


def translator(base: type) -> type:
    """The slides' HTML writer: one ``<section>`` a heading, code coloured here."""
    from sphinx.writers.html5 import HTML5Translator

    class DeckTranslator(base):
        # reveal.js would colour code by a script of a megabyte.
        visit_literal_block = HTML5Translator.visit_literal_block
        depart_literal_block = HTML5Translator.depart_literal_block

        def visit_section(self, node: nodes.section) -> None:
            self.section_level += 1
            name = "slide title" if self.section_level == 1 else "slide"
            if self.section_level > 1:
                self.body.append("</section>\n")
            self.body.append(f'<section class="{name}" id="{node["ids"][0]}">\n')

        def depart_section(self, node: nodes.section) -> None:
            self.section_level -= 1
            if self.section_level == 0:
                self.body.append("</section>\n")

        def visit_notes(self, node: notes) -> None:
            self.body.append('<aside class="notes">')

        def depart_notes(self, node: notes) -> None:
            self.body.append("</aside>")

    return DeckTranslator


def frame(app, pagename, templatename, context, doctree) -> str | None:
    """The page around a deck's slides, and what it needs to know."""
    if doctree is None:
        return None
    deck = decks.read(Path(app.srcdir, f"{pagename}.md"))
    site, here = app.config.html_baseurl.rstrip("/"), f"{pagename}.html"
    context["body"] = accessible(context["body"])
    context |= {
        "deck_title": deck.title,
        "deck_summary": deck.meta.get("description", ""),
        "deck_card": f"{site}/{CARD}" if site else relative_uri(here, CARD),
        "has_maths": 'class="math' in context["body"],
        "has_figures": 'class="bookfig"' in context["body"],
        "mathjax_tex": (app.config.mathjax3_config or {}).get("tex", {}),
    }
    return "deck.html"


def stand_alone(app, doctree: nodes.document) -> None:
    """No table of contents lists a deck."""
    app.env.metadata[app.env.docname]["orphan"] = ""


def setup(app):
    """Register what a build of decks needs; elsewhere, the role that links to one."""
    safe = {"parallel_read_safe": True, "parallel_write_safe": True}
    if "sphinx_revealjs" not in app.extensions:
        app.add_role("deck", DeckLink())
        return safe
    from sphinx_revealjs.writers import RevealjsSlideTranslator

    app.add_config_value("deck_pages", "", "env", str)
    app.add_node(notes)
    app.add_directive("notes", Notes)
    app.add_directive("cell-code", CellCode)
    app.add_directive("cell-output", CellOutput)
    app.add_directive("cell-math", CellMath)
    app.add_role("value", Value())
    app.add_role("registry", Constant())
    app.add_role("lesson", LessonLink())
    app.set_translator("revealjs", translator(RevealjsSlideTranslator), override=True)
    app.connect("doctree-read", stand_alone)
    app.connect("html-page-context", frame)
    return safe
