"""Run a program that nobody here wrote, and talk to it, without being harmed by it.

The walls are Linux namespaces, put up by bubblewrap (`bwrap`): the program sees the
operating system, this Python and this package, read-only, and nothing else of the
machine; what it writes lies in memory and goes with it; it has no network but its own
loopback, no processes but its own, and no privilege. Memory is bounded twice: each
process by RLIMIT_DATA, and the whole tree by a watcher that adds up what the processes
share out between them (PSS). The number of processes is bounded by RLIMIT_NPROC, which
does not bind root, so root becomes an unprivileged user first.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

try:
    import resource
except ImportError:  # Windows, which `require` refuses
    resource = None

from aiinfra.tools.errors import UserError

GIB = 2**30
UID = 64_999  # an account that nobody has: what runs as root outside runs as this
MARK = "AIINFRA_SANDBOX"  # in the environment of every process inside
LOOK_S = 0.1  # between two looks of the watcher
SPARE_BYTES = GIB // 2  # of the machine's memory, below which the program is ended
START_LIMIT_S = 60.0
MESSAGE_LIMIT_BYTES = 64 * 2**20
LAST_WORDS_BYTES = 4000
ETC = ("ld.so.cache", "alternatives", "hosts", "localtime", "nsswitch.conf")
NOT_PROTECTED = (
    "this machine's files, the other submissions and the solutions can be read and "
    "changed, its network can be used, and what a submission leaves running may stay"
)


@dataclass(frozen=True)
class Limits:
    """What one program and all its children may use together.

    ``memory_gib`` bounds memory, and half of it each of /tmp and /dev/shm, which lie
    in memory; ``processes`` bounds processes and threads.
    """

    memory_gib: float = 4.0
    processes: int = 512

    @property
    def memory_bytes(self) -> int:
        """The bound on memory, in bytes."""
        return int(self.memory_gib * GIB)

    @property
    def files_bytes(self) -> int:
        """The bound on the files of /tmp, and of /dev/shm, in bytes."""
        return self.memory_bytes // 2


class Ended(Exception):  # noqa: N818 (not an error here: the program has ended)
    """The program inside ended, or was ended; the text says why."""


class OutOfTime(Ended):
    """It was ended because it did not answer in time."""


class Sandbox:
    """A program behind walls that answers one message at a time.

    It reads messages from its standard input and writes one answer for each to its
    standard output: four bytes of length, big-endian, and so many bytes.
    """

    def __init__(
        self, command: list[str], limits: Limits = Limits(), *, unsafe: bool = False
    ):
        self.limits = limits
        self._why = ""
        self._words = b""
        self._seen: dict[int, psutil.Process] = {}
        self._folder = (
            tempfile.TemporaryDirectory(prefix="aiinfra-") if unsafe else None
        )
        bounds = json.dumps({"limits": asdict(limits), "walls": not unsafe})
        inside = [sys.executable, "-m", __spec__.name, bounds]
        self._process = subprocess.Popen(
            [*([] if unsafe else walls(limits)), *inside, *command],
            cwd=self._folder.name if self._folder else "/",
            env=environment(self._folder.name if self._folder else "/tmp"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        for pipe in (self._process.stdin, self._process.stdout):
            os.set_blocking(pipe.fileno(), False)
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=work, daemon=True)
            for work in (self._watch, self._listen)
        ]
        for thread in self._threads:
            thread.start()

    def ask(self, message: bytes, limit_s: float) -> bytes:
        """The answer to ``message``.

        Raises OutOfTime when it takes more than ``limit_s`` seconds, Ended when it is
        too long and when the program ended; the program is gone then.
        """
        deadline = time.monotonic() + limit_s
        try:
            self._write(struct.pack(">I", len(message)) + message, deadline)
            (length,) = struct.unpack(">I", self._read(4, deadline))
            if length > MESSAGE_LIMIT_BYTES:
                self._end(f"it answered with more than {MESSAGE_LIMIT_BYTES >> 20} MiB")
                raise Ended(self._why)
            return self._read(length, deadline)
        except TimeoutError:
            self._end("not finished in time")
            raise OutOfTime(self._why) from None
        except (BrokenPipeError, EOFError):
            self._end("")
        raise Ended(self._why)

    def close(self) -> None:
        """End the program and all that it started. Harmless when it has ended."""
        self._end("it was closed")
        self._over.set()
        for thread in self._threads:
            thread.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        if self._folder:
            self._folder.cleanup()

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _write(self, data: bytes, deadline: float) -> None:
        fd, view = self._process.stdin.fileno(), memoryview(data)
        while view:
            wait([], [fd], deadline)
            with contextlib.suppress(BlockingIOError):
                view = view[os.write(fd, view[:65536]) :]

    def _read(self, n_bytes: int, deadline: float) -> bytes:
        fd, pieces = self._process.stdout.fileno(), []
        while n_bytes:
            wait([fd], [], deadline)
            piece = os.read(fd, min(n_bytes, 1 << 20))
            if not piece:
                raise EOFError
            pieces.append(piece)
            n_bytes -= len(piece)
        return b"".join(pieces)

    def _end(self, why: str) -> None:
        """Kill every process inside; ``why`` counts unless there is a reason already.

        bwrap ends when the first process inside has ended, and that one when the
        kernel has ended all others: after waiting for bwrap nothing is left.
        """
        if self._process.poll() is None and not why:
            # The pipe is closed, so it is about to end by itself.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
        code = self._process.poll()
        if not self._why:
            self._why = why if code is None else self._last_words(code)
        for process in reversed(self._tree()):
            with contextlib.suppress(psutil.Error):
                process.kill()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _last_words(self, code: int) -> str:
        """Why the program ended, as far as it tells."""
        status = code - 128 if code > 128 else -code
        if status > 0:
            with contextlib.suppress(ValueError):
                return f"the process was killed ({signal.Signals(status).name})"
        self._threads[1].join(1)  # its last words may still be on the way
        words = self._words.decode(errors="replace").strip().splitlines()
        said = f": {words[-1][:200]}" if words and code else ""
        return f"the process ended itself (exit status {code}){said}"

    def _tree(self) -> list[psutil.Process]:
        """The processes inside; without walls also those that left their parents.

        Behind walls bwrap itself is not among them: it must outlive them.
        """
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(self._process.pid).children(recursive=True):
                self._seen.setdefault(process.pid, process)
        if self._folder:
            with contextlib.suppress(psutil.Error):
                own = psutil.Process(self._process.pid)
                self._seen.setdefault(own.pid, own)
        self._seen = {
            pid: process for pid, process in self._seen.items() if process.is_running()
        }
        return list(self._seen.values())

    def _watch(self) -> None:
        """End the program when its tree uses too much."""
        limits = self.limits
        while not self._over.wait(LOOK_S) and self._process.poll() is None:
            tree = self._tree()
            if len(tree) > limits.processes:
                self._stop(f"more than {limits.processes} processes")
            elif memory_bytes(tree, limits.memory_bytes) > limits.memory_bytes:
                self._stop(f"more than {limits.memory_gib:.3g} GiB of memory")
            elif psutil.virtual_memory().available < SPARE_BYTES:
                # There are ways to hold memory that belong to no process.
                self._stop("this machine is running out of memory")

    def _stop(self, why: str) -> None:
        self._why = self._why or why
        with contextlib.suppress(psutil.Error):
            for process in reversed(self._tree()):
                process.kill()

    def _listen(self) -> None:
        """Keep the end of what is written to standard error, so that none waits."""
        with contextlib.suppress(ValueError, OSError):
            while piece := os.read(self._process.stderr.fileno(), 1 << 16):
                self._words = (self._words + piece)[-LAST_WORDS_BYTES:]


def wait(read: list[int], write: list[int], deadline: float) -> None:
    """Wait until one of the files is ready; TimeoutError at the deadline."""
    left = deadline - time.monotonic()
    if left <= 0 or not any(select.select(read, write, [], left)):
        raise TimeoutError


def memory_bytes(processes: list[psutil.Process], enough: int) -> int:
    """Memory of all processes: RSS if that is below ``enough``, else PSS.

    RSS counts a page that four processes share four times, PSS once, but PSS takes
    the kernel a hundred times longer. A process that hides its PSS counts in full.
    """
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    if total <= enough:
        return total
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            try:
                full = process.memory_full_info()
                total += getattr(full, "pss", full.uss)
            except psutil.AccessDenied:
                total += process.memory_info().rss
    return total


def environment(home: str) -> dict[str, str]:
    """The whole environment inside: none of the caller's secrets."""
    kept = {key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ}
    return kept | {
        MARK: str(os.getpid()),
        "HOME": home,
        "LANG": "C.UTF-8",
        "LOGNAME": "student",
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": "1",  # as many as the cores could pass the limit
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "TMPDIR": home,
        "USER": "student",
    }


def visible() -> list[Path]:
    """The folders that a program inside may read."""
    package = Path(__file__).resolve().parents[1]
    python = Path(sys.executable).resolve().parents[1]
    folders = {Path("/usr"), Path(sys.prefix), Path(sys.base_prefix), python, package}
    return sorted(folders)


def walls(limits: Limits) -> list[str]:
    """bwrap's command line, up to the program."""
    lines = [shutil.which("bwrap") or "bwrap", "--die-with-parent", "--new-session"]
    lines += [f"--unshare-{kind}" for kind in ("ipc", "pid", "net", "uts")]
    lines += ["--unshare-cgroup-try"]
    if os.getuid() == 0:  # just enough to become somebody else
        lines += ["--cap-drop", "ALL"]
        lines += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        lines += ["--unshare-user"]
    lines += ["--proc", "/proc", "--dev", "/dev"]
    # Before what is visible, which may itself lie below /tmp.
    for folder in ("/dev/shm", "/tmp"):
        lines += ["--perms", "1777", "--size", str(limits.files_bytes)]
        lines += ["--tmpfs", folder]
    for folder in visible():
        for above in reversed(folder.parents[:-1]):
            if str(above) not in ("/dev", "/tmp"):
                lines += ["--perms", "0755", "--dir", str(above)]
        lines += ["--ro-bind", str(folder), str(folder)]
    for name in ("bin", "sbin", "lib", "lib64"):
        link = Path("/", name)
        if link.is_symlink():
            lines += ["--symlink", os.readlink(link), str(link)]
        else:
            lines += ["--ro-bind-try", str(link), str(link)]
    for name in ETC:
        lines += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    # An ordinary user owns the two folders in which all this is mounted.
    lines += ["--remount-ro", "/dev", "--remount-ro", "/"]
    return [*lines, "--chdir", "/tmp", "--"]


def require(private: list[Path]) -> None:
    """Check that walls can be put up here, and that they hide ``private``.

    Raises UserError that says what is missing.
    """
    if sys.platform == "win32":
        raise UserError("submissions can be run on Linux only; on Windows use WSL")
    if sys.platform != "linux" or not shutil.which("bwrap"):
        raise UserError(
            "submissions run behind walls that need Linux and the package bubblewrap "
            "(`apt install bubblewrap`), which is not here; with --unsafe they run "
            f"without walls: {NOT_PROTECTED}"
        )
    for path in private:
        for folder in visible():
            if path.resolve().is_relative_to(folder):
                raise UserError(
                    f"{path} lies in {folder}, which submissions can read; "
                    "move it elsewhere"
                )
    try:
        with Sandbox([sys.executable, "-c", ECHO]) as sandbox:
            sandbox.ask(b"", START_LIMIT_S)
    except Ended as why:
        raise UserError(
            f"bubblewrap cannot put up walls here: {why}. It needs version 0.7 or "
            "later, and root or unprivileged user namespaces (in a container often "
            f"switched off); with --unsafe submissions run without: {NOT_PROTECTED}"
        ) from None


ECHO = "import os; os.write(1, os.read(0, 4))"


def enter(bounds: dict, command: list[str]) -> None:
    """Inside: bind this process to the limits and become the program."""
    limits = Limits(**bounds["limits"])
    values = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: limits.memory_bytes,
        resource.RLIMIT_FSIZE: limits.files_bytes,
        resource.RLIMIT_NOFILE: 1024,
        resource.RLIMIT_NPROC: limits.processes,
    }
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # if the machine runs out of memory, this goes first
    if os.getuid() == 0 and bounds["walls"]:
        os.setgroups([])
        os.setgid(UID)
        os.setuid(UID)
    for kind, bound in values.items():
        _, most = resource.getrlimit(kind)
        if most != resource.RLIM_INFINITY:
            bound = min(bound, most)
        with contextlib.suppress(ValueError, OSError):  # macOS knows not all
            resource.setrlimit(kind, (bound, bound))
    os.execv(command[0], command)


if __name__ == "__main__":
    enter(json.loads(sys.argv[1]), sys.argv[2:])
