"""Several labels per node: which topics a paper and the papers it is linked to are about.

    python examples/multilabel.py --out multilabel.png
    python examples/multilabel.py --dataset cora

A GraphSAGE of PyG with a sampler attached gives every label a probability of its own. Printed is
how many labels are wrong, for all test nodes and for those that it is most certain about; the plot
shows the same for every share of nodes that it may refuse to answer for.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, one_hot
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

from graphdrop import BetaBernoulliRate, GraphDropConnect, attach, load_dataset, predict


def topics(data: Data) -> Tensor:
    """The classes of a node and its neighbours, `[nodes, classes]` of zeros and ones."""
    own = one_hot(data.y)
    to, of = data.edge_index
    return own.index_add(0, to, own[of]).clamp(max=1).float()


def trained(data: Data, epochs: int) -> GraphSAGE:
    """A network with one logit per label."""
    model = GraphSAGE(data.num_features, 64, 2, data.topics.shape[1], dropout=0.5)
    handle = attach(model, GraphDropConnect(BetaBernoulliRate(), blocks=2))
    optimizer = torch.optim.Adam(model.parameters(), 0.01, weight_decay=5e-4)
    train = data.train
    for epoch in range(epochs):
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        loss = binary_cross_entropy_with_logits(out[train], data.topics[train])
        loss = loss + min(1.0, (epoch + 1) / 20) / data.topics[train].numel() * handle.kl()
        loss.backward()
        optimizer.step()
    return model


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, predict, print and draw."""
    parser = argparse.ArgumentParser(description="Multi-label classification of nodes")
    parser.add_argument("--dataset", default="synthetic")
    parser.add_argument("--quick", action="store_true", help="few epochs")
    parser.add_argument("--out", default="multilabel.png", help="where the plot goes")
    options = parser.parse_args(arguments)
    torch.manual_seed(0)
    data = load_dataset(options.dataset).data
    data.x, data.topics = data.x.to_dense(), topics(data)
    train, test = torch.randperm(data.num_nodes).tensor_split([data.num_nodes // 5])
    data.train = train
    model = trained(data, epochs=5 if options.quick else 60)
    answer = predict(model, data, samples=20, output="labels", rows=test)

    truth = data.topics[test].bool()
    wrong = (answer.labels != truth).sum(1).float()
    guess = (truth.float() - data.topics[train].mean(0).round()).abs().sum(1).mean()
    print(
        f"{len(test)} test nodes, {truth.sum(1).float().mean():.2f} of {truth.shape[1]} labels each"
    )
    print("                     wrong labels per node   all labels right")
    print(f"the same for all     {guess:21.3f}")
    for title, kept in (
        ("all nodes", answer.reject(1.0).kept),
        ("most certain half", answer.reject(0.5).kept),
        ("by epistemic part", answer.reject(0.5, by="epistemic").kept),
    ):
        right = (wrong[kept] == 0).float().mean()
        print(f"{title:20} {wrong[kept].mean():21.3f}   {right:16.3f}")

    figure = Figure(figsize=(4.5, 3), layout="constrained")
    axes = figure.subplots()
    count = torch.arange(1, len(test) + 1)
    for name in ("entropy", "aleatoric", "epistemic"):
        order = getattr(answer, name).sum(1).argsort()
        axes.plot(count / len(test), wrong[order].cumsum(0) / count, label=name)
    axes.axhline(float(wrong.mean()), color="grey", linestyle=":", label="by chance")
    axes.set(xlabel="nodes answered for, the most certain first", ylabel="wrong labels per node")
    axes.legend(title="certain by")
    figure.savefig(options.out, dpi=150)


if __name__ == "__main__":
    main()
