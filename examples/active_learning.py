"""Active learning on Cora: which nodes to have labelled next, by what the network does not know.

    python examples/active_learning.py             # 10 seeds; results/active has the curves
    python examples/active_learning.py --quick     # in a minute, on a synthetic graph

Two nodes of each class are labelled at first. Round by round GCN-BBGDC is trained anew on the
labels so far, and a few more nodes are bought: those with the highest mutual information between
label and network, those with the highest entropy, or any. All three start from the same nodes.
Nothing is tuned or stopped on other labels than those that were bought; the test nodes are never
for sale. A run that is stopped goes on with the same command.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy import stats
from torch import Tensor

from graphdrop import Dataset, Predictive, Trainer, load_dataset, predict
from graphdrop.config import Config, settle
from graphdrop.data.splits import Split
from graphdrop.train.progress import Silent
from graphdrop.train.records import versions
from graphdrop.train.run_dataset import fingerprint

STRATEGIES = ("mutual information", "entropy", "random")
PER_CLASS, SAMPLES = 2, 20
Record = dict[str, Any]


def score(strategy: str, prediction: Predictive, generator: torch.Generator) -> Tensor:
    """What a label of each node is worth, `[nodes]`."""
    if strategy == "mutual information":
        return prediction.epistemic
    if strategy == "entropy":
        return prediction.entropy
    return torch.rand(len(prediction.entropy), generator=generator)


def first_labels(dataset: Dataset, generator: torch.Generator) -> Tensor:
    """A few nodes of each class that are neither for validation nor for test, bool `[nodes]`."""
    labels, split = dataset.data.y, dataset.split
    order = torch.rand(len(labels), generator=generator)
    order[split.val | split.test] = 2.0
    labelled = torch.zeros(len(labels), dtype=torch.bool)
    for number in range(dataset.num_classes):
        nodes = (labels == number).nonzero().flatten()
        labelled[nodes[order[nodes].argsort()[:PER_CLASS]]] = True
    return labelled


def acquire(
    dataset: Dataset, config: Config, strategy: str, rounds: int, batch: int
) -> dict[str, list[float]]:
    """Buy labels for some rounds; how many there were, and the accuracy on the test nodes."""
    generator = torch.Generator().manual_seed(config.seed)
    labelled = first_labels(dataset, generator)
    pool = (dataset.data.y >= 0) & ~dataset.split.val & ~dataset.split.test
    course: dict[str, list[float]] = {"labels": [], "accuracy": []}
    for _ in range(rounds + 1):
        split = Split(labelled, dataset.split.val, dataset.split.test, "bought")
        trainer = Trainer(config, replace(dataset, split=split), progress=Silent())
        course["accuracy"].append(trainer.fit().test.accuracy)
        course["labels"].append(int(labelled.sum()))
        temperature = config.model.temperature
        prediction = predict(
            trainer.model, trainer.data, SAMPLES, config.seed, temperature=temperature
        )
        worth = score(strategy, prediction, generator).masked_fill(labelled | ~pool, -1.0)
        labelled = labelled.clone()
        labelled[worth.topk(batch).indices] = True
    return course


def read_records(path: Path) -> dict[str, Record]:
    """Read the finished runs of a file of JSON lines, by key."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {record["key"]: record for record in map(json.loads, lines)}


def write_records(records: dict[str, Record], path: Path) -> None:
    """Write all finished runs; if this is stopped in between, the former file is still whole."""
    new = path.with_name(f"{path.name}.new")
    new.write_text("".join(json.dumps(record) + "\n" for record in records.values()), "utf-8")
    new.replace(path)


def draw(records: Sequence[Record], dataset: str, note: str, out: Path) -> None:
    """Draw accuracy by number of labels, and the gain of each strategy over buying at random."""
    seeds = sorted({record["seed"] for record in records})
    runs = {
        strategy: 100 * np.array([r["accuracy"] for r in records if r["strategy"] == strategy])
        for strategy in STRATEGIES
    }
    gains = {name: values - runs["random"] for name, values in runs.items() if name != "random"}
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, curves in ((left, runs), (right, gains)):
        for strategy, values in curves.items():
            mean = values.mean(0)
            half = stats.t.ppf(0.975, len(seeds) - 1) * stats.sem(values, axis=0)
            axes.plot(records[0]["labels"], mean, label=strategy)
            axes.fill_between(records[0]["labels"], mean - half, mean + half, alpha=0.2)
        axes.set_xlabel("labelled nodes")
        axes.legend()
    left.set(title=f"Active learning, {dataset}", ylabel="test accuracy (%)")
    right.set(title="Gain over random, same seed", ylabel="points of accuracy")
    figure.supxlabel(note, fontsize=7)
    figure.savefig(out / "active-learning.png", dpi=200)
    print(out / "active-learning.png")


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the runs that are missing, and the figure."""
    parser = argparse.ArgumentParser(description="Active learning with GCN-BBGDC")
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--batch", type=int, default=6, help="labels bought in a round")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("results/active"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    if options.quick:
        options.dataset, options.seeds, options.rounds, options.epochs = "synthetic", 2, 2, 10
    dataset, path = load_dataset(options.dataset), options.out / "runs.jsonl"
    options.out.mkdir(parents=True, exist_ok=True)
    done = read_records(path)
    # One evaluation, after the last epoch: no state is chosen by labels that were not bought.
    train = {"epochs": options.epochs, "evaluate_every": options.epochs, "learning_rate": 0.01}
    sizes = f"{options.rounds} rounds of {options.batch}, {options.epochs} epochs"
    records = []
    for seed in range(options.seeds):
        config = settle({"seed": seed, "data": {"dataset": options.dataset}, "train": train})
        for strategy in STRATEGIES:
            key = f"{options.dataset}, {strategy}, seed {seed}, {sizes}"
            if key not in done:
                start = time.monotonic()
                course = acquire(dataset, config, strategy, options.rounds, options.batch)
                spent = {"seconds": round(time.monotonic() - start, 1), "versions": versions()}
                about = {"key": key, "strategy": strategy, "seed": seed}
                done[key] = about | course | spent | {"data": fingerprint(dataset.data)}
                write_records(done, path)
            records.append(done[key])
            print(f"{key}: {100 * records[-1]['accuracy'][-1]:.1f} % at the end", flush=True)
    note = (
        f"Mean and 95 % interval over {options.seeds} seeds; {sizes}. examples/active_learning.py, "
        f"data (sha256) {records[0]['data'][:8]}."
    )
    draw(records, options.dataset, note, options.out)


if __name__ == "__main__":
    main()
