"""What every rank does in the tests of `torchrun`: `torchrun two_ranks.py FOLDER`.

The first rank writes gradients and final weights, for one rank or for two that share its batches.
"""

import sys
from pathlib import Path

import torch

from graphdrop.config import settle
from graphdrop.data import load_dataset
from graphdrop.data.synthetic import synthetic_graph
from graphdrop.train import Trainer
from graphdrop.train.loop import estimate_loss
from graphdrop.train.progress import Silent
from graphdrop.train.ranks import Ranks, join_ranks

METHODS = {
    "GCN-BBGDC": {"objective": {"agree": 1.0}},
    "SAGE-BBGDC": {"model": {"norm_layer": "batch"}},
}


def small_trainer(method: str, batch_size: int) -> Trainer:
    """A small run with full neighbourhoods; 48 training nodes."""
    graph = synthetic_graph(80, 3, num_features=30, words_per_node=6.0, feature_signal=0.6)
    changes = METHODS[method]
    settings = {
        "recipe": "paper",
        "data": {"dataset": "data"},
        "model": {"method": method, "layers": 2, "hidden": 8} | changes.get("model", {}),
        "objective": changes.get("objective", {}),
        "train": {
            "epochs": 3,
            "evaluate_every": 1,
            "samples": 2,
            "batch_size": batch_size,
            "fan_out": "-1",
        },
        "predict": {"samples": 2},
    }
    data = load_dataset(graph.data, split="random-fractions")
    return Trainer(settle(settings), data, progress=Silent())


def gradients(trainer: Trainer) -> list[torch.Tensor]:
    """The gradients of the last step of an epoch, the one with unequal batches."""
    run = trainer.run
    *_, step = run.batches.epoch(0)
    found, agree = estimate_loss(run, step)
    terms = run.objective(found.loss, found.tape, 0)
    terms |= {name: terms[name] / run.ranks.size for name in ("kl", "l2")}
    sum((terms | agree).values()).backward()
    run.ranks.sum_gradients(run.model.parameters())
    return [p.grad.clone() for p in run.model.parameters()]


def main(folder: Path) -> None:
    with join_ranks() as ranks:
        print(f"rank {ranks.number}")  # of which the first alone is heard
        for method in METHODS:
            size = 20 // ranks.size
            out = {"gradients": gradients(small_trainer(method, size))}
            run = small_trainer(method, size)
            out["steps"] = torch.tensor(run.run.batches.steps)
            result = run.fit()
            out["weights"] = [p.detach() for p in run.model.parameters()]
            out["nll"] = torch.tensor([line["nll"] for line in run.journal.lines])
            out["scores"] = torch.tensor([result.test.nll, result.validation.nll])
            if Ranks().first:
                torch.save(out, folder / f"{method}-{ranks.size}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
