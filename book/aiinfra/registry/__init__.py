"""Every constant of the book, each with its unit, kind, source and date.

    hardware("H100 SXM").bf16_dense_flops     # 989.4 TFLOP/s (spec, dense, per card)
    link("NVLink 4").one_way_bytes_per_s      # 450 GB/s (derived, one-way, per card)
    model("Llama 3 8B").parameters            # 8.03e9 parameters (derived)
    model("Llama 3 8B").traits["mlp"]         # 'swiglu'

A figure is a float in base units (bytes, seconds, FLOP/s, watts) that also knows
where it comes from: ``.kind`` is ``spec`` (printed by the maker), ``derived`` (our
arithmetic on printed figures, in ``.derivation``), ``measured`` or ``assumed``.
Arithmetic on figures gives plain floats. Bandwidths are one-way, FLOP/s are dense,
memory counts GiB; the name of an attribute says which.

The data are the YAML files beside this one; ``schema.json`` describes them.
"""

from __future__ import annotations

import difflib
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

__all__ = [
    "Entry",
    "Figure",
    "UnknownName",
    "entries",
    "hardware",
    "link",
    "model",
    "names",
]

FILES = {"hardware": "hardware.yaml", "link": "links.yaml", "model": "models.yaml"}
SHOWN = 8  # names in a message, of many
SHARED = ("source", "date", "url", "per")  # an entry's hold for all its figures
SI = (
    (1e18, "E"),
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
)
BINARY = ((2.0**50, "Pi"), (2.0**40, "Ti"), (2.0**30, "Gi"))
WORDS = ((1e12, "trillion "), (1e9, "billion "), (1e6, "million "), (1.0, ""))


class UnknownName(LookupError):  # noqa: N818 - reads as what it says in a traceback
    """No entry has that name; the message offers the nearest ones."""


class Figure(float):
    """One constant: a float in base units, with where it comes from.

    ``name`` is the attribute's, ``unit`` one of B, B/s, FLOP/s, OP/s, Hz, s, W,
    USD/h, parameters, tokens, count; ``kind`` is spec, derived, measured or assumed;
    ``per`` says of what one there is (card, port, node, message). ``printed`` is what
    the source prints where that isn't the value: both ways added up, GB for GiB,
    sparse, rounded. ``dense`` and ``one_way`` follow from the name.
    """

    name: str
    unit: str
    kind: str
    source: str
    date: str
    url: str
    note: str
    derivation: str
    per: str
    printed: float | None

    def __new__(
        cls,
        value: float,
        *,
        unit: str,
        kind: str,
        source: str,
        date: Any,
        name: str = "",
        url: str = "",
        note: str = "",
        derivation: str = "",
        per: str = "",
        printed: float | None = None,
    ) -> Figure:
        self = super().__new__(cls, value)
        self.name, self.unit, self.kind = name, unit, kind
        self.source, self.date, self.url = source, str(date), url
        self.note, self.derivation = note, derivation
        self.per, self.printed = per, printed
        return self

    def __getnewargs_ex__(self) -> tuple[tuple[float], dict[str, Any]]:
        return (float(self),), dict(self.__dict__)  # so that it pickles and copies

    def __index__(self) -> int:
        if not self.is_integer():
            raise TypeError(f"{self.name} is not a whole number: {float(self)}")
        return int(self)  # so that range(model("GPT-2 XL").layers) works

    @property
    def dense(self) -> bool:
        """Whether this is a rate of dense products, e.g. ``bf16_dense_flops``."""
        return "_dense_" in self.name

    @property
    def one_way(self) -> bool:
        """Whether this is a bandwidth in one direction."""
        return self.name.startswith("one_way_")

    @property
    def text(self) -> str:
        """The value for people: ``3.35 TB/s``, ``80 GiB``, ``8.03 billion …``."""
        value = float(self)
        if self.unit == "count":
            return f"{value:g}"
        if self.unit == "s":
            return f"{value * 1e6:.4g} µs"
        if self.unit == "USD/h":
            return f"{value:.2f} USD/h"
        prefixes = {"B": BINARY, "parameters": WORDS, "tokens": WORDS}.get(
            self.unit, SI
        )
        scale, prefix = next((p for p in prefixes if value >= p[0]), prefixes[-1])
        return f"{value / scale:.4g} {prefix}{self.unit}"

    def __repr__(self) -> str:
        flags = [self.kind]
        if self.dense:
            flags.append("dense")
        if self.one_way:
            flags.append("one-way")
        if self.per:
            flags.append(f"per {self.per}")
        return f"{self.text} ({', '.join(flags)})"

    def __str__(self) -> str:
        return repr(self)


class Entry:
    """One piece of hardware, link or model: its figures are its attributes.

    ``.figures`` maps names to figures; ``.traits`` holds what has no number; ``.what``
    says what it is; a name under ``.refs`` is an attribute that gives another entry,
    e.g. ``hardware("H100 SXM").scale_up`` is ``link("NVLink 4")``.
    """

    def __init__(self, kind: str, name: str, data: dict[str, Any]) -> None:
        self.kind, self.name = kind, name
        self.what: str = data["what"]
        self.aliases: list[str] = data.get("aliases", [])
        self.refs: dict[str, dict[str, str]] = data.get("refs", {})
        self.traits: dict[str, str | bool] = data.get("traits", {})
        self.figures: dict[str, Figure] = {}
        shared = {key: data[key] for key in SHARED if key in data}
        given = dict(data.get("figures", {}))
        for figure_name, count in data.get("shape", {}).items():
            given[figure_name] = {"value": count, "unit": "count", "kind": "spec"}
        for figure_name, fields in given.items():
            fields = shared | fields
            try:
                figure = Figure(fields.pop("value"), name=figure_name, **fields)
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(
                    f"registry: {FILES[kind]}: {name}: {figure_name}: {error}"
                ) from None
            self.figures[figure_name] = figure

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__") or "figures" not in self.__dict__:
            raise AttributeError(attribute)  # half made, as while it is unpickled
        if attribute in self.figures:
            return self.figures[attribute]
        if attribute in self.refs:
            ((kind, name),) = self.refs[attribute].items()
            return _look_up(kind, name)
        have = ", ".join([*self.figures, *self.refs])
        raise AttributeError(f"{self.name} has no {attribute!r}; it has {have}")

    @property
    def ridge_flop_per_byte(self) -> float:
        """Dense bf16 FLOPs per byte of memory above which compute is the limit."""
        return self.bf16_dense_flops / self.memory_bytes_per_s

    def total(self, name: str) -> float:
        """A figure summed over what a node, rack or pod holds, in base units.

        ``hardware("TPU v4 pod").total("bf16_dense_flops")`` adds up its accelerators;
        what those don't have, as ``power_w``, is added up over the nodes. Raises
        ValueError where neither has it.
        """
        for part in ("accelerator", "node"):
            if part in self.refs and name in getattr(self, part).figures:
                return self.figures[f"{part}s"] * getattr(self, part).figures[name]
        parts = [p for p in ("accelerator", "node") if p in self.refs]
        holds = ", ".join(getattr(self, part).name for part in parts) or "nothing"
        raise ValueError(f"{self.name} has no {name!r} to add up; it holds {holds}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.figures, *self.refs]

    def __reduce__(self) -> tuple[Any, ...]:
        return _look_up, (self.kind, self.name)

    def __repr__(self) -> str:
        width = max(map(len, [*self.figures, *self.refs]))
        lines = [f"{self.name}: {self.what}"]
        lines += [f"  {key:<{width}}  {figure}" for key, figure in self.figures.items()]
        for key, ref in self.refs.items():
            ((kind, name),) = ref.items()
            lines.append(f"  {key:<{width}}  {kind}({name!r})")
        if self.traits:
            said = ", ".join(f"{key}: {trait}" for key, trait in self.traits.items())
            lines.append(f"  traits: {said}")
        return "\n".join(lines)


def hardware(name: str) -> Entry:
    """The accelerator, node or machine of that name, e.g. ``"H100 SXM"``.

    Case and spaces don't matter. Raises UnknownName with the nearest names.
    """
    return _look_up("hardware", name)


def link(name: str) -> Entry:
    """The link of that name, e.g. ``"NVLink 4"``. Raises UnknownName."""
    return _look_up("link", name)


def model(name: str) -> Entry:
    """The model of that name, e.g. ``"Llama 3 8B"``. Raises UnknownName."""
    return _look_up("model", name)


def names(kind: str) -> list[str]:
    """The names there are of a kind: ``hardware``, ``link`` or ``model``."""
    return list(_load(kind))


def entries(kind: str) -> list[Entry]:
    """All entries of a kind, in the order of the file."""
    return list(_load(kind).values())


@lru_cache
def _load(kind: str) -> dict[str, Entry]:
    if kind not in FILES:
        raise UnknownName(
            f"no kind {kind!r} in the registry; it has {', '.join(FILES)}"
        )
    path = Path(__file__).with_name(FILES[kind])
    data = yaml.load(
        path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )
    return {name: Entry(kind, name, d) for name, d in data["entries"].items()}


@lru_cache
def _look_up(kind: str, name: str) -> Entry:
    known = {_plain(n): entry for entry in _load(kind).values() for n in _all(entry)}
    if _plain(name) in known:
        return known[_plain(name)]
    near = difflib.get_close_matches(_plain(name), known, n=3, cutoff=0.4)
    near = list(dict.fromkeys(known[n].name for n in near))
    elsewhere = [
        f"{other}({entry.name!r})"
        for other in FILES
        if other != kind
        for entry in _load(other).values()
        if _plain(name) in map(_plain, _all(entry))
    ]
    if elsewhere or near:
        hint = f"did you mean {' or '.join(elsewhere or map(repr, near))}?"
    else:
        have = names(kind)
        hint = f"it has {', '.join(have[:SHOWN])} and {len(have) - SHOWN} more"
    raise UnknownName(f"no {kind} {name!r} in the registry; {hint}")


def _all(entry: Entry) -> list[str]:
    return [entry.name, *entry.aliases]


def _plain(name: str) -> str:
    return "".join(str(name).lower().replace("-", "").split())
