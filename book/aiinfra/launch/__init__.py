"""Ranks on this machine: real processes in a real torch.distributed process group.

    from aiinfra.launch import launch, Ranks, device

    launch(fn, x, world_size=4)     # fn(x) on 4 ranks: a list of 4 results
    ranks = Ranks(4)                # ranks that stay alive between calls
    ranks(fn, x)

and in a notebook, a cell whose lines run on every rank:

    %%ranks
    x = torch.full((2,), rank)
    dist.all_reduce(x)
    x

The same script runs under torchrun on many machines. With `clock=VirtualClock(...)`
times are computed instead of measured (`aiinfra.launch.virtual`). Ranks never run your
script, so it needs no `if __name__ == "__main__"` guard.
"""

import sys

from aiinfra.launch import _start

_start.warm_up()  # the ranks' import of torch runs beside this process's own

from aiinfra.launch._collectives import (  # noqa: E402
    all_gather_single,
    reduce_scatter_single,
)
from aiinfra.launch._engine import Ranks, launch  # noqa: E402
from aiinfra.launch._errors import RankError, RankTimeout  # noqa: E402
from aiinfra.launch._worker import device  # noqa: E402
from aiinfra.launch.virtual import (  # noqa: E402
    Link,
    VirtualClock,
    VirtualTimeError,
    compute,
    now,
)
from aiinfra.trace import span  # noqa: E402

if "IPython" in sys.modules:
    from aiinfra.launch import _magic

    _magic.register_if_notebook()

__all__ = [
    "Link",
    "RankError",
    "RankTimeout",
    "Ranks",
    "VirtualClock",
    "VirtualTimeError",
    "all_gather_single",
    "compute",
    "device",
    "launch",
    "now",
    "reduce_scatter_single",
    "span",
]
