"""A cluster as the planner sees it: how many accelerators, how fast, how joined."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aiinfra import _numbers, registry

# Formats a matrix product may run in, and the figure that says how fast.
FORMATS = {"bf16": "bf16_dense_flops", "fp8": "fp8_dense_flops"}
NIC = "InfiniBand NDR"  # of a node for which the registry names no network
MOST_ACCELERATORS = 10**7
BOARD = 8  # accelerators with a fast link and no node in the registry: on one board


@dataclass(frozen=True)
class Cluster:
    """``count`` equal accelerators in domains of ``domain`` with a fast link inside.

    Rates are per accelerator: FLOP/s dense, bytes/s one way. ``power_w`` is an
    accelerator's share of its node's rated power, or its own if no node is known.
    Prices are in USD an accelerator-hour, None where the registry has none.
    """

    name: str
    count: int
    domain: int
    flops: dict[str, float]
    memory_bytes: float
    memory_bytes_per_s: float
    scale_up_bytes_per_s: float
    scale_out_bytes_per_s: float
    scale_out_latency_s: float
    power_w: float | None
    price_per_hour: float | None

    def __str__(self) -> str:
        return f"{self.count:,} × {self.name}"

    def flops_per_s(self, precision: str) -> float:
        """Dense FLOP/s of one accelerator in ``precision``.

        Raises ValueError for a format that this accelerator has no figure for.
        """
        _numbers.one_of("precision", precision, tuple(FORMATS))
        if precision not in self.flops:
            raise ValueError(
                f"precision {precision!r}: the registry has no such rate for "
                f"{self.name}; it has {', '.join(self.flops)}"
            )
        return self.flops[precision]


def cluster(
    text: str,
    *,
    network: str | None = None,
    domain: int | None = None,
    price_per_hour: float | None = None,
) -> Cluster:
    """``"H100 SXM x16384"``: so many of an accelerator, node, rack or pod.

    An accelerator stands in the node that the registry has for it, else on a board of
    eight if it has a fast link, else alone; ``domain`` says how many share that link.
    ``network`` names the link between nodes (one port an accelerator), by default the
    node's own; ``price_per_hour`` is per accelerator. Raises ValueError for a text of
    another form, and UnknownName, with the nearest names, for an unknown name.
    """
    found = re.fullmatch(r"\s*(?P<name>.+?)\s*[x×*]\s*(?P<count>[\d,_]+)\s*", text)
    if not found:
        raise ValueError(
            f"cluster {text!r}: expected a name and a number, such as "
            "'H100 SXM x16384' or 'DGX H100 x16'"
        )
    count = int(re.sub(r"[,_]", "", found["count"]))
    _numbers.whole("accelerators", count, high=MOST_ACCELERATORS)
    entry = registry.hardware(found["name"])
    place = entry
    if "accelerator" in entry.refs:
        count *= int(entry.accelerators)
        entry = entry.accelerator
    else:
        place = home(entry)
    if "bf16_dense_flops" not in entry.figures:
        raise ValueError(f"{entry.name} has no bf16 rate in the registry to plan with")
    fast = next((e for e in (place, entry) if "scale_up" in e.refs), None)
    up = fast.scale_up if fast else entry.host
    out = registry.link(network) if network else outside(place)
    together = BOARD if fast else 1
    power = entry.figures.get("tdp_w")
    if "accelerators" in place.figures:
        whole = int(place.accelerators)
        together = int(home(entry).accelerators) if is_fat_tree(place) else whole
        if "power_w" in place.figures:
            power = place.power_w / whole
    if domain is not None:
        together = int(_numbers.whole("domain", domain))
    price = price_per_hour
    if price is None and "price_per_hour" in entry.figures:
        price = float(entry.price_per_hour)
    if price is not None:
        _numbers.number("price_per_hour", price)
    return Cluster(
        name=entry.name,
        count=count,
        domain=min(together, count),
        flops={
            key: float(entry.figures[figure])
            for key, figure in FORMATS.items()
            if figure in entry.figures
        },
        memory_bytes=float(entry.memory_bytes),
        memory_bytes_per_s=float(entry.memory_bytes_per_s),
        scale_up_bytes_per_s=float(up.one_way_bytes_per_s),
        scale_out_bytes_per_s=float(out.one_way_bytes_per_s),
        scale_out_latency_s=float(out.latency_s),
        power_w=float(power) if power is not None else None,
        price_per_hour=price,
    )


def home(accelerator: registry.Entry) -> registry.Entry:
    """The node, rack or pod that an accelerator is bought in, else itself.

    Of several, the smallest with a network: the one that a cluster is built of. A node
    whose fast link goes on through a rack is not one: it comes with the rack.
    """
    places = [
        entry
        for entry in registry.entries("hardware")
        if "accelerator" in entry.refs
        and entry.accelerator is accelerator
        and not is_fat_tree(entry)
    ]
    parts = [place.node for place in places if "node" in place.refs]
    places = [place for place in places if place not in parts]
    places.sort(key=lambda place: ("scale_out" not in place.refs, place.accelerators))
    return places[0] if places else accelerator


def is_fat_tree(place: registry.Entry) -> bool:
    """Whether nodes meet on a network here, so that the fast link ends at each."""
    return place.traits.get("topology") == "fat tree"


def outside(place: registry.Entry) -> registry.Entry:
    """The link that leaves a node or pod: its network, or its own fabric."""
    if "scale_out" in place.refs:
        return place.scale_out
    if "torus" in str(place.traits.get("topology", "")):
        return place.scale_up
    return registry.link(NIC)
