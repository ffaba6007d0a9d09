"""Whole graphs with uncertainty: which motif hangs on a random tree, among links at random.

    python examples/graph_classification.py --out graphs.png

A GIN of PyG with a sampler attached learns to tell houses from cycles of five, in batches. The more
links there are at random, the harder it gets. Printed are the errors on new graphs, all and the
most certain; the plot shows the uncertainty of right and of wrong answers.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot
from torch_geometric.data import Data
from torch_geometric.datasets.graph_generator import BAGraph
from torch_geometric.datasets.motif_generator import CycleMotif, HouseMotif
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GIN, global_add_pool
from torch_geometric.utils import to_undirected

from graphdrop import BetaBernoulliRate, GraphDropConnect, attach, predict

MOTIFS = (HouseMotif(), CycleMotif(5))
DEGREES = 16


def a_graph(motif: int) -> Data:
    """A random tree with a motif on it, and up to 8 links at random; features are degrees."""
    tree, added = BAGraph(25, 1)(), MOTIFS[motif]()
    nodes = tree.num_nodes + added.num_nodes
    joint = torch.tensor([[0], [tree.num_nodes]])
    chance = torch.randint(nodes, (2, int(torch.randint(9, ()))))
    links = torch.cat([tree.edge_index, added.edge_index + tree.num_nodes, joint, chance], 1)
    edge_index = to_undirected(links, num_nodes=nodes)
    degree = edge_index[0].bincount(minlength=nodes).clamp(max=DEGREES - 1)
    return Data(x=one_hot(degree, DEGREES).float(), edge_index=edge_index, y=torch.tensor([motif]))


def some_graphs(count: int) -> list[Data]:
    """As many of either motif."""
    return [a_graph(number % 2) for number in range(count)]


class Classifier(nn.Module):
    """Layers on nodes, a sum over each graph, and its logits."""

    def __init__(self) -> None:
        super().__init__()
        self.gnn = GIN(DEGREES, 32, 3, jk="cat")
        self.out = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """Logits `[graphs, 2]`."""
        logits: Tensor = self.out(global_add_pool(self.gnn(x, edge_index), batch))
        return logits


def trained(graphs: list[Data], epochs: int) -> Classifier:
    """Train on batches; every one of them draws masks of its own."""
    model = Classifier()
    handle = attach(model, GraphDropConnect(BetaBernoulliRate(), blocks=2))
    optimizer = torch.optim.Adam(model.parameters(), 0.005)
    for epoch in range(epochs):
        for batch in DataLoader(graphs, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            loss = cross_entropy(model(batch.x, batch.edge_index, batch.batch), batch.y)
            loss = loss + min(1.0, (epoch + 1) / 20) / len(graphs) * handle.kl()
            loss.backward()
            optimizer.step()
    return model


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, predict, print and draw."""
    parser = argparse.ArgumentParser(description="Graph classification with uncertainty")
    parser.add_argument("--quick", action="store_true", help="few graphs and epochs")
    parser.add_argument("--out", default="graphs.png", help="where the plot goes")
    options = parser.parse_args(arguments)
    torch.manual_seed(0)
    train, test = (some_graphs(60 if options.quick else 600) for _ in range(2))
    model = trained(train, epochs=2 if options.quick else 30)
    answer = predict(model, DataLoader(test, batch_size=100), samples=30)

    wrong = answer.classes != torch.cat([graph.y for graph in test])
    print(f"{len(test)} new graphs      errors  entropy  aleatoric  epistemic")
    for title, share in (("all", 1.0), ("most certain half", 0.5), ("most certain tenth", 0.1)):
        kept = answer.reject(share).kept
        means = (x[kept].mean() for x in (answer.entropy, answer.aleatoric, answer.epistemic))
        print(
            f"{title:19} {wrong[kept].float().mean():6.3f}  "
            + "{:7.3f}  {:9.3f}  {:9.3f}".format(*means)
        )

    figure = Figure(figsize=(4.5, 3), layout="constrained")
    axes = figure.subplots()
    axes.hist([answer.entropy[~wrong], answer.entropy[wrong]], bins=20, label=["right", "wrong"])
    axes.set(xlabel="entropy, nats", ylabel="graphs")
    axes.legend(title="answer")
    figure.savefig(options.out, dpi=150)


if __name__ == "__main__":
    main()
