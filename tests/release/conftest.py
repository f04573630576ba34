"""The release made once, and one part of it unpacked and installed alone."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from aiinfra.tools import release
from aiinfra.tools.root import find_root


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return find_root(Path(__file__).parent)


@pytest.fixture(scope="session")
def dist(root, tmp_path_factory) -> Path:
    """A release as `aiinfra release` makes it."""
    out = tmp_path_factory.mktemp("dist")
    words = [sys.executable, "-m", "aiinfra.tools.cli", "release", "--out", str(out)]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="session")
def parts(root) -> list[str]:
    """The parts that have lessons."""
    return release.choose(root, [])


@pytest.fixture(scope="session", params=release.choose(find_root(), []))
def unpacked(request, dist, tmp_path_factory) -> Path:
    """One part's zip, unpacked in a folder where nothing else is."""
    (archive,) = dist.glob(f"*-{request.param}.zip")
    folder = tmp_path_factory.mktemp("alone")
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)
    (top,) = folder.iterdir()
    yield top
    shutil.rmtree(folder, ignore_errors=True)
