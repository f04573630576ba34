"""Messages of the failure index that no lesson shows, provoked under torchrun."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
if sys.argv[1] == "another shape":
    dist.all_reduce(torch.ones(4 + 1_000 * rank))
if sys.argv[1] == "another shape, debugged":
    dist.all_reduce(torch.ones(4 + rank))
if sys.argv[1] == "killed" and rank == 1:
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "a batch more":
    for _ in range(3 + rank):
        dist.all_reduce(torch.ones(4))
    dist.destroy_process_group()
dist.barrier()
"""
MESSAGES = {
    "another shape": [
        "terminate called after throwing an instance of 'gloo::EnforceNotMet'",
        "op.preamble.length <= op.nbytes.",
        "Received data size doesn't match expected size.",
        "exitcode  : -6",
    ],
    "another shape, debugged": [
        "Detected mismatch between collectives on ranks.",
        "Collectives differ in the following aspects:",
    ],
    "killed": ["exitcode  : -9"],
    "a batch more": [("Connection closed by peer", "Connection reset by peer")],
}


@pytest.mark.parametrize("failure", MESSAGES)
def test_torch_says_so(failure, tmp_path):
    script = tmp_path / "fails.py"
    script.write_text(SCRIPT, encoding="utf-8")
    debug = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"} if "debugged" in failure else {}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node=2", str(script), failure],
        env={**os.environ, "OMP_NUM_THREADS": "1"} | debug,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode
    for message in MESSAGES[failure]:
        one_of = (message,) if isinstance(message, str) else message
        assert any(text in done.stderr + done.stdout for text in one_of)
