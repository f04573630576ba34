"""Style sheets lose the rules that nothing on the site can use, and no others."""

import pytest

from aiinfra.tools.purge import names_in_html, names_in_script, purge

NAMES = {"used", "also-used", "an-id"}


@pytest.mark.parametrize(
    "rule",
    [
        "a:hover{color:red}",
        ".used{color:red}",
        "#an-id .also-used>p{color:red}",
        "[data-theme=dark] .used{color:red}",
        ".used:not(.gone){color:red}",
        ":is(.gone,.used) a{color:red}",
        ".used:has(>.gone:not(.also-gone)){color:red}",
        '.used:before{content:"}"}',
        ".used{background:url(data:image/svg+xml;utf8,%3Csvg{})}",
        "@font-face{font-family:x;src:url(x.woff2)}",
        "@keyframes turn{from{top:0}to{top:1px}}",
        "@media (min-width:1px){.used{color:red}}",
        "@supports (gap:1px){@media print{.used{color:red}}}",
        '@import "basic.css";',
    ],
)
def test_keeps_what_can_match(rule):
    assert purge(rule, NAMES) == rule


@pytest.mark.parametrize(
    "rule",
    [
        ".gone{color:red}",
        ".used .gone{color:red}",
        "a#gone{color:red}",
        "@media (min-width:1px){.gone{color:red}}",
        r".w-50\%{width:50%}",
        "@media print{}",
    ],
)
def test_drops_what_cannot_match(rule):
    assert purge(rule, NAMES) == ""


def test_keeps_the_usable_selectors_of_a_list():
    assert purge(".gone,.used,a.gone{top:0}", NAMES) == ".used{top:0}"


def test_rules_after_a_dropped_one_stay():
    css = '.gone{content:"{"}\n.used{top:0}/* a, b */.also-used{top:1px}'
    assert purge(css, NAMES).split() == [".used{top:0}.also-used{top:1px}"]


def test_licence_stays_whole_and_charset_first():
    css = '@charset "UTF-8";/*! (c) A, B\n .gone */.used{top:0}'
    charset, licence, rest, rule = purge(css, NAMES).split("\n")
    assert charset == '@charset "UTF-8";'
    assert licence + rest == "/*! (c) A, B .gone */"
    assert rule == ".used{top:0}"


def test_escaped_names_are_compared_unescaped():
    assert purge(r".sd-w\:50{top:0}", {"sd-w:50"}) == r".sd-w\:50{top:0}"


def test_names_of_pages_and_scripts():
    assert names_in_html("<a class=\"b  c\" id='d'>e</a>") == {"b", "c", "d"}
    assert {"is-open", "toggle"} <= names_in_script("e.classList.toggle('is-open')")
