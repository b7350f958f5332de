"""A barrier over processes, by files in the directory STANDIN_BARRIER."""

import os
import time
from pathlib import Path

_passed = 0


def init_process_group(_backend):
    Path(os.environ["STANDIN_BARRIER"]).mkdir(exist_ok=True)


def get_rank():
    return int(os.environ["RANK"])


def barrier():
    global _passed
    _passed += 1
    meet = Path(os.environ["STANDIN_BARRIER"])
    (meet / f"{_passed}-{get_rank()}").touch()
    everybody = [meet / f"{_passed}-{rank}" for rank in range(int(os.environ["WORLD_SIZE"]))]
    deadline = time.monotonic() + 120
    while not all(there.exists() for there in everybody):
        if time.monotonic() > deadline:
            raise TimeoutError("a rank never came to the barrier")
        time.sleep(0.005)


def destroy_process_group():
    pass
