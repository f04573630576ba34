"""The rank's side: join the process group, then run what the launcher sends."""

import ast
import contextlib
import ctypes
import os
import queue
import random
import shutil
import sys
import threading
import traceback
import types
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist

from aiinfra.launch import _hang, _ship


@dataclass
class Setup:
    """What a rank must know to join the others."""

    rank: int
    world_size: int
    seed: int
    debug: bool
    backend: str | None
    timeout_s: float
    directory: str  # of the store and of the ranks' output
    environ: dict[str, str]
    sys_path: list[str]
    cwd: str
    argv: list[str]
    keeps_names: bool  # it will run `%%ranks` cells


@dataclass
class Failure:
    """An exception on a rank, in words: the exception itself need not be picklable."""

    error: str  # "ValueError: boom"
    lines: list[str]  # the reader's own lines, outermost first
    traceback: str


is_rank = False  # whether this process runs a launched function
device_of_rank: torch.device | None = None


def main(conn_fd: int) -> int:
    """Be a rank until the launcher says stop or is gone. Returns the exit code."""
    global is_rank
    is_rank = True
    conn = Connection(conn_fd)
    setup: Setup = conn.recv()
    _take_over(setup)
    inbox: queue.SimpleQueue = queue.SimpleQueue()
    reply = _Reply(conn)
    listener = threading.Thread(
        target=_listen,
        args=(conn, inbox, reply, setup.directory),
        name="launcher",
        daemon=True,
    )
    listener.start()
    namespace = _new_main()
    try:
        _join_group(setup)
    except Exception as error:
        reply.send("failed", _failure(error), set())
        return 1
    # What the namespace holds that code here has not assigned.
    foreign: dict[str, Any] = {"device": device}
    namespace |= foreign
    if setup.keeps_names:
        # Not foreign, so that a variable `rank` of the notebook cannot replace it.
        namespace.update(
            rank=setup.rank, world_size=setup.world_size, torch=torch, dist=dist
        )
    reply.send("ready", _own(namespace, foreign))
    while (payload := inbox.get()) is not None:
        try:
            _run(payload, namespace, foreign, setup, reply)
        except BaseException as error:
            reply.send("failed", _failure(error), _own(namespace, foreign))
    dist.destroy_process_group()
    return 0


class _Reply:
    """The rank's answers, from its main thread and from the listening one."""

    def __init__(self, conn: Connection):
        self._conn = conn
        self._lock = threading.Lock()

    def send(self, kind: str, *values: Any, payload: bytes | None = None) -> None:
        _flush()
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._conn.send((kind, *values))
            if payload is not None:  # apart, so that large results are copied once
                self._conn.send_bytes(payload)


def _listen(
    conn: Connection, inbox: queue.SimpleQueue, reply: _Reply, directory: str
) -> None:
    try:
        while True:
            kind = conn.recv()
            if kind == "run":
                inbox.put(conn.recv_bytes())
            elif kind == "report":
                reply.send("report", _hang.report(threading.main_thread()))
            elif kind == "stop":
                inbox.put(None)
    except (EOFError, OSError):  # the launcher is gone
        shutil.rmtree(directory, ignore_errors=True)
        os._exit(1)


def _take_over(setup: Setup) -> None:
    """Make this process look like the one that launched it, its output apart."""
    os.environ.clear()
    os.environ.update(setup.environ)
    sys.path[:] = setup.sys_path
    sys.argv[:] = setup.argv
    with contextlib.suppress(OSError):  # the launcher's directory may be gone
        os.chdir(setup.cwd)
    for fd, stream in ((1, "out"), (2, "err")):
        path = os.path.join(setup.directory, f"{setup.rank}.{stream}")
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, fd)  # output of C++ too
        os.close(file)
    # By lines, so that what was printed survives a crash.
    options = {"buffering": 1, "encoding": "utf-8", "errors": "backslashreplace"}
    sys.stdout = open(1, "w", closefd=False, **options)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, **options)  # noqa: SIM115


def _new_main() -> dict[str, Any]:
    """A fresh `__main__`, where the notebook's functions and classes will live."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    return module.__dict__


def _join_group(setup: Setup) -> None:
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    # All ranks are on this machine: no need to resolve its name, which fails on
    # laptops between networks.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
    # torch read it when it was imported: say it again.
    if setup.debug:
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    dist.set_debug_level_from_env()
    seed(setup.seed + setup.rank)
    torch.set_num_threads(1)
    store = dist.FileStore(os.path.join(setup.directory, "store"), setup.world_size)
    join(
        setup.rank,
        setup.world_size,
        setup.backend,
        local_index=setup.rank,
        local_size=setup.world_size,
        # The launcher's own limit comes first and can say who waits where.
        timeout=timedelta(seconds=2 * setup.timeout_s + 60),
        store=store,
    )


def seed(value: int) -> None:
    """Seed every random generator in use."""
    torch.manual_seed(value)
    random.seed(value)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(value % 2**32)


def join(
    rank: int,
    world_size: int,
    backend: str | None,
    *,
    local_index: int,
    local_size: int,
    **options,
) -> None:
    """Initialise the process group, on accelerators if this host has enough."""
    global device_of_rank
    accelerator = find_accelerator()
    if backend is not None:
        on_cpu = backend == "gloo"
    else:
        on_cpu = accelerator is None or torch.accelerator.device_count() < local_size
    if on_cpu or accelerator is None:
        device_of_rank = torch.device("cpu")
        backend = backend or "gloo"
    else:
        device_of_rank = torch.device(accelerator.type, local_index)
        torch.accelerator.set_device_index(local_index)
        if backend is None:
            own = dist.get_default_backend_for_device(accelerator)
            backend = f"cpu:gloo,{accelerator.type}:{own}"  # CPU tensors work, too
    dist.init_process_group(backend, rank=rank, world_size=world_size, **options)


def find_accelerator() -> torch.device | None:
    """The kind of accelerator of this machine that can run ranks."""
    if not torch.accelerator.is_available():
        return None
    accelerator = torch.accelerator.current_accelerator()
    # Apple's has no collectives: a Mac's ranks run on its CPU.
    return None if accelerator.type == "mps" else accelerator


def device() -> torch.device:
    """The device to put this rank's tensors on.

    In a rank its own accelerator, or the CPU where there are fewer accelerators than
    ranks. Outside ranks the accelerator if there is one, else the CPU.
    """
    return device_of_rank or find_accelerator() or torch.device("cpu")


def _run(
    payload: bytes,
    namespace: dict[str, Any],
    foreign: dict[str, Any],
    setup: Setup,
    reply: _Reply,
) -> None:
    call, sent = _ship.unpack(payload, namespace)
    foreign.update({name: namespace[name] for name in sent})
    value, events = run_timed(
        call["fn"],
        call["args"],
        call["kwargs"],
        clock=call["clock"],
        trace=call["trace"],
        rank=setup.rank,
        world_size=setup.world_size,
    )
    try:
        result = _ship.dumps(value)
    except Exception as error:
        raise TypeError(
            f"the result ({type(value).__name__}) cannot be sent from rank "
            f"{setup.rank} to the launcher: {error}. Return tensors, numbers or text."
        ) from None
    reply.send("result", events, _own(namespace, foreign), payload=result)


def run_timed(fn, args, kwargs, *, clock, trace, rank, world_size) -> tuple[Any, list]:
    """Call `fn` under the rank's clock. Returns its value and the recorded events."""
    from aiinfra.launch import virtual

    virtual.install(clock=clock, trace=trace, rank=rank, world_size=world_size)
    try:
        value = fn(*args, **kwargs)
    finally:
        events = virtual.uninstall()
    return value, events


def _own(namespace: dict[str, Any], foreign: dict[str, Any]) -> set[str]:
    """The names that code on this rank has assigned."""
    missing = object()
    return {
        name
        for name, value in namespace.items()
        if foreign.get(name, missing) is not value and not name.startswith("__")
    }


def _failure(error: BaseException) -> Failure:
    """Describe the exception that is being handled."""
    if isinstance(error, SystemExit):
        message = f"sys.exit({error.code!r})"
    else:
        message = "".join(traceback.format_exception_only(error)).strip()
    frames = error.__traceback__
    while frames is not None and _hang.is_library(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next  # the launcher's own, down to the reader's first
    error = error.with_traceback(frames or error.__traceback__)
    return Failure(
        error=message,
        lines=_hang.user_lines(traceback.extract_tb(error.__traceback__))[-8:],
        traceback="".join(traceback.format_exception(error)),
    )


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    ctypes.CDLL(None).fflush(None)  # what C code has printed


# ------------------------------------------------------- what %%ranks cells run


def run_cell(source: str, filename: str) -> None:
    """Run a cell in this rank's `__main__`; print the value of a last expression."""
    namespace = sys.modules["__main__"].__dict__
    _ship.add_source(filename, source.splitlines(keepends=True))
    body = ast.parse(source, filename).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), filename, "exec"), namespace)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), filename, "eval"), namespace)
        if value is not None and not source.rstrip().endswith(";"):
            print(repr(value))


def get(name: str) -> Any:
    """This rank's value of a global name."""
    namespace = sys.modules["__main__"].__dict__
    if name not in namespace:
        raise NameError(f"name {name!r} is not defined on this rank")
    return namespace[name]
