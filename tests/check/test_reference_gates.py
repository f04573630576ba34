"""The gates of the glossary and of the bibliography refuse what is wrong there."""

import pytest

from aiinfra.tools.check import bibliography, glossary

SAID = {"ja": "ア", "de": "A", "zh": "甲"}
SPANS = (f'<span lang="{key}">{word}</span>' for key, word in SAID.items())
LANGUAGES = f"  {' · '.join(SPANS)}\n"
GLOSSARY = f"""\
# Glossary

:::{{glossary}}
all-reduce
  A sum for every rank.

{LANGUAGES}
α–β model
alpha-beta model
  Two numbers.

{LANGUAGES}
HBM
  Memory.

{LANGUAGES}
:::

The end.
"""
WORK = """\
@article{young1974,
  author = {Young, John W.},
  title = {A First Order Approximation},
  year = {1974},
  doi = {10.1145/361147.361115}
}
"""


def words_of(book, text: str) -> str:
    """What the gate says of a glossary."""
    book.write("book/reference/glossary.md", text)
    return "\n".join(map(str, glossary.check(book.root)))


def works_of(book, bib: str, page: str = "# A\n\n{cite}`other,young1974`\n") -> str:
    """What the gate says of a bibliography and a page that cites."""
    book.write("book/reference/references.bib", bib)
    book.write("04Train/index.md", page)
    return "\n".join(map(str, bibliography.check(book.root)))


def test_a_good_glossary_passes(book):
    assert glossary.check(book.root) == []  # there is none
    assert words_of(book, GLOSSARY) == ""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("all-reduce\n", "zebra\n", "md:9: 'alpha-beta model' comes after 'zebra'"),
        ("HBM\n", "all-reduce\n", "all-reduce is in the glossary twice"),
        ("HBM\n", "All-Reduce\n", "All-Reduce is in the glossary twice"),
        ("  Memory.\n", "", "HBM is not explained"),
        ('<span lang="de">A</span> · ', "", "all-reduce needs one equivalent in de"),
        ('<span lang="ja">ア</span>', '<span lang="ja"> </span>', "equivalent in ja"),
        ('<span lang="zh">', '<span lang="ja">', "needs one equivalent in zh"),
    ],
)
def test_a_bad_glossary_does_not(book, old, new, message):
    assert message in words_of(book, GLOSSARY.replace(old, new, 1))


def test_a_good_bibliography_passes(book):
    assert bibliography.check(book.root) == []  # there is none
    assert works_of(book, WORK) == ""
    assert works_of(book, WORK, "# A\n\n{cite:t}`young1974`\n") == ""


@pytest.mark.parametrize(
    ("bib", "page", "message"),
    [
        (WORK, "# A\n\nyoung1974\n", "1: young1974 is cited on no page"),
        (WORK + WORK, "{cite}`young1974`", "7: young1974 is listed twice"),
        (WORK.replace("doi", "note"), "{cite}`young1974`", "has none of doi, eprint"),
        (WORK.replace("year", "when"), "{cite}`young1974`", "young1974 has no year"),
    ],
)
def test_a_bad_bibliography_does_not(book, bib, page, message):
    said = works_of(book, bib, page)
    assert message in said and said.count("\n") == 0


def test_a_page_that_gives_the_address_cites(book):
    assert works_of(book, WORK, "[Young](https://doi.org/10.1145/361147.361115)") == ""


def test_citations_in_notebooks_count(book):
    from bookmaker import text

    book.lesson("04Train/02-ddp", text("Rings {cite}`young1974`."))
    assert works_of(book, WORK, "# A\n") == ""
