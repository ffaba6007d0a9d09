"""``fit_edge_prior``: the keep probability of every edge, fitted to the labels of a graph.

    pi_e = sigmoid(b + theta . phi(e))

with phi(e) what is known of the edge (``numbers``). The coefficients maximize the probability of
the scored labels under a closed-form model (``closed_form``) that sees the graph as a network with
these rates sees it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import gammaincc, stdtr
from torch import Tensor, nn

from graphdrop.graph import CSR, Graph
from graphdrop.sampling.edges.classifier import Classifier, fit_classifier
from graphdrop.sampling.edges.closed_form import ClosedForm, Strengths, project
from graphdrop.sampling.edges.features import directions
from graphdrop.sampling.edges.numbers import (
    AGREEMENT,
    COSINE,
    OF_GRAPHS,
    EdgeOrder,
    columns_of,
    describe_graph,
    distinct_edges,
)

if TYPE_CHECKING:
    from torch_geometric.data import Data

USUAL = np.array([2.0, -1.5, 1.5, 0.0, 0.0, 0.0])
"""The means of the normal priors on the logit of the keep probability and on ``Strengths``."""
WIDTHS = np.array([1.0, 3.0, 3.0, 3.0, 3.0, 3.0])
"""Their standard deviations: most edges are to be trusted unless labels say otherwise."""
COEFFICIENT_WIDTH = 1.5
"""The standard deviation of the normal prior on a coefficient, whose mean is 0."""
START = np.array([2.0, -1.5, 1.5, -1.0, 1.0, 1.0])
LARGEST = 15.0
"""A logit at which masks keep every edge; further ones are no different in float32."""
MANY_EDGES = 200_000
COLUMNS, FEWER_COLUMNS = 128, 64
"""Columns that features are projected to, and those on graphs with many edges."""
TOLERANCE, LARGER_TOLERANCE = 1e-6, 1e-5
"""A step that gains a smaller share of the loss is the last one; and on graphs with many edges."""
STEPS = 60
"""The largest number of iterations of L-BFGS from one start."""
BOUNDS = ((-8.0, 8.0), (-12.0, 12.0), (-6.0, 6.0), *[(-12.0, 12.0)] * 3)
"""The numbers between which the logit of the keep probability and ``Strengths`` are searched."""
INFLATION = 1.5
"""By how much larger than independent answers would make them likelihood ratios are taken to be."""
PERMUTATIONS = 30
"""How often the similarity test permutes rates over edges."""

Vector = NDArray[np.float64]


class EdgePrior(nn.Module):
    """Keep probabilities of edges from what is known of them, on any graph.

    Args:
        names: the numbers that it reads, such as ``"cosine"``.
        features: the number of features of a node, 0 for none.
        classes: the number of classes.
        known_nodes: how many nodes of its own graph have a class probability of their own.

    Example:
        >>> prior = EdgePrior(["smaller degree"], features=0, classes=2)
        >>> graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]))
        >>> prior(graph, None).shape  # two edges and two self-loops
        torch.Size([4])
    """

    coefficients: Tensor
    bias: Tensor
    center: Tensor
    scale: Tensor
    classifier: Tensor
    class_shares: Tensor
    graph_sum: Tensor
    own_nodes: Tensor
    own_answers: Tensor

    def __init__(
        self, names: Sequence[str], features: int, classes: int, known_nodes: int = 0
    ) -> None:
        super().__init__()
        self.names, self.features, self.classes = list(names), features, classes
        self.known_nodes = known_nodes
        self.register_buffer("coefficients", torch.zeros(len(names)))
        self.register_buffer("bias", torch.tensor(2.0))
        self.register_buffer("center", torch.zeros(len(names)))
        self.register_buffer("scale", torch.ones(len(names)))
        self.register_buffer("classifier", torch.zeros(features, classes))
        self.register_buffer("class_shares", torch.full((classes,), 1.0 / classes))
        self.register_buffer("graph_sum", torch.zeros((), dtype=torch.int64))
        self.register_buffer("own_nodes", torch.zeros(known_nodes, dtype=torch.int64))
        self.register_buffer("own_answers", torch.zeros(known_nodes, classes))

    def set_coefficients(
        self, coefficients: Vector, bias: float, center: Tensor, scale: Tensor
    ) -> None:
        """Set the coefficients of the numbers after they are standardized, and the bias."""
        self.coefficients.copy_(torch.from_numpy(coefficients))
        self.bias.fill_(bias)
        self.center.copy_(center)
        self.scale.copy_(scale)

    @torch.no_grad()
    def forward(
        self,
        graph: Graph,
        x: Tensor | CSR | None,
        columns: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """The logit of the keep probability of every edge, ``[E]`` in CSR order.

        Self-loops are always kept: their logit is ``LARGEST``.

        Args:
            graph: a whole graph.
            x: features of its nodes, as the prior was fitted to.
            columns: the numbers that the graph does not hold, by name, in CSR order.
        """
        numbers = self.numbers(graph, x, columns)
        standard = (numbers - self.center.double().cpu()) / self.scale.double().cpu()
        logits = self.bias.double().cpu() + standard @ self.coefficients.double().cpu()
        logits = logits.clamp(-LARGEST, LARGEST).masked_fill(graph.self_loop.cpu(), LARGEST)
        return logits.float().to(graph.indices.device)

    @torch.no_grad()
    def numbers(
        self,
        graph: Graph,
        x: Tensor | CSR | None,
        columns: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """What is known of every edge, ``[E, names]`` float64."""
        columns = columns or {}
        missing = [n for n in self.names if n not in OF_GRAPHS and n not in columns]
        if missing:
            raise ValueError(
                f"columns lacks {', '.join(missing)}; the rates depend on it. Give the numbers of "
                "these edges, or fit the prior without."
            )
        unit = None
        if self.features and (AGREEMENT in self.names or COSINE in self.names):
            unit = self._unit(x)
        posterior = None
        if AGREEMENT in self.names:
            own = Classifier(self.classifier.cpu(), self.class_shares.cpu())
            assert unit is not None  # noqa: S101 - classes depend on features
            shares = own.predict(unit)
            if len(self.own_nodes) and graph_sum(graph) == int(self.graph_sum):
                shares[self.own_nodes.cpu()] = self.own_answers.double().cpu()
            posterior = torch.cat([shares, self.class_shares.double().cpu()[None]])
        described = describe_graph(graph, unit, posterior)
        chosen = [
            described[:, OF_GRAPHS.index(name)] if name in OF_GRAPHS else columns[name].double()
            for name in self.names
        ]
        return torch.stack(chosen, 1) if chosen else described[:, :0]

    def _unit(self, x: Tensor | CSR | None) -> csr_array:
        width = None if x is None else x.num_columns if isinstance(x, CSR) else x.shape[1]
        if x is None or width != self.features:
            raise ValueError(
                f"x has {width or 'no'} features; it takes {self.features}, as the rates of edges "
                "were fitted to. Give the same columns."
            )
        return directions(x)

    def extra_repr(self) -> str:
        """The names and coefficients."""
        return ", ".join(
            f"{name}: {value:.2f}"
            for name, value in zip(self.names, self.coefficients.tolist(), strict=True)
        )


def graph_sum(graph: Graph) -> int:
    """A number that two graphs share only if they have the same edges, for all practical ends."""
    destination, source = (
        ends.cpu().numpy().astype(np.uint64) for ends in (graph.edge_dst, graph.indices)
    )
    key = (destination << np.uint64(32) | source) + np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((key ^ (key >> np.uint64(31))).sum(dtype=np.uint64).astype(np.int64))


@dataclass(frozen=True)
class EdgeTest:
    """A test of rates per edge against one rate, joined from three by Bonferroni's correction.

    The *score test* looks in all directions. The score is the gradient of the log-likelihood in the
    coefficients at the best single rate: the sum over edges of what the likelihood gains if that
    edge is kept more often, times what is known of the edge. Its covariance where edges do not
    differ is that of numbers permuted over edges. It is estimated in two ways, with the gains of
    all edges taken as equally spread and with each edge's own, and the larger p-value counts.

    The *similarity test* looks in the direction in which planted edges are found: edges whose ends
    have similar features, or agree on their class, are kept more often. What the likelihood gains
    by that is compared with what it gains when the same rates are permuted over edges.

    The *likelihood-ratio test* looks at the best fit, however far it is from one rate. Answers of
    nodes depend on each other, so that its chi-square distribution does not quite hold: the ratio
    is divided by ``INFLATION`` before it is compared.
    """

    score_p: float
    """The p-value of the score test."""
    similarity_p: float | None
    """The p-value of the similarity test; ``None`` where no similarity of the ends is known."""
    likelihood_p: float
    """The p-value of the likelihood-ratio test."""
    gain: float
    """The gain in log-likelihood per scored label over one rate."""
    level: float

    @property
    def p_value(self) -> float:
        """How often edges that do not differ would seem to differ as much."""
        found = [self.score_p, self.likelihood_p]
        if self.similarity_p is not None:
            found.append(self.similarity_p)
        return min(1.0, len(found) * min(found))

    @property
    def differs(self) -> bool:
        """Whether one rate is rejected."""
        return self.p_value < self.level


@dataclass(frozen=True, eq=False)
class EdgeFit:
    """What ``fit_edge_prior`` found, in the order of the edges of ``data.edge_index``."""

    prior: EdgePrior
    """The fitted coefficients, for any graph."""
    edge_index: Tensor
    keep: Tensor
    """The keep probability of every edge, ``[E]``; 1 for self-loops."""
    numbers: Tensor
    """What is known of every edge, ``[E, names]``; 0 for self-loops."""
    one_rate: float
    """The keep probability if all edges share one."""
    test: EdgeTest
    answers: Tensor
    """The class probabilities of every node by the closed form with these rates, without the
    node's own label, ``[nodes, classes]``."""
    one_rate_answers: Tensor
    """The same with one rate."""

    @property
    def names(self) -> list[str]:
        """The names of the numbers."""
        return self.prior.names

    @property
    def parts(self) -> Tensor:
        """The summands of the logit of each edge beside the bias, ``[E, names]``."""
        prior = self.prior
        return ((self.numbers - prior.center) / prior.scale * prior.coefficients).float()

    def summary(self) -> str:
        """One line: how many edges look doubtful, or that edges do not differ."""
        if not self.test.differs:
            return f"one rate per layer: edges do not differ (p = {self.test.p_value:.2g})"
        first = distinct_edges(self.edge_index, self.keep)
        low, high = self.edge_index.cpu()
        between = first[low[first] != high[first]]
        doubtful = int((self.keep[between] < 0.5).sum())
        return (
            f"{doubtful:,} of {len(between):,} edges look doubtful (kept less than half of the "
            "time); rates per edge."
        )


def fit_edge_prior(
    data: Data,
    *,
    conditioned: Tensor | None = None,
    scored: Tensor | None = None,
    numbers: Sequence[str] = OF_GRAPHS,
    columns: Mapping[str, Any] | None = None,
    level: float = 0.05,
    projection: int | None = None,
    most_labels: int = 2000,
    seed: int = 0,
) -> EdgeFit:
    """Fit the keep probability of every edge to the labels of a graph.

    It never scores the labels worse than one rate for all edges does.

    Args:
        data: a graph with ``edge_index`` and classes ``y``, and with ``x``, ``edge_weight``,
            ``edge_attr`` and ``edge_type`` where it has them.
        conditioned: the nodes whose labels the closed form answers from, a mask or numbers; by
            default ``data.train_mask``.
        scored: the nodes whose labels decide on the rates, by default ``data.val_mask``. A node
            that is also conditioned on is left out of what its own answer is computed from.
        numbers: the numbers of ``OF_GRAPHS`` that the rates may depend on.
        columns: further numbers of the edges by name, ``[E]`` each in the order of ``edge_index``.
        level: of the test against one rate.
        projection: features are projected to this number of columns if they have more; by default
            128, on graphs with 200,000 edges or more 64.
        most_labels: of more labelled nodes so many are drawn, of both kinds.
        seed: of the projection and of that draw.

    Example:
        >>> from graphdrop import load_dataset
        >>> fit = fit_edge_prior(load_dataset("synthetic").data)
        >>> bool(((0 <= fit.keep) & (fit.keep <= 1)).all())
        True
    """
    graph = Graph.from_data(data).to("cpu")
    order = EdgeOrder(data.edge_index, graph)
    y = data.y.cpu()
    if y.dim() != 1 or y.is_floating_point():
        raise ValueError(
            f"data.y has dtype {y.dtype} and shape {tuple(y.shape)}; it takes the class of every "
            "node, [nodes] int64. Rates of edges are fitted to classes only."
        )
    projection = projection or (COLUMNS if graph.num_edges < MANY_EDGES else FEWER_COLUMNS)
    generator = torch.Generator().manual_seed(seed)
    known, judged = (
        _nodes(data, name, attribute, given)
        for name, attribute, given in (
            ("conditioned", "train_mask", conditioned),
            ("scored", "val_mask", scored),
        )
    )
    overlap = torch.equal(known, judged)
    known = _drawn(known, most_labels, generator)
    judged = known if overlap else _drawn(judged, most_labels, generator)
    classes = int(torch.cat([y[known], y[judged]]).max()) + 1
    unknown = sorted(set(numbers) - set(OF_GRAPHS))
    if unknown:
        raise ValueError(
            f"numbers has {', '.join(unknown)}; it takes {', '.join(OF_GRAPHS)}. Give your own "
            "as columns."
        )

    unit, posterior, classifier = None, None, None
    if data.x is None:
        z = torch.randn(graph.num_dst, projection, generator=generator)
    else:
        unit = directions(data.x)
        classifier, left_out = fit_classifier(unit, known, y[known], classes)
        shares = classifier.predict(unit)
        shares[known] = left_out
        posterior = torch.cat([shares, classifier.prior[None]])
        z = project(unit, projection, seed)
    described = describe_graph(graph, unit, posterior)
    others = columns_of(data, columns, data.edge_index.shape[1])
    given = [order.to_graph(column.cpu())[:, None] for column in others.values()]
    rows = torch.cat([described[:, [OF_GRAPHS.index(name) for name in numbers]], *given], 1)
    between = ~graph.self_loop
    center, scale, varies = _moments(rows[between])
    names = [n for n, used in zip([*numbers, *others], varies.tolist(), strict=True) if used]
    rows, center, scale = rows[:, varies], center[varies], scale[varies]

    model = ClosedForm(graph, z, y, conditioned=known, scored=judged, num_classes=classes)
    standard = ((rows - center) / scale).float() * between[:, None]
    similar = [i for i, name in enumerate(names) if name in (COSINE, AGREEMENT)]
    alike = standard[:, similar].sum(1) / max(1, len(similar))
    problem = _Problem(model, standard)
    best, one = problem.solve()

    reads_classes = AGREEMENT in names
    prior = EdgePrior(
        names,
        features=0 if unit is None else unit.shape[1],
        classes=classes,
        known_nodes=len(known) if reads_classes else 0,
    )
    prior.set_coefficients(best[: len(names)], float(best[len(names)]), center, scale)
    if reads_classes and classifier is not None:
        prior.classifier.copy_(classifier.weights)
        prior.class_shares.copy_(classifier.prior)
        prior.graph_sum.fill_(graph_sum(graph))
        prior.own_nodes.copy_(known)
        prior.own_answers.copy_(left_out)
    keep, strengths = problem.parts(torch.from_numpy(best).float())
    return EdgeFit(
        prior=prior,
        edge_index=data.edge_index,
        keep=order.to_list(keep, 1.0),
        numbers=order.to_list(rows, 0.0).float(),
        one_rate=float(torch.sigmoid(torch.tensor(one[len(names)]))),
        test=problem.test(best, one, alike, level, seed),
        answers=model.predict(keep, strengths),
        one_rate_answers=model.predict(*problem.parts(torch.from_numpy(one).float())),
    )


def _nodes(data: Data, name: str, attribute: str, given: Tensor | None) -> Tensor:
    """The numbers of labelled nodes, given as a mask or as numbers."""
    if given is None:
        given = getattr(data, attribute, None)
    if given is None:
        raise ValueError(
            f"{name} is None and data has no {attribute}; it takes a mask [nodes] or the numbers "
            f"of nodes. Pass {name}=."
        )
    given = given.cpu()
    nodes = given.nonzero().flatten() if given.dtype == torch.bool else given.long()
    nodes = nodes[data.y.cpu()[nodes] >= 0]
    if not len(nodes):
        raise ValueError(
            f"{name} has no labelled node; it takes at least 1. Pass other nodes, or give labels."
        )
    return nodes


def _drawn(nodes: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """All nodes, or a random choice of so many."""
    if len(nodes) <= most:
        return nodes
    return nodes[torch.randperm(len(nodes), generator=generator)[:most]].sort().values


def _moments(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and standard deviation of each column, and whether it varies."""
    if not len(rows):
        nothing = rows.new_zeros(rows.shape[1])
        return nothing, nothing, nothing > 0
    center, scale = rows.mean(0), rows.std(0, correction=0)
    return center, scale, scale > 1e-6 * (1.0 + center.abs())


class _Problem:
    """The penalized likelihood of coefficients, bias and strengths in one vector."""

    def __init__(self, model: ClosedForm, standard: Tensor) -> None:
        self.model, self.standard = model, standard
        self.count = standard.shape[1]
        self.widths = np.append(np.full(self.count, COEFFICIENT_WIDTH), WIDTHS)

    def parts(self, numbers: Tensor) -> tuple[Tensor, Strengths]:
        """The keep probability of every edge, and the strengths."""
        count = self.count
        logit = numbers[count] + self.standard @ numbers[:count]
        return torch.sigmoid(logit), Strengths(
            numbers[count + 1], numbers[count + 2], numbers[count + 3 :]
        )

    def score(self, numbers: Vector) -> float:
        """The log-likelihood of the scored labels."""
        with torch.no_grad():
            parts = self.parts(torch.from_numpy(numbers).float())
            return float(self.model.log_likelihood(*parts).sum())

    def loss(self, numbers: Vector, free: bool) -> tuple[float, Vector]:
        """Minus the penalized log-likelihood, and its gradient."""
        leaf = torch.from_numpy(numbers).float().requires_grad_()
        likelihood = self.model.log_likelihood(*self.parts(leaf)).sum()
        (gradient,) = torch.autograd.grad(likelihood, leaf)
        off = (numbers - np.append(np.zeros(self.count), USUAL)) / self.widths
        loss = 0.5 * (off**2).sum() - float(likelihood.detach())
        slope = off / self.widths - gradient.double().numpy()
        if not free:
            slope[: self.count] = 0.0
        return loss, slope

    def solve(self) -> tuple[Vector, Vector]:
        """The best fit, and the best one with one rate; the first never scores worse."""
        one = self._descend(np.append(np.zeros(self.count), START), free=False)
        if not self.count:
            return one, one
        starts = [np.append(np.zeros(self.count), one[self.count :])]
        starts.append(np.append(np.full(self.count, 0.3), START))
        fits = [self._descend(start, free=True) for start in starts]
        best = min(fits, key=lambda fit: self.loss(fit, True)[0])
        return (best if self.score(best) >= self.score(one) else one), one

    def test(self, best: Vector, one: Vector, alike: Tensor, level: float, seed: int) -> EdgeTest:
        """Test the best fit with one rate.

        Args:
            best: the best fit of all.
            one: the best one with one rate.
            alike: the standardized similarity of both ends of every edge, ``[E]``; 0 for unknown.
            level: of the test.
            seed: of the permutations.
        """
        gain = max(0.0, self.score(best) - self.score(one)) / len(self.model.scored)
        if not self.count:
            return EdgeTest(1.0, None, 1.0, gain, level)
        keep, strengths = self.parts(torch.from_numpy(one).float())
        logit = torch.logit(keep.detach(), 1e-6).requires_grad_()
        likelihood = self.model.log_likelihood(torch.sigmoid(logit), strengths).sum()
        (gains,) = torch.autograd.grad(likelihood, logit)
        graph, rows = self.model.graph, self.standard.double()
        edge = torch.arange(graph.num_edges)
        reverse = graph.reverse.long()
        both = torch.where(reverse < 0, edge, reverse)
        # what is known alike of both directions is known once
        unit = torch.minimum(edge, both) if torch.equal(rows[both], rows) else edge
        used = ((unit == edge) & ~graph.self_loop).nonzero().flatten()

        summed = gains.new_zeros(len(edge)).double().index_add(0, unit, gains.double())
        spread, known = summed[used] - summed[used].mean(), rows[used] - rows[used].mean(0)
        score = known.T @ spread
        least = 1e-9 * torch.eye(self.count).double()
        found = []
        for each in (spread.square().mean().expand(len(used)), spread.square()):
            covariance = (known * each[:, None]).T @ known
            size = covariance.diagonal().mean().clamp_min(1e-300)
            found.append(float(score @ torch.linalg.solve(covariance / size + least, score) / size))
        ratio = 2.0 * gain * len(self.model.scored) / INFLATION
        score_p, ratio_p = (  # the tails of chi-square
            float(gammaincc(self.count / 2, statistic / 2)) for statistic in (min(found), ratio)
        )
        if not bool(alike.any()):
            return EdgeTest(score_p, None, ratio_p, gain, level)

        generator, scores = torch.Generator().manual_seed(seed), list[float]()
        place = edge
        for _ in range(PERMUTATIONS + 1):  # the first one as it is
            with torch.no_grad():
                keep = torch.sigmoid(logit + alike[place[unit]])
                scores.append(float(self.model.log_likelihood(keep, strengths).sum()))
            order = torch.randperm(len(used), generator=generator)
            place = edge.index_put((used,), used[order])
        permuted = np.array(scores[1:])
        deviation = float(permuted.std(ddof=1)) * sqrt(1.0 + 1.0 / PERMUTATIONS)
        excess = (scores[0] - float(permuted.mean())) / max(deviation, 1e-9)
        similarity_p = float(stdtr(PERMUTATIONS - 1, -excess))  # the tail of Student's t
        return EdgeTest(score_p, similarity_p, ratio_p, gain, level)

    def _descend(self, start: Vector, *, free: bool) -> Vector:
        from scipy.optimize import minimize  # noqa: PLC0415 - it takes half a second to import

        many = self.model.graph.num_edges >= MANY_EDGES

        found = minimize(
            self.loss,
            start,
            (free,),
            "L-BFGS-B",
            jac=True,
            bounds=[(-12.0, 12.0)] * self.count + list(BOUNDS),
            options={"maxiter": STEPS, "ftol": LARGER_TOLERANCE if many else TOLERANCE},
        )
        out: Vector = found.x
        return out
