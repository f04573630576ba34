"""The workflow files are valid, and call tasks that exist."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from aiinfra.tools.check.problem import Problem
from aiinfra.tools.check.tree import Skip
from aiinfra.tools.root import nearest, relative

FOLDER = Path(".github/workflows")
SCHEMA = [sys.executable, "-m", "check_jsonschema"]


def check(root: Path) -> list[Problem]:
    """Against GitHub's schema, the Makefile, and actionlint where it is installed."""
    paths = sorted((root / FOLDER).glob("*.y*ml"))
    if not paths:
        raise Skip(f"no workflows in {FOLDER}")
    problems = against_schema(root, paths)
    tasks = re.findall(r"^([a-z-]+):", read(root / "Makefile"), re.MULTILINE)
    for path in paths:
        text = read(path)
        for found in re.finditer(r"^\s*(?:- )?run: make ([\w-]+)", text, re.MULTILINE):
            if found.group(1) not in tasks:
                line = 1 + text.count("\n", 0, found.start(1))
                message = f"no make {found.group(1)}; {nearest(found.group(1), tasks)}"
                problems.append(Problem(relative(root, path), line, message))
    if actionlint := shutil.which("actionlint"):
        problems += linted(root, actionlint, paths)
    return problems


def read(path: Path) -> str:
    """A file's text; nothing if it is not there."""
    return path.read_text("utf-8") if path.is_file() else ""


def against_schema(root: Path, paths: list[Path]) -> list[Problem]:
    """What GitHub's schema, vendored in check-jsonschema, refuses."""
    problems = []
    for path in paths:
        try:
            yaml.safe_load(read(path))
        except yaml.YAMLError as error:
            message = f"no YAML: {' '.join(str(error).split())}"
            problems.append(Problem(relative(root, path), 1, message))
    if problems:
        return problems
    words = ["--builtin-schema=vendor.github-workflows", "--output-format=json"]
    done = subprocess.run(
        [*SCHEMA, *words, *map(str, paths)], capture_output=True, text=True, check=False
    )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return [Problem(FOLDER.as_posix(), 1, f"check-jsonschema failed: {last}")]
    return [
        Problem(
            relative(root, Path(each["filename"])),
            1,
            f"{each['path']}: {each['message'][:200]}",
        )
        for each in report.get("errors", [])
    ]


def linted(root: Path, actionlint: str, paths: list[Path]) -> list[Problem]:
    """What actionlint finds."""
    done = subprocess.run(
        [actionlint, "-format", "{{json .}}", *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
    )
    return [
        Problem(relative(root, Path(each["filepath"])), each["line"], each["message"])
        for each in json.loads(done.stdout or "[]")
    ]
