"""Send code and data from a notebook or script to ranks.

cloudpickle sends functions and classes of `__main__` by value. Two things are added:
the code keeps the name of its file or cell, with its source, so that a traceback on a
rank shows the line; and on live ranks all functions of the notebook share one set of
global names, which `%%ranks` cells share too.
"""

import contextlib
import inspect
import io
import linecache
import pickle
import sys
import types
from typing import Any

import cloudpickle
import torch

_NAMESPACE = "aiinfra rank namespace"  # persistent id of the rank's global names
_MISSING = object()


def ipython():
    """The running IPython shell, or None in a script."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


def notebook_names() -> dict[str, Any]:
    """The global names of the running notebook or script."""
    shell = ipython()
    return sys.modules["__main__"].__dict__ if shell is None else shell.user_ns


def display_name(filename: str) -> str:
    """A file as the reader knows it: `Cell In[3]` instead of ipykernel's temporary."""
    compiler = getattr(ipython(), "compile", None)
    if hasattr(compiler, "format_code_name"):
        label = compiler.format_code_name(filename)
        if label is not None:
            return " ".join(label)
    return filename


class Notebook:
    """What live ranks have of the notebook's global names.

    A name that was assigned on the ranks is theirs. Any other is copied from the
    notebook when first used and again when the notebook has bound it to another
    object; functions and classes, which have no state of their own, every time.
    """

    def __init__(self):
        self.names = notebook_names()
        self._sent: dict[str, Any] = {}  # the object that was copied last
        self.own: set[str] = set()  # names that the ranks have assigned

    def wants(self, name: str) -> bool:
        """Whether the ranks need the notebook's object of this name sent now."""
        if name in self.own or name not in self.names:
            return False
        value = self.names[name]
        if isinstance(value, type | types.FunctionType):
            return True
        return value is not self._sent.get(name, _MISSING)

    def outdated(self) -> set[str]:
        """Names that the ranks have from the notebook and that need sending again."""
        return {name for name in self._sent if self.wants(name)}

    def sent(self, names: set[str]) -> None:
        """The ranks have taken these names from the notebook."""
        self._sent |= {name: self.names[name] for name in names}


class _Pickler(cloudpickle.Pickler):
    """By value, and tensors through the CPU: the other side may have no such device."""

    def __init__(self, file):
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)

    def reducer_override(self, obj):
        if type(obj) is torch.Tensor and obj.device.type not in ("cpu", "meta"):
            return obj.cpu().__reduce_ex__(self.proto)
        return super().reducer_override(obj)


class _CallPickler(_Pickler):
    """Besides, code keeps its file names and shares the rank's global names."""

    def __init__(self, file, notebook: Notebook):
        super().__init__(file)
        self.notebook = notebook
        self.sources: dict[str, list[str]] = {}
        self.names: set[str] = set()
        # cloudpickle makes one set of globals per pickle; this makes it the rank's.
        self._globals = {"__name__": "__main__"}
        self.globals_ref[id(notebook.names)] = self._globals

    def persistent_id(self, obj):
        return _NAMESPACE if obj is self._globals else None

    def reducer_override(self, obj):
        if isinstance(obj, types.CodeType):
            return self._reduce_code(obj)
        reduced = super().reducer_override(obj)
        if (
            isinstance(obj, types.FunctionType)
            and reduced is not NotImplemented
            and obj.__globals__ is self.notebook.names
        ):
            used = reduced[2][1]["__globals__"]
            for name in list(used):
                if self.notebook.wants(name):
                    self.names.add(name)
                else:
                    del used[name]
        return reduced

    def _reduce_code(self, code: types.CodeType):
        # cloudpickle replaces the file name by "<dynamic-code>".
        make, args = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
        name = display_name(code.co_filename)
        if name not in self.sources:
            self.sources[name] = linecache.getlines(code.co_filename)
        old = ("<dynamic-code>", code.co_filename)
        return make, tuple(
            name if isinstance(arg, str) and arg in old else arg for arg in args
        )


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, namespace: dict[str, Any]):
        super().__init__(file)
        self._namespace = namespace

    def persistent_load(self, pid):
        return self._namespace


def pack(call: dict[str, Any], notebook: Notebook, names: set[str] = frozenset()):
    """Bytes of one call for the ranks; `names` are taken from the notebook besides.

    Raises TypeError naming what cannot be sent.
    """
    values = {name: notebook.names[name] for name in names}
    buffer = io.BytesIO()
    pickler = _CallPickler(buffer, notebook)
    try:
        pickler.dump((call, values))
    except Exception as error:
        raise TypeError(_blame(call, values, notebook, error)) from None
    notebook.sent(pickler.names | names)
    sources = {name: lines for name, lines in pickler.sources.items() if lines}
    return pickle.dumps(
        (sources, pickler.names | names, buffer.getvalue()), pickle.HIGHEST_PROTOCOL
    )


def unpack(payload: bytes, namespace: dict[str, Any]) -> tuple[dict, set[str]]:
    """On the rank: the call, and the names it has put into the namespace."""
    sources, names, pickled = pickle.loads(payload)
    for name, lines in sources.items():
        add_source(name, lines)
    call, values = _Unpickler(io.BytesIO(pickled), namespace).load()
    namespace.update(values)
    return call, names


def dumps(value: Any) -> bytes:
    """Bytes of a result for the launcher."""
    buffer = io.BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()


def add_source(name: str, lines: list[str]) -> None:
    """Let tracebacks show the lines of code that is in no file here."""
    # Without a time stamp linecache never looks for the file.
    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def can_send(value: Any, notebook: Notebook) -> bool:
    """Whether the value can be pickled."""
    try:
        _CallPickler(io.BytesIO(), notebook).dump(value)
    except Exception:
        return False
    return True


def _blame(call: dict, values: dict, notebook: Notebook, error: Exception) -> str:
    """A message that names the part of a call that cannot be sent."""
    fn = call["fn"]
    parts = {f"argument {i} of {_name(fn)}": a for i, a in enumerate(call["args"])}
    parts |= {f"argument {k!r} of {_name(fn)}": v for k, v in call["kwargs"].items()}
    parts |= {f"the notebook's {name!r}": value for name, value in values.items()}
    if isinstance(fn, types.FunctionType):
        with contextlib.suppress(ValueError):  # a closure not filled yet
            used = inspect.getclosurevars(fn)
            for name, value in {**used.globals, **used.nonlocals}.items():
                parts[f"{name!r}, which {_name(fn)} uses,"] = value
    for part, value in parts.items():
        if not can_send(value, notebook):
            what = f"{part} ({type(value).__name__})"
            break
    else:
        what = _name(fn)
    return (
        f"{what} cannot be sent to ranks, which are other processes: {error}. "
        "Make it on the ranks instead, inside the function or the %%ranks cell."
    )


def _name(fn: Any) -> str:
    return getattr(fn, "__name__", repr(fn))
