"""GATS: a temperature for every node by attention over its neighbors (Hsu et al., 2022)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, softplus

from graphdrop.calibration.node_temperature import (
    LARGEST,
    SEED,
    SMALLEST,
    GraphCalibrator,
    TemperatureNetwork,
)
from graphdrop.inference.calibrator import Samples, Surroundings
from graphdrop.inference.propagation import Propagation

HEADS = 2
FAR, NEAR, TRAINED = 0, 1, 2
"""A node's distance to the training nodes: more than one step, one step, and none."""


@dataclass(eq=False)
class GATS(GraphCalibrator):
    r"""Graph attention temperature scaling: what the neighbors say, weighted by their likeness.

    .. math::
        g_i = g_0 + \frac1H \sum_h \mathrm{softplus}\Big(\omega\,\delta_i +
            \sum_{j \in N(i) \cup i} \alpha_{ij}\,\gamma_j\,\tau_j^h\Big), \quad
        \tau_j^h = \theta_h^\top \mathrm{sort}(z_j), \quad
        \alpha_{ij} = \mathrm{softmax}_j\,\mathrm{LeakyReLU}(\tau_i^\top \tau_j)

    with :math:`z` the logits of a node scaled to [0, 1], :math:`\delta_i` its confidence minus the
    mean of its neighbors', and :math:`\gamma_j` a number of its own for training nodes and one for
    their neighbors, 1 for the others. "What Makes Graph Neural Networks Miscalibrated?"; it begins
    at plain temperature scaling, which the original does not. The training nodes are
    ``data.train_mask`` and are kept with the calibrator.

    It is worth choosing from about 20 calibration nodes on: on small trained networks its mean test
    NLL was below that of temperature scaling from there on, and about the same with 10.

    Example:
        >>> from graphdrop import calibrate
        >>> from torch_geometric.data import Data
        >>> logits, edges = torch.eye(4).repeat(5, 1), torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> calibrate(logits, torch.arange(20) % 4, "gats", data=Data(edge_index=edges)).classes
        4
    """

    name: ClassVar[str] = "gats"
    worth_from: ClassVar[int] = 20
    weight_decay: ClassVar[float] = 5e-4
    nodes: int = 0
    """The number of nodes of the graph that it was fitted on."""
    train: Sequence[int] | None = field(default=None, repr=False)
    """The training nodes of that graph, where they are known."""

    @classmethod
    def build(cls, classes: int) -> TemperatureNetwork:
        """The attention, with weights near 0."""
        return _Network(classes)

    @classmethod
    def fit(
        cls, samples: Samples, targets: Tensor, surroundings: Surroundings | None = None
    ) -> Self:
        """The network of least NLL on the calibration nodes, stopped early."""
        found = super().fit(samples, targets, surroundings)
        if surroundings is not None and surroundings.train is not None:
            found.nodes, found.train = len(surroundings.logits), surroundings.train.tolist()
        return found

    def temperatures(self, surroundings: Surroundings) -> Tensor:
        """The temperature of every node of ``surroundings.rows``."""
        if self.train is not None and self.nodes == len(surroundings.logits):
            train = torch.tensor(self.train, device=surroundings.logits.device, dtype=torch.long)
            surroundings = replace(surroundings, train=train)
        return super().temperatures(surroundings)


class _Read(NamedTuple):
    source: Tensor
    target: Tensor
    """Edges into the rows, with a node itself among its neighbors."""
    sorted_logits: Tensor
    relative_confidence: Tensor
    distance: Tensor


class _Network(TemperatureNetwork):
    def __init__(self, classes: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(SEED)
        bound = 0.1 / math.sqrt(classes)
        theta = (2.0 * torch.rand(classes, HEADS, generator=generator) - 1.0) * bound
        self.theta = nn.Parameter(theta)
        self.confidence = nn.Parameter(torch.zeros(()))
        self.near_and_trained = nn.Parameter(torch.ones(2))
        # softplus(0) = log 2: the mean over heads and this begin near 1 together
        self.bias = nn.Parameter(torch.tensor(1.0 - math.log(2.0)))

    def read(self, surroundings: Surroundings) -> _Read:
        logits, edges = surroundings.logits, surroundings.edge_index
        low, high = logits.amin(1, keepdim=True), logits.amax(1, keepdim=True)
        scaled = (logits - low) / (high - low).clamp_min(1e-12)
        confidence = torch.softmax(logits, 1).amax(1)
        relative = confidence - Propagation(edges, len(logits))(confidence)
        distance = torch.full((len(logits),), FAR, device=logits.device)
        if surroundings.train is not None:
            trained = torch.zeros(len(logits), dtype=torch.bool, device=logits.device)
            trained[surroundings.train] = True
            distance[edges[1][trained[edges[0]]]] = NEAR
            distance[trained] = TRAINED
        itself_too = Propagation(edges, len(logits), self_loops=True)
        source, target = itself_too.source, itself_too.target
        if surroundings.rows is not None:  # what other nodes hear is not asked for
            asked = torch.zeros(len(logits), dtype=torch.bool, device=logits.device)
            asked[surroundings.rows] = True
            source, target = source[asked[target]], target[asked[target]]
        return _Read(source, target, scaled.sort(1).values, relative, distance)

    def forward(self, read: _Read, generator: torch.Generator | None = None) -> Tensor:
        del generator  # it has no DropOut
        source, target = read.source, read.target
        tau = read.sorted_logits @ self.theta
        likeness = leaky_relu((tau[target] * tau[source]).sum(1), 0.2)
        highest = torch.full_like(tau[:, 0], -torch.inf).detach()
        highest = highest.scatter_reduce(0, target, likeness.detach(), "amax")
        weight = (likeness - highest[target]).exp()
        total = torch.zeros(len(tau), device=tau.device).index_add(0, target, weight)
        gamma = torch.cat([torch.ones_like(self.near_and_trained[:1]), self.near_and_trained])
        said = tau * gamma[read.distance][:, None]
        share = (weight / total[target].clamp_min(1e-30))[:, None]
        heard = torch.zeros_like(tau).index_add(0, target, share * said[source])
        raw = heard + self.confidence * read.relative_confidence[:, None]
        return (self.bias + softplus(raw).mean(1)).clamp(SMALLEST, LARGEST)
