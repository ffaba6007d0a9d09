"""What it flatters that selection and calibration share the validation nodes, measured once.

    python benchmarks/shared_validation.py --root DATA --out results/auto/shared-validation.jsonl

Every seed is trained with all validation nodes for both, and twice with one half for the selection
and the other for the calibrator. A line has the test NLL and ECE of each, and what the validation
nodes say: out of fold where they are shared, untouched by the calibrator's fit where they are not.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

import torch

from graphdrop import Config, Trainer, load_dataset
from graphdrop.calibration.fit import calibrator_for
from graphdrop.data import Dataset
from graphdrop.inference import predict
from graphdrop.metrics import calibration_error, nll
from graphdrop.train.progress import Silent
from graphdrop.train.scoring import ScoredSamples, read_calibration_nodes

GRAPHS = ("cora", "citeseer", "cora_ml")


def scored(trainer: Trainer, rows: torch.Tensor, calibrator: object) -> dict[str, float]:
    """NLL and ECE of some nodes with a calibrator."""
    answer = predict(trainer.model, trainer.data, rows=rows, calibrator=calibrator)
    labels = trainer.run.targets[rows]
    probabilities = answer.probabilities
    return {
        "nll": float(nll(probabilities, labels)),
        "ece": float(calibration_error(probabilities, labels)),
    }


def halves(dataset: Dataset, seed: int) -> list[Dataset]:
    """The dataset with one half of its validation nodes, and with the other."""
    nodes = dataset.split.val.nonzero().flatten()
    order = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(seed))]
    found = []
    for part in order.chunk(2):
        mask = torch.zeros_like(dataset.split.val)
        mask[part] = True
        found.append(
            dataclasses.replace(dataset, split=dataclasses.replace(dataset.split, val=mask))
        )
    return found


def line(graph: str, root: str, seed: int) -> dict[str, object]:
    """One seed on one graph: shared, and apart."""
    split = "random-per-class" if graph == "cora_ml" else "public"
    dataset = load_dataset(graph, root, split, seed if graph == "cora_ml" else 0)
    config = Config(seed=seed, data={"dataset": dataset.name})
    result = Trainer(config, dataset, progress=Silent()).fit()
    shared = {
        part: {name: scores[name] for name in ("nll", "ece")}
        for part, scores in (("test", result.test), ("validation", result.validation))
    }
    apart = []
    selecting, fitting = halves(dataset, seed)
    for one, other in ((selecting, fitting), (fitting, selecting)):
        trainer = Trainer(config, one, progress=Silent())
        trainer.fit()
        rows = other.split.val.nonzero().flatten()
        kind = calibrator_for(trainer.config.predict.calibration, trainer.run.task.output)
        nodes = read_calibration_nodes(trainer.run, ScoredSamples(trainer.run), kind, rows)
        calibrator = nodes.fit(kind)
        selected = trainer.rows["validation"]
        apart.append(
            {
                "test": scored(trainer, trainer.rows["test"], calibrator),
                "validation": scored(trainer, selected, calibrator),
            }
        )
    return {"graph": graph, "seed": seed, "shared": shared, "apart": apart}


def main() -> None:
    """Write a line for every graph and seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default="")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    with given.out.open("w", encoding="utf-8") as stream:
        for graph in GRAPHS:
            for seed in range(400, 400 + given.seeds):
                print(json.dumps(line(graph, given.root, seed)), file=stream, flush=True)


if __name__ == "__main__":
    main()
