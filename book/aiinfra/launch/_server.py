"""The process that ranks are forked from.

Importing torch and its compiler front end takes seconds, so this process does
it once and every rank starts as a copy of it, in milliseconds. It holds no
state but the imports, and ends, with all its ranks, when its parent does.
"""

import contextlib
import gc
import importlib
import os
import selectors
import signal
import socket
import struct
import time

PRELOAD = (
    "torch",
    "torch.distributed",
    "torch._dynamo",  # imported by every torch.optim optimizer and by DDP: 3 s
    "torch.nn.parallel",
    "aiinfra.launch._worker",
    "aiinfra.launch.virtual",
)
STATUS = struct.Struct("q")  # what the status pipe carries: first pid, then exit code


def main(control_fd: int) -> None:
    """Fork one rank for each pair of descriptors that arrives on the socket.

    Each request carries the rank's end of its connection and the write end of
    its status pipe, to which the pid is written now and the exit code (negative:
    the signal) when the rank ends.
    """
    control = socket.socket(fileno=control_fd)
    for module in PRELOAD:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every shared page

    wake_r, wake_w = os.pipe()
    os.set_blocking(wake_r, False)
    os.set_blocking(wake_w, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_w)
    status_fd_of: dict[int, int] = {}  # pid -> write end of its status pipe
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        selector.register(wake_r, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if wake_r in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake_r, 4096)
                _reap(status_fd_of)
            if control not in ready:
                continue
            request, fds, _, _ = socket.recv_fds(control, 1, 2)
            if not request:  # the parent is gone
                break
            conn_fd, status_fd = fds
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                selector.close()
                control.close()
                for fd in (wake_r, wake_w, status_fd, *status_fd_of.values()):
                    os.close(fd)
                _be_rank(conn_fd)
            os.close(conn_fd)
            status_fd_of[pid] = status_fd
            _tell(status_fd, pid)
    # The ranks see that, too, and tidy up; one that is stuck does not.
    deadline = time.monotonic() + 2
    while status_fd_of and time.monotonic() < deadline:
        _reap(status_fd_of)
        time.sleep(0.01)
    for pid in status_fd_of:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _be_rank(conn_fd: int) -> None:
    code = 1
    try:
        from aiinfra.launch import _worker

        code = _worker.main(conn_fd)
    finally:
        os._exit(code)


def _reap(status_fd_of: dict[int, int]) -> None:
    while status_fd_of:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        fd = status_fd_of.pop(pid)
        _tell(fd, os.waitstatus_to_exitcode(status))
        os.close(fd)


def _tell(status_fd: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the parent no longer listens
        os.write(status_fd, STATUS.pack(number))
