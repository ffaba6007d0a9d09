r"""The closed-form model by whose predictions rates of edges are judged.

Kernel ridge regression of classes on diffused features,

.. math:: S = q_0 X + q_1 A X + q_2 A^2 X, \qquad A = D^{-1/2} (W \odot \Pi + I) D^{-1/2},

with rows of :math:`X` and :math:`S` of length 1. It sees the graph as a graph convolution with
masks before normalization and self-loops kept sees it. Its answer for a node left out of the
training is exact and costs nothing more:
:math:`y_i - (y_i - \hat y_i) / (1 - h_i)` with :math:`h_i` its leverage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor
from torch.autograd.function import FunctionCtx

from graphdrop.graph import CSR, Graph
from graphdrop.kernels import aggregate

AT_ONCE = 1 << 24
"""How many products of the backward pass are in memory at once."""


class Strengths(NamedTuple):
    """The numbers of the closed form that are fitted along with the rates."""

    ridge: Tensor
    """The logarithm of the ridge penalty."""
    scale: Tensor
    """The logarithm of the inverse temperature."""
    hops: Tensor
    """The logits of the weights of no, one and two hops, ``[3]``."""


def project(unit: csr_array, columns: int, seed: int = 0) -> Tensor:
    """The rows in at most so many columns, inner products nearly kept, ``[nodes, columns]``.

    The range of the matrix is found by random projections and one power iteration; the seed
    makes it the same each time.
    """
    if unit.shape[1] <= columns:
        return torch.from_numpy(unit.toarray().astype(np.float32))
    generator = np.random.default_rng(seed)
    start = generator.standard_normal((unit.shape[1], columns))
    basis = np.linalg.qr(unit @ (unit.T @ (unit @ start)))[0]
    inner = unit.T @ basis  # of few columns: the rest is of their number squared
    values, vectors = np.linalg.eigh(inner.T @ inner)
    projected = basis @ (vectors * np.sqrt(values.clip(0.0)))
    return torch.from_numpy(np.ascontiguousarray(projected, dtype=np.float32))


class ClosedForm:
    """Kernel ridge regression on diffused features of one graph.

    Args:
        graph: the whole graph with self-loops; its ``weight`` are the edge weights.
        features: ``[nodes, columns]``, any scale.
        labels: the class of every node, ``[nodes]``; only those of ``conditioned`` and ``scored``
            are read.
        conditioned: numbers of the nodes whose labels the answers are computed from.
        scored: numbers of the nodes whose labels are scored. One that is also among
            ``conditioned`` is left out of the labels that its own answer is computed from.
        num_classes: number of classes.
    """

    def __init__(
        self,
        graph: Graph,
        features: Tensor,
        labels: Tensor,
        *,
        conditioned: Tensor,
        scored: Tensor,
        num_classes: int,
    ) -> None:
        self.graph, self.features = graph, _normalized_rows(features)
        self.conditioned, self.scored = conditioned, scored
        targets = torch.nn.functional.one_hot(labels[conditioned], num_classes).double()
        counts = targets.sum(0) + 1.0
        self.prior = counts / counts.sum()
        """The share of each class among the labels conditioned on, never 0."""
        self.targets = targets - self.prior
        self.scored_labels = labels[scored]
        place = torch.full((graph.num_dst,), -1)
        place[conditioned] = torch.arange(len(conditioned))
        self.place = place[scored]
        """The place of each scored node among those conditioned on, or -1."""
        self._loop = graph.self_loop
        self._weight = graph.weight.clamp_min(0.0)
        self._rows = torch.cat([conditioned, scored[self.place < 0]])
        self._parts = [_Part.of(part) for part in graph.receptive_field(self._rows, 2)]

    def log_likelihood(self, keep: Tensor, strengths: Strengths) -> Tensor:
        """The log probability of every scored label, ``[scored]``.

        Args:
            keep: the keep probability of every edge of the graph, ``[E]``; those of self-loops
                are not read.
            strengths: the other numbers of the closed form.
        """
        logits = self._scored_logits(keep, strengths)
        return torch.log_softmax(logits, 1).gather(1, self.scored_labels[:, None])[:, 0]

    @torch.no_grad()
    def predict(self, keep: Tensor, strengths: Strengths) -> Tensor:
        """The class probabilities of every node, ``[nodes, classes]`` float32.

        The answer of a node that is conditioned on is the one without its own label.
        """
        whole = _Part.of(self.graph)
        rows = self._diffused(keep, strengths, [whole, whole], None)
        inner, weights = self._solve(rows[self.conditioned], strengths)
        logits = rows @ weights
        logits[self.conditioned] = self._left_out(rows[self.conditioned], inner, weights)
        logits = strengths.scale.exp() * logits + self.prior.log()
        return torch.softmax(logits, 1).float()

    def _scored_logits(self, keep: Tensor, strengths: Strengths) -> Tensor:
        rows = self._diffused(keep, strengths, self._parts, self._rows)
        known = rows[: len(self.conditioned)]
        inner, weights = self._solve(known, strengths)
        found = torch.empty(0)
        if bool((self.place >= 0).any()):
            found = self._left_out(known, inner, weights)[self.place.clamp_min(0)]
        if len(rows) > len(known):
            other = self.place < 0
            answers = rows[len(known) :] @ weights
            if len(found):
                found = found.index_put((other.nonzero().flatten(),), answers)
            else:
                found = answers
        return strengths.scale.exp() * found + self.prior.log()

    def _solve(self, known: Tensor, strengths: Strengths) -> tuple[Tensor, Tensor]:
        """The factor of the ridge system, and its coefficients ``[columns, classes]``."""
        columns = known.shape[1]
        system = known.T @ known + strengths.ridge.exp() * torch.eye(columns).double()
        factor = torch.linalg.cholesky(system)
        return factor, torch.cholesky_solve(known.T @ self.targets, factor)

    def _left_out(self, known: Tensor, factor: Tensor, weights: Tensor) -> Tensor:
        """The answer of every node that is conditioned on, without its own label."""
        leverage = torch.linalg.solve_triangular(factor, known.T, upper=False).square().sum(0)
        residual = self.targets - known @ weights
        answers: Tensor = self.targets - residual / (1.0 - leverage)[:, None].clamp_min(1e-6)
        return answers

    def _diffused(
        self, keep: Tensor, strengths: Strengths, parts: list[_Part], rows: Tensor | None
    ) -> Tensor:
        """The diffused features of some rows, of length 1, in float64."""
        weight = torch.where(self._loop, self._weight, self._weight * keep)
        total = weight.new_zeros(self.graph.num_dst).index_add(0, self.graph.edge_dst, weight)
        empty = total <= 0.0
        root = torch.where(empty, 0.0, torch.where(empty, 1.0, total).rsqrt())
        value = weight * root[self.graph.edge_dst] * root[self.graph.indices]
        first, second = parts
        none, one, two = torch.softmax(strengths.hops, 0).to(value.dtype).unbind()
        x = self.features
        inner = x if first.sources is None else x[first.sources]
        middle = x if first.destinations is None else x[first.destinations]
        own = x if rows is None else x[rows]
        # q0 X + A (q1 X + q2 A X)
        once = _propagate(value if first.edge is None else value[first.edge], inner, first)
        mixed = one * middle + two * once
        twice = _propagate(value if second.edge is None else value[second.edge], mixed, second)
        return _normalized_rows((none * own + twice).double())


def _normalized_rows(rows: Tensor) -> Tensor:
    """Rows of length 1; a row of zeros stays one, and its gradient is 0."""
    square = rows.square().sum(1, keepdim=True)
    empty = square == 0.0
    return torch.where(empty, 0.0, rows * torch.where(empty, 1.0, square).rsqrt())


@dataclass(frozen=True)
class _Part:
    """The rows of a graph that a product computes, and the same entries by column."""

    matrix: CSR
    transposed: CSR
    sources: Tensor | None
    destinations: Tensor | None
    edge: Tensor | None

    @classmethod
    def of(cls, part: Graph) -> _Part:
        """The structure of a part of a graph, with values that are not read."""
        nothing = part.value.new_zeros(0)
        by_column = torch.empty_like(part.t_edge)
        by_column[part.t_edge.long()] = torch.arange(len(by_column)).to(by_column)
        rows = (part.indptr, part.indices)
        columns = (part.t_indptr, part.t_indices)
        return cls(
            CSR(
                indptr=rows[0],
                indices=rows[1],
                value=nothing,
                t_indptr=columns[0],
                t_indices=columns[1],
                t_edge=part.t_edge,
            ),
            CSR(
                indptr=columns[0],
                indices=columns[1],
                value=nothing,
                t_indptr=rows[0],
                t_indices=rows[1],
                t_edge=by_column,
            ),
            None if part.src_ids is None else part.src_ids.long(),
            None if part.dst_ids is None else part.dst_ids.long(),
            part.parent_edge,
        )


def _propagate(value: Tensor, x: Tensor, part: _Part) -> Tensor:
    """The product of a sparse matrix with these values and ``x``, differentiable in both."""
    out: Tensor = _Propagate.apply(value, x, part)  # type: ignore[no-untyped-call]
    return out


class _Propagate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, x: Tensor, part: _Part) -> Tensor:
        ctx.save_for_backward(value, x)
        ctx.part = part
        return aggregate(part.matrix.with_values(value.detach()), x.detach())

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        value, x = ctx.saved_tensors  # type: ignore[attr-defined]
        part, (grad,) = ctx.part, grads  # type: ignore[attr-defined]
        grad = grad.contiguous()
        of_x = None
        if ctx.needs_input_grad[1]:  # type: ignore[attr-defined]
            transposed = part.transposed.with_values(value[part.matrix.t_edge])
            of_x = aggregate(transposed, grad)
        of_value = torch.empty_like(value)
        row, column = part.matrix.entry_row, part.matrix.indices
        step = max(1, AT_ONCE // max(1, x.shape[1]))
        for first in range(0, len(of_value), step):
            some = slice(first, first + step)
            of_value[some] = torch.einsum("ec,ec->e", grad[row[some]], x[column[some]])
        return of_value, of_x, None
