#!/usr/bin/env python3
"""Saves checkpoints from several ranks, each on a mount of its own, so that `latest` never lies.

Whoever reads `latest` straight from Blob must find every shard of the step it names. Order holds within one mount only, so
every rank waits until its own shards are at home, then for all others, and only then one rank writes the marker:

    write shards  ->  tierfs flush DIR  ->  barrier  ->  rank 0 writes the marker

    checkpoint.py [--steps N] RUN...     one rank for each RUN, the same directory seen through different mounts

Here the ranks are processes of one machine and the barrier is theirs; in a job it is torch.distributed.barrier() (see
checkpoint_torch.py), MPI_Barrier or whatever the job has.
"""

import argparse
import multiprocessing
import os
import subprocess
from pathlib import Path


def write(path, data):
    """A whole file or none: readers never see half of it under its name."""
    part = path.with_name(path.name + ".tmp")
    with open(part, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def flush(path):
    """Returns when all that is closed at or below `path` is at home; else the checkpoint has failed."""
    subprocess.run(["tierfs", "flush", path], check=True)


def save(run, step, rank, shard, barrier):
    """Saves this rank's shard of a step, and with the others the step."""
    directory = run / f"step-{step:06}"
    directory.mkdir(parents=True, exist_ok=True)
    write(directory / f"shard-{rank}", shard)
    flush(directory)
    barrier()
    # Now every rank's shards are at home.
    if rank == 0:
        write(run / "latest", f"{directory.name}\n".encode())
        flush(run / "latest")
    barrier()


def shard_of(step, rank):
    """What a rank has to save; a model's state in a real job."""
    return f"step {step}, rank {rank}\n".encode() * 20_000


def work(run, rank, steps, barrier):
    for step in range(1, steps + 1):
        save(run, step, rank, shard_of(step, rank), barrier.wait)


def main():
    parser = argparse.ArgumentParser(description="Saves checkpoints from several ranks.")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("runs", metavar="RUN", type=Path, nargs="+")
    args = parser.parse_args()
    barrier = multiprocessing.Barrier(len(args.runs))
    ranks = [
        multiprocessing.Process(target=work, args=(run, rank, args.steps, barrier))
        for rank, run in enumerate(args.runs)
    ]
    for rank in ranks:
        rank.start()
    failed = False
    for rank in ranks:
        rank.join()
        if rank.exitcode != 0:
            # The others wait for it in vain.
            failed = True
            barrier.abort()
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
