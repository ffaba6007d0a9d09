"""From a loaded graph to a calibrated answer: the default against PyG's example loop.

The loop is that of PyG's GCN example: 64 wide, DropOut, dense features, 200 epochs with validation
after each, and the best state is kept. Then come 20 samples with DropOut and one temperature that
is fitted on the validation nodes, so that both end with calibrated probabilities of all nodes.
Seconds per epoch are not compared: the default chooses its settings and stops early.

Amazon Photo is read from ``$GRAPHDROP_DATA/dev/amazon_photo.npz``, and left out if it is not there.
"""

from __future__ import annotations

import copy
import os
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg_nn

from graphdrop import Config, Trainer, load_dataset, predict
from graphdrop.data import Dataset
from graphdrop.train.progress import Silent
from table import Report, Row

EPOCHS, WIDTH, SAMPLES, ROUNDS = 200, 64, 20, 3


def time_ours(dataset: Dataset, seed: int) -> tuple[float, float]:
    """Seconds until the default's calibrated probabilities are there, and their test NLL."""
    start = time.perf_counter()
    trainer = Trainer(Config(seed=seed), dataset, progress=Silent())
    trainer.fit()
    probabilities = predict(trainer.model, dataset.data).probabilities
    return time.perf_counter() - start, test_nll(probabilities, dataset)


def time_pyg(dataset: Dataset, seed: int) -> tuple[float, float]:
    """Seconds until the loop's calibrated probabilities are there, and their test NLL."""
    data = dataset.data
    x = data.x.to_dense() if data.x.layout != torch.strided else data.x
    torch.manual_seed(seed)
    start = time.perf_counter()
    model = pyg_nn.GCN(x.shape[1], WIDTH, 2, dataset.num_classes, dropout=0.5, cached=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best, state = -1.0, model.state_dict()
    for _ in range(EPOCHS):
        model.train()
        optimizer.zero_grad()
        out = model(x, data.edge_index)[data.train_mask]
        nn.functional.cross_entropy(out, data.y[data.train_mask]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            chosen = model(x, data.edge_index)[data.val_mask].argmax(1)
        accuracy = float((chosen == data.y[data.val_mask]).float().mean())
        if accuracy > best:
            best, state = accuracy, copy.deepcopy(model.state_dict())
    model.load_state_dict(state)
    model.train()  # DropOut acts in samples
    with torch.no_grad():
        passes = [model(x, data.edge_index).softmax(1) for _ in range(SAMPLES)]
    logits = torch.stack(passes).mean(0).clamp_min(1e-12).log()
    slope = fit_slope(logits[data.val_mask], data.y[data.val_mask])
    probabilities = (slope * logits).softmax(1)
    return time.perf_counter() - start, test_nll(probabilities, dataset)


def fit_slope(logits: Tensor, labels: Tensor) -> Tensor:
    """One over the temperature that has the least NLL."""
    log_slope = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.LBFGS([log_slope], max_iter=50, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(log_slope.exp() * logits, labels)
        loss.backward()
        return loss

    optimizer.step(closure)
    return log_slope.detach().exp()


def test_nll(probabilities: Tensor, dataset: Dataset) -> float:
    """The mean negative log-likelihood of the test nodes."""
    rows = dataset.data.test_mask
    own = probabilities[rows].gather(1, dataset.data.y[rows][:, None])
    return float(-own.clamp_min(1e-12).log().mean())


def main() -> bool:
    report = Report("answer", "From a loaded graph to a calibrated answer, in seconds")
    graphs = ["cora"]
    photo = Path(os.environ.get("GRAPHDROP_DATA", ".")) / "dev" / "amazon_photo.npz"
    graphs += [str(photo)] if photo.is_file() else []
    for graph in graphs:
        dataset = load_dataset(graph)
        rounds = [(time_ours(dataset, seed), time_pyg(dataset, seed)) for seed in range(ROUNDS)]
        ours, pyg = zip(*rounds, strict=True)
        seconds, peer = (min(one[0] for one in times) for times in (ours, pyg))
        scores = [sum(one[1] for one in times) / ROUNDS for times in (ours, pyg)]
        note = "test NLL {:.3f} and {:.3f}".format(*scores)
        name = Path(graph).stem
        report.add(Row(f"{name}: the default", seconds, note=note))
        report.add(Row(f"{name}: PyG's loop", peer))
        report.add(Row(f"{name}: the default / PyG's loop", seconds / peer))
    return report.finish()


if __name__ == "__main__":
    torch.set_num_threads(2)
    raise SystemExit(not main())
