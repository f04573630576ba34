"""Events, sums, the Chrome file and the picture, from traces made by hand."""

import json
import re

import pytest

from aiinfra import plot
from aiinfra.trace import Event, Trace, span


def two_ranks():
    """Rank 0 computes 3 ms, sends while it receives; rank 1 waits for it."""
    return Trace(
        [
            Event(0, "compute", "layer 1", 0.0, 0.003, "compute"),
            Event(0, "compute", "step", 0.0, 0.006, "span"),
            Event(0, "compute", "wait receive from 1", 0.003, 0.005, "wait"),
            Event(0, "link", "send to 1", 0.003, 0.004, "comm"),
            Event(0, "link", "receive from 1", 0.0035, 0.005, "comm"),
            Event(0, "link", "send to 1", 0.0045, 0.006, "comm"),
            Event(1, "compute", "wait receive from 0", 0.0, 0.004, "wait"),
            Event(1, "compute", "layer 2", 0.004, 0.0045, "compute"),
            Event(1, "compute", "wait receive from 0", 0.0045, 0.008, "wait"),
        ]
    )


def test_sums():
    trace = two_ranks()
    assert trace.ranks == [0, 1]
    assert trace.total_s == 0.008
    assert trace.compute_s(0) == 0.003
    assert trace.exposed_comm_s(0) == pytest.approx(0.002)
    assert trace.exposed_comm_s(1) == pytest.approx(0.0075)
    with pytest.raises(
        ValueError, match=r"no events of rank 2; the trace has \[0, 1\]"
    ):
        trace.exposed_comm_s(2)
    assert Trace().total_s == 0


def test_table():
    lines = two_ranks().table().splitlines()
    assert lines[0].split("  ")[:2] == ["rank", "compute ms"]
    # compute, exposed, idle, total; idle is what is left.
    assert lines[1].split() == ["0", "3", "2", "3", "8"]
    assert lines[2].split() == ["1", "0.5", "7.5", "0", "8"]


def test_calls_follow_one_another():
    trace = two_ranks()
    # A generator, as the launcher passes one.
    trace.extend(e for e in [Event(0, "compute", "again", 0.001, 0.002, "compute")])
    (again,) = (e for e in trace.events if e.name == "again")
    assert (again.start_s, again.end_s) == pytest.approx((0.009, 0.010))
    assert trace.total_s == pytest.approx(0.010)
    trace.clear()
    assert trace.events == [] and trace.total_s == 0


def test_chrome_file(tmp_path):
    """Valid trace events: process = rank, thread = lane, events of a thread nest."""
    path = tmp_path / "trace.json"
    trace = two_ranks()
    trace.to_chrome(path)
    events = json.loads(path.read_text())["traceEvents"]
    complete = [e for e in events if e["ph"] == "X"]
    assert len(complete) == len(trace.events)
    assert {type(e[k]) for e in complete for k in ("ts", "dur")} == {float}
    names = {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in events
        if e["name"] == "thread_name"
    }
    assert names[0, 0] == "compute" and names[0, 1] == "link"
    assert names[0, 2] == "link 2"  # send and receive overlap
    processes = {e["pid"]: e["args"] for e in events if e["name"] == "process_name"}
    assert processes == {0: {"name": "rank 0"}, 1: {"name": "rank 1"}}
    send = next(e for e in complete if e["name"] == "send to 1")
    assert (send["pid"], send["ts"], send["cat"]) == (0, 3000, "comm")
    assert send["dur"] == pytest.approx(1000)
    for thread in names:
        mine = [e for e in complete if (e["pid"], e["tid"]) == thread]
        for a in mine:
            for b in mine:
                a0, a1, b0 = a["ts"], a["ts"] + a["dur"], b["ts"]
                b1 = b["ts"] + b["dur"]
                apart = a1 <= b0 + 1e-6 or b1 <= a0 + 1e-6
                nested = (a0 <= b0 and b1 <= a1) or (b0 <= a0 and a1 <= b1)
                assert apart or nested, (a, b)


def svg_of(trace, **options):
    fig, _ = trace._draw(**options)
    return plot.to_svg(fig, trace._alt(), inline=True)


def test_picture():
    trace = two_ranks()
    svg = svg_of(trace, title=None)
    texts = re.findall(r"<text[^>]*>([^<]*)", svg)
    for text in ("rank 0 compute", "rank 1 compute", "time [ms]", "waiting", "layer 1"):
        assert text in texts, f"{text!r} is not text in the picture"
    assert texts.count("link") == 2
    for colour in ("blue", "orange", "grey", "purple"):
        assert plot.PALETTE[colour].lower() in svg.lower(), colour
    assert svg == svg_of(two_ranks(), title=None), "not the same bytes twice"


def test_alt_text_says_what_the_picture_shows(capsys):
    trace = two_ranks()
    trace.plot()
    assert capsys.readouterr().out.strip() == (
        "[figure] Timeline of 2 ranks over 8 ms: rank 0 computes 3 ms and waits 2 ms; "
        "rank 1 computes 500 µs and waits 7.5 ms."
    )
    trace.plot(alt="Rank 1 is starved.")
    assert capsys.readouterr().out.strip() == "[figure] Rank 1 is starved."


def test_bad_input():
    with pytest.raises(ValueError, match="the trace is empty: pass it as trace="):
        Trace().plot()
    with pytest.raises(ValueError, match="lane must be one of"):
        Event(0, "gpu", "x", 0, 1, "compute")
    with pytest.raises(ValueError, match="kind one of"):
        Event(0, "link", "x", 0, 1, "network")
    with pytest.raises(ValueError, match="'x' ends before it starts"):
        Event(0, "link", "x", 1, 0.5, "comm")


def test_span_outside_a_launch_does_nothing():
    with span("nothing"):
        value = 1
    assert value == 1
