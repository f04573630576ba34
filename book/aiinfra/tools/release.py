"""Make the files of a release: one zip per part, the instructors' zip, PDF and ePub.

Each part's zip is a small book of its own: its lessons, student assignments, slides,
figures and data, with the package as a wheel. Unpacked anywhere, it installs, runs,
checks and builds alone. All files are equal byte for byte when made again from the
same tree, so SHA256SUMS says whether a download is what was released.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from aiinfra import __version__
from aiinfra.tools import build, notebook
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import (
    MARKER,
    committed_at,
    find_root,
    nearest,
    notebooks,
    part_folders,
    relative,
)

NAME = "aiinfra"
ZIP_LIMIT_B = 5_000_000
TEMPLATES = Path(__file__).with_name("part")  # README and Makefile of a part
# What every part's zip holds beside the part.
SHARED = (
    "book/static",
    "book/reference",
    "constraints.txt",
    "LICENSE",
    "LICENSE-text",
    "NOTICE",
)
# What is made for the zip, or is for the instructors' zip, or makes other files.
NOT_SHARED = ("book/static/make", "book/reference/gpu-runs")
NOT_OF_A_PART = ("exercises", "slides")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="default: every part with lessons"
    )
    parser.add_argument(
        "--out", type=Path, default=None, help="folder to write (default: dist)"
    )


def run(args: argparse.Namespace) -> int:
    """Make the release; 1 if a file is over its budget."""
    root = find_root()
    if (root / MARKER).is_file():
        raise UserError("this is one released part; releases are made from a clone")
    out = args.out or root / "dist"
    if out.exists() and not out.is_dir():
        raise UserError(f"--out {out} is a file; name a folder")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="aiinfra-release-") as folder:
        made = make(root, choose(root, args.parts), Path(folder), whole=not args.parts)
        out.mkdir(parents=True, exist_ok=True)
        for old in [*out.glob(f"{NAME}-*"), *out.glob("SHA256SUMS")]:
            old.unlink()
        for path in made:
            shutil.move(path, out / path.name)
    over = report(out)
    print(f"{len(made)} files in {time.monotonic() - began:.0f} s: {out}")
    return 1 if over else 0


def choose(root: Path, names: list[str]) -> list[str]:
    """The parts meant; by default all that have lessons.

    Raises UserError for an unknown part, and for one without a lesson.
    """
    known = [folder.name for folder in part_folders(root)]
    for name in names:
        if name.strip("/") not in known:
            raise UserError(f"no part {name!r}; {nearest(name, known)}")
    with_lessons = [name for name in known if lessons(root, name)]
    wanted = [name.strip("/") for name in names] or with_lessons
    if bare := [name for name in wanted if name not in with_lessons]:
        raise UserError(f"{bare[0]} has no lesson yet, so there is nothing to release")
    return wanted


def lessons(root: Path, part: str) -> list[Path]:
    """The notebooks of a part that _toc.yml lists."""
    listed = (root / "_toc.yml").read_text(encoding="utf-8")
    return [
        path
        for path in notebooks(root)
        if relative(root, path).startswith(f"{part}/")
        and re.search(
            rf"file: {re.escape(relative(root, path).removesuffix('.ipynb'))}\s", listed
        )
    ]


def make(root: Path, parts: list[str], out: Path, whole: bool = True) -> list[Path]:
    """Make the files of a release in ``out`` and return them, SHA256SUMS last."""
    made = []
    say(f"packing the package {__version__} as a wheel")
    wheel = make_wheel(root, out)
    for part in parts:
        say(f"packing {part}")
        made.append(part_zip(root, part, wheel, out))
    if whole:
        say("packing the instructors' bundle")
        made.append(instructor_zip(root, parts, out))
        for kind in ("pdf", "epub"):
            say(f"making the book's {kind}")
            command(root, kind)
            target = out / f"{NAME}-{__version__}.{kind}"
            shutil.copyfile(root / "_build" / f"book.{kind}", target)
            made.append(target)
    sums = out / "SHA256SUMS"
    lines = [f"{sha256(path)}  {path.name}\n" for path in sorted(made)]
    sums.write_text("".join(lines), encoding="utf-8")
    return [*made, sums]


def part_zip(root: Path, part: str, wheel: Path, out: Path) -> Path:
    """One part as a book of its own that needs nothing else of the repository."""
    from aiinfra.tools.exercises import student_edition

    top = f"{NAME}-{__version__}-{part}"
    with tempfile.TemporaryDirectory(dir=out) as folder:
        box = Path(folder)
        for path in tracked(root, [part, *SHARED]):
            name = relative(root, path)
            inside = name.removeprefix(f"{part}/").split("/")[0]
            if inside in NOT_OF_A_PART or name.startswith(NOT_SHARED):
                continue
            copy(path, box / name)
        copy(wheel, box / "wheels" / wheel.name)
        for path in decks(root, part):
            copy(path, box / part / "slides" / path.name)
        if (root / part / "exercises").is_dir():
            student_edition(root, part, "", box / part / "exercises")
        (box / "requirements.txt").write_text(
            "# From this folder: pip install -r requirements.txt -c constraints.txt\n"
            f"./wheels/{wheel.name}[part]\n"
        )
        (box / "_toc.yml").write_text(
            yaml.safe_dump(build.part_toc(root, part), sort_keys=False)
        )
        (box / "_config.yml").write_text(part_config(root))
        copy(TEMPLATES / "Makefile", box / "Makefile")
        (box / MARKER).write_text(
            json.dumps({"part": part, "version": __version__}) + "\n"
        )
        (box / "README.md").write_text(readme(root, part, box), encoding="utf-8")
        return pack(box, out / f"{top}.zip", top, commit_time(root))


def instructor_zip(root: Path, parts: list[str], out: Path) -> Path:
    """Every assignment's solution and wrong answers, and the decks with their notes."""
    from aiinfra.tools.exercises import instructor_edition

    top = f"{NAME}-{__version__}-instructors"
    with tempfile.TemporaryDirectory(dir=out) as folder:
        box = Path(folder)
        for part in parts:
            if (root / part / "exercises").is_dir():
                instructor_edition(root, part, "", box / part / "exercises")
            for path in tracked(root, [f"{part}/slides"]):
                copy(path, box / relative(root, path))
            for path in decks(root, part):
                copy(path, box / part / "slides" / path.name)
        for path in tracked(root, ["book/teach", "LICENSE", "LICENSE-text"]):
            copy(path, box / relative(root, path))
        return pack(box, out / f"{top}.zip", top, commit_time(root))


def decks(root: Path, part: str) -> list[Path]:
    """The part's decks as PDFs, printed now if they are not yet."""
    from aiinfra.tools import slides

    if not list((root / part / "slides").glob("*.md")):
        return []
    return slides.print_part(root, part)


def make_wheel(root: Path, out: Path) -> Path:
    """The package as a wheel, equal byte for byte from an equal tree."""
    with tempfile.TemporaryDirectory(dir=out) as folder:
        source, built = Path(folder, "source"), Path(folder, "built")
        for path in tracked(root, ["book/aiinfra", "pyproject.toml", "README.md"]):
            copy(path, source / relative(root, path))
        words = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet"]
        words += ["--no-build-isolation", "--no-index", "-w", str(built), str(source)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise UserError(f"the package does not build as a wheel: {last}")
        (wheel,) = built.glob("*.whl")
        unpacked = Path(folder, "unpacked")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
        return pack(unpacked, out / wheel.name, "", commit_time(root))


def tracked(root: Path, places: list[str]) -> Iterator[Path]:
    """The committed files under ``places``; without git, all but what is built."""
    if (root / ".git").exists():
        words = ["git", "-C", str(root), "ls-files", "-z", "--", *places]
        names = subprocess.run(words, capture_output=True, check=True, text=True)
        found = {root / name for name in names.stdout.split("\0") if name}
    else:
        found = set()
        for place in places:
            top = root / place
            paths = [top] if top.is_file() else top.rglob("*")
            found |= {path for path in paths if not skipped(path.relative_to(root))}
    return (path for path in sorted(found) if path.is_file())


def skipped(path: Path) -> bool:
    """Whether a file is one that building or running leaves behind."""
    return any(build.SKIPPED.match(piece) for piece in path.parts)


def part_config(root: Path) -> str:
    """The site's configuration for one part: links to other parts are plain text."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    settings = config["sphinx"]["config"]
    settings["suppress_warnings"] = [
        *settings.get("suppress_warnings", []),
        *build.OUTSIDE_A_PART,
    ]
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True)


def pack(box: Path, target: Path, top: str, when: tuple[int, ...]) -> Path:
    """Zip a folder: names in order, one time, one mode, so that bytes repeat."""
    prefix = f"{top}/" if top else ""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(box.rglob("*")):
            if path.is_dir():
                continue
            name = prefix + path.relative_to(box).as_posix()
            info = zipfile.ZipInfo(name, when)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # Unix, wherever it is made
            executable = path.suffix == ".sh"
            info.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(info, path.read_bytes())
    return target


def commit_time(root: Path) -> tuple[int, ...]:
    """When the tree was committed (UTC), or the oldest time that a zip can hold."""
    seconds = committed_at(root)
    return time.gmtime(seconds)[:6] if seconds else (1980, 1, 1, 0, 0, 0)


def command(root: Path, *words: str) -> None:
    """Run one of our own commands; UserError if it fails."""
    words = (sys.executable, "-m", "aiinfra.tools.cli", *words)
    done = subprocess.run(words, cwd=root, check=False)
    if done.returncode:
        raise UserError(f"`aiinfra {' '.join(words[3:])}` failed; see above")


def copy(source: Path, target: Path) -> None:
    """Copy a file, making its folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def sha256(path: Path) -> str:
    """The hash of a file, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def say(text: str) -> None:
    """One line of progress."""
    print(f"{text} …", flush=True)


def report(out: Path) -> list[str]:
    """Print every file's size; the names of zips over their budget."""
    over = []
    for path in sorted(out.iterdir()):
        size = path.stat().st_size
        too_big = path.suffix == ".zip" and size > ZIP_LIMIT_B
        verdict = f"  over {ZIP_LIMIT_B / 1e6:g} MB" if too_big else ""
        print(f"  {path.name:<44} {size / 1e6:>7.2f} MB{verdict}")
        over += [path.name] * too_big
    return over


def readme(root: Path, part: str, box: Path) -> str:
    """The README of one part's zip: what it holds, needs and costs, and how to run."""
    rows = []
    for path in lessons(root, part):
        name = relative(root, path)
        title = notebook.title(notebook.read(path), default=name)
        rows.append(f"| `{name}` | {title} | {seconds(root, name)} |")
    extras = [
        ("exercises", "assignments, `*.ipynb`, to be filled in"),
        ("slides", "slides, `*.pdf`"),
        ("data", "recorded runs"),
    ]
    holds = "".join(
        f"- `{part}/{folder}`: {text}\n"
        for folder, text in extras
        if (box / part / folder).is_dir()
    )
    template = (TEMPLATES / "README.md").read_text(encoding="utf-8")
    return template.format(
        part=part,
        title=part_title(root, part),
        version=__version__,
        rows="\n".join(rows),
        holds=holds,
        unpacked_mb=sum(f.stat().st_size for f in box.rglob("*") if f.is_file()) / 1e6,
    )


def part_title(root: Path, part: str) -> str:
    """The heading of the part's page."""
    for line in (root / part / "index.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line[2:].strip()
    return part


def seconds(root: Path, name: str) -> str:
    """How long a notebook took when it was last run for the status page."""
    record = root / "book/reference/runs" / f"{name.removesuffix('.ipynb')}.json"
    machines = json.loads(record.read_text(encoding="utf-8"))
    return f"{max(machine['seconds'] for machine in machines.values()):.0f} s"
