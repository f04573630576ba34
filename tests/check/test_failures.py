"""The failure index: what it quotes is printed somewhere, and nothing is left out."""

import pytest
from bookmaker import code, printed, text

from aiinfra.tools.check import failures

LESSON = "04Train/02-ddp"
LINK = f"[where](../../{LESSON}.ipynb#when-it-breaks)"
INDEX = "book/reference/failures.md"


@pytest.fixture
def lesson(book):
    """A lesson that shows two failures, and prints one."""
    hangs = code("wait()", "hangs")
    hangs.outputs = [printed("rank 3 in all_reduce,\n  after 7 s of 60\n")]
    raises = code(
        'raise ValueError(\n    "no such rank; "\n    "there are four"\n)', "r"
    )
    book.lesson(LESSON, text("## When it breaks\n\nIt prints `lost`."), hangs, raises)
    return book


def told(book, *messages: str, link: str = LINK) -> str:
    """What the gate says of an index with one entry."""
    lines = "\n".join(messages)
    book.write(
        INDEX, f"# Index\n\n## A\n\n### One\n\n```text\n{lines}\n```\n\n{link}\n"
    )
    return "\n".join(map(str, failures.check(book.root)))


def test_messages_that_the_lesson_shows_pass(lesson):
    printed_one = "rank … in all_reduce, after … s of 60"
    assert told(lesson, printed_one, "no such rank; there are four", "lost") == ""


def test_a_message_that_a_test_provokes_passes(lesson):
    lesson.write(str(failures.PROVOKED), 'MESSAGES = ["exitcode  : -9"]\n')
    assert told(lesson, "exitcode : -9") == ""


@pytest.mark.parametrize(
    "message", ["rank 4 in all_reduce", "no such rank; there are five", "60 of … s"]
)
def test_a_message_that_nothing_prints_is_refused(lesson, message):
    said = told(lesson, "lost", message)
    assert f"{INDEX}:5: {message!r} is in no lesson that it leads to" in said
    assert said.count("\n") == 0


def test_an_entry_without_a_link_to_a_section_is_refused(lesson):
    said = told(lesson, "lost", link=f"[where](../../{LESSON}.ipynb)")
    assert "'One' leads to no section of a lesson" in said
    assert f"{LESSON}.ipynb:1: breaks something that {INDEX} does not lead to" in said


def test_a_lesson_that_breaks_something_must_be_in_it(lesson):
    lesson.lesson("04Train/03-zero", text("### When it breaks"), code("1", "one"))
    lesson.lesson("04Train/04-whole", text("## Summary"), code("1", "one"))
    said = told(lesson, "lost")
    assert "04Train/03-zero.ipynb:1: breaks something" in said and "whole" not in said


def test_a_book_without_an_index_passes(book):
    assert failures.check(book.root) == []
