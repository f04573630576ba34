"""CONTRIBUTING.md names what there is: commands, tags, stages, files."""

import re
from pathlib import Path

from aiinfra.tools.check.form import TAGS
from aiinfra.tools.cli import COMMANDS
from aiinfra.tools.testing import STAGES

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
SPANS = re.findall(r"`([^`\n]+)`", TEXT) + re.findall(r"^\$ (.+)$", TEXT, re.M)


def test_every_command_exists():
    words = [re.sub(r"^\.venv/bin/", "", s).split() for s in SPANS if s.strip()]
    named = {word[1] for word in words if word[0] == "aiinfra" and len(word) > 1}
    assert named <= set(COMMANDS)
    assert {"new-lesson", "execute", "export", "mutants", "status", "check"} <= named


def test_every_task_and_stage_exists():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for task in re.findall(r"`make ([a-z]+)", TEXT):
        assert f"\n{task}:" in makefile
    for stage in re.findall(r"`aiinfra test ([a-z]+)", TEXT):
        assert stage in STAGES


def test_every_tag_is_known_and_those_of_a_skeleton_are_explained():
    from aiinfra.tools.skeleton import CELLS

    explained = set(re.findall(r"^\| `([a-z-]+)` \| \S.*\|$", TEXT, re.M)) - {"what"}
    assert explained & set(TAGS) == explained
    assert {tag for _, tags, _ in CELLS for tag in tags or ()} <= explained


def test_every_link_leads_to_a_file():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (ROOT / target).is_file(), target


def test_every_test_file_has_a_name_of_its_own():
    """Else a bare `pytest` cannot import them side by side."""
    names = sorted(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert names == sorted(set(names))
