"""Links each page's first mention of a glossary term to the glossary.

Only running text counts: headings, tables, code, links, mathematics, captions,
quotations and what a cell printed are left alone. What a page marks with ``{term}`` is
linked there already. An entry is linked once a page, under whichever of its names, in
singular or plural, comes first.

A comment keeps names unlinked that mean something else: ``<!-- glossary: not rank,
ring -->`` on a page for that page, on the glossary's page for the whole book.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform

NOT_PROSE = (
    nodes.FixedTextElement,
    nodes.Titular,
    nodes.Invisible,
    nodes.caption,
    nodes.legend,
    nodes.table,
    nodes.term,
    nodes.citation,
    nodes.footnote,
    nodes.docinfo,
    addnodes.glossary,
)
INLINE_PROSE = (nodes.inline, nodes.emphasis, nodes.strong, nodes.generated)
NOT_PROSE_CLASSES = {"cell_input", "cell_output", "front-actions", "lesson-planned"}
EXCEPTION = re.compile(r"<!--\s*glossary:\s*not\s(?P<names>.+?)-->", re.S)
QUOTATION = re.compile(r"“[^”]*”")
SENTENCE_ENDS = re.compile(r"[.?!:]”?$")


@dataclass(frozen=True)
class Terms:
    """The glossary: ``entry_of`` gives each name's entry, known by its first name."""

    entry_of: dict[str, str] = field(default_factory=dict)
    never: frozenset[str] = frozenset()  # names that no page links by itself

    def entry(self, name: str) -> str | None:
        """The entry called ``name`` in any case."""
        lower = name.lower()
        return next((e for n, e in self.entry_of.items() if n.lower() == lower), None)


def collect(app, env) -> None:
    """Read the glossary, wherever the book has it, once all pages are read."""
    entry_of: dict[str, str] = {}
    never: set[str] = set()
    objects = env.get_domain("std").objects
    pages = {page for (kind, _), (page, _) in objects.items() if kind == "term"}
    for page in sorted(pages):
        doctree = env.get_doctree(page)
        never |= exceptions(doctree)
        for glossary in doctree.findall(addnodes.glossary):
            for item in glossary.findall(nodes.definition_list_item):
                names = [t.astext() for t in item if isinstance(t, nodes.term)]
                entry_of |= dict.fromkeys(names, names[0])
    env.aiinfra_terms = Terms(entry_of, frozenset(never))


def exceptions(tree: nodes.Node) -> set[str]:
    """The names that the comments in ``tree`` keep unlinked, in lower case."""
    if isinstance(tree, nodes.raw):
        return {
            " ".join(name.lower().split())
            for found in EXCEPTION.finditer(tree.astext())
            for name in found["names"].split(",")
        }
    within = (n for n in tree.children if not isinstance(n, addnodes.start_of_file))
    return set().union(*map(exceptions, within))


def pattern(names: Iterable[str]) -> re.Pattern[str]:
    """A pattern whose group N, from 1 up, matches the Nth of ``names``, or its plural.

    Of the letters only the first may be a capital that the name has not. Hyphen, space
    and line break are one within a name. A match is never a part of a longer word, of
    a compound (rank-one) or of a unit (FLOP/B).
    """
    words = "|".join(f"({one_or_many(name)})" for name in names)
    return re.compile(rf"(?<![\w/‑-])(?:{words})(?![\w/]|[‑-]\w)")


def one_or_many(name: str) -> str:
    """A pattern for ``name`` and its plural."""
    if re.search(r"[^aeiou]y$", name):
        body, ending = name[:-1], "(?:y|ies)"
    elif re.search(r"(?:s|x|z|ch|sh)$", name):
        body, ending = name, "(?:es)?"
    else:
        body, ending = name, "s?"
    body = r"[\s‑-]".join(map(re.escape, re.split(r"[ -]", body)))
    if name == name.lower():
        body = f"(?i:{body[0]}){body[1:]}"
    return body + ending


class LinkTerms(SphinxPostTransform):
    """Wraps first mentions into references; Sphinx then resolves them like any."""

    default_priority = 5  # before references are resolved

    def run(self, **_: object) -> None:
        """Link the page, or each page of a book that is one long page."""
        terms: Terms = getattr(self.env, "aiinfra_terms", Terms())
        if terms.entry_of:
            link(self.document, terms, self.env.docname)


def link(page: nodes.Element, terms: Terms, name: str) -> None:
    """Link the first mentions of terms on ``page``; pages within it on their own."""
    Linker(page, terms, name).walk(page)


class Linker:
    """Goes through one page in reading order and links what was not mentioned yet."""

    def __init__(self, page: nodes.Element, terms: Terms, docname: str) -> None:
        self.terms, self.docname = terms, docname
        unlinked = terms.never | exceptions(page)
        longest_first = sorted(terms.entry_of, key=lambda name: (-len(name), name))
        self.names = [n for n in longest_first if n.lower() not in unlinked]
        self.pattern = pattern(self.names)
        self.linked: set[str] = set()  # entries

    def walk(self, node: nodes.Element) -> None:
        """Link in ``node`` and all it contains."""
        node[:] = joined(node.children)
        children: list[nodes.Node] = []
        for child in node.children:
            if isinstance(child, nodes.Text):
                children += self.linked_text(str(child), first=not children)
                continue
            children.append(child)
            if isinstance(child, addnodes.start_of_file):
                link(child, self.terms, child["docname"])
            elif is_term(child):
                self.linked.add(self.terms.entry(child["reftarget"]) or "")
            elif is_prose(child):
                self.walk(child)
        node[:] = children

    def linked_text(self, text: str, first: bool) -> list[nodes.Node]:
        """``text`` in pieces: text, and references where something is to link.

        ``first``: nothing stands before it in its paragraph.
        """
        quoted = [match.span() for match in QUOTATION.finditer(text)]
        pieces: list[nodes.Node] = []
        end = 0
        for found in self.pattern.finditer(text):
            name = self.names[found.lastindex - 1]
            entry = self.terms.entry_of[name]
            if entry in self.linked or is_proper_name(found, name, first):
                continue
            if any(start < found.start() < stop for start, stop in quoted):
                continue
            self.linked.add(entry)
            pieces.append(nodes.Text(text[end : found.start()]))
            pieces.append(reference(found[0], name, self.docname))
            end = found.end()
        return [*pieces, nodes.Text(text[end:])]


def joined(children: list[nodes.Node]) -> list[nodes.Node]:
    """``children`` with texts put together, which the parser cuts; none is empty."""
    result: list[nodes.Node] = []
    for child in children:
        if isinstance(child, nodes.Text):
            if result and isinstance(result[-1], nodes.Text):
                child = nodes.Text(result.pop() + child)
            if not child.astext():
                continue
        result.append(child)
    return result


def is_proper_name(found: re.Match[str], name: str, first: bool) -> bool:
    """Whether the capital of what was ``found`` is not that of a sentence's start.

    Ring Attention is no ring. ``first``: nothing stands before the text.
    """
    before = found.string[: found.start()].rstrip()
    starts = SENTENCE_ENDS.search(before) if before else first
    return found[0][0] != name[0] and not starts


def reference(text: str, name: str, docname: str) -> addnodes.pending_xref:
    """What ``{term}`text <name>``` gives."""
    return addnodes.pending_xref(
        "",
        nodes.inline("", text, classes=["xref", "std", "std-term"]),
        refdomain="std",
        reftype="term",
        refdoc=docname,
        reftarget=name,
        refexplicit=True,
        refwarn=True,
    )


def is_term(node: nodes.Node) -> bool:
    """Whether ``node`` is a ``{term}`` that an author wrote."""
    return isinstance(node, addnodes.pending_xref) and node["reftype"] == "term"


def is_prose(node: nodes.Node) -> bool:
    """Whether the text within ``node`` is read as running text."""
    if isinstance(node, NOT_PROSE) or not isinstance(node, nodes.Element):
        return False
    if NOT_PROSE_CLASSES & set(node.get("classes", ())):
        return False
    if isinstance(node, nodes.strong) and len(node.parent) == 1:
        return False  # a line of its own in bold is a heading
    return isinstance(node, INLINE_PROSE) or not isinstance(node, nodes.Inline)


def setup(app):
    """Register the transform."""
    app.connect("env-updated", collect)
    app.add_post_transform(LinkTerms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
