"""Moving figures: a few general ones, live in JupyterLab and on the static site.

``sweep`` draws curves that a slider moves, ``timeline`` what each rank did when, and
``holds`` who holds what, step by step. Each is computed in Python, here and now; the
page needs no kernel.
"""

from ._holds import Holds, holds
from ._sweep import Sweep, sweep
from ._timeline import Timeline, timeline

__all__ = ["Holds", "Sweep", "Timeline", "holds", "sweep", "timeline"]
