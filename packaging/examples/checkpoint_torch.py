#!/usr/bin/env python3
"""Saves checkpoints of a torch.distributed job, each rank on a mount of its own, so that `latest` never lies.

    torchrun --nproc-per-node 2 checkpoint_torch.py [--steps N] RUN [RUN...]

RUN is the directory of the run on the mount of this rank; with several, the rank's number says which. See checkpoint.py for
why the marker comes after a flush on every rank and a barrier.
"""

import argparse
import os
import subprocess
from pathlib import Path

import torch
import torch.distributed as dist


def flush(path):
    """Returns when all that is closed at or below `path` is at home; else the checkpoint has failed."""
    subprocess.run(["tierfs", "flush", path], check=True)


def save(run, step, state):
    """Saves this rank's state of a step, and with the other ranks the step."""
    directory = run / f"step-{step:06}"
    directory.mkdir(parents=True, exist_ok=True)
    torch.save(state, directory / f"shard-{dist.get_rank()}")
    flush(directory)
    dist.barrier()
    # Now every rank's shards are at home.
    if dist.get_rank() == 0:
        part = run / "latest.tmp"
        part.write_text(f"{directory.name}\n")
        os.replace(part, run / "latest")
        flush(run / "latest")
    dist.barrier()


def main():
    parser = argparse.ArgumentParser(description="Saves checkpoints of a torch.distributed job.")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("runs", metavar="RUN", type=Path, nargs="+")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    run = args.runs[dist.get_rank() % len(args.runs)]
    for step in range(1, args.steps + 1):
        save(run, step, {"step": step, "rank": dist.get_rank(), "weights": [float(step)] * 10_000})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
