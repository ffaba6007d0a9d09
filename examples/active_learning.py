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
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from graphdrop import Dataset, Predictive, Trainer, load_dataset, predict
from graphdrop.config import Config, settle
from graphdrop.data.splits import Split
from graphdrop.experiments.store import Record, Store
from graphdrop.report.figures import Curve, Panel, draw_figure, save_figure
from graphdrop.train.progress import Silent
from graphdrop.train.provenance import fingerprint, versions

STRATEGIES = ("mutual information", "entropy", "random")
PER_CLASS, SAMPLES = 2, 20


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


def draw(records: Sequence[Record], dataset: str, note: str, out: Path, *, quick: bool) -> None:
    """Accuracy by number of labels, and how far each strategy is from buying at random."""
    by = {(r["strategy"], r["seed"]): r["accuracy"] for r in records}
    labels, seeds = records[0]["labels"], sorted({seed for _, seed in by})
    accuracy, gain = [], []
    for strategy in STRATEGIES:
        runs = [[100 * value for value in by[strategy, seed]] for seed in seeds]
        chance = [[100 * value for value in by["random", seed]] for seed in seeds]
        accuracy.append(Curve(strategy, labels, runs))
        if strategy != "random":
            pairs = zip(runs, chance, strict=True)
            above = [[a - b for a, b in zip(*pair, strict=True)] for pair in pairs]
            gain.append(Curve(strategy, labels, above))
    panels = [
        Panel(f"Active learning, {dataset}", "labelled nodes", "test accuracy (%)", accuracy),
        Panel("Gain over random, same seed", "labelled nodes", "points of accuracy", gain),
    ]
    figure = draw_figure(panels, note=note, quick=quick)
    print(*save_figure(figure, out / "active-learning"), sep="\n")


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
    dataset, store = load_dataset(options.dataset), Store(options.out)
    # One evaluation, after the last epoch: no state is chosen by labels that were not bought.
    train = {"epochs": options.epochs, "evaluate_every": options.epochs, "learning_rate": 0.01}
    sizes = f"{options.rounds} rounds of {options.batch}, {options.epochs} epochs"
    records = []
    for seed in range(options.seeds):
        config = settle({"seed": seed, "data": {"dataset": options.dataset}, "train": train})
        for strategy in STRATEGIES:
            key = f"{options.dataset}, {strategy}, seed {seed}, {sizes}"
            if key not in store.records():
                start = time.monotonic()
                course = acquire(dataset, config, strategy, options.rounds, options.batch)
                spent = {"seconds": round(time.monotonic() - start, 1), "versions": versions()}
                about = {"key": key, "strategy": strategy, "seed": seed}
                store.append(about | course | spent | {"data": fingerprint(dataset.data)})
            records.append(store.records()[key])
            print(f"{key}: {100 * records[-1]['accuracy'][-1]:.1f} % at the end", flush=True)
    note = (
        f"Mean and 95 % interval over {options.seeds} seeds; {sizes}. examples/active_learning.py, "
        f"data (sha256) {records[0]['data'][:8]}."
    )
    draw(records, options.dataset, note, options.out, quick=options.quick)


if __name__ == "__main__":
    main()
