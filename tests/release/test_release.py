"""A release: what is in it, that it repeats, and that a part of it runs alone."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest
from bookmaker import Book

from aiinfra.tools import release
from aiinfra.tools.errors import UserError
from aiinfra.tools.root import notebooks


def names(archive) -> list[str]:
    """What a zip holds, below its one top folder."""
    with zipfile.ZipFile(archive) as file:
        paths = file.namelist()
    assert len({path.split("/")[0] for path in paths}) == 1
    return [path.split("/", 1)[1] for path in paths]


def part_of(archive) -> str:
    return archive.stem.rsplit("-", 1)[1]


def test_a_release_holds_the_parts_the_bundle_and_the_whole_book(dist, parts):
    kinds = sorted(path.name.split("-", 2)[-1] for path in dist.iterdir())
    version = release.__version__
    wanted = [f"{part}.zip" for part in parts] + ["instructors.zip", "SHA256SUMS"]
    wanted += [f"{version}.pdf", f"{version}.epub"]
    assert kinds == sorted(wanted)


def test_sums_are_those_of_the_files(dist):
    lines = (dist / "SHA256SUMS").read_text().splitlines()
    listed = dict(reversed(line.split("  ")) for line in lines)
    files = {path.name for path in dist.iterdir()} - {"SHA256SUMS"}
    assert set(listed) == files
    for name, digest in listed.items():
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest


def test_zips_are_within_their_budget(dist):
    for path in dist.glob("*.zip"):
        assert path.stat().st_size <= release.ZIP_LIMIT_B, path.name


def test_a_part_holds_what_it_needs_and_nothing_of_the_instructors(dist, parts, root):
    for part in parts:
        (archive,) = dist.glob(f"*-{part}.zip")
        held = names(archive)
        for path in release.lessons(root, part):
            assert f"{part}/{path.name}" in held
        for name in ("README.md", "requirements.txt", "constraints.txt", "Makefile"):
            assert name in held
        assert any(name.startswith("wheels/aiinfra-") for name in held)
        assert f"{part}/index.md" in held
        assert not [name for name in held if name.startswith("tests/")]
        for folder in ("exercises", "slides"):
            if (root / part / folder).is_dir():
                assert [name for name in held if name.startswith(f"{part}/{folder}/")]
        with zipfile.ZipFile(archive) as file:
            texts = [
                file.read(name).decode("utf-8", "replace")
                for name in file.namelist()
                if "/exercises/" in name
            ]
        for word in ("BEGIN SOLUTION", "END SOLUTION", "HIDDEN TESTS"):
            assert not [text for text in texts if word in text]


def test_the_bundle_holds_every_solution(dist, parts, root):
    (archive,) = dist.glob("*-instructors.zip")
    held = names(archive)
    for part in parts:
        for path in sorted((root / part / "exercises").glob("*.ipynb")):
            assert [name for name in held if path.stem in name], path


def test_the_same_tree_gives_the_same_bytes(dist, root, tmp_path):
    made = release.make(root, release.choose(root, []), tmp_path, whole=False)
    for path in made:
        if path.suffix == ".zip":
            assert path.read_bytes() == (dist / path.name).read_bytes(), path.name


def test_a_changed_file_changes_the_sum(tmp_path):
    box = tmp_path / "box"
    box.mkdir()
    (box / "a").write_text("one")
    when = (2026, 1, 2, 3, 4, 6)
    first = release.pack(box, tmp_path / "1.zip", "top", when).read_bytes()
    again = release.pack(box, tmp_path / "2.zip", "top", when).read_bytes()
    (box / "a").write_text("two")
    other = release.pack(box, tmp_path / "3.zip", "top", when).read_bytes()
    assert first == again != other


def without_network() -> list[str]:
    """Words before a command that take its network away, all but loopback."""
    if sys.platform != "linux" or not shutil.which("unshare"):
        pytest.skip("taking the network away needs Linux and unshare")
    how = ["--net"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net"]
    probe = ["unshare", *how, "ip", "link", "set", "lo", "up"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us make a network namespace")
    return ["unshare", *how, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


def words_of(folder, *words: str, offline: bool = False, timeout_s: float = 900):
    """Run a program in ``folder`` with an environment that says nothing of ours."""
    keep = ("PATH", "HOME", "LANG", "TMPDIR", "PIP_INDEX_URL", "PIP_CONFIG_FILE")
    environment = {key: os.environ[key] for key in keep if key in os.environ}
    before = without_network() if offline else []
    return subprocess.run(
        [*before, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def test_without_network_there_is_only_loopback(tmp_path):
    done = words_of(tmp_path, "cat", "/proc/net/dev", offline=True)
    devices = [line.split(":")[0].strip() for line in done.stdout.splitlines()[2:]]
    assert devices == ["lo"]


@pytest.mark.timeout(1800)
def test_a_part_installs_runs_and_builds_alone(unpacked, root):
    python = f"PYTHON={sys.executable}"
    index = f"TORCH_INDEX={os.environ.get('TORCH_INDEX', '')}"
    install = words_of(unpacked, "make", python, index, ".venv/installed")
    assert install.returncode == 0, install.stdout[-2000:] + install.stderr[-2000:]
    where = "import aiinfra, sys; print(aiinfra.__file__)"
    done = words_of(unpacked, ".venv/bin/python", "-c", where, offline=True)
    assert str(unpacked) in done.stdout and str(root) not in done.stdout

    chosen = notebooks(unpacked)
    if not os.environ.get("AIINFRA_RELEASE_ALL"):
        chosen = chosen[:1]
    words = [".venv/bin/python", "-m", "pytest", "-q", "--nbval", "--nbval-current-env"]
    files = [str(path) for path in chosen]
    done = words_of(unpacked, *words, *files, offline=True)
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout

    done = words_of(unpacked, "make", "book", "SERVE=0", offline=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for path in notebooks(unpacked):
        page = path.relative_to(unpacked).with_suffix(".html")
        assert (unpacked / "_build/html" / page).is_file()

    # The same check, on a lesson with a wrong output, fails.
    broken = json.loads(chosen[0].read_text("utf-8"))
    printed = next(
        output
        for cell in broken["cells"]
        if "nbval-ignore-output" not in cell["metadata"].get("tags", [])
        for output in cell.get("outputs", [])
        if output["output_type"] == "stream"
    )
    printed["text"] = ["something else\n"]
    copy = chosen[0].with_name("broken.ipynb")
    copy.write_text(json.dumps(broken), encoding="utf-8")
    done = words_of(unpacked, *words, str(copy), offline=True)
    copy.unlink()
    assert done.returncode == 1 and " failed" in done.stdout


def test_what_cannot_be_released_is_said_in_one_line(tmp_path, monkeypatch):
    book = Book(tmp_path)
    book.write("04Train/index.md", "# Training\n")
    with pytest.raises(UserError, match=r"no part '04Trian'; did you mean 04Train\?"):
        release.choose(tmp_path, ["04Trian"])
    with pytest.raises(UserError, match="04Train has no lesson yet"):
        release.choose(tmp_path, ["04Train"])
    monkeypatch.chdir(tmp_path)
    book.write("dist", "a file")
    from aiinfra.tools.cli import main

    assert main(["release"]) == 2
