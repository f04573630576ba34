"""Build the site into _build/html; any warning fails the build."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from aiinfra.tools.errors import UserError
from aiinfra.tools.root import find_root, nearest, part_folders

# What decides how a page looks, beside the tree itself.
BUILDERS = (
    "docutils",
    "jupyter-book",
    "myst-nb",
    "myst-parser",
    "pydata-sphinx-theme",
    "pygments",
    "sphinx",
    "sphinx-book-theme",
    "sphinx-design",
    "sphinx-external-toc",
    "sphinx-revealjs",
    "sphinxcontrib-bibtex",
)
ADDRESSES = ("AIINFRA_REPOSITORY_URL", "AIINFRA_SITE_URL")
SKIPPED = re.compile(
    r"\.|_build$|build$|dist$|node_modules$|__pycache__$|.*\.egg-info$"
)
# Links out of a part lead nowhere when only that part is built.
OUTSIDE_A_PART = ["myst.xref_missing", "ref.doc", "ref.ref", "ref.term", "ref.numref"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``aiinfra build``."""
    parser.add_argument(
        "--part",
        metavar="PART",
        help="build one part (for example 04Train) into _build/PART, for a quick look",
    )
    parser.add_argument(
        "--force", action="store_true", help="build even if nothing has changed"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        default=min(4, os.cpu_count() or 1),
        help="processes that read and write pages (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Build what ``args`` asks for; 0 done, 1 the pages have warnings."""
    root = find_root()
    if args.jobs < 1:
        raise UserError(f"--jobs {args.jobs}: expected a number of processes from 1 up")
    part = find_part(root, args.part) if args.part else None
    out = root / "_build" / (part or "html")
    with one_build_at_a_time(root / "_build"):
        if not args.force and is_current(root, out):
            print(f"site unchanged: {shown(out, root)}/index.html")
            return 0
        started, made_from = time.monotonic(), fingerprint(root)
        warnings = build(root, out, part=part, jobs=args.jobs)
        if warnings:
            print("\n".join(warnings), file=sys.stderr)
            print(
                f"aiinfra: not built: {count(len(warnings), 'warning')}; "
                "mend the pages named above and build again",
                file=sys.stderr,
            )
            return 1
        remember(out, made_from)
    pages = len(list(out.rglob("*.html")))
    seconds = time.monotonic() - started
    print(f"built {pages} pages in {seconds:.0f} s: {shown(out, root)}/index.html")
    return 0


def find_part(root: Path, name: str) -> str:
    """The part folder called ``name``; UserError names the parts that there are."""
    parts = [folder.name for folder in part_folders(root)]
    if name.strip("/") not in parts:
        raise UserError(f"no part {name!r}; {nearest(name, parts)}")
    return name.strip("/")


def build(
    root: Path, out: Path, *, part: str | None = None, jobs: int = 1
) -> list[str]:
    """Build the book at ``root`` into ``out``; return the warnings, none on success.

    ``out`` is replaced only by a build without warnings, so that a reader of the
    old site never sees half of a new one. Needs ``_config.yml`` and ``_toc.yml``.
    """
    for name in ("_config.yml", "_toc.yml"):
        if not (root / name).is_file():
            raise UserError(f"no {name} in {root}; the site is built from it")
    from aiinfra.tools import slides

    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    fresh, doctrees = out.with_name(f".{out.name}.new"), out.with_name(".doctrees")
    overrides: dict = {"nitpicky": True}
    if part:
        toc = out.with_name(f"{part}-toc.yml")
        toc.parent.mkdir(parents=True, exist_ok=True)
        toc.write_text(json.dumps(part_toc(root, part)), encoding="utf-8")
        overrides |= {
            "external_toc_path": str(toc),
            "suppress_warnings": OUTSIDE_A_PART,
        }
    # A page kept from an earlier build hides its warnings: always start afresh.
    for folder in (fresh, doctrees):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        warnings = run_sphinx(root, fresh, doctrees, overrides, jobs)
        if not warnings:
            warnings = slides.build(root, fresh, [part] if part else None)
        if not warnings:
            shutil.rmtree(out, ignore_errors=True)
            fresh.rename(out)
    finally:
        for folder in (fresh, doctrees):
            shutil.rmtree(folder, ignore_errors=True)
    return warnings


def run_sphinx(
    root: Path,
    out: Path,
    doctrees: Path,
    overrides: dict,
    jobs: int,
    builder: str = "html",
) -> list[str]:
    """One Sphinx build with Jupyter Book's configuration; return its warnings."""
    # Where JupyterLab is installed, jsonschema would compile forty URL grammars, for
    # 3 s, that no check here uses; it does without a package that isn't there.
    hidden = sys.modules.setdefault("rfc3987_syntax", None)
    from jupyter_book.config import get_final_config

    if hidden is None:
        del sys.modules["rfc3987_syntax"]
    config, _ = get_final_config(
        user_yaml=root / "_config.yml",
        sourcedir=root,
        cli_config={"latex_individualpages": False, **overrides},
    )
    return configured(root, out, doctrees, config, jobs, builder)


def configured(
    root: Path, out: Path, doctrees: Path, config: dict, jobs: int, builder: str
) -> list[str]:
    """One Sphinx build with a configuration in hand; return its warnings."""
    from sphinx.application import Sphinx
    from sphinx.errors import SphinxError
    from sphinx.util.console import nocolor
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    nocolor()
    progress, warnings = Progress(sys.stdout), Lines()
    try:
        with patch_docutils(), docutils_namespace():
            app = Sphinx(
                srcdir=root,
                confdir=None,  # no conf.py: the configuration comes as it is
                outdir=out,
                doctreedir=doctrees,
                buildername=builder,
                confoverrides=config,
                status=progress,
                warning=warnings,
                freshenv=True,
                warningiserror=True,
                keep_going=True,
                parallel=jobs,
            )
            app.build(force_all=True)
    except SphinxError as error:
        return [*warnings.lines, f"{error.category}: {error}"]
    finally:
        progress.done()
    if app.statuscode and not warnings.lines:
        return [f"Sphinx ended with status {app.statuscode}"]
    return warnings.lines


def part_toc(root: Path, part: str) -> dict:
    """The table of contents cut to one part and the reference pages it cites."""
    import yaml

    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [
        chapter
        for group in toc.get("parts", [])
        for chapter in group.get("chapters", [])
    ]
    mine = [c for c in chapters if c.get("file", "").startswith(f"{part}/")]
    shared = [c for c in chapters if c.get("file", "").startswith("book/reference/")]
    if not mine:
        raise UserError(f"_toc.yml lists no page of {part} yet; add its index page")
    first, *rest = mine
    inside = first.get("sections", []) + rest
    groups = [{"caption": part, "chapters": inside}] if inside else []
    if shared:
        groups.append({"caption": "Reference", "chapters": shared})
    return {"format": "jb-book", "root": first["file"], "parts": groups}


class Lines:
    """A text stream that keeps what is written to it, without blank lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.rest = ""

    def write(self, text: str) -> int:
        """Take ``text`` and hand on each line that it completes."""
        *complete, self.rest = (self.rest + text).split("\n")
        for line in complete:
            if line.strip():
                self.line(line)
        return len(text)

    def line(self, line: str) -> None:
        """Keep one line."""
        self.lines.append(line)

    def flush(self) -> None:
        """Nothing is buffered."""

    def isatty(self) -> bool:
        """Plain text, please."""
        return False


class Progress(Lines):
    """Sphinx's status lines as one moving line (a terminal) or one line a phase."""

    STEP = re.compile(r"(reading sources|writing output)\.\.\. \[ *(\d+)%\]")

    def __init__(self, stream) -> None:
        super().__init__()
        self.stream = stream
        self.moving = stream.isatty()
        self.phase = ""

    def line(self, line: str) -> None:
        """Show one status line, if it says how far the build is."""
        step = self.STEP.match(line)
        if step is None:
            return
        phase = {"reading sources": "reading", "writing output": "writing"}[step[1]]
        if self.moving:
            self.stream.write(f"\r{phase} pages … {step[2]:>3} %")
        elif phase != self.phase:
            self.stream.write(f"{phase} pages …\n")
        self.phase = phase
        self.stream.flush()

    def done(self) -> None:
        """Leave the cursor at the start of an empty line."""
        if self.moving and self.phase:
            self.stream.write("\r" + " " * 30 + "\r")
            self.stream.flush()


def fingerprint(root: Path) -> str:
    """One hash over all that the site is made from: the book's files and versions."""
    digest = hashlib.sha256()
    for path in inputs(root):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    for name in BUILDERS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            digest.update(f"{name} {importlib.metadata.version(name)}".encode())
    for name in ADDRESSES:
        digest.update(f"{name}={os.environ.get(name)}".encode())
    return digest.hexdigest()


def inputs(root: Path) -> Iterator[Path]:
    """Every file that the site may depend on, in a fixed order."""
    yield from (root / name for name in ("_config.yml", "_toc.yml"))
    for top in [root / "book", *part_folders(root)]:
        for folder, folders, files in os.walk(top):
            folders[:] = sorted(f for f in folders if not SKIPPED.match(f))
            for name in sorted(files):
                if not name.startswith("."):
                    yield Path(folder, name)


@contextlib.contextmanager
def one_build_at_a_time(folder: Path) -> Iterator[None]:
    """Two builds of one checkout would write into each other: the second waits."""
    import fcntl

    folder.mkdir(exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another build is running; waiting for it to end", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_current(root: Path, out: Path) -> bool:
    """Whether the site in ``out`` was made from the tree as it is now."""
    try:
        made_from = out.with_suffix(".made-from").read_text(encoding="utf-8")
    except OSError:
        return False
    return (out / "index.html").is_file() and made_from == fingerprint(root)


def remember(out: Path, made_from: str) -> None:
    """Note the fingerprint of what the site in ``out`` was made from."""
    out.with_suffix(".made-from").write_text(made_from, encoding="utf-8")


def shown(path: Path, root: Path) -> str:
    """``path`` as a person in the checkout would type it."""
    return path.relative_to(root).as_posix()


def count(number: int, noun: str) -> str:
    """``1 warning``, ``2 warnings``."""
    return f"{number} {noun}" + ("" if number == 1 else "s")
