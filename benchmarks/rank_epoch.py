"""One rank of the benchmark of ranks: ``torchrun rank_epoch.py NODES TRAIN``.

Trains two epochs of mini-batches, 1024 nodes per rank and step, and prints the seconds of the
second one.
"""

from __future__ import annotations

import sys
import time

import torch

from graphdrop import Config, Trainer
from graphdrop.train.loop import train_mini_batches
from graphdrop.train.progress import Silent
from graphdrop.train.ranks import join_ranks
from large_graphs import random_graph


def main(nodes: int, train: int) -> None:
    torch.set_num_threads(1)
    settings = {
        "recipe": "paper",
        "data": {"dataset": "data"},
        "model": {"method": "GCN-BBGDC", "layers": 3, "hidden": 128},
        "train": {"epochs": 3, "evaluate_every": 3, "samples": 1, "batch_size": 1024},
        "predict": {"samples": 1, "calibration": "none"},
    }
    with join_ranks():
        data = random_graph(nodes, 20 * nodes, 128, train)
        trainer = Trainer(Config(**settings), data, progress=Silent())
        train_mini_batches(trainer.run, trainer.state, Silent())  # compiles, and sorts the edges
        trainer.state.epoch = 1
        start = time.perf_counter()
        train_mini_batches(trainer.run, trainer.state, Silent())
        print(f"seconds {time.perf_counter() - start:.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
