"""The same function as a rank that somebody else started: torchrun, Slurm, Kubernetes.

They start this script once per rank and say in the environment which rank it is.
"""

import atexit
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import cloudpickle
import torch
import torch.distributed as dist

from aiinfra.launch import _start, _worker

_running = False  # inside `run`


def active() -> bool:
    """Whether this process was started as one rank of several."""
    return _start.started_as_rank() and not inside_rank()


def inside_rank() -> bool:
    """Whether this process is a rank that is running a launched function."""
    return _running or (_worker.device_of_rank is not None and not _joined_here)


_joined_here = False  # the process group was initialised by `run`


def run(
    fn: Callable,
    args: tuple,
    kwargs: dict[str, Any],
    timeout_s: float,
    debug: bool,
    clock,
    trace,
    seed: int,
    backend: str | None,
) -> list:
    """Run `fn` as this rank; return every rank's result."""
    global _running, _joined_here
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if not dist.is_initialized():
        if debug:
            os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
            dist.set_debug_level_from_env()
        _worker.join(
            rank,
            world_size,
            backend,
            local_index=int(os.environ.get("LOCAL_RANK", rank)),
            local_size=int(os.environ.get("LOCAL_WORLD_SIZE", world_size)),
            timeout=timedelta(seconds=timeout_s),
        )
        _joined_here = True
        atexit.register(dist.destroy_process_group)
    torch.set_num_threads(1)
    _worker.seed(seed + rank)
    _running = True
    try:
        value, events = _worker.run_timed(
            fn,
            args,
            kwargs,
            clock=clock,
            trace=trace is not None,
            rank=rank,
            world_size=world_size,
        )
    finally:
        _running = False
    answers: list = [None] * world_size
    # As bytes, because the group's own pickling cannot take classes of the script.
    dist.all_gather_object(answers, cloudpickle.dumps((value, events)))
    answers = [cloudpickle.loads(answer) for answer in answers]
    if trace is not None:
        trace.extend(e for _, events in answers for e in events)
    return [value for value, _ in answers]
