"""Ranks start from scripts and torchrun alike, and nothing outlives them."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import torch.distributed as dist

from aiinfra.launch import _start, launch

# Without an `if __name__ == "__main__"` guard, on purpose.
SCRIPT = """\
import os, sys
import torch, torch.distributed as dist
from aiinfra.launch import RankError, Ranks, device, launch

class Pair:
    def __init__(self, rank, total):
        self.rank, self.total = rank, total

def step(x):
    x = x.to(device()) * (dist.get_rank() + 1)
    dist.all_reduce(x)
    return Pair(dist.get_rank(), x.sum().item())

def nested():
    try:
        launch(step, torch.ones(3))
    except RuntimeError as error:
        return str(error)

results = launch(step, torch.ones(3), world_size=2)
told = os.environ.get("RANK", "script")
text = f"{told}: {[(p.rank, p.total, type(p) is Pair) for p in results]}\\n"
text += f"{told}: {launch(nested)}\\n"
try:
    text += f"{told}: {Ranks(2)}\\n"
except RuntimeError as error:
    text += f"{told}: {error}\\n"
sys.stdout.write(text)
"""

# Starts two ranks, prints the pids of all it has started, and never ends.
ENDLESS = """\
import ctypes, os
from aiinfra.launch import Ranks, _start
ranks = Ranks(2, timeout_s=1000)
pids = ranks(os.getpid)
if _start._server._process:
    pids.append(_start._server._process.pid)
print(*pids, flush=True)
ranks(BODY)
"""


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess:
    env = {**os.environ, **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)


def gone(pids: list[int], limit_s: float = 30) -> bool:
    """Whether all these processes end in time."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if not any(running(pid) for pid in pids):
            return True
        time.sleep(0.02)
    return False


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="reads /proc, which only Linux has"
)


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("scripts") / "step.py"
    path.write_text(SCRIPT)
    return path


EXPECTED = "[(0, 9.0, True), (1, 9.0, True)]"


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_script_without_a_guard_runs(script, start):
    if start == "fork" and sys.platform != "linux":
        pytest.skip("ranks are forked on Linux only")
    done = run([sys.executable, str(script)], AIINFRA_LAUNCH_START=start)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == f"script: {EXPECTED}"
    assert "ranks cannot start ranks" in lines[1]
    assert lines[2] == "script: <Ranks(2), alive>"


def test_the_same_script_runs_under_torchrun(script):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = run([*torchrun, "--nproc-per-node", "2", str(script)])
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        lines = [s for s in done.stdout.splitlines() if s.startswith(f"{rank}: ")]
        assert lines[0] == f"{rank}: {EXPECTED}"
        assert "ranks cannot start ranks" in lines[1]
        assert "this process is itself a rank that torchrun started" in lines[2]


@linux_only
@pytest.mark.parametrize(
    ("start", "body"),
    [
        # The ranks notice, or else their server does.
        ("spawn", "lambda: exec('while True: pass')"),
        ("fork", "lambda: ctypes.PyDLL(None).sleep(1000)"),  # holds the GIL
    ],
)
def test_a_killed_launcher_leaves_no_process(tmp_path, start, body):
    path = tmp_path / "endless.py"
    path.write_text(ENDLESS.replace("BODY", body))
    launcher = subprocess.Popen(
        [sys.executable, str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path), "AIINFRA_LAUNCH_START": start},
    )
    try:
        pids = [int(word) for word in launcher.stdout.readline().split()]
        assert len(pids) == 2 + (start == "fork") and all(running(pid) for pid in pids)
        launcher.kill()
        assert gone(pids)
        if start == "spawn":  # ranks without the GIL cannot tidy up
            assert not list(tmp_path.glob("aiinfra-ranks-*"))
    finally:
        launcher.kill()
        launcher.wait()
        launcher.stdout.close()


@linux_only
def test_200_launches_leak_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def footprint():
        me, server = os.getpid(), _start._server._process.pid
        return {
            "children of the server": children(server),
            "files of this process": len(os.listdir(f"/proc/{me}/fd")),
            "files of the server": len(os.listdir(f"/proc/{server}/fd")),
            "ports": listening([me, server]),
            "files in the temporary folder": os.listdir(tmp_path),
        }

    others = listening([os.getpid()])  # what earlier tests of this process serve
    launch(dist.barrier)
    before = footprint()
    for _ in range(200):
        launch(dist.barrier)
    assert footprint() == before
    assert before["children of the server"] == []
    assert before["ports"] == others
    assert before["files in the temporary folder"] == []


def listening(pids: list[int]) -> list[str]:
    """Listening TCP sockets of these processes."""
    inodes = set()
    for pid in pids:
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            try:
                inodes.add(os.readlink(fd))
            except FileNotFoundError:  # the descriptor that listed the folder
                continue
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes]


@linux_only
def test_the_server_has_one_thread_and_no_gpu():
    """A process with more threads, or one that has initialised CUDA, cannot fork."""
    launch(dist.barrier)
    pid = _start._server._process.pid
    assert len(os.listdir(f"/proc/{pid}/task")) == 1
    assert "/dev/nvidia" not in Path(f"/proc/{pid}/maps").read_text()


@linux_only
def test_a_killed_server_is_replaced():
    launch(dist.barrier)
    first = _start._server._process
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert launch(dist.get_rank) == [0, 1]
    assert _start._server._process.pid != first.pid


@linux_only
def test_a_server_that_cannot_import_says_why(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')\n")
    program = (
        "from aiinfra.launch import launch, _start; import os, sys\n"
        "_start._server._process.kill(); _start._server._process.wait()\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "launch(os.getpid)\n"
    )
    done = run([sys.executable, "-c", program])
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert re.search("ImportError: no torch here", last)
    assert "The process that ranks are forked from did not start" in done.stderr
