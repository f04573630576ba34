"""Networks of a cluster in closed form: switches, cables, bisection, hops, cost.

Each function gives a :class:`Fabric`: how many endpoints (NICs, or chips of a torus)
it joins, with how many switches and links of each tier. All links are alike and full
duplex; rates are one way, in bytes per second. ``Fabric.graph()`` builds the network
itself as a networkx graph, for what has no formula.

*Bisection* is the number of links between two halves of the endpoints, for the halves
that have the fewest between them. With as many as half the endpoints the fabric is
non-blocking: any pairing of endpoints can talk at full rate (if routed well).

Sources: Al-Fares, Loukissas and Vahdat 2008 (k-ary fat tree); Leiserson 1985; Kim et
al. 2008 (dragonfly); Dally and Towles 2004 (torus); NVIDIA's DGX SuperPOD reference
architecture (rails); Wang et al. 2023, arXiv:2307.12169 (rail-only); Jouppi et al.
2023, arXiv:2304.01433 (cubes of a torus joined by optical switches).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from aiinfra._numbers import number, whole

if TYPE_CHECKING:
    import networkx

__all__ = [
    "Bill",
    "Fabric",
    "blocks",
    "dragonfly",
    "fat_tree",
    "leaf_spine",
    "optical_switches",
    "rail_optimized",
    "torus",
]

MOST_NODES = 200_000  # of a graph
_MOST_PORTS = 10**4


@dataclass(frozen=True)
class Fabric:
    """Counts of one network; made by the functions of this module."""

    kind: str
    shape: dict[str, Any]  # the arguments it was made from
    endpoints: int
    switches: dict[str, int]  # by tier
    links: dict[str, int]  # by the two tiers they join; "host" at the endpoints
    diameter_hops: int  # links between the two endpoints farthest apart
    bisection_links: Fraction

    @property
    def switch_count(self) -> int:
        """Switches of all tiers."""
        return sum(self.switches.values())

    @property
    def link_count(self) -> int:
        """Links of all tiers, those to the endpoints included."""
        return sum(self.links.values())

    @property
    def oversubscription(self) -> Fraction:
        """Half the endpoints over the bisection: 1 is non-blocking, 3 is 3:1."""
        return Fraction(self.endpoints, 2) / self.bisection_links

    def injection_bytes_per_s(self, link_bytes_per_s: float) -> float:
        """What all endpoints can send at once into their own links.

        A chip of a torus has as many links as neighbours.
        """
        rate = number("link_bytes_per_s", link_bytes_per_s, above_zero=True)
        ends = 2 * self.link_count if self.kind == "torus" else self.links["host"]
        return ends * rate

    def bisection_bytes_per_s(self, link_bytes_per_s: float) -> float:
        """What one half of the endpoints can send to the other, one way."""
        rate = number("link_bytes_per_s", link_bytes_per_s, above_zero=True)
        return self.bisection_links * rate

    def bill(
        self,
        *,
        switch_price: float = 0,
        switch_power_w: float = 0,
        link_price: float | Mapping[str, float] = 0,
        link_power_w: float | Mapping[str, float] = 0,
        endpoint_price: float = 0,
        endpoint_power_w: float = 0,
    ) -> Bill:
        """Price and power of the parts.

        A link's price and power (two transceivers and a fibre, or a copper cable) may
        differ by tier: pass a mapping with the names of :attr:`links`.
        """
        lines = {
            "endpoints": (self.endpoints, endpoint_price, endpoint_power_w),
            "switches": (self.switch_count, switch_price, switch_power_w),
        }
        for tier, count in self.links.items():
            each = []
            for what, of in (
                ("link_price", link_price),
                ("link_power_w", link_power_w),
            ):
                if isinstance(of, Mapping):
                    unknown = set(of) - set(self.links)
                    if unknown:
                        raise ValueError(
                            f"{what} must name tiers of {', '.join(self.links)}, "
                            f"got {', '.join(map(str, sorted(unknown)))}"
                        )
                    of = of.get(tier, 0)
                each.append(of)
            lines[f"links, {tier}"] = (count, *each)
        return Bill(lines)

    def graph(self) -> networkx.Graph:
        """The network as a graph.

        Nodes are tuples of a tier and numbers, ("host", 3) or ("leaf", 0, 2); hosts
        have the attribute ``host`` true. Edges have ``links``, the number of parallel
        links. Needs networkx.

        Raises:
            ValueError: beyond 200,000 nodes.
        """
        if self.endpoints + self.switch_count > MOST_NODES:
            raise ValueError(
                f"a graph may have at most {MOST_NODES:,} nodes, this one would have "
                f"{self.endpoints + self.switch_count:,}"
            )
        import networkx

        graph = networkx.Graph()
        for a, b in _EDGES[self.kind](**self.shape):
            if graph.has_edge(a, b):
                graph.edges[a, b]["links"] += 1
            else:
                graph.add_edge(a, b, links=1)
        if self.kind == "torus":  # even one chip, without a link, is a node
            graph.add_nodes_from(("host", *at) for at in _places(self.shape["axes"]))
        for node in graph:
            graph.nodes[node]["host"] = node[0] == "host"
        return graph


@dataclass(frozen=True)
class Bill:
    """Parts with their number, price and power each: ``{"GPU": (8, 25e3, 700)}``."""

    lines: dict[str, tuple[int, float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part, line in self.lines.items():
            if not isinstance(line, tuple) or len(line) != 3:
                raise ValueError(
                    f"{part!r} must have (count, price, power_w), got {line!r}"
                )
            whole(f"the count of {part!r}", line[0], low=0)
            number(f"the price of {part!r}", line[1])
            number(f"the power_w of {part!r}", line[2])

    @property
    def price(self) -> float:
        """The sum of count times price, in whatever currency the prices are."""
        return sum(count * price for count, price, _ in self.lines.values())

    @property
    def power_w(self) -> float:
        """The sum of count times power, in W: what the parts draw."""
        return sum(count * power_w for count, _, power_w in self.lines.values())

    def facility_power_w(self, pue: float) -> float:
        """What the building draws: ``pue`` (power usage effectiveness) times that."""
        return self.power_w * number("pue", pue, low=1)

    def energy_price(
        self, duration_s: float, price_per_kwh: float, pue: float = 1
    ) -> float:
        """The price of ``duration_s`` seconds of electricity at this power."""
        duration_s = number("duration_s", duration_s)
        price = number("price_per_kwh", price_per_kwh)
        return self.facility_power_w(pue) * duration_s / 3.6e6 * price


# ------------------------------------------------------------------- fat trees


def fat_tree(ports: int, tiers: int = 3) -> Fabric:
    """The largest non-blocking tree of switches with k = ``ports`` ports.

    Every switch but the topmost has k/2 ports down and k/2 up: 2 (k/2)^t endpoints and
    (2t - 1) (k/2)^(t-1) switches on t tiers. One tier is a single switch, two are k
    leaves and k/2 spines; three are Al-Fares' k pods of k/2 edge and k/2 aggregation
    switches under (k/2)^2 cores: k^3/4 endpoints and 5k^2/4 switches.

    Raises:
        ValueError: unless ``ports`` is even and ``tiers`` 1, 2 or 3.
    """
    ports = whole("ports", ports, what="ports", low=2, high=_MOST_PORTS)
    tiers = whole("tiers", tiers, high=3)
    if ports % 2:
        raise ValueError(f"ports must be even, got {ports}")
    half = ports // 2
    endpoints = 2 * half**tiers
    if tiers == 1:
        switches, links = {"switch": 1}, {"host": endpoints}
    elif tiers == 2:
        switches = {"leaf": ports, "spine": half}
        links = {"host": endpoints, "leaf-spine": endpoints}
    else:
        switches = {"edge": ports * half, "aggregation": ports * half, "core": half**2}
        links = dict.fromkeys(
            ("host", "edge-aggregation", "aggregation-core"), endpoints
        )
    return Fabric(
        "fat tree",
        {"ports": ports, "tiers": tiers},
        endpoints,
        switches,
        links,
        2 * tiers,
        Fraction(endpoints, 2),
    )


def _fat_tree_edges(ports: int, tiers: int) -> Iterator[tuple[tuple, tuple]]:
    half = ports // 2
    if tiers == 1:
        for host in range(ports):
            yield ("host", host), ("switch", 0)
        return
    if tiers == 2:
        for leaf, i in itertools.product(range(ports), range(half)):
            yield ("host", leaf * half + i), ("leaf", leaf)
            yield ("leaf", leaf), ("spine", i)
        return
    for pod, edge, i in itertools.product(range(ports), range(half), range(half)):
        yield ("host", (pod * half + edge) * half + i), ("edge", pod, edge)
        yield ("edge", pod, edge), ("aggregation", pod, i)
        yield ("aggregation", pod, edge), ("core", edge, i)


def leaf_spine(endpoints: int, ports: int, oversubscription: float = 1) -> Fabric:
    """Two tiers for a given number of endpoints, possibly oversubscribed.

    A leaf gives as many of its ports to endpoints as keeps ports down over ports up
    at or below ``oversubscription``. There are as few spines as carry all uplinks,
    which are spread evenly; every leaf reaches every spine. What fits on one switch
    needs no spine.

    Raises:
        ValueError: if two tiers can't join that many: more leaves than ports.
    """
    endpoints = whole("endpoints", endpoints, what="endpoints")
    ports = whole("ports", ports, what="ports", low=2, high=_MOST_PORTS)
    most = ports - 1
    ratio = Fraction(number("oversubscription", oversubscription, low=1, high=most))
    ratio = ratio.limit_denominator(1000)  # 1.1 is 11/10
    down = math.floor(ports * ratio / (1 + ratio))
    up = math.ceil(down / ratio)
    leaves = 1 if endpoints <= ports else -(-endpoints // down)
    if leaves > ports:
        raise ValueError(
            f"endpoints must be at most {ports * down:,} on two tiers of {ports}-port "
            f"switches at {float(ratio):g}:1, got {endpoints:,}: take fat_tree(ports, "
            "tiers=3), or more ports"
        )
    spines = -(-leaves * up // ports) if leaves > 1 else 0
    uplinks = leaves * up if leaves > 1 else 0
    return Fabric(
        "leaf-spine",
        {"endpoints": endpoints, "leaves": leaves, "up": up, "spines": spines},
        endpoints,
        {"leaf": leaves, "spine": spines},
        {"host": endpoints, "leaf-spine": uplinks},
        4 if leaves > 1 else 2,
        Fraction(min(uplinks, endpoints) if leaves > 1 else endpoints, 2),
    )


def _spine_links(
    names: Sequence[tuple], up: int, spines: int
) -> Iterator[tuple[tuple, tuple]]:
    """Uplinks dealt out to the spines in turn."""
    for i, (leaf, _) in enumerate(itertools.product(names, range(up))):
        if spines:
            yield leaf, ("spine", i % spines)


def _leaf_spine_edges(
    endpoints: int, leaves: int, up: int, spines: int
) -> Iterator[tuple[tuple, tuple]]:
    for host in range(endpoints):
        yield ("host", host), ("leaf", host * leaves // endpoints)
    yield from _spine_links([("leaf", i) for i in range(leaves)], up, spines)


def rail_optimized(
    nodes: int, gpus_per_node: int, ports: int, spine: bool = True
) -> Fabric:
    """Leaves by rail: GPU i of every node in a group hangs on the same leaf.

    A group (scalable unit) is ports/2 nodes and has one leaf for each of the node's
    GPUs; half of a leaf's ports go up. Same-rail traffic within a group, which is
    most of what a hierarchical all-reduce sends, passes one switch; the counts are a
    leaf-spine's. Without a ``spine`` (rail-only) the leaves take all ports down, and
    traffic between rails goes over the node's own links first.

    ``endpoints`` are GPUs' NICs. Without a spine the bisection is that of all rails
    together, and the diameter that of each.
    """
    nodes = whole("nodes", nodes, what="nodes")
    rails = whole("gpus_per_node", gpus_per_node, what="GPUs", high=1000)
    ports = whole("ports", ports, what="ports", low=2, high=_MOST_PORTS)
    down = ports // 2 if spine else ports
    groups = -(-nodes // down)
    if not spine and groups > 1:
        raise ValueError(
            f"nodes must be at most {ports} without a spine, one port of a rail's "
            f"switch for each, got {nodes}"
        )
    leaves = rails * groups
    if leaves > ports and spine:
        raise ValueError(
            f"nodes must be at most {ports // rails * down:,} for {rails} rails of "
            f"{ports}-port switches on two tiers, got {nodes:,}"
        )
    up = ports - down
    spines = -(-leaves * up // ports)
    shape = {"nodes": nodes, "rails": rails, "down": down, "up": up, "spines": spines}
    links = {"host": nodes * rails} | ({"leaf-spine": leaves * up} if spine else {})
    return Fabric(
        "rail-optimized",
        shape,
        nodes * rails,
        {"leaf": leaves} | ({"spine": spines} if spine else {}),
        links,
        4 if spine else 2,
        Fraction(nodes * rails, 2),
    )


def _rail_edges(
    nodes: int, rails: int, down: int, up: int, spines: int
) -> Iterator[tuple[tuple, tuple]]:
    for node, rail in itertools.product(range(nodes), range(rails)):
        yield ("host", node, rail), ("leaf", node // down, rail)
    groups = -(-nodes // down)
    names = [("leaf", *at) for at in itertools.product(range(groups), range(rails))]
    yield from _spine_links(names, up, spines)


# ------------------------------------------------------------------- dragonfly


def dragonfly(
    endpoints_per_router: int,
    routers_per_group: int,
    global_links_per_router: int,
    groups: int | None = None,
) -> Fabric:
    """Groups of fully connected routers, groups fully connected to one another.

    With p endpoints, a routers per group and h global links per router, up to
    g = a h + 1 groups have one link between each two; ``groups`` may be fewer if the
    a h links of a group divide evenly among the others. Routers have p + a - 1 + h
    ports. Balanced load wants a = 2p = 2h.

    The bisection counted is the cut between two halves of the groups (one group more
    on one side if their number is odd).
    """
    p = whole("endpoints_per_router", endpoints_per_router, high=_MOST_PORTS)
    a = whole("routers_per_group", routers_per_group, what="routers", high=_MOST_PORTS)
    h = whole("global_links_per_router", global_links_per_router, high=_MOST_PORTS)
    g = a * h + 1 if groups is None else whole("groups", groups, what="groups", low=2)
    if g > a * h + 1 or a * h % (g - 1):
        raise ValueError(
            f"groups must be at most {a * h + 1} and the {a * h} global links of a "
            f"group divide evenly among the others, got groups = {g}"
        )
    each = a * h // (g - 1)
    return Fabric(
        "dragonfly",
        {"p": p, "a": a, "h": h, "g": g},
        p * a * g,
        {"router": a * g},
        {"host": p * a * g, "local": g * a * (a - 1) // 2, "global": g * a * h // 2},
        # An endpoint's link, local, global, local, an endpoint's link. With a single
        # router, or all-connected ones, in a group local hops fall away.
        2 + _router_diameter(a, g, each),
        Fraction((g // 2) * (g - g // 2) * each),
    )


def _router_diameter(a: int, g: int, each: int) -> int:
    """Router hops between the two routers farthest apart."""
    if a == 1:
        return 1
    # Every router of a group has a link to every other group: no local hop before.
    if each >= a:
        return 2
    return 3


def _dragonfly_edges(p: int, a: int, h: int, g: int) -> Iterator[tuple[tuple, tuple]]:
    for group, router in itertools.product(range(g), range(a)):
        for i in range(p):
            yield ("host", group, router, i), ("router", group, router)
        for other in range(router):
            yield ("router", group, router), ("router", group, other)
    # Global port q of a group leads to the (q mod (g-1))-th of the other groups.
    for copy in range(a * h // (g - 1)):
        for low, high in itertools.combinations(range(g), 2):
            ports = (copy * (g - 1) + high - 1, copy * (g - 1) + low)
            yield ("router", low, ports[0] // h), ("router", high, ports[1] // h)


# ----------------------------------------------------------------------- torus


def _places(axes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(size) for size in axes))


def torus(axes: Sequence[int], wrap: bool = True) -> Fabric:
    """Chips on a grid, each linked to its neighbours; with ``wrap``, ends joined.

    An axis of n chips adds one link per chip (n/2 of them if n = 2, where both
    neighbours are one; (n-1)/n without wrap). The farthest chip is floor(n/2) hops
    away on each axis, n - 1 without wrap. The bisection counted is the narrowest cut
    across an axis, into halves if that is even: 2N/n links, N/n without wrap or if
    n = 2.
    """
    if not isinstance(axes, Sequence) or isinstance(axes, str) or not axes:
        raise ValueError(f"axes must be sizes like (4, 4, 8), got {axes!r}")
    sizes = [whole(f"axes[{i}]", n, high=10**6) for i, n in enumerate(axes)]
    chips = whole("the product of axes", math.prod(sizes))
    longest = max(sizes)
    links = {}
    for i, n in enumerate(sizes):
        per_row = n if wrap and n > 2 else n - 1
        links[f"axis {i}"] = chips // n * per_row
    cut = 2 if wrap and longest > 2 else 1
    return Fabric(
        "torus",
        {"axes": tuple(sizes), "wrap": bool(wrap)},
        chips,
        {},
        links,
        sum(n // 2 if wrap else n - 1 for n in sizes),
        Fraction(cut * chips, longest) if chips > 1 else Fraction(1, 2),
    )


def _torus_edges(axes: tuple[int, ...], wrap: bool) -> Iterator[tuple[tuple, tuple]]:
    for at in _places(axes):
        for i, n in enumerate(axes):
            if at[i] + 1 < n or (wrap and n > 2):
                yield ("host", *at), ("host", *at[:i], (at[i] + 1) % n, *at[i + 1 :])


def blocks(axes: Sequence[int], block: Sequence[int]) -> int:
    """How many blocks (a host's chips, a rack's cube) a torus is cut into.

    Raises:
        ValueError: unless the block's sides divide the axes.
    """
    if len(axes) != len(block):
        raise ValueError(f"block must have {len(axes)} sides, got {block!r}")
    count = 1
    for i, (n, side) in enumerate(zip(axes, block, strict=True)):
        whole(f"axes[{i}]", n, high=10**6)
        whole(f"block[{i}]", side, high=10**6)
        if n % side:
            raise ValueError(f"block[{i}] must divide axes[{i}] = {n}, got {side}")
        count *= n // side
    return count


def optical_switches(cubes: int, cube_side: int, ports: int) -> int:
    """Circuit switches that join cubes of chips into tori of any shape.

    Every cube has side^2 links on each of 6 faces. Links at the same place of opposite
    faces go to the same switch, two ports a cube, so that the switch can chain cubes
    along that axis in any order: 3 side^2 switches if they have 2 ports for each cube,
    more if not.
    """
    cubes = whole("cubes", cubes, what="cubes")
    side = whole("cube_side", cube_side, what="chips", high=1000)
    ports = whole("ports", ports, what="ports", low=2, high=_MOST_PORTS)
    return 3 * side**2 * -(-2 * cubes // ports)


_EDGES = {
    "fat tree": _fat_tree_edges,
    "leaf-spine": _leaf_spine_edges,
    "rail-optimized": _rail_edges,
    "dragonfly": _dragonfly_edges,
    "torus": _torus_edges,
}
