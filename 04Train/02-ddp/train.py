"""The lesson's DDP on any number of machines, compared with one process.

    torchrun --standalone --nproc-per-node 3 train.py

``slurm.sh`` and ``kubernetes.yaml`` start the same file on several nodes.
"""

import os

import torch
import torch.distributed as dist
from torch import nn

from aiinfra.launch import device, launch
from aiinfra.lessons.ddp import DDP, differing_parameters, joined_mean

N_SAMPLES, N_STEPS = 50, 20  # 50 samples: uneven shards on 3, 4, 8 ... ranks


def make_net() -> nn.Module:
    """A small regression model in float64, so that 1e-12 can be asked for."""
    return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3)).double()


def train() -> tuple[float, float]:
    """Train on this rank's shard; return the last loss and the gap to one process."""
    ours, alone = DDP(make_net().to(device())), make_net().to(device())
    alone.load_state_dict(ours.module.state_dict())
    nets = (ours, alone)
    sgd = [torch.optim.SGD(n.parameters(), lr=0.05, momentum=0.9) for n in nets]
    data = torch.Generator().manual_seed(0)  # the same on every rank
    for _ in range(N_STEPS):
        joined = torch.randn(N_SAMPLES, 8, generator=data, dtype=torch.float64)
        joined = joined.to(device())
        mine = joined.tensor_split(dist.get_world_size())[dist.get_rank()]
        for optimizer in sgd:
            optimizer.zero_grad()
        loss_sum = (ours(mine[:, :5]) - mine[:, 5:]).square().sum()
        joined_mean(loss_sum, len(mine)).backward()
        loss = (alone(joined[:, :5]) - joined[:, 5:]).square().sum() / N_SAMPLES
        loss.backward()
        for optimizer in sgd:
            optimizer.step()
    pairs = zip(ours.parameters(), alone.parameters(), strict=True)
    gap = max((p - q).abs().max().item() for p, q in pairs)
    assert gap < 1e-12, f"rank {dist.get_rank()} is {gap} from one process"
    assert not differing_parameters(ours.module), "the replicas differ"
    return loss.item(), gap


if __name__ == "__main__":
    results = launch(train, world_size=2)  # under torchrun: torchrun's world size
    if os.environ.get("RANK", "0") == "0":
        loss = results[0][0]
        print(f"{len(results)} ranks, loss {loss:.4f}: as one process to 1e-12")
