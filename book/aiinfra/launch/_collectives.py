"""Collectives on one flat tensor, under one name for all supported torch versions."""

import torch.distributed as dist

# torch 2.13 renamed them; the old names print a FutureWarning there.
if hasattr(dist, "reduce_scatter_single"):
    reduce_scatter_single = dist.reduce_scatter_single
    all_gather_single = dist.all_gather_single
else:
    reduce_scatter_single = dist.reduce_scatter_tensor
    all_gather_single = dist.all_gather_into_tensor
