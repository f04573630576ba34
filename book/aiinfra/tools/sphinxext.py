"""What this book adds to Jupyter Book: the `lesson` role, a lean page, link previews.

Loaded by `_config.yml`. Every hook here serves one of four promises: a page asks no
other machine for anything, stays within its weight budget, says what it is to search
engines and link previews, and never links to a lesson that isn't written yet.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from urllib.parse import urlsplit

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole
from sphinx.util.osutil import relative_uri

from aiinfra.tools import purge

LESSON = re.compile(r"\d\d[A-Za-z]+/(\d\d-[a-z0-9-]+|index)")
CARD = "_static/img/card.png"
SUMMARY = "A textbook of AI infrastructure whose pages are programs."
DESCRIPTION_LENGTH = 180  # search engines cut off there

# Files that themes copy to every site and no page of this book asks for. Menus and
# tooltips are the browser's own here, so that Bootstrap's script has nothing to do.
UNUSED_ASSETS = (
    "**/*.map",
    "*-webpack-macros.html",
    "webpack-macros.html",
    "file.png",
    "minus.png",
    "plus.png",
    "images/logo_*",
    "img/screenshot.png",  # for the README
    "locales",
    "scripts/bootstrap.js*",
    "scripts/fontawesome.js*",
    "vendor/fontawesome/webfonts/*.ttf",
    "vendor/fontawesome/webfonts/fa-brands-400.woff2",
    "vendor/fontawesome/webfonts/fa-regular-400.woff2",
)
UNUSED_SCRIPTS = re.compile(
    r"<(?:script|link)[^>]*scripts/(?:fontawesome|bootstrap)\.js[^>]*>(?:</script>)?"
)

logger = logging.getLogger(__name__)


class LessonRole(SphinxRole):
    """``{lesson}`04Train/03-zero```: a link once the lesson exists, plain text before.

    ``{lesson}`sharded optimizers <04Train/03-zero>``` sets the text; without it a link
    shows the lesson's title and plain text shows its file name in words.
    """

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        explicit = re.fullmatch(
            r"(?P<text>.+?)\s*<(?P<target>[^<>]+)>", self.text, re.S
        )
        text = explicit["text"] if explicit else ""
        target = (explicit["target"] if explicit else self.text).strip().strip("/")
        if not LESSON.fullmatch(target):
            message = self.inliner.reporter.warning(
                f"lesson role: {target!r} is not PART/NN-name, for example "
                "04Train/03-zero",
                line=self.lineno,
            )
            return [nodes.literal(self.rawtext, target)], [message]
        if target not in self.env.found_docs:
            words = text or re.sub(r"^\d\d-", "", target.split("/")[1]).replace(
                "-", " "
            )
            return [nodes.inline(self.rawtext, words, classes=["lesson-planned"])], []
        reference = addnodes.pending_xref(
            self.rawtext,
            refdomain="std",
            reftype="doc",
            refdoc=self.env.docname,
            reftarget=f"/{target}",
            refexplicit=bool(explicit),
            refwarn=True,
        )
        reference += nodes.inline(self.rawtext, text or target, classes=["doc"])
        return [reference], []


def apply_addresses(app, config) -> None:
    """Repository and site address: from the environment, else from `_config.yml`."""
    options = config.html_theme_options
    repository = os.environ.get("AIINFRA_REPOSITORY_URL", options.get("repository_url"))
    site = os.environ.get("AIINFRA_SITE_URL", config.html_baseurl)
    # The header's buttons below link to the repository; the theme's own would follow
    # the address to find out which service it is.
    options["repository_url"] = ""
    config.aiinfra_repository = (repository or "").rstrip("/")
    config.html_baseurl = site.rstrip("/") + "/" if site else ""


def serve_front_page_at_root(app) -> None:
    """The site's address itself shows the front page, without a redirect."""
    builder, front = app.builder, app.config.root_doc
    if builder.name != "html":
        return
    target_uri, out_file = builder.get_target_uri, builder.get_outfilename

    def get_target_uri(docname: str, typ: str | None = None) -> str:
        return "index.html" if docname == front else target_uri(docname, typ)

    def get_outfilename(pagename: str) -> str:
        return out_file("index" if pagename == front else pagename)

    builder.get_target_uri = get_target_uri
    builder.get_outfilename = get_outfilename


def copy_figure_modules(app) -> None:
    """The figures' ES modules and their static host go to `_static/bookfig`."""
    modules = Path(app.srcdir, "book/aiinfra/figures/js")
    if app.builder.format == "html" and modules.is_dir():
        target = Path(app.outdir, "_static/bookfig")
        shutil.copytree(modules, target, dirs_exist_ok=True)


def describe(doctree: nodes.document | None, given: str | None = None) -> str:
    """The page in one or two sentences: stated in its front matter, else its opening.

    Takes whole sentences of the first paragraph up to 180 characters.
    """
    if given:
        return " ".join(given.split())
    if doctree is None:
        return ""
    paragraphs = (
        " ".join(p.astext().split())
        for p in doctree.findall(nodes.paragraph)
        if isinstance(p.parent, nodes.section | nodes.document | nodes.block_quote)
    )
    opening = next((text for text in paragraphs if len(text) >= 30), "")
    description = ""
    for sentence in re.split(r"(?<=[.?!])\s+", opening):
        if description and len(description) + len(sentence) >= DESCRIPTION_LENGTH:
            break
        description = f"{description} {sentence}".strip()
    if len(description) > DESCRIPTION_LENGTH:
        description = description[:DESCRIPTION_LENGTH].rsplit(" ", 1)[0] + " …"
    return description


def finish_page(app, pagename, templatename, context, doctree) -> None:
    """Per page: description, preview tags and source links in, unneeded scripts out."""
    if app.builder.format != "html":
        return
    config = app.config
    meta = context.get("meta") or {}
    context["page_summary"] = describe(doctree, meta.get("description")) or SUMMARY
    context["page_headline"] = re.sub(
        r"<[^>]+>", "", context.get("title") or config.html_title
    )
    context["has_description"] = 'name="description"' in context.get("metatags", "")
    here, base = app.builder.get_target_uri(pagename), config.html_baseurl
    context["card_url"] = base + CARD if base else relative_uri(here, CARD)
    context["canonical"] = base + here.removesuffix("index.html") if base else ""
    context["pageurl"] = ""  # the canonical link above replaces Sphinx's own
    context["lean_head"] = lean_head
    context["accessible"] = accessible
    if config.aiinfra_repository and doctree is not None:
        source = pagename + context["page_source_suffix"]
        branch = config.html_theme_options.get("repository_branch") or "main"
        context["repository_page"] = (
            f"{config.aiinfra_repository}/blob/{branch}/{source}"
        )
        context["repository_issues"] = f"{config.aiinfra_repository}/issues"

    body = context.get("body", "")
    context["script_files"] = [
        script for script in context.get("script_files") or [] if wanted(script, body)
    ]
    if 'class="bookfig"' in body:
        app.add_js_file("bookfig/host.js", type="module")
        context["script_files"] += app.builder._js_files[-1:]
    if 'class="planner"' in body:
        app.add_js_file("planner/page.js", type="module")
        app.add_css_file("planner/page.css")
        context["script_files"] += app.builder._js_files[-1:]
        context["css_files"] += app.builder._css_files[-1:]


def wanted(script, body: str) -> bool:
    """Whether a page needs a script that an extension adds to it.

    myst-nb embeds every widget's state, module source included; figures carry theirs
    in their own output. Tabs have a script that only pages with tabs need. Sphinx adds
    MathJax to every page above one with maths in the table of contents.
    """
    attributes = getattr(script, "attributes", {})
    if "jupyter.widget-state" in (attributes.get("type") or ""):
        return False
    what = f"{getattr(script, 'filename', script)} {attributes.get('body', '')}"
    if "mathjax" in what.lower():
        return 'class="math' in body
    if "js/tables.js" in what:
        return 'class="scrolling sortable"' in body
    return "design-tabs.js" not in what or "sd-tab-set" in body


def lean_head(head: str) -> str:
    """Drop Bootstrap's script, and the 1.4 MB one that redraws icons as SVG."""
    return UNUSED_SCRIPTS.sub("", str(head))


def accessible(page: str) -> str:
    """Name the landmarks and controls that the theme leaves without a name.

    Drops the roles of Sphinx's bibliography, which no longer exist in ARIA, and makes
    empty header cells of a table plain cells.
    """
    page = str(page).replace(
        'id="pst-primary-sidebar" ',
        'id="pst-primary-sidebar" role="complementary" '
        'aria-label="Contents of the book" ',
    )
    page = page.replace('<div role="list" class="citation-list">', "<div>")
    page = page.replace(' role="doc-biblioentry"', "")
    page = re.sub(r'<th class="[^"]*"><p></p></th>', "<td></td>", page)
    return re.sub(
        r"(<a [^>]*>([^<]+)</a>\s*<details[^>]*>\s*)<summary>",
        r'\1<summary aria-label="Pages of \2">',
        page,
    )


def name_rows(app, doctree: nodes.document) -> None:
    """A table whose header row is empty names its rows instead of its columns.

    Markdown has no tables without a header; an empty one is noise to a screen reader.
    """
    for table in doctree.findall(nodes.table):
        head = next(table.findall(nodes.thead), None)
        if head is None or head.astext().strip():
            continue
        head.parent.remove(head)
        table["classes"].append("facts")
        next(table.findall(nodes.colspec))["stub"] = 1


def mark_bold_lines(app, doctree: nodes.document) -> None:
    """Give a paragraph that is bold from end to end a class: styles can't tell."""
    for paragraph in doctree.findall(nodes.paragraph):
        written = [child for child in paragraph.children if child.astext().strip()]
        if len(written) == 1 and isinstance(written[0], nodes.strong):
            paragraph["classes"].append("in-bold")


def add_missing_page(app):
    """The page that hosts show for an address that doesn't exist."""
    yield "404", {"title": "No page here"}, "404.html"


def finish_site(app, exception) -> None:
    """After the last page: addresses that work everywhere, and no dead weight."""
    if exception or app.builder.name != "html":
        return
    out = Path(app.outdir)
    write_alias(out, app.config)
    root_missing_page(out / "404.html", app.config.html_baseurl)
    for pattern in UNUSED_ASSETS:
        for path in (out / "_static").glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    names: set[str] = set()
    for path in out.rglob("*.html"):
        names |= purge.names_in_html(path.read_text(encoding="utf-8"))
    for path in (out / "_static").rglob("*.js"):
        if "vendor" not in path.parts:
            names |= purge.names_in_script(path.read_text(encoding="utf-8"))
    for path in (out / "_static").rglob("*.css"):
        css = path.read_text(encoding="utf-8")
        path.write_text(purge.purge(css, names), encoding="utf-8")


def write_alias(out: Path, config) -> None:
    """The front page also answers to its own file's name, which search results use."""
    alias = out / f"{config.root_doc}.html"
    if alias == out / "index.html":
        return
    up = "../" * config.root_doc.count("/")
    alias.parent.mkdir(parents=True, exist_ok=True)
    alias.write_text(
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="refresh" content="0; url={up}index.html">'
        f"<title>{config.html_title}</title></head>"
        f'<body><a href="{up}index.html">{config.html_title}</a></body></html>\n',
        encoding="utf-8",
    )


def root_missing_page(page: Path, base: str) -> None:
    """Root every address of the 404 page: it is shown at addresses of any depth.

    The root is the path of the site's address; without one, the host's root.
    """
    root = urlsplit(base).path or "/"
    html = page.read_text(encoding="utf-8")
    html = re.sub(
        r'\b(href|src|action|data-content_root)="(?!#|/|[a-z]+:)(?:\./)?',
        rf'\1="{root}',
        html,
    )
    page.write_text(html, encoding="utf-8")


def setup(app):
    """Register the role and the hooks."""
    app.add_role("lesson", LessonRole())
    # Jupyter Book always sets it, for an extension that this book leaves out.
    app.add_config_value("comments_config", {}, "")
    app.add_config_value("aiinfra_repository", "", "html", str)
    # The table of contents loads it; without numbered pages it does nothing, but it
    # doesn't say so, and Sphinx would read the pages one after the other.
    if numbering := app.extensions.get("sphinx_multitoc_numbering"):
        numbering.parallel_read_safe = True
    app.connect("config-inited", apply_addresses)
    app.connect("builder-inited", serve_front_page_at_root)
    app.connect("builder-inited", copy_figure_modules)
    app.connect("doctree-read", name_rows)
    app.connect("doctree-read", mark_bold_lines)
    app.connect("html-collect-pages", add_missing_page)
    app.connect("html-page-context", finish_page, priority=900)
    app.connect("build-finished", finish_site)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
