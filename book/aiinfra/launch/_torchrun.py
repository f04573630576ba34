"""The same function as a rank that somebody else started: torchrun, Slurm, Kubernetes.

They start this script once per rank and say in the environment which rank it is.
"""

import atexit
import os
import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import cloudpickle
import torch
import torch.distributed as dist

from aiinfra.launch import _start, _worker


def active() -> bool:
    """Whether launching means running as the rank that this process is already."""
    return _start.started_as_rank() and not _worker.is_rank


def _dumps(value: Any) -> bytes:
    try:  # all ranks run the same script: its classes have the same names everywhere
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError):
        return cloudpickle.dumps(value)  # lambdas and classes within functions


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
        atexit.register(dist.destroy_process_group)
    torch.set_num_threads(1)
    _worker.seed(seed + rank)
    _worker.is_rank = True
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
        _worker.is_rank = False
    answers: list = [None] * world_size
    dist.all_gather_object(answers, _dumps((value, events)))
    answers = [pickle.loads(answer) for answer in answers]
    if trace is not None:
        trace.extend(e for _, events in answers for e in events)
    return [value for value, _ in answers]
