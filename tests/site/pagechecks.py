"""What must hold for every page of the site, seen by a real browser.

`visit` looks at one page once, in every width and both colour schemes, and returns a
`Visit`; the tests only read it. `problems_*` functions are pure or take a page, so
that planted pages can prove that each of them fails when it should.
"""

import gzip
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from axe_playwright_python.base import AXE_SCRIPT

WIDTHS = (360, 768, 1440)  # px: phone, tablet, laptop
SCHEMES = ("light", "dark")
COLOUR_RULES = ["color-contrast", "link-in-text-block"]  # axe's names
SHARED_BUDGET, OWN_BUDGET = 330_000, 120_000  # B, gzipped, per page


COMPRESSED = (".woff2", ".png", ".jpg", ".webp")  # gzip gains nothing on these


@dataclass
class Visit:
    """What one page did and looked like."""

    path: str
    status: int = 0
    external: list[str] = field(default_factory=list)  # requests to other machines
    failed: list[str] = field(default_factory=list)  # 4xx, 5xx and network errors
    errors: list[str] = field(default_factory=list)  # exceptions and console errors
    sizes: dict[str, int] = field(default_factory=dict)  # URL path: B, gzipped
    overflow: dict[str, list[str]] = field(default_factory=dict)  # width: culprits
    axe: dict[str, list[str]] = field(default_factory=dict)  # scheme: violations
    facts: dict = field(default_factory=dict)


def visit(browser, base: str, path: str) -> Visit:
    """Load ``base + path`` in a fresh profile and record a Visit."""
    seen = Visit(path)
    context = browser.new_context(viewport={"width": WIDTHS[-1], "height": 900})
    try:
        page = context.new_page()
        responses = []
        watch(page, base, seen, responses)
        reply = page.goto(base + path, wait_until="load")
        seen.status = reply.status
        settle(page)
        seen.sizes = weigh(responses)
        seen.facts = page.evaluate(FACTS)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            seen.overflow[str(width)] = page.evaluate(OVERFLOW)
        page.set_viewport_size({"width": WIDTHS[-1], "height": 900})
        page.evaluate(AXE_SCRIPT)
        for scheme in SCHEMES:
            show(page, scheme)
            # Only colours differ between the schemes; every rule is asked in the first.
            rules = None if scheme == SCHEMES[0] else COLOUR_RULES
            seen.axe[scheme] = page.evaluate(RUN_AXE, rules)
    finally:
        context.close()
    return seen


def watch(page, base: str, seen: Visit, responses: list) -> None:
    """Record every request of ``page``; stop those that leave this machine."""
    local = urlsplit(base).netloc

    def route(route) -> None:
        url = urlsplit(route.request.url)
        if url.scheme in ("http", "https", "ws", "wss") and url.netloc != local:
            seen.external.append(route.request.url)
            route.abort()
        else:
            route.continue_()

    def answered(response) -> None:
        responses.append(response)
        if response.status >= 400 and response.url != base + seen.path:
            seen.failed.append(f"{response.status} {response.url}")

    page.route("**/*", route)
    page.on("response", answered)
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on(
        "console",
        lambda message: (
            seen.errors.append(message.text)
            if message.type == "error" and "404" not in message.text
            else None
        ),
    )


def settle(page) -> None:
    """Scroll through the page as a reader would, until figures and maths are drawn."""
    page.evaluate(
        """async () => {
          const pause = ms => new Promise(done => setTimeout(done, ms));
          for (let y = 0; y < document.body.scrollHeight; y += 800) {
            scrollTo(0, y); await pause(10);
          }
          await window.MathJax?.startup?.promise;
          await document.fonts.ready;
          const unmounted = '.bookfig:not([data-ready])';
          for (let n = 0; n < 200 && document.querySelector(unmounted); n++) {
            document.querySelector(unmounted).scrollIntoView(); // passed too fast
            await pause(50);
          }
          scrollTo(0, 0); await pause(50);
        }"""
    )


def show(page, scheme: str) -> None:
    """Switch the page to ``scheme`` as its own button would."""
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.evaluate(
        "s => { const d = document.documentElement.dataset; d.mode = d.theme = s; }",
        scheme,
    )


def weigh(responses: list) -> dict[str, int]:
    """Bytes of each answer as a compressing host would send it."""
    sizes = {}
    for response in responses:
        if 300 <= response.status < 400:
            continue
        body = response.body()
        path = urlsplit(response.url).path
        packed = path.endswith(COMPRESSED)
        sizes[path] = len(body) if packed else len(gzip.compress(body, 6))
    return sizes


def shared(path: str) -> bool:
    """Whether other pages load this file too, so that a reader pays for it once."""
    return path.startswith("/_static/")


def weight(sizes: dict[str, int]) -> tuple[int, int]:
    """Shared and own bytes of a page."""
    total = sum(size for path, size in sizes.items() if shared(path))
    return total, sum(sizes.values()) - total


def overweight(sizes: dict[str, int]) -> list[str]:
    """Budgets that a page exceeds, each with its heaviest files."""
    problems = []
    for name, spent, budget, mine in zip(
        ("shared", "own"),
        weight(sizes),
        (SHARED_BUDGET, OWN_BUDGET),
        (True, False),
        strict=True,
    ):
        if spent > budget:
            files = sorted((s, p) for p, s in sizes.items() if shared(p) is mine)
            worst = ", ".join(f"{path} {size:,} B" for size, path in files[:-5:-1])
            problems.append(f"{name}: {spent:,} B gzipped > {budget:,} B ({worst})")
    return problems


def incomplete(facts: dict) -> list[str]:
    """What a page fails to say about itself."""
    problems = [
        f"no {name}"
        for name in ("title", "description", "lang", "ogTitle", "ogImage", "icon")
        if not facts.get(name)
    ]
    if facts.get("h1") != 1:
        problems.append(f"{facts.get('h1')} h1 headings, expected one")
    if facts.get("unset"):
        problems.append(f"maths not typeset: {facts['unset'][:3]}")
    if facts.get("mathErrors"):
        problems.append(f"maths with errors: {facts['mathErrors'][:3]}")
    if facts.get("mute"):
        problems.append(f"maths that screen readers can't read: {facts['mute'][:3]}")
    if facts.get("figures") != facts.get("figuresReady"):
        problems.append(
            f"{facts['figuresReady']} of {facts['figures']} moving figures mounted"
        )
    if facts.get("blankIcons"):
        problems.append(f"icons that draw nothing: {facts['blankIcons']}")
    return problems


def missing_glyphs(facts: dict, glyphs: set[str]) -> set[str]:
    """Icons of a page that the font, cut to ``glyphs``, can't draw."""
    return {char for text in facts["icons"] for char in text.strip('"')} - glyphs


# In the page -------------------------------------------------------------------------

FACTS = r"""() => {
  const one = selector => document.querySelector(selector);
  const all = selector => [...document.querySelectorAll(selector)];
  const shown = e => e.checkVisibility({ checkVisibilityCSS: true });
  const icon = e => getComputedStyle(e, '::before').content;
  return {
    title: document.title,
    description: one('meta[name=description]')?.content,
    lang: document.documentElement.lang,
    ogTitle: one('meta[property="og:title"]')?.content,
    ogImage: one('meta[property="og:image"]')?.content,
    icon: one('link[rel~=icon]')?.href,
    h1: all('h1').filter(shown).length,
    unset: all('.math').filter(e => !e.querySelector('mjx-container'))
      .map(e => e.textContent.slice(0, 60)),
    mathErrors: all('mjx-merror').map(e => e.textContent.slice(0, 60)),
    mute: all('mjx-container').filter(e => !e.querySelector('mjx-assistive-mml math'))
      .map(e => e.outerHTML.slice(0, 60)),
    figures: all('.bookfig').length,
    figuresReady: all('.bookfig[data-ready]').length,
    icons: all('[class*="fa-"], .admonition-title').map(icon)
      .concat(all('.admonition-title').map(e => getComputedStyle(e, '::after').content))
      .filter(c => !['none', 'normal', '""'].includes(c)),
    blankIcons: all('[class*="fa-"]').filter(shown)
      .filter(e => ['none', 'normal', '""'].includes(icon(e))).map(e => e.className),
  };
}"""

# Elements that reach beyond the window and aren't inside something that scrolls.
OVERFLOW = r"""() => {
  const root = document.documentElement;
  if (root.scrollWidth <= innerWidth) return [];
  const clipped = e => {
    for (let p = e.parentElement; p && p !== document.body; p = p.parentElement)
      if (getComputedStyle(p).overflowX !== 'visible') return true;
    return false;
  };
  const found = [...document.body.querySelectorAll('*')]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !clipped(e))
    .map(e => `${e.tagName.toLowerCase()}.${e.className} ` +
              `${Math.round(e.getBoundingClientRect().right)} px`);
  const verdict = `page is ${root.scrollWidth} px wide in ${innerWidth} px`;
  return [verdict, ...found.slice(-5)];
}"""

# The boxes that MathJax draws glyphs in are hidden from screen readers, which get its
# MathML instead; they are most of a page's elements.
RUN_AXE = r"""async rules => {
  const page = { exclude: [['mjx-math'], ['mjx-assistive-mml']] };
  const options = { resultTypes: ['violations'], preload: false };
  if (rules) options.runOnly = rules;
  const results = await axe.run(page, options);
  return results.violations.map(v => `${v.id} (${v.impact}): ` +
    v.nodes.slice(0, 4).map(n => n.target.join(' ') + ' ' + n.failureSummary
      .split('\n').slice(1, 2).join('').trim()).join(' | '));
}"""
