"""The launcher's side: start ranks, call functions on them, tell what went wrong."""

import contextlib
import math
import operator
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

import cloudpickle

from aiinfra.launch import _start, _torchrun, _worker
from aiinfra.launch._errors import RankError, RankTimeout
from aiinfra.launch._hang import Report
from aiinfra.launch._ship import Notebook, can_send, pack
from aiinfra.launch._worker import Failure, Setup
from aiinfra.launch.virtual import VirtualClock
from aiinfra.trace import Trace

MAX_WORLD_SIZE = 64  # each idle rank takes about 15 MB of its own
GRACE_S = 1.0  # after a first failure, how long to wait for what the others say
STOP_S = 5.0  # how long idle ranks may take to leave the process group
REPORT_S = 3.0  # how long a hanging rank may take to say where it is

_live: "weakref.WeakSet[Ranks]" = weakref.WeakSet()
_n_made = 0


def launch(
    fn: Callable,
    *args: Any,
    world_size: int = 2,
    timeout_s: float = 60.0,
    debug: bool = False,
    clock: VirtualClock | None = None,
    trace: Trace | None = None,
    seed: int = 0,
    backend: str | None = None,
    **kwargs: Any,
) -> list:
    """Run `fn(*args, **kwargs)` on `world_size` ranks; return their results in order.

    Every rank is a process of its own in one torch.distributed process group, with
    one thread, seeded with `seed + rank`. What the ranks print is printed here
    afterwards, rank by rank.

    Under `torchrun` the function runs in this process as the rank that torchrun made
    it, `world_size` is torchrun's, and every rank gets all results.

    Args:
        fn: a function, also a lambda or one that a notebook cell defines. It asks
            `dist.get_rank()` which rank it is.
        timeout_s: seconds `fn` may take before all ranks are stopped.
        debug: let torch compare each collective across ranks before it runs
            (TORCH_DISTRIBUTED_DEBUG=DETAIL): a mismatch is named on every rank.
        clock: a `VirtualClock`, to compute times instead of measuring them.
        trace: a `Trace`, to record what each rank does when.
        backend: of torch.distributed; None means gloo on the CPU, or the
            accelerator's own where there are at least `world_size` accelerators.

    Raises:
        RankError: a rank raised, exited or was killed; the others are stopped.
        RankTimeout: not finished in time; says where each rank is.
        TypeError, ValueError: an argument is wrong or cannot be sent to the ranks.
    """
    _check_call(fn)
    if _torchrun.active():
        _check_timeout(timeout_s)
        _check_seed(seed)
        _check_clock(clock, trace)
        return _torchrun.run(
            fn, args, kwargs, timeout_s, debug, clock, trace, seed, backend
        )
    with _RanksForOneCall(
        world_size,
        timeout_s=timeout_s,
        debug=debug,
        clock=clock,
        trace=trace,
        seed=seed,
        backend=backend,
    ) as ranks:
        return ranks(fn, *args, **kwargs)


class Ranks:
    """Ranks that stay alive, with their state, from one call to the next.

        ranks = Ranks(4)
        ranks(fn, x)            # fn(x) on every rank: a list of 4 results
        ranks.get("model")      # each rank's value of a global name
        ranks.close()           # or: with Ranks(4) as ranks: ...

    In a notebook, the lines of a `%%ranks` cell run on every rank.

    Global names are shared by all calls and cells. A name assigned on the ranks is
    theirs. Any other is the notebook's: copied when first used, and again once the
    notebook has assigned it anew. A copied object lives on by itself on each rank;
    changing it in place there changes nothing here, and the other way round.

    If a call fails on ranks that have all come back from it, having begun the same
    number of collectives, they live on; otherwise they are stopped. Arguments and
    errors are those of `launch`.
    """

    _one_call = False

    def __init__(
        self,
        world_size: int = 2,
        *,
        timeout_s: float = 60.0,
        debug: bool = False,
        clock: VirtualClock | None = None,
        trace: Trace | None = None,
        seed: int = 0,
        backend: str | None = None,
    ):
        global _n_made
        _refuse_inside_rank()
        if _torchrun.active():
            raise RuntimeError(
                "Ranks are for notebooks, and this process is itself a rank that "
                "torchrun started. Use launch(fn, ...) in a script for torchrun."
            )
        self.world_size = _check_world_size(world_size)
        self.timeout_s = _check_timeout(timeout_s)
        seed = _check_seed(seed)
        _check_clock(clock, trace)
        self._clock = clock
        self._trace = trace
        self._notebook = Notebook()
        self._lock = threading.Lock()
        self._dead: str | None = None  # why no call is possible any more
        self._directory = tempfile.mkdtemp(prefix="aiinfra-ranks-")
        self._printed = {}  # file name -> bytes already shown
        self._processes: list[_start.RankProcess] = []
        self._stop = weakref.finalize(
            self, _stop_all, self._processes, self._directory, os.getpid()
        )
        try:
            for rank in range(self.world_size):
                log = os.path.join(self._directory, f"{rank}.err")
                process = _start.start_rank(log)
                self._processes.append(process)
                setup = Setup(
                    rank=rank,
                    world_size=self.world_size,
                    seed=seed,
                    debug=bool(debug),
                    backend=backend,
                    timeout_s=self.timeout_s,
                    directory=self._directory,
                    environ=dict(os.environ),
                    sys_path=list(sys.path),
                    cwd=os.getcwd(),
                    argv=list(sys.argv),
                    keeps_names=not self._one_call,
                )
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    process.conn.send(setup)  # if it has died, collecting tells how
            self._collect(_start.START_LIMIT_S, show=False)
        except BaseException:
            self._kill("they did not start")
            raise
        _n_made += 1
        self._number = _n_made
        _live.add(self)

    def __call__(self, fn: Callable, *args: Any, **kwargs: Any) -> list:
        """Run `fn(*args, **kwargs)` on every rank; return the results in rank order."""
        _check_call(fn)
        return self._call(fn, args, kwargs)

    def get(self, name: str) -> list:
        """Each rank's value of the global `name`, in rank order."""
        return self._call(_worker.get, (name,), {})

    def close(self) -> None:
        """Stop the ranks. Harmless when they are stopped already."""
        self._end("they were closed")

    def __enter__(self) -> "Ranks":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __repr__(self) -> str:
        state = f"stopped: {self._dead}" if self._dead else "alive"
        return f"<Ranks({self.world_size}), {state}>"

    def __reduce__(self):
        raise TypeError("ranks are processes of this notebook and cannot be sent")

    # ------------------------------------------------------------ one call

    def _run_cell(self, source: str, filename: str, loads: set, stores: set) -> None:
        """Run a cell's source on every rank; `loads` and `stores` are its names."""
        notebook = self._notebook
        names = {name for name in loads if notebook.wants(name)}
        # A name that the cell itself assigns may well mean something else there.
        names -= {
            n for n in names & stores if not can_send(notebook.names[n], notebook)
        }
        self._call(_worker.run_cell, (source, filename), {}, names)

    def _call(self, fn, args, kwargs, names: set[str] = frozenset()) -> list:
        _refuse_inside_rank()
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("these ranks are busy with another call")
        try:
            if self._dead:
                raise RankError(
                    f"These ranks are gone: {self._dead}. "
                    f"Make new ones: ranks = Ranks({self.world_size})"
                )
            call = {
                "fn": fn,
                "args": args,
                "kwargs": kwargs,
                "clock": self._clock,
                "trace": self._trace is not None,
            }
            payload = self._pack(call, names)
            for rank in range(self.world_size):
                self._new_output(rank, "err")  # told only if this call fails
            try:
                for process in self._processes:
                    # If a rank has died meanwhile, collecting finds out how.
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                        process.conn.send("run")
                        process.conn.send_bytes(payload)
                answers = self._collect(self.timeout_s)
            except RankError:
                raise
            except BaseException as error:
                self._kill(f"{type(error).__name__} interrupted their last call")
                raise
            if self._trace is not None:
                self._trace.extend(e for events, _ in answers for e in events)
            return [value for _, value in answers]
        finally:
            self._lock.release()

    def _pack(self, call: dict[str, Any], names: set[str]) -> bytes:
        outdated = self._notebook.outdated()
        if outdated:
            # If one can no longer be sent, it matters only to code that names it.
            with contextlib.suppress(TypeError):
                return pack(call, self._notebook, names | outdated)
        return pack(call, self._notebook, names)

    def _collect(self, limit_s: float, *, show: bool = True) -> list:
        """Wait for every rank's answer. Raises RankError or RankTimeout."""
        answers: dict[int, Any] = {}
        failures: dict[int, Failure] = {}
        died: dict[int, int] = {}
        own: set[str] = set()
        rank_of = {p.conn: rank for rank, p in enumerate(self._processes)}
        deadline = time.monotonic() + limit_s
        try:
            while rank_of:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    break
                # Not longer than 0.1 s, to see ranks that die with the connection
                # held open by a child of theirs.
                for conn in wait(list(rank_of), timeout=min(left_s, 0.1)):
                    rank = rank_of[conn]
                    try:
                        kind, *values = conn.recv()
                        if kind == "ready":
                            answers[rank] = None
                            own |= values[0]
                        elif kind == "failed":
                            failures[rank] = values[0]
                            own |= values[1]
                        elif kind == "result":
                            own |= values[1]
                            answers[rank] = (values[0], _load(conn.recv_bytes(), rank))
                        else:
                            continue
                    except (EOFError, ConnectionResetError):
                        code = self._processes[rank].wait(limit_s=5)
                        died[rank] = -signal.SIGKILL if code is None else code
                    del rank_of[conn]
                for conn, rank in list(rank_of.items()):
                    code = self._processes[rank].exit_code()
                    if code is not None and not conn.poll():
                        died[rank] = code
                        del rank_of[conn]
                if failures or died:
                    deadline = min(deadline, time.monotonic() + GRACE_S)
            self._notebook.own = own
            if failures or died:
                raise self._failed(failures, died, bool(rank_of))
            if rank_of:
                raise self._timed_out(limit_s, set(rank_of.values()))
        finally:
            self._take_output(show)
        return [answers[rank] for rank in range(self.world_size)]

    # ------------------------------------------------------------ failures

    def _failed(self, failures, died, others_run: bool) -> RankError:
        """The error for ranks that raised or died; stops all unless they are fit."""
        logs = {rank: self._new_output(rank, "err") for rank in [*failures, *died]}
        texts = {rank: f"{f.traceback}\n{logs[rank]}" for rank, f in failures.items()}
        causes: dict[str, list[int]] = {}
        effects: dict[str, list[int]] = {}
        for rank, failure in sorted(failures.items()):
            if _lost_connection(failure.error):  # not the cause, nor worth the words
                effects.setdefault("\n  ".join(["", *failure.lines]), []).append(rank)
                continue
            told = "\n  ".join([failure.error, *failure.lines])
            causes.setdefault(told, []).append(rank)
        for rank, code in sorted(died.items()):
            told = _death(code, logs[rank])
            causes.setdefault(told, []).append(rank)
            texts[rank] = f"{told}\n{logs[rank]}"
        messages = [
            f"{_ranks(ranks)} of {self.world_size} failed: {told}"
            for told, ranks in causes.items()
        ]
        messages += [
            f"{_ranks(ranks)} of {self.world_size} lost the connection to another rank"
            f"{told}"
            for told, ranks in effects.items()
        ]
        if not (others_run or died or effects) and self._in_step():
            if not self._one_call:
                messages.append("The ranks are still alive.")
        else:
            self._kill(f"a call failed on {_ranks(sorted(texts))}")
            if not self._one_call:
                messages.append(
                    f"All ranks are stopped. Make new ones: Ranks({self.world_size})"
                )
        return RankError(
            "\n".join(messages), {rank: texts[rank].strip() for rank in sorted(texts)}
        )

    def _in_step(self) -> bool:
        """Whether all ranks have begun the same number of collectives."""
        reports = self._reports()
        counts = {report.n_begun for report in reports.values()}
        return len(reports) == self.world_size and len(counts) == 1

    def _timed_out(self, limit_s: float, unfinished: set[int]) -> RankTimeout:
        reports = self._reports()
        self._kill(f"a call did not finish in {limit_s:g} s")
        lines = [f"not finished in {limit_s:g} s:"]
        for rank in range(self.world_size):
            report = reports.get(rank)
            if rank not in unfinished:
                n = f" after {_collectives(report.n_begun)}" if report else ""
                lines.append(f"  rank {rank} has finished{n}")
            elif report is None:
                lines.append(f"  rank {rank} does not answer")
            else:
                where = f"in {report.waits_in}" if report.waits_in else "computes"
                done = (
                    "" if report.waits_in else f" ({_collectives(report.n_done)} done)"
                )
                at = f", at {report.line}" if report.line else ""
                lines.append(f"  rank {rank} {where}{done}{at}")
        stacks = {rank: reports[rank].stack for rank in unfinished & set(reports)}
        return RankTimeout("\n".join(lines), stacks)

    def _reports(self) -> dict[int, Report]:
        """What each rank says it is doing; ranks that do not answer are missing."""
        reports: dict[int, Report] = {}
        rank_of = {p.conn: rank for rank, p in enumerate(self._processes)}
        for conn in rank_of:
            with contextlib.suppress(OSError):
                conn.send("report")
        deadline = time.monotonic() + REPORT_S
        while rank_of and (left_s := deadline - time.monotonic()) > 0:
            for conn in wait(list(rank_of), timeout=left_s):
                try:
                    kind, *values = conn.recv()
                    if kind == "result":  # it has just finished, too late
                        conn.recv_bytes()
                except (EOFError, OSError):
                    del rank_of[conn]
                    continue
                if kind == "report":
                    reports[rank_of.pop(conn)] = values[0]
        return reports

    def _kill(self, why: str) -> None:
        for process in self._processes:
            process.kill()
        self._end(why)

    def _end(self, why: str) -> None:
        if self._dead is None:
            self._dead = why
        _live.discard(self)
        self._stop()

    # ------------------------------------------------------------ output

    def _new_output(self, rank: int, stream: str) -> str:
        """What the rank has written to "out" or "err" since the last look."""
        name = f"{rank}.{stream}"
        with (
            contextlib.suppress(FileNotFoundError),
            open(os.path.join(self._directory, name), "rb") as file,
        ):
            file.seek(self._printed.get(name, 0))
            data = file.read()
            self._printed[name] = file.tell()
            return data.decode("utf-8", errors="replace")
        return ""

    def _take_output(self, show: bool) -> None:
        for rank in range(self.world_size):
            for line in self._new_output(rank, "out").splitlines():
                if show:
                    print(f"[rank {rank}] {line}".rstrip())


class _RanksForOneCall(Ranks):
    _one_call = True  # whether they are alive afterwards is of no interest


def newest() -> Ranks | None:
    """The live Ranks made last."""
    return max(_live, key=lambda ranks: ranks._number, default=None)


def _stop_all(processes: list, directory: str, owner: int) -> None:
    """Stop the processes and remove their directory (also when Ranks is collected)."""
    if os.getpid() != owner:
        return  # a fork of the launcher: the ranks are not its own
    for process in processes:
        with contextlib.suppress(OSError):
            process.conn.send("stop")
    deadline = time.monotonic() + STOP_S
    for process in processes:
        process.wait(max(deadline - time.monotonic(), 0))
    for process in processes:
        if process.exit_code() is None:
            process.kill()
    for process in processes:
        process.wait(5)
        process.close()
    processes.clear()
    shutil.rmtree(directory, ignore_errors=True)


def _load(payload: bytes, rank: int) -> Any:
    try:
        return cloudpickle.loads(payload)
    except Exception as error:
        raise TypeError(
            f"the result of rank {rank} cannot be read here: {error}"
        ) from None


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _collectives(n: int) -> str:
    return f"{n} collective{'s' * (n != 1)}"


def _lost_connection(error: str) -> bool:
    """Whether gloo or the store says that another rank has gone away."""
    signs = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
    return any(sign in error for sign in signs)


def _death(code: int, log: str) -> str:
    """Why a process ended, from its exit code and what it wrote to stderr."""
    if "gloo::EnforceNotMet" in log and "op.preamble.length" in log:
        return (
            "SIGABRT: gloo got a message of another size than it expected, so the "
            "ranks' tensors differ in shape or dtype; debug=True says how"
        )
    if code >= 0:
        return f"its process exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"its process was killed by {name}"


# ------------------------------------------------------------ bad arguments


def _refuse_inside_rank() -> None:
    if _worker.is_rank:
        raise RuntimeError(
            "launch was called inside a rank: ranks cannot start ranks. "
            "Call it once, from the notebook or script, with all the ranks it needs."
        )


def _check_call(fn: Any) -> None:
    if not callable(fn):
        raise TypeError(
            f"the first argument must be a function to run on the ranks, got {fn!r}"
        )


def _check_world_size(world_size: Any) -> int:
    try:
        if isinstance(world_size, bool):
            raise TypeError
        n = operator.index(world_size)
    except TypeError:
        raise TypeError(
            f"world_size must be a whole number of ranks, got {world_size!r}"
        ) from None
    if not 1 <= n <= MAX_WORLD_SIZE:
        raise ValueError(
            f"world_size must be from 1 to {MAX_WORLD_SIZE} on one machine, got {n}; "
            "for more ranks run the script under torchrun on several"
        )
    return n


def _check_timeout(timeout_s: Any) -> float:
    try:
        if isinstance(timeout_s, (bool, str)):
            raise TypeError
        limit_s = float(timeout_s)
    except TypeError:
        raise TypeError(
            f"timeout_s must be a number of seconds, got {timeout_s!r}"
        ) from None
    if not (limit_s > 0 and math.isfinite(limit_s)):
        raise ValueError(
            f"timeout_s must be a positive number of seconds, got {timeout_s!r}"
        )
    return limit_s


def _check_seed(seed: Any) -> int:
    try:
        return operator.index(seed)
    except TypeError:
        raise TypeError(f"seed must be a whole number, got {seed!r}") from None


def _check_clock(clock: Any, trace: Any) -> None:
    if not isinstance(clock, VirtualClock | None):
        raise TypeError(f"clock must be a VirtualClock or None, got {clock!r}")
    if not isinstance(trace, Trace | None):
        raise TypeError(f"trace must be a Trace or None, got {trace!r}")
