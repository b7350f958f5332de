"""Stands in for torch where that is not installed: as much of it as packaging/examples/checkpoint_torch.py calls."""

import pickle


def save(state, path):
    with open(path, "wb") as file:
        pickle.dump(state, file)
