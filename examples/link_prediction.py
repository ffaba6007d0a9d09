"""Missing links with uncertainty: GAE and VGAE of PyG with a sampler in their encoders.

    python examples/link_prediction.py --out links.png
    python examples/link_prediction.py --dataset cora

A tenth of the links is hidden, beside as many pairs that are none. Each Monte Carlo sample embeds
all nodes once and scores all links from that. Printed are AUC, average precision and errors, for
all links and for those that the model is most certain about.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GAE, VGAE, GCNConv
from torch_geometric.transforms import RandomLinkSplit
from torchmetrics.functional.classification import binary_auroc, binary_average_precision

from graphdrop import GraphDropConnect, LearnedRate, attach, load_dataset
from graphdrop.data.synthetic import synthetic_graph
from graphdrop.inference import LabelPredictive, predict


def a_graph() -> Data:
    """Groups of papers that mostly cite each other."""
    return synthetic_graph(
        1500, 20, average_degree=10, homophily=0.9, num_features=400, balanced=True
    ).data


class Encoder(nn.Module):
    """Two layers of GCN; a variational one has a second head for the log deviation."""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.first = GCNConv(features, 64)
        self.heads = nn.ModuleList(GCNConv(64, 16) for _ in range(heads))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Embeddings, or their means and log deviations."""
        hidden = self.first(x, edge_index).relu()
        out = tuple(head(hidden, edge_index) for head in self.heads)
        return out if len(out) > 1 else out[0]


class Decoder(nn.Module):
    """Inner products over a threshold: without it, strangers have even odds."""

    def __init__(self) -> None:
        super().__init__()
        self.threshold = nn.Parameter(torch.ones(()))

    def forward(self, z: Tensor, links: Tensor, sigmoid: bool = True) -> Tensor:
        """Probabilities of the links, or their logits."""
        logits: Tensor = (z[links[0]] * z[links[1]]).sum(1) - self.threshold
        return logits.sigmoid() if sigmoid else logits


class Links(nn.Module):
    """One tensor from the model, as `predict` wants it: logits of `data.edge_label_index`."""

    def __init__(self, model: GAE) -> None:
        super().__init__()
        self.model = model

    def forward(self, data: Data) -> Tensor:
        """Embed the nodes, then decode the links."""
        z = self.model.encode(data.x, data.edge_index)
        logits: Tensor = self.model.decode(z, data.edge_label_index, sigmoid=False)
        return logits


def trained(model: GAE, data: Data, epochs: int) -> GAE:
    """Train as PyG's own examples do, and the drop rates with it."""
    # Inner products bear little noise at first: begin with nine connections in ten. A sample also
    # draws what the model draws in training, which is the embedding of a VGAE.
    attach(model, GraphDropConnect(LearnedRate(0.9), blocks=2), sample_dropout=True)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(epochs):
        optimizer.zero_grad()
        z = model.encode(data.x, data.edge_index)
        loss = model.recon_loss(z, data.edge_label_index)
        if isinstance(model, VGAE):
            loss = loss + model.kl_loss() / data.num_nodes
        loss.backward()
        optimizer.step()
    return model


def main(arguments: Sequence[str] | None = None) -> None:
    """Train both, predict, print and draw."""
    parser = argparse.ArgumentParser(description="Link prediction with uncertainty")
    parser.add_argument("--dataset", help="instead of a synthetic graph of 20 groups")
    parser.add_argument("--quick", action="store_true", help="few epochs")
    parser.add_argument("--out", default="links.png", help="where the plot goes")
    options = parser.parse_args(arguments)
    torch.manual_seed(0)
    data = load_dataset(options.dataset).data if options.dataset else a_graph()
    data.x = data.x.to_dense()
    split = RandomLinkSplit(0.0, 0.1, is_undirected=True, add_negative_train_samples=False)
    train, _, test = split(data)
    truth = test.edge_label.bool()

    print(f"{len(truth)} pairs, half of them links       AUC     AP  errors")
    figure = Figure(figsize=(7, 3), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, kind, heads in zip(panels, (GAE, VGAE), (1, 2), strict=True):
        model = trained(
            kind(Encoder(data.num_features, heads), Decoder()), train, 5 if options.quick else 100
        )
        answer = predict(Links(model), test, samples=30, output="labels")
        for title, kept in (("all", 1.0), ("most certain half", 0.5)):
            rows = answer.reject(kept).kept
            print(f"{kind.__name__:5} {title:30} {scores(answer, truth, rows)}")
        right = answer.labels == truth
        for which, name in ((right, "right"), (~right, "wrong")):
            axes.scatter(answer.probabilities[which], answer.epistemic[which], s=4, label=name)
        axes.set(title=kind.__name__, xlabel="probability of a link")
    panels[0].set_ylabel("epistemic part, nats")
    panels[0].legend()
    figure.savefig(options.out, dpi=150)


def scores(answer: LabelPredictive, truth: Tensor, rows: Tensor) -> str:
    """AUC, average precision and share of errors among some links."""
    p, y = answer.probabilities[rows], truth[rows].long()
    wrong = (answer.labels != truth)[rows].float().mean()
    return f"{binary_auroc(p, y):.3f}  {binary_average_precision(p, y):.3f}   {wrong:.3f}"


if __name__ == "__main__":
    main()
