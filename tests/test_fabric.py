"""The counts of each network against the network itself, built as a graph."""

import inspect
import itertools
import math
import random
from fractions import Fraction

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiinfra import fabric

# How long an example takes depends on what else the machine does.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

NETWORKS = {
    "one switch": fabric.fat_tree(6, 1),
    "two tiers of 4 ports": fabric.fat_tree(4, 2),
    "two tiers of 8 ports": fabric.fat_tree(8, 2),
    "three tiers of 4 ports": fabric.fat_tree(4),
    "three tiers of 6 ports": fabric.fat_tree(6),
    "leaf and spine": fabric.leaf_spine(48, 12),
    "leaf and spine, uneven": fabric.leaf_spine(41, 10),
    "leaf and spine, 3:1": fabric.leaf_spine(36, 8, 3),
    "leaf and spine, one switch": fabric.leaf_spine(7, 8),
    "rails": fabric.rail_optimized(16, 4, 16),
    "rails, one group": fabric.rail_optimized(3, 4, 8),
    "rails, an odd number": fabric.rail_optimized(8, 3, 16),
    "rails alone": fabric.rail_optimized(6, 4, 8, spine=False),
    "dragonfly": fabric.dragonfly(2, 4, 2),
    "dragonfly, few groups": fabric.dragonfly(1, 3, 2, 4),
    "dragonfly, direct": fabric.dragonfly(2, 2, 2, 3),
    "dragonfly of single routers": fabric.dragonfly(2, 1, 3),
    "torus": fabric.torus((4, 6, 3)),
    "ring": fabric.torus((9,)),
    "torus with a pair": fabric.torus((4, 2)),
    "mesh": fabric.torus((3, 5), wrap=False),
    "one chip": fabric.torus((1, 1)),
}


def hosts_of(graph):
    return sorted(node for node, host in graph.nodes(data="host") if host)


def degree(graph, node):
    return sum(links for *_, links in graph.edges(node, data="links"))


@pytest.mark.parametrize("name", NETWORKS)
def test_counts_and_hops(name):
    network = NETWORKS[name]
    graph = network.graph()
    hosts = hosts_of(graph)
    assert nx.is_connected(graph) or name == "rails alone"
    assert len(hosts) == network.endpoints
    tiers = dict.fromkeys(network.switches, 0)
    for node in graph:
        if not graph.nodes[node]["host"]:
            tiers[node[0]] += 1
    assert tiers == network.switches
    assert graph.size(weight="links") == network.link_count
    farthest = 0
    for host in hosts:
        hops = nx.single_source_shortest_path_length(graph, host)
        farthest = max(farthest, *(hops.get(other, 0) for other in hosts))
    assert farthest == network.diameter_hops


@pytest.mark.parametrize(
    ("name", "ports"),
    [
        ("two tiers of 8 ports", 8),
        ("three tiers of 6 ports", 6),
        ("leaf and spine", 12),
        ("leaf and spine, uneven", 10),
        ("leaf and spine, 3:1", 8),
        ("rails", 16),
        ("rails, one group", 8),
        ("rails, an odd number", 16),
        ("rails alone", 8),
        ("dragonfly", 2 + 3 + 2),
    ],
)
def test_no_switch_needs_more_ports_than_it_has(name, ports):
    graph = NETWORKS[name].graph()
    used = [degree(graph, n) for n in graph if not graph.nodes[n]["host"]]
    assert max(used) <= ports
    assert all(degree(graph, host) == 1 for host in hosts_of(graph))


def flow(graph, senders, receivers):
    """The most that ``senders`` can send at once: a maximum flow."""
    directed = nx.DiGraph()
    for a, b, links in graph.edges(data="links"):
        directed.add_edge(a, b, capacity=links)
        directed.add_edge(b, a, capacity=links)
    for host in senders:
        directed.add_edge("source", host)
    for host in receivers:
        directed.add_edge(host, "sink")
    return nx.maximum_flow_value(directed, "source", "sink")


@pytest.mark.parametrize(
    "name",
    [
        "one switch",
        "two tiers of 8 ports",
        "three tiers of 4 ports",
        "three tiers of 6 ports",
        "leaf and spine",
        "rails",
        "leaf and spine, 3:1",
    ],
)
def test_bisection_of_trees_is_their_maximum_flow(name):
    """Between the two halves in order, and no less between halves at random."""
    network = NETWORKS[name]
    graph = network.graph()
    hosts = hosts_of(graph)
    middle = len(hosts) // 2
    if len(network.switches) > 1 and network.oversubscription > 1:
        # The fewest links are between whole leaves.
        leaf = {host: next(iter(graph[host])) for host in hosts}
        hosts.sort(key=lambda host: leaf[host])
    assert flow(graph, hosts[:middle], hosts[middle:]) == network.bisection_links
    draw = random.Random(7)
    for _ in range(5):
        draw.shuffle(hosts)
        assert flow(graph, hosts[:middle], hosts[middle:]) >= network.bisection_links


def test_oversubscription():
    network = NETWORKS["leaf and spine, 3:1"]
    # 8 ports at 3:1 are 6 down and 2 up: 6 leaves, 12 uplinks for 36 endpoints.
    assert network.switches == {"leaf": 6, "spine": 2}
    assert network.links == {"host": 36, "leaf-spine": 12}
    assert network.oversubscription == 3
    assert NETWORKS["leaf and spine"].oversubscription == 1
    for name in ("three tiers of 6 ports", "rails", "one chip"):
        assert NETWORKS[name].oversubscription == 1
    assert fabric.leaf_spine(42, 10, 1.5).oversubscription == Fraction(3, 2)


@pytest.mark.parametrize(
    "axes", [(4, 3), (2, 4), (8,), (2, 2, 2), (4, 4), (6, 2), (2, 3, 2)]
)
@pytest.mark.parametrize("wrap", [True, False])
def test_bisection_of_a_torus_by_trying_all_halves(axes, wrap):
    network = fabric.torus(axes, wrap)
    if max(axes) % 2:
        return  # no plane halves it
    graph = network.graph()
    nodes = sorted(graph)
    first, rest = nodes[0], nodes[1:]
    fewest = math.inf
    for others in itertools.combinations(rest, len(nodes) // 2 - 1):
        half = {first, *others}
        cut = sum(
            links
            for a, b, links in graph.edges(data="links")
            if (a in half) != (b in half)
        )
        fewest = min(fewest, cut)
    assert fewest == network.bisection_links


@patient
@given(axes=st.lists(st.integers(1, 5), min_size=1, max_size=3), wrap=st.booleans())
def test_every_torus(axes, wrap):
    network = fabric.torus(axes, wrap)
    graph = network.graph()
    assert len(graph) == network.endpoints
    assert graph.size(weight="links") == network.link_count
    assert nx.diameter(graph) == network.diameter_hops
    assert network.injection_bytes_per_s(1.0) == 2 * network.link_count


def test_bisection_of_the_dragonfly_counts_links_between_groups():
    network = NETWORKS["dragonfly"]
    graph = network.graph()
    halves = [0, 0]
    for a, b, links in graph.edges(data="links"):
        if a[0] == b[0] == "router" and a[1] != b[1]:
            halves[(a[1] < 4) != (b[1] < 4)] += links
    assert network.shape["g"] == 9
    assert halves == [36 - 20, 20]
    assert network.bisection_links == 20
    # The mistake: a group's links times half the groups, counted from both ends.
    assert network.bisection_links != 4 * 8


@patient
@given(
    p=st.integers(1, 2), a=st.integers(1, 4), h=st.integers(1, 4), g=st.integers(2, 9)
)
def test_every_dragonfly(p, a, h, g):
    try:
        network = fabric.dragonfly(p, a, h, g)
    except ValueError:
        assert g > a * h + 1 or a * h % (g - 1)
        return
    graph = network.graph()
    for node in graph:
        expected = 1 if graph.nodes[node]["host"] else p + a - 1 + h
        assert degree(graph, node) == expected
    between = {}
    for (*_, low, _), (*_, high, _), links in (
        (*sorted((x[:3], y[:3])), n)
        for x, y, n in graph.edges(data="links")
        if x[0] == y[0] == "router" and x[1] != y[1]
    ):
        between[low, high] = between.get((low, high), 0) + links
    assert set(between.values()) == {a * h // (g - 1)}
    hops = max(max(d.values()) for _, d in nx.all_pairs_shortest_path_length(graph))
    assert hops <= network.diameter_hops


@patient
@given(ports=st.integers(1, 64).map(lambda k: 2 * k))
def test_fat_tree_formulas(ports):
    one, two, three = (fabric.fat_tree(ports, t) for t in (1, 2, 3))
    assert (one.endpoints, one.switch_count) == (ports, 1)
    assert (two.endpoints, two.switch_count) == (ports**2 / 2, 3 * ports / 2)
    assert (three.endpoints, three.switch_count) == (ports**3 / 4, 5 * ports**2 / 4)
    for t, network in enumerate((one, two, three), 1):
        assert network.switch_count == (2 * t - 1) * (ports // 2) ** (t - 1)
        assert network.link_count == t * network.endpoints
    # The full leaf-spine is the fat tree.
    if ports > 2:
        same = fabric.leaf_spine(two.endpoints, ports)
        assert (same.switches, same.links) == (two.switches, two.links)


@patient
@given(
    endpoints=st.integers(1, 2000),
    ports=st.integers(4, 64),
    ratio=st.sampled_from([1, 1.5, 2, 3]),
)
def test_leaf_spine_is_built_as_asked(endpoints, ports, ratio):
    try:
        network = fabric.leaf_spine(endpoints, ports, ratio)
    except ValueError as error:
        assert "take fat_tree" in str(error)
        return
    assert network.oversubscription <= ratio
    assert network.links["leaf-spine"] <= network.switches["spine"] * ports
    assert (
        network.switches["spine"] <= network.shape["up"]
        or not network.links["leaf-spine"]
    )


def test_what_fits_on_one_switch_needs_one():
    network = fabric.leaf_spine(8, 8)
    assert network.switches == {"leaf": 1, "spine": 0}
    assert network.links["leaf-spine"] == 0 and network.diameter_hops == 2
    assert fabric.leaf_spine(9, 8).switches == {"leaf": 3, "spine": 2}


def test_same_rail_one_switch_other_rail_three():
    graph = NETWORKS["rails"].graph()
    hops = nx.single_source_shortest_path_length(graph, ("host", 0, 1))
    assert hops["host", 7, 1] == 2  # same rail, same group: one switch
    assert hops["host", 8, 1] == 4  # same rail, other group
    assert hops["host", 0, 2] == 4  # other rail, even of the same node
    alone = NETWORKS["rails alone"].graph()
    assert not nx.has_path(alone, ("host", 0, 1), ("host", 0, 2))


def test_rails_count_like_a_leaf_spine():
    rails = fabric.rail_optimized(128, 8, 64)
    tree = fabric.leaf_spine(1024, 64)
    assert (rails.switches, rails.links) == (tree.switches, tree.links)
    assert rails.bisection_links == tree.bisection_links


# ------------------------------------------------------------------------ cost


def test_bill_by_hand():
    network = fabric.leaf_spine(48, 12)  # 8 leaves, 4 spines, 48 uplinks
    bill = network.bill(
        switch_price=1000,
        switch_power_w=300,
        link_price={"leaf-spine": 40, "host": 5},
        link_power_w={"leaf-spine": 8},
        endpoint_price=100,
        endpoint_power_w=25,
    )
    assert bill.price == 12 * 1000 + 48 * 40 + 48 * 5 + 48 * 100
    assert bill.power_w == 12 * 300 + 48 * 8 + 48 * 25
    assert bill.facility_power_w(1.25) == 1.25 * bill.power_w
    # A day at 0.05 per kWh.
    energy_kwh = bill.power_w / 1000 * 24 * 1.25
    assert bill.energy_price(86400, 0.05, 1.25) == pytest.approx(energy_kwh * 0.05)
    assert network.bill(link_price=2).price == 2 * network.link_count


@patient
@given(price=st.floats(0, 1e6), more=st.floats(1, 10))
def test_bills_are_linear(price, more):
    network = fabric.fat_tree(8)
    once = network.bill(switch_price=price, link_price=price)
    again = network.bill(switch_price=more * price, link_price=more * price)
    assert again.price == pytest.approx(more * once.price)


def test_bandwidths():
    network = fabric.fat_tree(8)
    assert network.injection_bytes_per_s(50e9) == 128 * 50e9
    assert network.bisection_bytes_per_s(50e9) == 64 * 50e9
    chips = fabric.torus((4, 4, 4))
    assert chips.injection_bytes_per_s(1e9) == 64 * 6 * 1e9


def test_blocks_and_optical_switches():
    assert fabric.blocks((8, 8, 12), (4, 4, 4)) == 12
    # 12 cubes of side 4: one switch of 24 ports for each of 16 places on 3 axes.
    assert fabric.optical_switches(12, 4, 24) == 48
    assert fabric.optical_switches(13, 4, 24) == 96


# ------------------------------------------------------------------- bad input

BAD = [-1, 0, 2.5, math.nan, "8", True, 10**13]
ARGUMENTS = {
    "fat_tree": dict(ports=8, tiers=2),
    "leaf_spine": dict(endpoints=48, ports=12),
    "rail_optimized": dict(nodes=8, gpus_per_node=4, ports=16),
    "dragonfly": dict(
        endpoints_per_router=2,
        routers_per_group=4,
        global_links_per_router=2,
        groups=9,
    ),
    "optical_switches": dict(cubes=12, cube_side=4, ports=24),
}


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("value", BAD, ids=repr)
def test_bad_counts(name, value):
    function, good = getattr(fabric, name), ARGUMENTS[name]
    assert function(**good)
    assert set(good) <= set(inspect.signature(function).parameters)
    for argument in good:
        with pytest.raises(ValueError, match=rf"^{argument} must be "):
            function(**{**good, argument: value})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fabric.fat_tree(7), "ports must be even, got 7"),
        (lambda: fabric.fat_tree(8, 4), "tiers must be at most 3, got 4"),
        (lambda: fabric.leaf_spine(73, 12), "at most 72 on two tiers of 12-port"),
        (lambda: fabric.leaf_spine(8, 12, 0.5), "oversubscription must be .*1 or more"),
        (lambda: fabric.rail_optimized(33, 4, 16), "nodes must be at most 32 for 4"),
        (lambda: fabric.rail_optimized(9, 4, 8, False), "at most 8 without a spine"),
        (lambda: fabric.dragonfly(2, 4, 2, 8), "divide evenly .* groups = 8"),
        (lambda: fabric.torus(()), "axes must be sizes like"),
        (lambda: fabric.torus((4, 0)), r"axes\[1\] must be a whole number, 1 or more"),
        (lambda: fabric.torus((10**6,) * 3), "the product of axes must be at most"),
        (lambda: fabric.torus((60,) * 3).graph(), "at most 200,000 nodes.* 216,000"),
        (
            lambda: fabric.blocks((8, 8), (4, 3)),
            r"block\[1\] must divide axes\[1\] = 8",
        ),
        (lambda: fabric.blocks((8, 8), (4,)), "block must have 2 sides"),
        (
            lambda: fabric.Bill({"GPU": (8, 1.0)}),
            "'GPU' must have .count, price",
        ),
        (lambda: fabric.Bill({"GPU": (8, -1.0, 2)}), "the price of 'GPU' must be"),
        (lambda: fabric.Bill({"GPU": (8.5, 1.0, 2)}), "the count of 'GPU' must be"),
        (lambda: fabric.Bill().facility_power_w(0.9), "pue must be .*1 or more"),
        (lambda: fabric.Bill().energy_price(-1, 1), "duration_s must be a finite"),
        (
            lambda: fabric.fat_tree(4).bill(link_price={"spine": 3}),
            "link_price must name tiers of host, edge-aggregation, .*got spine",
        ),
        (
            lambda: fabric.fat_tree(4).bisection_bytes_per_s(math.inf),
            "link_bytes_per_s must be a finite number",
        ),
    ],
)
def test_bad_input_by_hand(call, words):
    with pytest.raises(ValueError, match=words):
        call()
