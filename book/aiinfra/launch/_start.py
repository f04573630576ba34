"""Start the process of a rank: fork it from a warm server, or spawn it.

The standard library's `multiprocessing` has both methods, but it imports your
script again in every child (hence its `if __name__ == "__main__"` guard) and
has one fork server per program, which another library may have started without
torch. Ranks here get their code by value, so they need neither.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection

from aiinfra.launch._errors import RankError
from aiinfra.launch._server import STATUS

START_LIMIT_S = 300.0  # a cold import of torch on a busy machine takes a minute
_IN_CHILD = "AIINFRA_LAUNCH_CHILD"  # set in the server and in spawned ranks

# Forking a process that has loaded Apple's frameworks is unsafe: only Linux forks.
METHOD = os.environ.get(
    "AIINFRA_LAUNCH_START", "fork" if sys.platform == "linux" else "spawn"
)


class RankProcess:
    """One rank's process as its launcher sees it: a connection and an exit code."""

    def __init__(self, conn: Connection):
        self.conn = conn

    def exit_code(self) -> int | None:
        """None while it runs; negative for the signal that killed it."""
        raise NotImplementedError

    def kill(self) -> None:
        """End it now."""
        raise NotImplementedError

    def wait(self, limit_s: float) -> int | None:
        """Its exit code, or None if it still runs after `limit_s` seconds."""
        deadline = time.monotonic() + limit_s
        while self.exit_code() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        return self.exit_code()

    def close(self) -> None:
        """Release what this process holds of it."""
        self.conn.close()


class _Forked(RankProcess):
    def __init__(self, conn: Connection, status_fd: int):
        super().__init__(conn)
        self._status_fd = status_fd
        self._code: int | None = None
        self._pid: int | None = None

    def _read(self, limit_s: float) -> int | None:
        if not select.select([self._status_fd], [], [], limit_s)[0]:
            return None
        data = os.read(self._status_fd, STATUS.size)
        if not data:  # the server died and took the exit code with it
            return -signal.SIGKILL if self._pid else None
        return STATUS.unpack(data)[0]

    def started(self, limit_s: float) -> bool:
        self._pid = self._read(limit_s)
        return self._pid is not None

    def exit_code(self) -> int | None:
        if self._code is None and self._pid is not None:
            self._code = self._read(0)
        return self._code

    def kill(self) -> None:
        if self._pid is not None and self.exit_code() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def close(self) -> None:
        super().close()
        if self._status_fd >= 0:
            os.close(self._status_fd)
            self._status_fd = -1


class _Spawned(RankProcess):
    def __init__(self, conn: Connection, process: subprocess.Popen):
        super().__init__(conn)
        self._process = process

    def exit_code(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        self._process.kill()


def _python(module: str, fd: int, stderr) -> subprocess.Popen:
    """A Python that runs `aiinfra.launch.<module>.main(fd)`, without your script."""
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; "
        f"from aiinfra.launch import {module}; sys.exit({module}.main({fd}))"
    )
    env = {
        **os.environ,
        _IN_CHILD: "1",
        # Ask NVML, not CUDA, whether there is a GPU: a process that has
        # initialised CUDA cannot be forked.
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        # Read when NumPy and torch are loaded, so a rank could not set them later.
        "OPENBLAS_NUM_THREADS": "1",
        "TORCH_FR_BUFFER_SIZE": "2000",
    }
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=env,
        pass_fds=[fd],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        # Signals of the terminal are for the launcher, which then stops the ranks.
        start_new_session=True,
    )


class _Server:
    """The fork server of this process, started on first use."""

    def __init__(self):
        self._lock = threading.Lock()
        self._process: subprocess.Popen | None = None
        self._owner = 0

    def start(self) -> None:
        """Start it unless it runs; returns at once, the imports go on in it."""
        with self._lock:
            if self._owner == os.getpid() and self._process.poll() is None:
                return
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (lives on)
            self._control, theirs = socket.socketpair()
            self._process = _python("_server", theirs.fileno(), self._stderr)
            self._owner = os.getpid()  # a fork of this process starts its own
            theirs.close()

    def fork_rank(self) -> RankProcess:
        self.start()
        ours, theirs = socket.socketpair()
        status_r, status_w = os.pipe()
        process = _Forked(Connection(ours.detach()), status_r)
        with contextlib.suppress(BrokenPipeError), self._lock:
            socket.send_fds(self._control, [b"r"], [theirs.fileno(), status_w])
        theirs.close()
        os.close(status_w)
        if not process.started(START_LIMIT_S):
            process.close()
            self._stderr.seek(0)
            log = self._stderr.read().decode(errors="replace").strip()
            self._process.kill()
            raise RankError(
                "The process that ranks are forked from did not start"
                + (f":\n{log}" if log else f" in {START_LIMIT_S:.0f} s.")
            )
        return process


_server = _Server()


def in_child() -> bool:
    """True in the server and in a spawned rank that is still importing."""
    return _IN_CHILD in os.environ


def started_as_rank() -> bool:
    """Whether torchrun, or a scheduler like it, started this process as a rank."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def warm_up() -> None:
    """Begin importing torch for the ranks, in a process of their own."""
    if sys.platform == "win32":
        raise ImportError("aiinfra.launch needs Linux or macOS; on Windows use WSL")
    if METHOD == "fork" and not in_child() and not started_as_rank():
        _server.start()


def start_rank(log: str) -> RankProcess:
    """A new process that runs `_worker.main` on the other end of `.conn`.

    Until it takes over its own output, its stderr goes to the file `log`.
    """
    if METHOD == "fork":
        return _server.fork_rank()
    ours, theirs = socket.socketpair()
    with open(log, "wb") as stderr:
        process = _python("_worker", theirs.fileno(), stderr)
    theirs.close()
    return _Spawned(Connection(ours.detach()), process)
