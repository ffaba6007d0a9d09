"""A stock GAT of PyG on Cora, made Bayesian by three added lines.

    python examples/attach_gat.py
    python examples/attach_gat.py --dataset synthetic --epochs 20

The lines are marked `# added`. The network is trained without and with them; printed are accuracy
and calibration error on the test nodes, and the drop rate of each layer before and after training.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.nn import GAT

from graphdrop import BetaBernoulliRate, GraphDropConnect, attach, calibration_error, predict
from graphdrop.data import load_dataset
from graphdrop.data.sources import UnavailableError


def stock_gat(data: Data) -> GAT:
    """The network: two layers of attention with 4 heads."""
    torch.manual_seed(0)
    return GAT(data.num_features, 32, 2, int(data.y.max()) + 1, heads=4, dropout=0.6)


def plain(data: Data, epochs: int) -> Tensor:
    """Train the network as it is; class probabilities of every node."""
    model = stock_gat(data)
    optimizer = torch.optim.Adam(model.parameters(), 0.01, weight_decay=5e-4)
    for _ in range(epochs):
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        loss = cross_entropy(out[data.train_mask], data.y[data.train_mask])
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        probabilities: Tensor = model.eval()(data.x, data.edge_index).softmax(1)
    return probabilities


def bayesian(data: Data, epochs: int) -> tuple[Tensor, dict[str, tuple[float, float]]]:
    """The same with a sampler; also the drop rate of each layer before and after."""
    model = stock_gat(data)
    handle = attach(model, GraphDropConnect(BetaBernoulliRate(), blocks=2))  # added
    before = handle.drop_rates()
    optimizer = torch.optim.Adam(model.parameters(), 0.01, weight_decay=5e-4)
    for epoch in range(epochs):
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        loss = cross_entropy(out[data.train_mask], data.y[data.train_mask])
        loss += min(1.0, (epoch + 1) / 20) / int(data.train_mask.sum()) * handle.kl()  # added
        loss.backward()
        optimizer.step()
    probabilities = predict(model, data, samples=20).probabilities  # added
    after = handle.drop_rates()
    return probabilities, {name: (before[name], after[name]) for name in before}


def load(name: str) -> tuple[str, Data]:
    """A dataset, or where its files cannot be had the next one that can."""
    for candidate in (name, "citeseer", "synthetic"):
        try:
            data = load_dataset(candidate).data
        except UnavailableError as error:
            print(f"{candidate} cannot be had here: {error}")
            continue
        data.x = data.x.to_dense()
        return candidate, data
    raise SystemExit("no dataset can be had")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train both, and print what they know and how well they know it."""
    parser = argparse.ArgumentParser(description="A stock GAT, plain and Bayesian")
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--epochs", type=int, default=200)
    options = parser.parse_args(arguments)
    name, data = load(options.dataset)
    labels = data.y[data.test_mask]
    sampled, rates = bayesian(data, options.epochs)
    print(f"{name}: {len(labels)} test nodes, {options.epochs} epochs\n")
    print("            accuracy     ECE")
    for title, probabilities in (("before", plain(data, options.epochs)), ("after", sampled)):
        tested = probabilities[data.test_mask]
        accuracy = float((tested.argmax(1) == labels).float().mean())
        print(f"{title:10}  {accuracy:8.3f}  {float(calibration_error(tested, labels)):6.3f}")
    print("\n            drop rate before  learned")
    for layer, (before, after) in rates.items():
        print(f"{layer:10}  {before:16.3f}  {after:7.3f}")


if __name__ == "__main__":
    main()
