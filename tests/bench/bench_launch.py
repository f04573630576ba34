"""How long four ranks take to start, against torch.multiprocessing.spawn."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

# A script of its own, because a first launch needs a fresh process and spawn imports
# the main script in every rank. Both ways do the same work on each rank: join the
# group, make an optimizer, take one step, average the gradients.
SCRIPT = """\
import json, os, statistics, sys, time
begin = time.perf_counter()

def step():
    import torch, torch.distributed as dist
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(8)).sum().backward()
    dist.all_reduce(model.weight.grad)
    optimizer.step()

def spawned(rank, store):
    import torch.distributed as dist
    dist.init_process_group(
        "gloo", init_method="file://" + store, rank=rank, world_size=4)
    step()
    dist.destroy_process_group()

def memory_mb(pid):
    words = [line.split() for line in open(f"/proc/{pid}/smaps_rollup")]
    kb = {w[0]: int(w[1]) for w in words if w[-1] == "kB"}
    return kb["Rss:"] / 1e3, (kb["Private_Clean:"] + kb["Private_Dirty:"]) / 1e3

def timed(call, *args, **kwargs):
    began = time.perf_counter()
    call(*args, **kwargs)
    return time.perf_counter() - began

if __name__ == "__main__" and sys.argv[1] == "launch":
    from aiinfra.launch import Ranks, launch, _start
    launch(step, world_size=4)
    first_s = time.perf_counter() - begin
    warm_s = statistics.median(
        timed(launch, step, world_size=4) for _ in range(7))
    sizes = {}
    if sys.platform == "linux":
        with Ranks(4) as ranks:
            sizes = {
                "this process": memory_mb(os.getpid()),
                "fork server": memory_mb(_start._server._process.pid),
                "idle rank": memory_mb(ranks(os.getpid)[0])}
    print(json.dumps({"first_s": first_s, "warm_s": warm_s, "sizes": sizes}))
elif __name__ == "__main__":
    import torch.multiprocessing as mp
    times = [
        timed(mp.spawn, spawned, (f"{sys.argv[2]}/store{i}",), nprocs=4)
        for i in range(2)]
    print(json.dumps(statistics.median(times)))
"""


def run() -> list[dict[str, object]]:
    """Seconds to start four ranks each way, their ratio, and the memory it takes."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "ranks.py"
        script.write_text(SCRIPT)

        def measure(way: str):
            command = [sys.executable, str(script), way, folder]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            return json.loads(done.stdout.splitlines()[-1])

        ours, spawn_s = measure("launch"), measure("spawn")
    rows: list[dict[str, object]] = [
        {"4 ranks": "first launch, import included", "s": round(ours["first_s"], 2)},
        {"4 ranks": "next launch (median of 7)", "s": round(ours["warm_s"], 3)},
        {"4 ranks": "torch.multiprocessing.spawn", "s": round(spawn_s, 2)},
        {"4 ranks": "spawn / next launch", "ratio": round(spawn_s / ours["warm_s"], 1)},
    ]
    rows += [
        {"4 ranks": f"memory, {who}", "MB": round(rss), "of it private MB": round(own)}
        for who, (rss, own) in ours["sizes"].items()
    ]
    return rows
