"""Ranks give the right values, print in order and refuse what cannot work."""

import ctypes
import os
import random
import sys
import threading

import pytest
import torch
import torch.distributed as dist

from aiinfra import launch as door
from aiinfra.launch import (
    Link,
    RankError,
    Ranks,
    VirtualClock,
    all_gather_single,
    compute,
    device,
    launch,
    now,
    reduce_scatter_single,
)
from aiinfra.trace import Trace, span


@pytest.fixture(scope="module")
def pair():
    with Ranks(2) as ranks:
        yield ranks


def sum_over_ranks(x):
    x = x * (dist.get_rank() + 1)
    dist.all_reduce(x)
    return x


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_results_come_in_rank_order_from_one_process_group(world_size):
    results = launch(
        lambda x, shift=0: (
            dist.get_rank(),
            dist.get_world_size(),
            sum_over_ranks(x) + shift,
        ),
        torch.ones(3),
        shift=10,
        world_size=world_size,
    )
    assert [rank for rank, _, _ in results] == list(range(world_size))
    assert {size for _, size, _ in results} == {world_size}
    total = world_size * (world_size + 1) / 2 + 10
    assert all(torch.equal(x, torch.full((3,), total)) for _, _, x in results)


def test_every_rank_is_a_process_with_one_thread_and_its_own_seed():
    def look():
        return os.getpid(), torch.get_num_threads(), torch.initial_seed()

    pids, threads, seeds = zip(*launch(look, seed=7), strict=True)
    assert len({*pids, os.getpid()}) == 3
    assert threads == (1, 1)
    assert seeds == (7, 8)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_numpy_on_a_rank_has_one_thread_too(pair):
    def n_threads_started():
        import numpy as np

        before = len(os.listdir("/proc/self/task"))
        np.ones((500, 500)) @ np.ones((500, 500))
        return len(os.listdir("/proc/self/task")) - before

    assert pair(n_threads_started) == [0, 0]


def test_random_numbers_differ_between_ranks_and_repeat_between_launches():
    def draw():
        return torch.rand(()).item(), random.random()

    first = launch(draw)
    assert first[0] != first[1]
    assert launch(draw) == first
    assert launch(draw, seed=1)[0] == first[1]


def test_closures_and_local_classes_travel_both_ways(pair):
    class Point:
        def __init__(self, x):
            self.x = x

        def __add__(self, other):
            return Point(self.x + other.x)

    shift = Point(5)
    results = pair(lambda p: p + shift, Point(1))
    assert [type(p) for p in results] == [Point, Point]
    assert [p.x for p in results] == [6, 6]


def test_modules_travel_with_their_tied_parameters(pair):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(3, 3)
            self.b = torch.nn.Linear(3, 3)
            self.b.weight = self.a.weight

    model = Tied()
    for copy in pair(lambda m: m, model):
        assert copy.b.weight is copy.a.weight
        assert torch.equal(copy.a.weight, model.a.weight)


def test_environment_directory_and_path_are_the_callers(monkeypatch, tmp_path):
    monkeypatch.setenv("LESSON", "ddp")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "beside.py").write_text("def where(): return 'beside'\n")
    import beside

    def look():
        return os.environ["LESSON"], os.getcwd(), beside.where()

    assert launch(look) == [("ddp", str(tmp_path), "beside")] * 2


def test_large_arguments_and_results_pass(pair):
    n = 50_000_000  # 200 MB

    def double(x):
        return x * 2 if dist.get_rank() == 1 else x.sum().item()

    total, doubled = pair(double, torch.ones(n))
    assert total == n
    assert doubled.shape == (n,) and doubled[-1] == 2


def test_output_appears_in_rank_order_and_stderr_does_not(capfd):
    def talk():
        rank = dist.get_rank()
        if rank == 0:  # printed last, shown first
            dist.barrier()
        print(f"first of {rank}\nsecond")
        if rank == 1:
            dist.barrier()
        ctypes.CDLL(None).puts(b"from C")
        print("a warning", file=sys.stderr)
        os.write(2, b"a C++ log line\n")

    launch(talk)
    out, err = capfd.readouterr()
    assert out.splitlines() == [
        f"[rank {rank}] {line}"
        for rank in (0, 1)
        for line in (f"first of {rank}", "second", "from C")
    ]
    assert err == ""


def test_silent_ranks_print_nothing(capfd):
    launch(dist.barrier)
    assert capfd.readouterr() == ("", "")


def test_output_before_a_failure_is_shown(capfd):
    def talk_and_fail():
        print("still here")
        raise ValueError("boom")

    with pytest.raises(RankError):
        launch(talk_and_fail)
    assert capfd.readouterr().out == "[rank 0] still here\n[rank 1] still here\n"


def test_collectives_have_one_name_for_all_torch_versions(pair):
    def both():
        x = torch.arange(4.0) * (dist.get_rank() + 1)
        mine = torch.empty(2)
        reduce_scatter_single(mine, x)
        everything = torch.empty(4)
        all_gather_single(everything, mine)
        return everything

    assert all(torch.equal(x, 3 * torch.arange(4.0)) for x in pair(both))


def test_device_is_the_cpu_where_there_are_too_few_accelerators(pair):
    if torch.accelerator.is_available() and torch.accelerator.device_count() >= 2:
        pytest.skip("this machine has an accelerator for each rank")
    assert pair(device) == [torch.device("cpu")] * 2


def test_virtual_time_and_trace_reach_the_ranks():
    trace = Trace()
    clock = VirtualClock(link=Link(gbps=8, us=10))

    def step():
        with span("forward"):
            compute(1e-3)
        if dist.get_rank() == 0:
            dist.send(torch.ones(250_000), 1)  # 1 MB: 1 ms at 1e9 bytes/s
        else:
            dist.recv(torch.empty(250_000), 0)
        return now()

    with Ranks(2, clock=clock, trace=trace) as ranks:
        assert ranks(step) == [2e-3, 2.01e-3]
        assert trace.total_s == 2.01e-3
        assert {e.rank for e in trace.events} == {0, 1}
        assert "forward" in {e.name for e in trace.events}
        assert ranks(step) == [2e-3, 2.01e-3]
        assert trace.total_s == pytest.approx(4.02e-3)


# ------------------------------------------------------------ live ranks


def test_live_ranks_keep_their_state(pair):
    def count():
        dist.count = getattr(dist, "count", 0) + 1
        return dist.count

    assert [pair(count), pair(count)] == [[1, 1], [2, 2]]


def test_calls_on_live_ranks_reuse_the_processes(pair):
    assert pair(os.getpid) == pair(os.getpid)


def test_get_returns_each_ranks_value(pair):
    assert pair.get("rank") == [0, 1]
    with pytest.raises(RankError, match="name 'nothing' is not defined"):
        pair.get("nothing")


def test_close_is_idempotent_and_final():
    ranks = Ranks(1)
    pid = ranks(os.getpid)[0]
    assert "alive" in repr(ranks)
    ranks.close()
    ranks.close()
    assert not os.path.exists(f"/proc/{pid}")
    assert "stopped" in repr(ranks)
    with pytest.raises(RankError, match=r"they were closed. Make new ones: .*Ranks\(1"):
        ranks(os.getpid)


def test_forgotten_ranks_stop():
    ranks = Ranks(1)
    pid = ranks(os.getpid)[0]
    del ranks
    assert not os.path.exists(f"/proc/{pid}")


def test_a_call_during_a_call_is_refused(pair):
    errors = []

    def call_too():
        try:
            pair(int)
        except RuntimeError as error:
            errors.append(str(error))

    timer = threading.Timer(0.3, call_too)
    timer.start()
    pair(lambda: __import__("time").sleep(1))
    timer.join()
    assert errors == ["these ranks are busy with another call"]


# ------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"world_size": 0}, ValueError, "world_size must be from 1 to 64"),
        ({"world_size": -1}, ValueError, "got -1"),
        ({"world_size": 65}, ValueError, "torchrun"),
        ({"world_size": 1.5}, TypeError, "whole number of ranks, got 1.5"),
        ({"world_size": "4"}, TypeError, "whole number of ranks, got '4'"),
        ({"world_size": True}, TypeError, "whole number of ranks, got True"),
        ({"timeout_s": 0}, ValueError, "timeout_s must be a positive number"),
        ({"timeout_s": -2}, ValueError, "got -2"),
        ({"timeout_s": float("inf")}, ValueError, "got inf"),
        ({"timeout_s": float("nan")}, ValueError, "got nan"),
        ({"timeout_s": "10"}, TypeError, "number of seconds, got '10'"),
        ({"seed": 1.5}, TypeError, "seed must be a whole number, got 1.5"),
        ({"clock": 5}, TypeError, "clock must be a VirtualClock or None, got 5"),
        ({"trace": "yes"}, TypeError, "trace must be a Trace or None, got 'yes'"),
    ],
)
def test_bad_arguments_get_one_clear_error(arguments, error, says):
    with pytest.raises(error, match=says):
        launch(dist.barrier, **arguments)


def test_something_that_is_no_function_is_refused(pair):
    for call in (launch, pair):
        with pytest.raises(TypeError, match="must be a function to run on the ranks"):
            call(42)


def test_an_unknown_backend_is_named():
    with pytest.raises(RankError, match="nope"):
        launch(dist.barrier, backend="nope")


def test_what_cannot_be_sent_is_named(pair):
    with pytest.raises(TypeError, match=r"argument 1 of print \(generator\) cannot be"):
        pair(print, 1, (i for i in range(3)))
    with pytest.raises(TypeError, match=r"argument 'end' of print \(generator\)"):
        pair(print, end=(i for i in range(3)))
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"'lock', which <lambda> uses, \(lock\)"):
        pair(lambda: lock)
    with pytest.raises(TypeError, match="ranks are processes of this notebook"):
        pair(lambda: pair)
    assert pair(int) == [0, 0]  # nothing was sent, so the ranks are as they were


def test_a_result_that_cannot_be_sent_is_named(pair):
    with pytest.raises(
        RankError, match=r"the result \(lock\) cannot be sent from rank"
    ):
        pair(threading.Lock)


def test_launch_inside_a_rank_is_refused(pair):
    with pytest.raises(RankError, match="ranks cannot start ranks"):
        pair(launch, int)
    with pytest.raises(RankError, match="ranks cannot start ranks"):
        pair(Ranks)


def test_a_rank_has_no_fork_server(pair):
    def server():
        from aiinfra.launch import _start

        return _start._server._process

    assert pair(server) == [None, None]


def test_the_door_names_what_it_exports():
    assert all(hasattr(door, name) for name in door.__all__)
