"""Data parallelism in one picture: shards in, one gradient out.

``04Train/02-ddp`` shows it.
"""

from aiinfra.diagram import Diagram

RANKS = (("blue", 0), ("orange", 1), ("green", 2))


def replicas() -> Diagram:
    """Three ranks, each with the whole model and a third of the batch."""
    d = Diagram(
        "ddp-replicas",
        360,
        296,
        title="Data parallelism on three ranks",
        description="A batch of six samples is cut into three shards of two. Each of "
        "three ranks holds the whole model and computes the gradient of its own shard. "
        "An all-reduce turns the three gradients into their mean, which every rank's "
        "optimizer applies.",
    )
    d.text(180, 16, "batch: 6 samples", anchor="middle")
    for colour, rank in RANKS:
        x = 8 + 118 * rank
        middle = x + 54
        for i in range(2):
            d.box(x + 54 * i, 24, 54, 26, f"{2 * rank + i}", colour=colour, radius=0)
        d.arrow(middle, 52, middle, 72)
        d.box(x, 74, 108, 44, f"rank {rank}\nwhole model", colour=colour)
        d.arrow(middle, 120, middle, 140)
        d.box(x, 142, 108, 26, f"gradient {rank}", colour=colour)
        d.arrow(middle, 170, middle, 190)
        d.arrow(middle, 220, middle, 240)
        d.box(x, 242, 108, 44, "mean gradient\nsame step")
    d.box(8, 192, 344, 28, "all-reduce: add, then share the sum", bold=True)
    return d


if __name__ == "__main__":
    print(replicas().svg())
