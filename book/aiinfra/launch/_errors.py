"""What goes wrong on a rank, told to the process that launched it."""


class RankError(RuntimeError):
    """One or several ranks failed; the others were stopped.

    The message names the ranks, the error, and the lines of your code that led
    to it. `failures` maps each failed rank to its full traceback (or to what is
    known of its death, if the process died).
    """

    def __init__(self, message: str, failures: dict[int, str] | None = None):
        super().__init__(message)
        self.failures = failures or {}

    def _render_traceback_(self) -> list[str]:
        # IPython's hook: in a notebook, show what happened on the ranks and not
        # the frames of the launcher that merely waited for them.
        return [f"{type(self).__name__}: {self}"]


class RankTimeout(RankError):  # noqa: N818 (a timeout is the field's word for it)
    """The ranks did not finish in `timeout_s`; all were stopped.

    The message says, per rank, which collective it waited in and the line of
    code; `failures` holds each unfinished rank's stack.
    """
