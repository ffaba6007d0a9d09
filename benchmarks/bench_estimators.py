"""The estimators: what a training step costs, and how much the gradient of a rate varies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from graphdrop import load_dataset
from graphdrop.graph import Graph
from graphdrop.nn import GCN
from graphdrop.sampling.estimators import ARM, REINFORCE, Concrete, DisARM, Estimator
from graphdrop.sampling.rates import BetaBernoulliRate, LearnedRate, Rate
from graphdrop.sampling.samplers import Draw, GraphDropConnect, UsedMask
from table import Report, Row
from timing import best_of

LAYERS, HIDDEN = 4, 128
ESTIMATORS: dict[str, Callable[[], Estimator]] = {
    "Concrete": Concrete,
    "ARM": ARM,
    "DisARM": DisARM,
    "REINFORCE": REINFORCE,
}


@dataclass
class Problem:
    """A network and what it is fitted to."""

    name: str
    model: GCN
    x: Tensor
    edges: Tensor | Graph
    rows: Tensor
    labels: Tensor

    def loss(self, estimator: Estimator) -> Tensor:
        draw = replace(self.model.next_draw(), temperature=estimator.temperature)

        def run(antithetic: bool) -> tuple[Tensor, Sequence[UsedMask]]:
            tape: list[UsedMask] = []
            this: Draw = replace(draw, antithetic=antithetic, tape=tape)
            out = self.model(self.x, self.edges, rows=self.rows, draw=this)
            return nn.functional.cross_entropy(out, self.labels), tape

        return estimator.loss(run)

    def step(self, estimator: Estimator) -> Callable[[], None]:
        optimizer = torch.optim.Adam(self.model.parameters(), lr=0.005)

        def once() -> None:
            optimizer.zero_grad()
            self.loss(estimator).backward()
            optimizer.step()

        return once

    def logit_gradients(self, estimator: Estimator, steps: int) -> Tensor:
        """The gradient of every layer's keep logit, ``[steps, layers]``, from the same weights."""
        logits = [layer.sampler.rate.keep_logit for layer in self.model.layers]
        return torch.stack(
            [torch.stack(torch.autograd.grad(self.loss(estimator), logits)) for _ in range(steps)]
        ).double()


def cora(rate: Rate) -> Problem:
    data = load_dataset("cora").data
    rows = data.train_mask.nonzero().flatten()
    torch.manual_seed(0)
    classes = int(data.y.max()) + 1
    sampler = GraphDropConnect(rate, blocks=2)
    model = GCN(data.x.shape[1], HIDDEN, LAYERS, classes, sampler, normalization="row")
    return Problem("Cora", model, data.x, data.edge_index, rows, data.y[rows])


def toy(rate: Rate) -> Problem:
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 0]])
    torch.manual_seed(0)
    model = GCN(2, 2, 2, 2, GraphDropConnect(rate, blocks=2), normalization="row")
    x = torch.tensor([[3.0, -1.5], [1.0, 6.0], [-3.5, 2.0]])
    return Problem("4 edges", model, x, edges, torch.arange(3), torch.tensor([0, 1, 0]))


def variances(report: Report, problem: Problem, steps: int) -> None:
    """The standard deviation of one step's gradient, layer by layer."""
    fit = problem.step(Concrete())
    for _ in range(20):
        fit()
    samples = {name: problem.logit_gradients(make(), steps) for name, make in ESTIMATORS.items()}
    for layer in range(len(problem.model.layers)):
        arm = samples["ARM"][:, layer].var()
        for name, gradient in samples.items():
            mean, spread = float(gradient[:, layer].mean()), float(gradient[:, layer].std())
            share = float(gradient[:, layer].var() / arm)
            note = f"mean {mean:+.2g} ± {spread / steps**0.5:.1g}, variance {share:.2g} of ARM's"
            what = f"{problem.name}, layer {layer + 1}: spread of the logit's gradient, {name}"
            report.add(Row(what, spread, note=note))


def main() -> bool:
    report = Report("estimators", f"Estimators; on Cora {LAYERS} layers of {HIDDEN}, 2 blocks")
    steps = {name: cora(BetaBernoulliRate()).step(make()) for name, make in ESTIMATORS.items()}
    best = best_of(steps, seconds=0.2)
    for name in list(ESTIMATORS)[1:]:
        limit = 1.7 if name == "ARM" else None
        what, note = f"a step with {name} / with Concrete", f"{1e3 * best[name]:.3g} ms"
        report.add(Row(what, best[name] / best["Concrete"], limit, note=note))
    variances(report, toy(LearnedRate(0.6)), 2000)
    variances(report, cora(LearnedRate(0.6)), 400)
    return report.finish()


if __name__ == "__main__":
    torch.set_num_threads(2)
    raise SystemExit(not main())
