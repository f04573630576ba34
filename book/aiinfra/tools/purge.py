"""Cut style sheets to the rules that a site can use.

A selector stays if every class and id it names occurs in some page or script. The
themes bring about 400 kB of rules for widgets that this book doesn't have.
"""

from __future__ import annotations

import re
from collections.abc import Container

_STRING = r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\''
_TOKEN = re.compile(rf"[{{}};]|{_STRING}|url\((?:{_STRING}|[^\"')]*)\)", re.S)
_NESTING = ("@media", "@supports", "@layer", "@container")
_NAME = re.compile(r"[.#]((?:[\w-]|\\.)+)")


def purge(css: str, names: Container[str]) -> str:
    """``css`` without the rules whose every selector names a class or id not in names.

    Keeps element, attribute and pseudo-class selectors, keyframes, fonts and layers.
    Licence comments (``/*!``) move to the top.
    """
    licences = re.findall(r"/\*!.*?\*/", css, re.S)
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.S)
    charset = re.match(r"\s*@charset [^;]+;", css)  # must stay first
    rules = _block(css, charset.end() if charset else 0, names)[0]
    return "\n".join([charset[0].strip() if charset else "", *licences, rules]).lstrip()


def _block(css: str, at: int, names: Container[str]) -> tuple[str, int]:
    """The kept rules from ``at`` to the brace that closes the block, and its end."""
    kept, start = [], at
    while token := _TOKEN.search(css, at):
        at = token.end()
        if token[0] == ";":  # @charset, @import
            kept.append(css[start:at])
            start = at
        elif token[0] == "}":
            return "".join(kept) + css[start : token.start()], at
        elif token[0] == "{":
            prelude = css[start : token.start()].strip()
            if prelude.startswith(_NESTING):
                body, at = _block(css, at, names)
            else:
                end = _closing(css, at)
                body, at = css[at : end - 1], end
                prelude = _usable(prelude, names)
            if prelude and body.strip():
                kept.append(f"{prelude}{{{body}}}")
            start = at
    return "".join(kept) + css[start:], len(css)


def _closing(css: str, at: int) -> int:
    """Where the block opened just before ``at`` ends, after its brace."""
    depth = 1
    while depth and (token := _TOKEN.search(css, at)):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        at = token.end()
    return at


def _usable(prelude: str, names: Container[str]) -> str:
    """The selectors of ``prelude`` that can match; at-rules pass whole."""
    if prelude.startswith("@"):
        return prelude
    selectors = re.split(r",(?![^(\[]*[)\]])", prelude)
    return ",".join(s for s in selectors if _can_match(s, names))


def _can_match(selector: str, names: Container[str]) -> bool:
    """Whether all classes and ids that ``selector`` requires exist.

    What stands in ``:not(…)``, ``:is(…)``, ``:where(…)``, ``:has(…)`` or ``[…]`` is no
    requirement, or only one of several: it isn't looked at.
    """
    inner = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
    required = re.sub(rf":(?:not|is|where|has){inner}|\[[^\]]*\]", "", selector)
    return all(n.replace("\\", "") in names for n in _NAME.findall(required))


def names_in_html(html: str) -> set[str]:
    """Every class and id that a page gives to its elements."""
    values = re.findall(r"""\b(?:class|id)\s*=\s*(?:"([^"]*)"|'([^']*)')""", html)
    return {name for pair in values for value in pair for name in value.split()}


def names_in_script(script: str) -> set[str]:
    """Every word of a script that could be a class or an id."""
    return set(re.findall(r"[A-Za-z_][\w-]*", script))
