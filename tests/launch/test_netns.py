"""Virtual time against two hosts' worth of real network with a rate-limited link.

Two network namespaces stand for two hosts. Each end of the cable between them lets
RATE_MBIT through. One function runs there, by the wall clock, and on local ranks in
virtual time; what it reports must agree. Needs root and iproute2 on Linux.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from aiinfra.launch import Link, VirtualClock, launch, now

RATE_MBIT = 100
# The limiter counts whole Ethernet frames: 14 bytes of header and up to MTU bytes, of
# which IP takes 20, TCP 20 and TCP's time stamps 12. The rest carries tensors.
MTU = 1500
PAYLOAD_SHARE = (MTU - 52) / (MTU + 14)
SIZES = (1_000_000, 4_000_000)  # bytes
REPEATS = 4  # the fastest counts: a busy machine only ever adds time
TOLERANCE = 0.15


def measure():
    """Seconds of a message one way and of a ring all-reduce, by size; the latency."""
    peer, rank = 1 - dist.get_rank(), dist.get_rank()

    def there_and_back(x):
        if rank == 0:
            dist.send(x, peer)
            dist.recv(x, peer)
        else:
            dist.recv(x, peer)
            dist.send(x, peer)

    def ring_all_reduce(x):
        x.fill_(rank + 1)
        mine, theirs = x.chunk(2) if rank == 0 else reversed(x.chunk(2))
        received = torch.empty_like(theirs)
        for step in range(2):  # reduce-scatter: one step; all-gather: one step
            # The receive first: gloo announces it to the sender on the connection that
            # carries our own data, and behind those megabytes it would be late.
            works = [dist.irecv(received, peer), dist.isend(mine, peer)]
            for work in works:
                work.wait()
            theirs.copy_(theirs + received if step == 0 else received)
            mine, theirs = theirs, mine
        assert x.min() == x.max() == 3

    def fastest_s(function, x, repeats=REPEATS):
        times = []
        for _ in range(repeats):
            dist.barrier()
            start = now()
            function(x)
            times.append(now() - start)
        return min(times)

    there_and_back(torch.zeros(2))  # connections are made at first use
    return {
        "latency": fastest_s(there_and_back, torch.zeros(2), 20) / 2,
        "message": [fastest_s(there_and_back, torch.zeros(n // 4)) / 2 for n in SIZES],
        "ring": [fastest_s(ring_all_reduce, torch.zeros(n // 4)) for n in SIZES],
    }


def in_namespace():
    """One rank of the real run, told which by the environment as torchrun does it."""
    results = launch(measure)
    print(json.dumps(results[0]), flush=True)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True)


@contextlib.contextmanager
def two_hosts():
    """Two namespaces with a cable; yields (namespace, device, address) of each."""
    spaces = [f"aiinfra{os.getpid()}{end}" for end in "ab"]
    devices, addresses = ("veth-a", "veth-b"), ("10.77.0.1", "10.77.0.2")
    try:
        for space in spaces:
            run("ip", "netns", "add", space)
        (a, b), (da, db) = spaces, devices
        cable = ["ip", "link", "add", da, "netns", a, "type", "veth"]
        run(*cable, "peer", "name", db, "netns", b)
        ends = list(zip(spaces, devices, addresses, strict=True))
        for space, device, address in ends:
            run("ip", "-n", space, "address", "add", f"{address}/30", "dev", device)
            # A store's server talks to itself over the loopback device.
            run("ip", "-n", space, "link", "set", "lo", "up")
            run("ip", "-n", space, "link", "set", device, "mtu", str(MTU), "up")
            limit = f"rate {RATE_MBIT}mbit burst 32kb limit 8mb".split()
            run("tc", "-n", space, "qdisc", "add", "dev", device, "root", "tbf", *limit)
        yield ends
    finally:
        for space in spaces:
            subprocess.run(["ip", "netns", "delete", space], capture_output=True)


def why_not():
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "network namespaces need root on Linux"
    if not (shutil.which("ip") and shutil.which("tc")):
        return "needs iproute2 (ip and tc)"
    try:
        with two_hosts():
            return None
    except subprocess.CalledProcessError as error:
        return f"this kernel or container refuses it: {error.stderr.strip()}"


@pytest.fixture(scope="module")
def measured():
    """What rank 0 measured across the two namespaces."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    code = "import test_netns; test_netns.in_namespace()"
    with two_hosts() as ends:
        ranks = []
        try:
            for rank, (space, device, _) in enumerate(ends):
                environment = {
                    **os.environ,
                    "RANK": str(rank),
                    "WORLD_SIZE": "2",
                    "MASTER_ADDR": ends[0][2],
                    "MASTER_PORT": "29400",
                    "GLOO_SOCKET_IFNAME": device,
                    "OMP_NUM_THREADS": "1",
                }
                ranks.append(
                    subprocess.Popen(
                        ["ip", "netns", "exec", space, sys.executable, "-c", code],
                        cwd=Path(__file__).parent,
                        env=environment,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        text=True,
                    )
                )
            out, errors = ranks[0].communicate(timeout=90)
            assert ranks[0].returncode == 0, errors
            ranks[1].communicate(timeout=20)
        finally:
            for process in ranks:
                process.kill()
                process.wait()
    return json.loads(out.splitlines()[-1])


@pytest.mark.parametrize("what", ["message", "ring"])
def test_virtual_time_agrees_with_a_rate_limited_link(measured, what):
    link = Link(gbps=RATE_MBIT / 1000 * PAYLOAD_SHARE, us=measured["latency"] * 1e6)
    virtual = launch(measure, world_size=2, clock=VirtualClock(link=link))[0]
    real = measured[what]
    for real_s, virtual_s in zip(real, virtual[what], strict=True):
        ratio = virtual_s / real_s
        assert abs(ratio - 1) <= TOLERANCE, f"{ratio:.3f} of {real_s:.4f} s"
