"""The walls hold, and without them the same programs do what they should not."""

import os
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest

from aiinfra.tools import sandbox
from aiinfra.tools.errors import UserError
from aiinfra.tools.sandbox import Ended, Limits, OutOfTime, Sandbox

if not shutil.which("bwrap"):
    if os.environ.get("AIINFRA_REQUIRE_SANDBOX") == "1":
        pytest.fail("no bubblewrap, and AIINFRA_REQUIRE_SANDBOX=1 demands it")
    pytest.skip("no bubblewrap (`apt install bubblewrap`)", allow_module_level=True)

SMALL = Limits(memory_gib=0.5, processes=20)
LARGE = Limits(memory_gib=2.0, processes=200)
# Runs each message as code and answers with what it calls `result`.
PROGRAM = """
import os, struct, sys
def read(n):
    data = b""
    while len(data) < n:
        piece = os.read(0, n - len(data))
        if not piece:
            sys.exit()
        data += piece
    return data
while True:
    names = {"result": None}
    try:
        exec(read(struct.unpack(">I", read(4))[0]), names)
        answer = str(names["result"]).encode()
    except Exception as error:
        answer = type(error).__name__.encode()
    os.write(1, struct.pack(">I", len(answer)) + answer)
"""


def ask(code: str, limits: Limits = SMALL, limit_s: float = 20, **options) -> str:
    """What the code calls `result`, or the type of its error."""
    with Sandbox([sys.executable, "-c", PROGRAM], limits, **options) as box:
        return box.ask(textwrap.dedent(code).encode(), limit_s).decode()


def marked() -> list[psutil.Process]:
    """Processes of a sandbox of this process."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(sandbox.MARK) == str(os.getpid()):
                found.append(process)
        except psutil.Error:
            pass
    return found


@pytest.fixture(autouse=True)
def nothing_stays():
    """No test leaves a process or a thread."""
    threads = threading.active_count()
    yield
    assert marked() == []
    assert threading.active_count() == threads


@pytest.fixture
def service():
    """The port of a service on this machine's loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_it_answers():
    assert ask("result = 6 * 7") == "42"


def test_this_machines_services_cannot_be_reached(service):
    code = f"import socket; socket.create_connection(('127.0.0.1', {service}), 2)"
    assert ask(code) == "ConnectionRefusedError"
    assert ask(code, unsafe=True) == "None"


def test_there_is_no_network_but_its_own_loopback():
    code = """
        import socket
        server = socket.create_server(("127.0.0.1", 0))
        socket.create_connection(server.getsockname(), 2)
        result = [name for _, name in socket.if_nameindex()]
    """
    assert ask(code) == "['lo']"
    assert ask(code, unsafe=True) == str([name for _, name in socket.if_nameindex()])
    assert ask("import socket; socket.create_connection(('192.0.2.1', 80))") == (
        "OSError"
    )


def test_other_files_are_not_there(tmp_path):
    (tmp_path / "secret").write_text("solution")
    code = f"result = open({str(tmp_path / 'secret')!r}).read()"
    assert ask(code) == "FileNotFoundError"
    assert ask(code, unsafe=True) == "solution"


def test_nothing_can_be_written_but_in_memory(tmp_path):
    for place in (tmp_path, "/", "/dev", "/usr", sys.prefix, Path(sandbox.__file__)):
        path = f"{place}/written" if Path(place).is_dir() else str(place)
        assert ask(f"open({path!r}, 'a')") in (
            "OSError",
            "PermissionError",
            "FileNotFoundError",
        )
    assert not (tmp_path / "written").exists()
    assert ask("open('/tmp/x', 'w'); open('/dev/shm/x', 'w'); result = 1") == "1"
    assert not Path("/dev/shm/x").exists()
    assert ask(f"open({str(tmp_path / 'written')!r}, 'w')", unsafe=True) == "None"
    assert (tmp_path / "written").exists()


def test_the_files_of_memory_are_bounded():
    code = """
        import os
        written = 0
        try:
            for number in range(40):
                with open(f"/tmp/{number}", "wb") as file:
                    written += file.write(bytes(2**24))
        except OSError:
            pass
        result = written // 2**20
    """
    assert int(ask(code)) <= SMALL.files_bytes // 2**20
    assert int(ask(code, LARGE)) == 640


def test_the_environment_is_its_own(monkeypatch):
    monkeypatch.setenv("TOKEN", "secret")
    assert "TOKEN" not in ask("import os; result = list(os.environ)")


def test_it_has_no_privilege():
    code = """
        import os
        status = open("/proc/self/status").read()
        rights = [line.split()[1] for line in status.splitlines() if "CapEff" in line]
        result = os.getuid() != 0, int(rights[0], 16), os.getgroups()
    """
    said = ask(code)
    assert said.startswith("(True, 0, ")
    if os.getuid() == 0:
        assert said == "(True, 0, [])"
    assert ask("import os; os.setuid(0)") == "PermissionError"


def test_it_sees_no_other_process():
    code = """
        import os
        result = max(int(name) for name in os.listdir("/proc") if name.isdigit())
    """
    assert int(ask(code)) < 10


def test_one_process_gets_no_more_memory_than_allowed():
    code = "memory = b'x' * {}; result = len(memory)"
    assert ask(code.format(10**10)) == "MemoryError"
    assert ask(code.format(7 * 10**8)) == "MemoryError"
    assert ask(code.format(7 * 10**8), LARGE) == "700000000"


MANY = """
    import os, time
    ready, filled = os.pipe()
    for _ in range(4):
        if os.fork() == 0:
            memory = b"x" * (2 * 10**8)
            os.write(filled, b".")
            time.sleep(60)
    for _ in range(4):
        os.read(ready, 1)
    time.sleep({hold_s})
"""
SHARED = """
    import mmap, time
    memory, piece = mmap.mmap(-1, 7 * 10**8), b"x" * 10**7
    for _ in range(70):
        memory.write(piece)
    time.sleep({hold_s})
"""


@pytest.mark.parametrize("code", [MANY, SHARED])
def test_all_processes_together_get_no_more_either(code):
    with pytest.raises(Ended, match=r"more than 0\.5 GiB of memory"):
        ask(code.format(hold_s=40), limit_s=60)
    assert ask(code.format(hold_s=1), LARGE, limit_s=60) == "None"


def test_memory_that_processes_share_counts_once():
    code = """
        import os, time
        memory = b"x" * (2 * 10**8)
        for _ in range(4):
            if os.fork() == 0:
                time.sleep(60)
        time.sleep(0.5)
    """
    assert ask(code) == "None"


def test_it_ends_when_the_machine_runs_out_of_memory(monkeypatch):
    monkeypatch.setattr(sandbox, "SPARE_BYTES", 2**60)
    with pytest.raises(Ended, match="running out of memory"):
        ask("import time; time.sleep(10)")


FORKS = """
    import os, time
    for _ in range(40):
        if os.fork() == 0:
            time.sleep(60)
"""


def test_there_are_no_more_processes_than_allowed():
    assert ask(FORKS) == "BlockingIOError"
    assert ask(FORKS, LARGE) == "None"


def test_without_walls_processes_are_still_counted():
    if os.getuid() == 0:  # whom RLIMIT_NPROC does not bind
        with pytest.raises(Ended, match="more than 20 processes"):
            ask(FORKS + "    time.sleep(10)", unsafe=True)


def test_a_fork_bomb_ends_with_its_time():
    with pytest.raises(Ended):
        ask(
            "import os\nwhile True:\n    try: os.fork()\n    except OSError: 0",
            limit_s=2,
        )


def test_time_is_bounded():
    began = time.monotonic()
    with pytest.raises(OutOfTime):
        ask("while True: pass", limit_s=1)
    assert time.monotonic() - began < 15


def test_a_program_that_does_not_listen_does_not_stop_us():
    with (
        Sandbox([sys.executable, "-c", "import time; time.sleep(60)"], SMALL) as box,
        pytest.raises(OutOfTime),
    ):
        box.ask(bytes(10**7), 1)


def test_an_endless_answer_is_refused():
    code = "import os; os.write(1, b'\\xff' * 4)"
    with pytest.raises(Ended, match="64 MiB"):
        ask(code)


@pytest.mark.parametrize(
    "code, words",
    [
        ("import os; os._exit(3)", "exit status 3"),
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("import sys; sys.exit('no more')", "exit status 1.: no more"),
    ],
)
def test_an_end_is_told(code, words):
    with pytest.raises(Ended, match=words.replace(".:", r"\):")):
        ask(code)


def test_much_on_standard_error_stops_nobody():
    assert ask("import os\nfor _ in range(999): os.write(2, bytes(9999))") == "None"


@pytest.mark.parametrize("unsafe", [False, True])
def test_what_it_started_ends_with_it(unsafe):
    code = """
        import subprocess, sys
        subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"],
            start_new_session=True,
        )
        import time; time.sleep(0.5)
    """
    with Sandbox([sys.executable, "-c", PROGRAM], SMALL, unsafe=unsafe) as box:
        box.ask(textwrap.dedent(code).encode(), 20)
        assert len(marked()) >= 2
    assert marked() == []


def test_it_ends_with_the_program_that_made_it():
    code = f"""
        import os, sys
        from aiinfra.tools.sandbox import Limits, Sandbox
        box = Sandbox([sys.executable, "-c", {PROGRAM!r}], Limits(0.5, 20))
        box.ask(b"import subprocess; subprocess.Popen(['sleep', '600'])", 20)
        print(os.getpid(), flush=True)
        os._exit(0)
    """
    parent = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    mark = parent.stdout.strip()
    deadline = time.monotonic() + 10
    while alive := [p for p in psutil.process_iter() if carries(p, mark)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.05)


def carries(process: psutil.Process, mark: str) -> bool:
    """Whether a process has this mark."""
    try:
        return process.environ().get(sandbox.MARK) == mark
    except psutil.Error:
        return False


AS_NOBODY = """\
set -e
mkdir "$FOLDER/python"
mount --bind "$PREFIX" "$FOLDER/python"
mount -t tmpfs -o mode=755 none /root
mkdir -p "$PREFIX"
mount --move "$FOLDER/python" "$PREFIX"
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$PYTHON" -c "$CODE"
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_the_walls_hold_for_an_ordinary_user_too(tmp_path, service):
    prefix = Path(sys.executable).resolve().parents[1]
    if not prefix.is_relative_to("/root"):
        prefix = tmp_path / "nothing"
        prefix.mkdir()
    code = f"""
        import os, sys
        from aiinfra.tools.sandbox import Limits, Sandbox, require
        require([])
        def ask(code):
            with Sandbox([sys.executable, "-c", {PROGRAM!r}], Limits(0.5, 20)) as box:
                return box.ask(code.encode(), 20).decode()
        assert os.getuid() == 65534
        print(
            ask("import socket; socket.create_connection(('127.0.0.1', {service}))"),
            ask("memory = b'x' * 7 * 10**8"),
            ask("import os, time\\nfor _ in range(40): os.fork() or time.sleep(60)"),
            ask("open('/dev/x', 'w')"),
            ask("open('/x', 'w')"),
            ask("open({str(tmp_path)!r})"),
        )
    """
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", AS_NOBODY],
        env={
            "PATH": os.environ["PATH"],
            "FOLDER": str(tmp_path),
            "PREFIX": str(prefix),
            "PYTHON": sys.executable,
            "CODE": textwrap.dedent(code),
        },
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split() == [
        "ConnectionRefusedError",
        "MemoryError",
        "BlockingIOError",
        "OSError",
        "OSError",
        "FileNotFoundError",
    ], done.stderr


def test_without_bubblewrap_nothing_runs(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="apt install bubblewrap"):
        sandbox.require([])
    monkeypatch.undo()
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UserError, match="--unsafe"):
        sandbox.require([])


def test_walls_that_do_not_stand_are_told(monkeypatch, tmp_path):
    fake = tmp_path / "bwrap"
    fake.write_text(
        "#!/bin/sh\necho 'setting up uid map: Permission denied' >&2\nexit 1"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(UserError, match="setting up uid map"):
        sandbox.require([])


def test_what_lies_inside_the_walls_is_refused():
    with pytest.raises(UserError, match="move it elsewhere"):
        sandbox.require([Path("/usr/share/submissions")])
