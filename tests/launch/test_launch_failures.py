"""Whatever goes wrong on a rank ends the call, says where, and leaves nothing."""

import os
import signal
import sys
import threading
import time

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from aiinfra.launch import RankError, Ranks, RankTimeout, launch


def alive(pid: int) -> bool:
    """Whether a process runs; waits a while for one that is just ending."""
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.01)
    return True


def line_of(error: RankError, text: str) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    (line,) = [line for line in lines if line.startswith(text)]
    return line


def test_an_exception_names_its_rank_and_line():
    def step():
        if dist.get_rank() == 1:
            raise ValueError("boom")
        dist.barrier()

    with pytest.raises(RankError) as caught:
        launch(step, world_size=3)
    message = str(caught.value)
    assert message.startswith("rank 1 of 3 failed: ValueError: boom\n")
    assert "test_launch_failures.py, line " in message
    assert 'in step: raise ValueError("boom")' in message
    assert "/" not in message  # no directories: a page can print it
    assert 'raise ValueError("boom")' in caught.value.failures[1]
    assert "_worker.py" not in caught.value.failures[1]


def test_equal_exceptions_are_told_once_and_different_ones_each():
    def fail():
        rank = dist.get_rank()
        raise KeyError("odd") if rank % 2 else ValueError(f"even {rank}")

    with pytest.raises(RankError) as caught:
        launch(fail, world_size=4)
    message = str(caught.value)
    assert "ranks 1, 3 of 4 failed: KeyError: 'odd'" in message
    assert "rank 0 of 4 failed: ValueError: even 0" in message
    assert "rank 2 of 4 failed: ValueError: even 2" in message
    assert sorted(caught.value.failures) == [0, 1, 2, 3]


def test_the_others_are_stopped():
    ranks = Ranks(3)
    pids = ranks(os.getpid)

    def step():
        if dist.get_rank() == 2:
            raise ValueError("boom")
        dist.barrier()

    with pytest.raises(RankError, match=r"All ranks are stopped\. Make new ones"):
        ranks(step)
    assert not any(alive(pid) for pid in pids)
    with pytest.raises(RankError, match="gone: a call failed on rank"):
        ranks(os.getpid)


@pytest.mark.parametrize(
    ("end", "says"),
    [
        (lambda: sys.exit(3), "rank 1 of 2 failed: sys.exit(3)"),
        (lambda: os._exit(3), "rank 1 of 2 failed: its process exited with code 3"),
        (lambda: os._exit(0), "rank 1 of 2 failed: its process exited with code 0"),
        (
            lambda: os.kill(os.getpid(), signal.SIGKILL),
            "rank 1 of 2 failed: its process was killed by SIGKILL",
        ),
        (os.abort, "rank 1 of 2 failed: its process was killed by SIGABRT"),
    ],
    ids=["sys.exit", "os._exit", "os._exit-0", "SIGKILL", "abort"],
)
def test_a_rank_that_ends_is_reported(end, says):
    def step():
        if dist.get_rank() == 1:
            end()
        dist.barrier()

    with pytest.raises(RankError) as caught:
        launch(step)
    assert says in str(caught.value)


def test_what_a_dead_rank_wrote_to_stderr_is_kept():
    def crash():
        print("last words", file=sys.stderr)
        os.abort()

    with pytest.raises(RankError) as caught:
        launch(crash, world_size=1)
    assert "last words" in caught.value.failures[0]


def test_a_dead_rank_is_seen_though_a_child_of_it_lives():
    def leave_a_child():
        if os.fork() == 0:  # keeps the rank's connection open
            time.sleep(20)
            os._exit(0)
        os._exit(5)

    begin = time.monotonic()
    with pytest.raises(RankError, match="exited with code 5"):
        launch(leave_a_child, world_size=1)
    assert time.monotonic() - begin < 15


def test_a_size_mismatch_aborts_and_is_explained():
    with pytest.raises(
        RankError, match="differ in shape or dtype; debug=True says how"
    ):
        launch(lambda: dist.all_reduce(torch.ones(4 + dist.get_rank())))


@pytest.mark.parametrize(
    ("mismatch", "says"),
    [
        (
            lambda rank: dist.all_reduce(torch.ones(4 + rank)),
            r"Tensor shapes: 4vs 5",
        ),
        (
            lambda rank: dist.all_reduce(
                torch.ones(4, dtype=[torch.float32, torch.float64][rank])
            ),
            "Tensor dtypes",
        ),
        (
            lambda rank: (
                dist.all_reduce(torch.ones(4))
                if rank
                else dist.broadcast(torch.ones(4), 0)
            ),
            "Op type|OpType",
        ),
    ],
    ids=["shape", "dtype", "operation"],
)
def test_debug_names_a_mismatch_on_every_rank(mismatch, says):
    with pytest.raises(RankError, match=says) as caught:
        launch(lambda: mismatch(dist.get_rank()), debug=True)
    for rank in (0, 1):
        assert "Detected mismatch between collectives" in caught.value.failures[rank]


# ------------------------------------------------------------ hangs


def test_a_hang_names_the_collective_and_the_line_of_each_rank():
    def step():
        x = torch.ones(1000)
        dist.all_reduce(x)
        if dist.get_rank() == 0:
            dist.all_reduce(x)  # rank 1 leaves this one out
        if dist.get_rank() == 2:
            time.sleep(1000)

    with pytest.raises(RankTimeout) as caught:
        launch(step, world_size=3, timeout_s=1)
    error = caught.value
    assert str(error).startswith("not finished in 1 s:")
    zero = line_of(error, "rank 0")
    assert zero.startswith(
        "rank 0 in all_reduce of 1,000 float32, its collective 2, at "
    )
    assert "in step: dist.all_reduce(x)  # rank 1 leaves this one out" in zero
    assert line_of(error, "rank 1") == "rank 1 has finished after 1 collective"
    two = line_of(error, "rank 2")
    assert two.startswith("rank 2 computes (1 collective done), at ")
    assert two.endswith("in step: time.sleep(1000)")
    assert sorted(error.failures) == [0, 2]
    assert "dist.all_reduce(x)" in error.failures[0]


def test_a_receive_without_a_send_is_named():
    def step():
        if dist.get_rank() == 1:
            dist.recv(torch.empty(4), src=0)

    with pytest.raises(RankTimeout) as caught:
        launch(step, timeout_s=1)
    line = line_of(caught.value, "rank 1")
    assert line.startswith("rank 1 in recv, at ")
    assert line.endswith("dist.recv(torch.empty(4), src=0)")


def test_a_hang_in_ddps_own_collectives_is_named():
    def train():
        model = DistributedDataParallel(torch.nn.Linear(3, 2))
        for _ in range(2):  # the second arranges the buckets anew
            model(torch.ones(1, 3)).sum().backward()
        if dist.get_rank() == 0:
            model(torch.ones(1, 3)).sum().backward()

    with pytest.raises(RankTimeout) as caught:
        launch(train, timeout_s=2)
    line = line_of(caught.value, "rank 0")
    assert "all_reduce of 8 float32" in line  # 3 x 2 weights and 2 biases
    assert line.endswith("model(torch.ones(1, 3)).sum().backward()")


def test_a_hang_with_debug_still_ends_and_names_the_line():
    def step():
        if dist.get_rank() == 0:
            dist.all_reduce(torch.ones(4))

    with pytest.raises(RankTimeout) as caught:
        launch(step, timeout_s=1, debug=True)
    assert line_of(caught.value, "rank 0").endswith("dist.all_reduce(torch.ones(4))")


def test_an_endless_loop_is_named_and_killed():
    ranks = Ranks(1, timeout_s=1)
    (pid,) = ranks(os.getpid)

    def spin():
        while True:
            pass

    with pytest.raises(RankTimeout, match=r"rank 0 computes .* in spin: "):
        ranks(spin)
    assert not alive(pid)
    with pytest.raises(RankError, match="gone: a call did not finish in 1 s"):
        ranks(os.getpid)


def test_a_rank_that_cannot_answer_is_killed_all_the_same():
    def stop_itself():
        os.kill(os.getpid(), signal.SIGSTOP)

    with pytest.raises(RankTimeout, match="rank 0 does not answer"):
        launch(stop_itself, world_size=1, timeout_s=0.5)


# ------------------------------------------------------------ live ranks


def test_live_ranks_survive_an_error_that_leaves_them_in_step():
    with Ranks(2) as ranks:
        with pytest.raises(RankError, match="The ranks are still alive"):
            ranks(lambda: 1 / dist.get_rank())
        assert ranks(dist.get_rank) == [0, 1]


def test_ranks_out_of_step_are_stopped():
    """Rank 1 fails before a collective that rank 0 has begun and not waited for."""

    def step():
        if dist.get_rank() == 1:
            raise ValueError("boom")
        dist.all_reduce(torch.ones(4), async_op=True)

    ranks = Ranks(2)
    with pytest.raises(RankError, match="All ranks are stopped"):
        ranks(step)


def test_a_rank_that_dies_between_calls_is_reported_by_the_next():
    ranks = Ranks(2)
    os.kill(ranks(os.getpid)[1], signal.SIGKILL)
    with pytest.raises(RankError, match="rank 1 of 2 failed: its process was killed"):
        ranks(dist.barrier)


def test_ctrl_c_stops_the_ranks_and_is_raised():
    ranks = Ranks(2)
    pids = ranks(os.getpid)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        ranks(time.sleep, 1000)
    assert not any(alive(pid) for pid in pids)
    with pytest.raises(RankError, match="gone: KeyboardInterrupt"):
        ranks(os.getpid)
