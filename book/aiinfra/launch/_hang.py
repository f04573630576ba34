"""What a rank is doing, told while its main thread is blocked.

A thread beside the main one reads two things: the stacks of all threads, and the
flight recorder, torch's ring buffer of the collectives that were issued (it lists
those that DDP's C++ reducer starts, too).
"""

import json
import linecache
import math
import os
import sys
import sysconfig
import threading
import traceback
from dataclasses import dataclass
from types import FrameType

import torch

_HERE = os.path.dirname(os.path.abspath(__file__))
_DISTRIBUTED = os.path.join(os.path.dirname(torch.__file__), "distributed") + os.sep
_LIBRARY = tuple(
    {
        *(sysconfig.get_path(key) + os.sep for key in ("stdlib", "platstdlib")),
        *(sysconfig.get_path(key) + os.sep for key in ("purelib", "platlib")),
        os.path.dirname(torch.__file__) + os.sep,
        os.path.dirname(linecache.__file__) + os.sep,  # a virtual environment's base
    }
)

_DTYPES = {  # the recorder's names that are not torch's
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
}


@dataclass
class Report:
    """What one rank is doing."""

    n_done: int  # collectives completed
    n_begun: int  # collectives issued
    waits_in: str  # "all_reduce of 4 float32, its collective 3"; "" for none
    line: str  # "Cell In[3], line 5, in step: dist.all_reduce(x)"; "" when idle
    stack: str


def report(main: threading.Thread) -> Report:
    """What the rank whose main thread is `main` is doing now."""
    n_done, n_begun, pending = _collectives()
    frame = sys._current_frames().get(main.ident)
    summary = _from_user(traceback.extract_stack(frame))
    lines = user_lines(summary)
    return Report(
        n_done=n_done,
        n_begun=n_begun,
        waits_in=pending or _api(frame),
        line=lines[-1] if lines else "",
        stack="".join(summary.format()),
    )


def is_library(filename: str) -> bool:
    """Whether a frame of this file is machinery rather than the reader's program."""
    path = os.path.abspath(filename)
    if path.startswith(_HERE + os.sep) or filename.startswith("<frozen"):
        return True
    return path.startswith(_LIBRARY)


def user_lines(summary: traceback.StackSummary) -> list[str]:
    """The reader's own lines in a stack, outermost first, without directories."""
    lines = []
    for frame in summary:
        if is_library(frame.filename):
            continue
        place = f"{os.path.basename(frame.filename)}, line {frame.lineno}"
        if frame.name != "<module>":
            place += f", in {frame.name}"
        lines.append(f"{place}: {frame.line}" if frame.line else place)
    return lines


def _from_user(summary: traceback.StackSummary) -> traceback.StackSummary:
    """The stack from the launched function on; empty if none is running."""
    frames = list(summary)
    own = [i for i, f in enumerate(frames) if f.filename.startswith(_HERE + os.sep)]
    first_other = 0
    for i, index in enumerate(own):
        if i and index != own[i - 1] + 1:
            break
        first_other = index + 1
    return traceback.StackSummary.from_list(frames[first_other:])


def _api(frame: FrameType | None) -> str:
    """The function of torch.distributed that the reader's code is in, if any."""
    name = ""
    while frame is not None:
        filename = frame.f_code.co_filename
        if not is_library(filename):
            break
        if filename.startswith(_DISTRIBUTED) and frame.f_code.co_name != "wrapper":
            name = frame.f_code.co_name
        frame = frame.f_back
    return name


def _collectives() -> tuple[int, int, str]:
    """(completed, issued, the oldest unfinished one in words) of the default group."""
    try:
        from torch._C._distributed_c10d import _dump_fr_trace_json
    except ImportError:  # torch older than 2.9 records no gloo collectives
        return 0, 0, ""
    dump = json.loads(_dump_fr_trace_json())
    status = dump.get("pg_status", {}).get("0", {})
    n_done = max(int(status.get("last_completed_collective", 0)), 0)
    n_begun = max(int(status.get("last_enqueued_collective", 0)), 0)
    unfinished = [e for e in dump.get("entries", []) if not e["retired"]]
    if not unfinished:
        return n_done, n_begun, ""
    entry = unfinished[0]
    name = entry["profiling_name"].split(":")[-1]
    shapes = entry["input_sizes"] or entry["output_sizes"]
    dtypes = entry["input_dtypes"] or entry["output_dtypes"]
    what = ""
    if shapes and dtypes:
        dtype = _DTYPES.get(dtypes[0], dtypes[0].lower())
        what = f" of {sum(math.prod(shape) for shape in shapes):,} {dtype}"
    return n_done, n_begun, f"{name}{what}, its collective {entry['collective_seq_id']}"
