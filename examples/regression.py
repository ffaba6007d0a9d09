"""Numbers with error bars: a field measured at scattered places, regressed over their neighbours.

    python examples/regression.py --out regression.png

Places lie in a square and are joined to their nearest neighbours. Measurements are noisier to the
right, and there are none in a disc. A GraphSAGE of PyG with a sampler attached says for each place
a mean and a log variance; printed is how good both are, and how much of the uncertainty is noise
(aleatoric) and how much is doubt about the network (epistemic).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from torch.nn.functional import gaussian_nll_loss
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

from graphdrop import BetaBernoulliRate, GraphDropConnect, attach
from graphdrop.inference import GaussianPredictive, predict

NEIGHBOURS, WAVES = 8, 32
CENTRE, RADIUS = (0.45, 0.45), 0.2
"""Of the disc."""


def a_field(places: int) -> Data:
    """Places, what was measured there, and the truth that made it."""
    torch.manual_seed(0)
    position = torch.rand(places, 2)
    near = torch.cdist(position, position).topk(NEIGHBOURS + 1, largest=False).indices[:, 1:]
    edge_index = torch.stack([near.flatten(), torch.arange(places).repeat_interleave(NEIGHBOURS)])
    angle = 6.28 * (1.5 * position + 0.3 * position.flip(1))
    truth = angle[:, :1].sin() * angle[:, 1:].cos()
    noise = 0.05 + 0.4 * position[:, :1]
    hole = (position - torch.tensor(CENTRE)).norm(dim=1) < RADIUS
    waves = 6.0 * position @ torch.randn(2, WAVES)
    return Data(
        x=torch.cat([waves.sin(), waves.cos()], 1),
        edge_index=edge_index,
        y=truth + noise * torch.randn_like(truth),
        position=position,
        noise=noise,
        hole=hole,
        train_mask=~hole & (torch.rand(places) < 0.5),
    )


def trained(data: Data, epochs: int) -> GraphSAGE:
    """A network that gives two columns for the one target: mean and log variance."""
    model = GraphSAGE(data.num_features, 64, 2, 2)
    handle = attach(model, GraphDropConnect(BetaBernoulliRate(), blocks=2))
    optimizer = torch.optim.Adam(model.parameters(), 0.01, weight_decay=2e-4)
    train = data.train_mask
    for epoch in range(epochs):
        optimizer.zero_grad()
        mean, log_variance = model(data.x, data.edge_index)[train].chunk(2, 1)
        loss = gaussian_nll_loss(mean, data.y[train], log_variance.exp())
        loss = loss + min(1.0, (epoch + 1) / 20) / int(train.sum()) * handle.kl()
        loss.backward()
        optimizer.step()
    return model


def report(answer: GaussianPredictive, data: Data) -> None:
    """Scores of the places whose measurement was not trained on."""
    low, high = answer.intervals(0.9)
    inside = (low <= data.y) & (data.y <= high)
    nll = gaussian_nll_loss(answer.mean, data.y, answer.variance, full=True, reduction="none")
    error = (answer.mean - data.y).square()
    certain, fresh = answer.reject(0.5).kept, ~data.hole & ~data.train_mask
    parts = answer.aleatoric, answer.epistemic
    print("                     places   RMSE    NLL  in 90 % interval  noise  doubt")
    for title, rows in (
        ("outside the disc", fresh),
        ("  most certain half", fresh & certain),
        ("in the disc", data.hole),
    ):
        noise, doubt = (part[rows].mean().sqrt() for part in parts)
        rmse, covered = error[rows].mean().sqrt(), inside[rows].float().mean()
        print(
            f"{title:20} {int(rows.sum()):6}  {rmse:5.3f} {nll[rows].mean():6.3f}  {covered:16.3f}"
            f"  {noise:5.3f}  {doubt:5.3f}"
        )


def plot(answer: GaussianPredictive, data: Data, path: str) -> None:
    """Maps of the mean and of both parts of the variance, as standard deviations."""
    figure = Figure(figsize=(9, 3), layout="constrained")
    panels = {
        "mean": answer.mean,
        "noise (aleatoric)": answer.aleatoric.sqrt(),
        "doubt (epistemic)": answer.epistemic.sqrt(),
    }
    for axes, (title, values) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        drawn = axes.scatter(*data.position.T, c=values[:, 0], s=6)
        axes.add_patch(Circle(CENTRE, RADIUS, fill=False))
        figure.colorbar(drawn, ax=axes)
        axes.set(title=title, aspect="equal", xticks=[], yticks=[])
    figure.savefig(path, dpi=150)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, predict, print and draw."""
    parser = argparse.ArgumentParser(description="Node regression with error bars")
    parser.add_argument("--quick", action="store_true", help="few places and epochs")
    parser.add_argument("--out", default="regression.png", help="where the maps go")
    options = parser.parse_args(arguments)
    data = a_field(200 if options.quick else 2000)
    model = trained(data, epochs=20 if options.quick else 220)
    answer = predict(model, data, samples=50, output="gaussian")
    report(answer, data)
    plot(answer, data, options.out)


if __name__ == "__main__":
    main()
