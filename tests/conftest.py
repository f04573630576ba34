"""What tests of several folders share."""

import pytest
from bookmaker import Book


@pytest.fixture
def book(tmp_path, monkeypatch) -> Book:
    """A tiny book in a temporary folder, which is also the working directory."""
    monkeypatch.chdir(tmp_path)
    return Book(tmp_path)
