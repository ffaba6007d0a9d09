"""``LinearSolver``: L-BFGS for a logistic or ridge regression on features and neighbours' means.

Such a regression is a network of the package: a propagation with one layer, without sampling. It
is solved for one strength of its L2 after the other, an epoch each.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphdrop.config import Config
from graphdrop.data.features import column_moments
from graphdrop.graph import Graph
from graphdrop.kernels import aggregate
from graphdrop.nn.features import SparseFeatures
from graphdrop.train.run import Run

ITERATIONS, SPARSE_ITERATIONS = 100, 30
"""The largest numbers of iterations of L-BFGS for one strength of the L2, dense and sparse."""
DIRECTIONS = 16
"""Random directions in which the variance of sparse features of a hop is measured."""


class LinearSolver:
    """Solves a logistic or ridge regression by L-BFGS for one strength of its L2 after the other.

    The L2 counts for features and means of unit variance. Where numbers are predicted, their
    variance is the same for all nodes.

    Args:
        run: its network is the linear map, whose weights ``solve`` changes.
        from_zero: whether the weights begin at 0, as in a run that was not resumed.
    """

    @torch.no_grad()
    def __init__(self, run: Run, *, from_zero: bool) -> None:
        _check_solvable(run.config)
        self.run, self.layer = run, run.model.convs[0]
        self.propagation = run.model.input_propagation
        self.x: Any = run.model._read(run.inputs.x)
        self.graph = Graph.from_data(run.inputs, normalization=self.propagation.normalization)
        rows, orders = run.rows["train"], self.propagation.orders
        if isinstance(self.x, SparseFeatures):  # a rare word is not to weigh more than others
            hops = measure_hop_deviations(self.x, self.graph, orders, rows)
            self.scale = hops.repeat_interleave(self.x.shape[1])
            self.shift, self.iterations = torch.zeros_like(self.scale), SPARSE_ITERATIONS
        else:
            state, moments = self.x, [column_moments(self.x, rows)]
            for _ in range(orders):
                state = aggregate(self.graph, state)
                moments.append(column_moments(state, rows))
            means, deviations = zip(*moments, strict=True)
            self.shift, self.scale = torch.cat(means).to(state), torch.cat(deviations).to(state)
            self.iterations = ITERATIONS
        if from_zero:
            self.layer.weight.zero_()
            self.layer.bias.zero_()

    @torch.no_grad()
    def solve(self, strength: float) -> dict[str, float]:
        """Minimize the NLL and the L2, from the last solution on; the terms of the loss by name."""
        run, layer, scale = self.run, self.layer, self.scale[:, None]
        run.model.eval()
        outputs = len(layer.bias)
        free = outputs // 2 if run.task.output == "gaussian" else outputs
        weight = (layer.weight.t() * scale)[:, :free].contiguous().requires_grad_()
        bias = (layer.bias + layer.weight @ self.shift).requires_grad_()
        optimizer = torch.optim.LBFGS(
            [weight, bias],
            max_iter=self.iterations,
            tolerance_grad=1e-5,
            tolerance_change=1e-7,
            line_search_fn="strong_wolfe",
        )
        terms: dict[str, float] = {}

        @torch.enable_grad()
        def closure() -> Tensor:
            optimizer.zero_grad()
            unscaled = weight / scale
            found = self.propagation(self.x, self.graph, weight=unscaled)[run.rows["train"]]
            found = torch.nn.functional.pad(found - self.shift @ unscaled, (0, outputs - free))
            found = found + bias
            nll, l2 = run.loss(found, run.labels), strength * weight.square().sum()
            total: Tensor = nll + l2
            total.backward()  # type: ignore[no-untyped-call]
            terms.update(nll=float(nll.detach()), l2=float(l2.detach()))
            return total

        optimizer.step(closure)  # type: ignore[no-untyped-call]
        solution = torch.nn.functional.pad(weight, (0, outputs - free)) / scale
        layer.weight.copy_(solution.t())
        layer.bias.copy_(bias - self.shift @ solution)
        return {"loss": sum(terms.values()), "kl": 0.0, **terms}


def _check_solvable(config: Config) -> None:
    """Refuse L-BFGS for a network that is not one deterministic linear map."""
    model, train = config.model, config.train
    linear = {"architecture": "propagation", "propagate": "hidden", "layers": 1, "method": "GCN"}
    wrong = [
        f"model.{n} is {getattr(model, n)}" for n, v in linear.items() if getattr(model, n) != v
    ]
    wrong += [f"train.batch_size is {train.batch_size}"] if train.batch_size else []
    wrong += ["model.dropout is above 0"] if model.dropout else []
    if wrong:
        raise ValueError(
            f'train.optimizer is "lbfgs", which solves a linear model, and {wrong[0]}: set '
            'train.optimizer = "adam", or take recipe = "baseline"'
        )


def measure_hop_deviations(x: Any, graph: Graph, orders: int, rows: Tensor) -> Tensor:
    """The root mean variance of the features of some nodes after 0, 1, ... hops."""
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, (x.shape[1], DIRECTIONS), generator=generator) * 2.0 - 1.0
    state = x.matmul(signs.to(rows.device)).contiguous()
    found = [state[rows].var(0, correction=0).mean()]
    for _ in range(orders):
        state = aggregate(graph, state)
        found.append(state[rows].var(0, correction=0).mean())
    deviations: Tensor = (torch.stack(found) / x.shape[1]).sqrt().clamp_min(1e-6)
    return deviations
