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

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole
from sphinx.util.osutil import relative_uri

FRONT_PAGE = "book/index"
LESSON = re.compile(r"\d\d[A-Za-z]+/(\d\d-[a-z0-9-]+|index)")
DESCRIPTION_LENGTH = 180  # search engines cut off there

# Files that themes copy to every site and no page of this book asks for.
UNUSED_ASSETS = (
    "**/*.map",
    "locales",
    "scripts/fontawesome.js*",
    "images/logo_*",
    "vendor/fontawesome/webfonts/*.ttf",
    "vendor/fontawesome/webfonts/fa-regular-400.woff2",
)

# Icons named in the themes' templates and scripts. `static/make/icons.py` cuts the
# font to these; the rules of all others leave the style sheet below.
ICONS = (
    "angle-left",
    "angle-right",
    "arrow-up",
    "bars",
    "chevron-down",
    "circle-half-stroke",
    "code",
    "download",
    "expand",
    "file",
    "file-pdf",
    "github",
    "gitlab",
    "lightbulb",
    "list",
    "magnifying-glass",
    "moon",
    "outdent",
    "pencil-alt",
    "sun",
    "xmark",
)
FONT_RULE = re.compile(r'((?:\.fa-[a-z0-9-]+:before,?)+)\{content:"\\([0-9a-f]+)"\}')

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
    options["repository_url"] = (repository or "").rstrip("/")
    for button in ("use_repository_button", "use_issues_button"):
        options[button] = bool(options["repository_url"])
    site = os.environ.get("AIINFRA_SITE_URL", config.html_baseurl)
    config.html_baseurl = site.rstrip("/") + "/" if site else ""


def serve_front_page_at_root(app) -> None:
    """The site's address itself shows the front page, without a redirect."""
    builder = app.builder
    if builder.name != "html":
        return
    target_uri, out_file = builder.get_target_uri, builder.get_outfilename

    def get_target_uri(docname: str, typ: str | None = None) -> str:
        return "index.html" if docname == FRONT_PAGE else target_uri(docname, typ)

    def get_outfilename(pagename: str) -> str:
        return out_file("index" if pagename == FRONT_PAGE else pagename)

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
    """Per page: description and preview tags in, unneeded scripts out."""
    if app.builder.format != "html":
        return
    meta = context.get("meta") or {}
    description = describe(doctree, meta.get("description"))
    title = re.sub(r"<[^>]+>", "", context.get("title") or app.config.html_title)
    context["page_summary"] = description or app.config.html_title
    context["page_headline"] = title
    context["has_description"] = 'name="description"' in context.get("metatags", "")
    base = app.config.html_baseurl
    card = "_static/img/card.png"
    here = app.builder.get_target_uri(pagename)
    context["card_url"] = base + card if base else relative_uri(here, card)
    context["canonical"] = base + here.removesuffix("index.html") if base else ""
    context["pageurl"] = ""  # the canonical link above replaces Sphinx's own
    context["without_fontawesome_script"] = without_fontawesome_script

    # myst-nb embeds every widget's state, module source included; figures carry
    # theirs in their own output.
    scripts = context.get("script_files") or []
    context["script_files"] = [
        script
        for script in scripts
        if "jupyter.widget-state"
        not in (getattr(script, "attributes", {}).get("type") or "")
    ]
    if 'class="bookfig"' in context.get("body", ""):
        app.add_js_file("bookfig/host.js", type="module")
        context["script_files"] += app.builder._js_files[-1:]


def without_fontawesome_script(head: str) -> str:
    """Drop the 1.4 MB script that redraws icons which the icon font already draws."""
    return re.sub(r"<script[^>]*fontawesome\.js[^>]*></script>", "", str(head))


def lean_style(css: str) -> str:
    """The theme's style sheet without the rules of icons that no page shows."""

    def keep(rule: re.Match) -> str:
        used = any(f".fa-{name}:before" in rule[1] for name in ICONS)
        return rule[0] if used else ""

    return re.sub(r"\n?/\*# sourceMappingURL.*?\*/", "", FONT_RULE.sub(keep, css))


def finish_site(app, exception) -> None:
    """After the last page: a redirect for the front page's own name, no dead weight."""
    if exception or app.builder.name != "html":
        return
    out = Path(app.outdir)
    alias = out / f"{FRONT_PAGE}.html"
    alias.parent.mkdir(parents=True, exist_ok=True)
    alias.write_text(
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="refresh" content="0; url=../index.html">'
        f"<title>{app.config.html_title}</title></head>"
        '<body><a href="../index.html">The front page</a></body></html>\n',
        encoding="utf-8",
    )
    style = out / "_static/styles/pydata-sphinx-theme.css"
    style.write_text(lean_style(style.read_text(encoding="utf-8")), encoding="utf-8")
    for pattern in UNUSED_ASSETS:
        for path in (out / "_static").glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def setup(app):
    """Register the role and the hooks."""
    app.add_role("lesson", LessonRole())
    # Jupyter Book always sets it, for an extension that this book leaves out.
    app.add_config_value("comments_config", {}, "")
    # The table of contents loads it; without numbered pages it does nothing, but it
    # doesn't say so, and Sphinx would read the pages one after the other.
    if numbering := app.extensions.get("sphinx_multitoc_numbering"):
        numbering.parallel_read_safe = True
    app.connect("config-inited", apply_addresses)
    app.connect("builder-inited", serve_front_page_at_root)
    app.connect("builder-inited", copy_figure_modules)
    app.connect("html-page-context", finish_page, priority=900)
    app.connect("build-finished", finish_site)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
