#!/bin/bash
# One torchrun per node; it starts one rank per GPU (RANKS_PER_NODE without GPUs).
#SBATCH --job-name=ddp
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --time=00:10:00
#SBATCH --output=ddp-%j.log
set -euo pipefail

head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

# Without --kill-on-bad-exit the nodes that are left wait for the one that died.
# srun gives a task one CPU unless told; all ranks of the node would share it.
srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_ON_NODE" torchrun \
  --nnodes="$SLURM_NNODES" \
  --nproc-per-node="${SLURM_GPUS_ON_NODE:-${RANKS_PER_NODE:-1}}" \
  --rdzv-backend=c10d \
  --rdzv-id="$SLURM_JOB_ID" \
  --rdzv-endpoint="$head_node:29500" \
  train.py
