"""The book as the gates read it: files, pages, notebooks and their cells."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiinfra.tools.root import assignments, notebooks, part_folders, relative

NOT_OURS = {"_build", "build", "dist", "node_modules", "vendor", "__pycache__"}


class Skip(Exception):  # noqa: N818 - no error: the gate has nothing to look at here
    """Why a gate cannot run here, and what would let it."""


@dataclass(frozen=True)
class Cell:
    """One cell of a notebook, and where its id stands in the file."""

    path: str
    line: int
    id: str
    kind: str
    source: str
    count: int | None = None
    tags: frozenset[str] = frozenset()
    outputs: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)


def read_notebook(path: Path) -> dict[str, Any]:
    """The notebook's JSON; an empty notebook if it is none (gate ``form`` tells)."""
    try:
        raw = json.loads(path.read_text("utf-8"))
        return raw if isinstance(raw.get("cells"), list) else {"cells": []}
    except (ValueError, AttributeError):
        return {"cells": []}


def cells_of(root: Path, path: Path) -> list[Cell]:
    """The cells of one notebook, in order."""
    lines = path.read_text("utf-8").splitlines()
    result = []
    for number, raw in enumerate(read_notebook(path)["cells"], 1):
        cell_id = raw.get("id", f"number {number}")
        where = f'"id": {json.dumps(cell_id)}'
        metadata = raw.get("metadata", {})
        result.append(
            Cell(
                path=relative(root, path),
                line=next((n for n, text in enumerate(lines, 1) if where in text), 1),
                id=cell_id,
                kind=raw.get("cell_type", ""),
                source=joined(raw.get("source", "")),
                count=raw.get("execution_count"),
                tags=frozenset(metadata.get("tags", ())),
                outputs=raw.get("outputs", []),
                metadata=metadata,
            )
        )
    return result


def cells(root: Path, kind: str | None = None) -> Iterator[Cell]:
    """Every cell of every lesson and assignment; with ``kind``, only those."""
    for path in [*notebooks(root), *assignments(root)]:
        for cell in cells_of(root, path):
            if kind is None or cell.kind == kind:
                yield cell


def joined(text: str | list[str]) -> str:
    """A notebook's text, which may be a list of lines, as one string."""
    return text if isinstance(text, str) else "".join(text)


def prose(root: Path) -> Iterator[tuple[str, int, str]]:
    """(path, line, text) of every Markdown page and every Markdown cell.

    For a page the line is 1, where its text begins; for a cell, that of its id.
    """
    for path in markdown_pages(root):
        yield relative(root, path), 1, path.read_text("utf-8")
    for cell in cells(root, "markdown"):
        yield cell.path, cell.line, cell.source


def markdown_pages(root: Path) -> list[Path]:
    """Every Markdown page of the book."""
    return [
        path
        for place in [*part_folders(root), root / "book"]
        for path in sorted(place.rglob("*.md"))
        if not NOT_OURS & set(path.relative_to(root).parts)
        and "static" not in path.relative_to(root).parts
    ]


def files(root: Path) -> list[Path]:
    """Every file that is, or would be, part of the repository."""
    if (root / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        names = sorted({name for name in listed.split("\0") if name})
        return [root / name for name in names if (root / name).is_file()]
    return [
        path
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and not any(
            part in ("_build", "__pycache__") or part in (".venv", ".git")
            for part in path.relative_to(root).parts
        )
    ]


def ours(root: Path, *suffixes: str) -> list[Path]:
    """The files that people of this project wrote, with one of these suffixes."""
    return [
        path
        for path in files(root)
        if path.suffix in suffixes and not NOT_OURS & set(path.relative_to(root).parts)
    ]
