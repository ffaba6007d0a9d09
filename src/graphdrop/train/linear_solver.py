"""``LinearSolver``: L-BFGS for a logistic or ridge regression on features and neighbours' means.

Such a regression is a network of the package: a propagation with one layer, without sampling. It
is solved for one strength of its L2 after the other, an epoch each.
"""

from __future__ import annotations

from collections.abc import Callable
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
"""The largest numbers of iterations of L-BFGS for one strength of the L2: with the matrix of
features and means at hand, and where every iteration takes sums over the whole graph."""
LARGEST = 1 << 25
"""The matrix of features and means of training nodes has no more numbers than this."""
PRODUCT_GAIN = 8
"""A dense product does so many multiplications in the time of one of a sparse one."""
FEW, LONGEST = 4, 2000
"""With so many times more features than training nodes, of which there are at most so many, the
problem is solved in the span of the nodes."""
COLUMNS = 256
"""Features whose means are made at once."""
DIRECTIONS = 16
"""Random directions in which the variance of the features of a hop is measured."""


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
        propagation, data = run.model.input_propagation, run.inputs
        rows = run.rows["train"]
        x: Any = run.model._read(data.x)
        graph = Graph.from_data(data, normalization=propagation.normalization)
        orders, features = propagation.orders, (propagation.orders + 1) * x.shape[1]
        sparse = isinstance(x, SparseFeatures)
        entries = x.matrix.num_entries if sparse else x.numel()
        sums = entries * (orders + 1) + graph.num_edges * orders
        wide = None
        if len(rows) * features <= min(LARGEST, PRODUCT_GAIN * sums):
            wide = _materialize_means(x, graph, orders, rows)
        self.shift = torch.zeros(features, device=rows.device)
        if wide is not None and not sparse:
            moments = column_moments(wide, torch.arange(len(wide), device=wide.device))
            self.shift, self.scale = (moment.to(wide) for moment in moments)
        else:  # a rare word is not to weigh more than others
            self.scale = measure_hop_deviations(x, graph, orders, rows).repeat_interleave(
                x.shape[1]
            )
        self.iterations = SPARSE_ITERATIONS if wide is None else ITERATIONS
        self.basis: Tensor | None = None
        """Orthonormal columns that span the solutions, ``[features, rows]``, where rows are few."""
        self.apply: Callable[[Tensor], Tensor]
        if wide is not None:
            wide = wide.sub_(self.shift).div_(self.scale)
            if FEW * len(rows) <= features and len(rows) <= LONGEST:
                # the solution is a sum of rows (representer theorem): wide = factor' basis'
                self.basis, factor = torch.linalg.qr(wide.t())
                wide = factor.t().contiguous()
            self.apply = wide.matmul
        else:
            scale = self.scale[:, None]
            self.apply = lambda weight: propagation(x, graph, weight=weight / scale)[rows]
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
        weight = (layer.weight.t() * scale)[:, :free].contiguous()
        if self.basis is not None:
            weight = self.basis.t() @ weight
        weight.requires_grad_()
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
            found = torch.nn.functional.pad(self.apply(weight), (0, outputs - free)) + bias
            nll, l2 = run.loss(found, run.labels), strength * weight.square().sum()
            total: Tensor = nll + l2
            total.backward()  # type: ignore[no-untyped-call]
            terms.update(nll=float(nll.detach()), l2=float(l2.detach()))
            return total

        optimizer.step(closure)  # type: ignore[no-untyped-call]
        if self.basis is not None:
            weight = self.basis @ weight
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


def _materialize_means(x: Any, graph: Graph, orders: int, rows: Tensor) -> Tensor:
    """The features of some nodes and their means, ``[rows, (orders + 1) * features]``."""
    found: list[list[Tensor]] = [[] for _ in range(orders + 1)]
    for first in range(0, x.shape[1], COLUMNS):
        last = min(first + COLUMNS, x.shape[1])
        dense = isinstance(x, Tensor)
        state = x[:, first:last].contiguous() if dense else x.columns(first, last).to_dense()
        found[0].append(state[rows])
        for order in range(orders):
            state = aggregate(graph, state)
            found[order + 1].append(state[rows])
    return torch.cat([part for parts in found for part in parts], 1)


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
