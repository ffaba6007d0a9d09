"""Two layers on four edges: few enough draws to average a loss over every mask there is.

The expectation is computed from dense matrices in float64, with a mask written out for each of its
values; the same weights in a `GCN` are what the estimators are tried on.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, logsigmoid

from graphdrop.graph import Graph
from graphdrop.nn import GCN
from graphdrop.sampling.estimators import ARM
from graphdrop.sampling.rates import Rate
from graphdrop.sampling.samplers import (
    DropEdge,
    DropNode,
    DropOut,
    GraphDropConnect,
    RandomWalk,
    Sampler,
)

NODES, WIDTH = 3, 2
# 0 and 1 point at each other, the other two edges go one way
SOURCES, DESTINATIONS = (0, 1, 1, 2), (1, 0, 2, 0)
X = torch.tensor([[1.0, -0.5], [0.3, 2.0], [-1.2, 0.7]])
LABELS = torch.tensor([0, 1, 0])
EDGES = sorted(zip((*DESTINATIONS, 0, 1, 2), (*SOURCES, 0, 1, 2), strict=True))
"""(destination, source) in the order of a `Graph`, self-loops included."""


SEED = 125  # of weights that make every draw matter to the loss, the shared ones too


Name = Callable[[int, int, int, int], Any]
"""Names a draw."""


@dataclass(frozen=True)
class Sharing:
    """A sampler, and by hand the name of the draw that multiplies a connection in a layer."""

    sampler: Callable[[Rate], Sampler]
    draw: Name
    """Of (layer, destination, source, feature); None for a connection that is always kept."""
    before_normalization: bool = False
    rescale: bool = False
    walk: bool = False
    """Whether a node of which the first layer kept no edge reads nothing in the second."""


def _unless_loop(draw: Name) -> Name:
    return lambda layer, v, u, i: None if u == v else draw(layer, v, u, i)


# the first layer has one block, the second two, of one feature each
SHARINGS = {
    "asymmetric": Sharing(
        lambda rate: GraphDropConnect(rate, blocks=2, self_loops=False),
        _unless_loop(lambda layer, v, u, i: (v, u, layer * i)),
    ),
    "symmetric": Sharing(
        lambda rate: GraphDropConnect(rate, blocks=2, symmetric=True, self_loops=False),
        _unless_loop(lambda layer, v, u, i: (frozenset((v, u)), layer * i)),
    ),
    "DropEdge": Sharing(DropEdge, lambda _layer, v, u, _i: frozenset((v, u))),
    "DropEdge before normalization": Sharing(
        lambda rate: DropEdge(rate, before_normalization=True),
        _unless_loop(lambda _layer, v, u, _i: frozenset((v, u))),
        before_normalization=True,
    ),
    "DropOut": Sharing(lambda rate: DropOut(rate, rescale=False), lambda _layer, _v, u, i: (u, i)),
    "rescaled DropOut": Sharing(DropOut, lambda _layer, _v, u, i: (u, i), rescale=True),
    "node sampling": Sharing(DropNode, lambda _layer, _v, u, _i: u),
    "random walk": Sharing(RandomWalk, lambda _layer, v, u, _i: (v, u), walk=True),
}


class Toy:
    """A network, its graph, and the exact expectation of its loss."""

    def __init__(self, sharing: str, rate: Rate, rows: Sequence[int] | None = None) -> None:
        self.sharing = SHARINGS[sharing]
        self.rows = torch.tensor(range(NODES) if rows is None else rows)
        generator = torch.Generator().manual_seed(SEED)
        self.model = GCN(WIDTH, WIDTH, 2, 2, self.sharing.sampler(rate), normalization="sym")
        with torch.no_grad():
            for parameter in itertools.chain(self._layer(0), self._layer(1)):
                parameter.copy_(1.5 * torch.randn(*parameter.shape, generator=generator))
        self.model.estimator = ARM()  # hard masks
        self.graph = copies(1)

    @property
    def rates(self) -> list[Rate]:
        """The rate of each layer."""
        return [layer.sampler.rate for layer in self.model.layers]  # type: ignore[union-attr, misc]

    def expected_loss(self, logits: Sequence[Tensor]) -> Tensor:
        """The mean loss over all masks, for a keep logit per layer or `EDGES` of each layer."""
        losses, masks = self._losses([logit.sigmoid() for logit in logits])
        log_probability = torch.zeros(len(losses), dtype=torch.float64)
        for layer, (logit, mask) in enumerate(zip(logits, masks, strict=True)):
            if logit.dim() == 1:
                logit = logit[[EDGES.index(name[:2]) for name in self._names(layer)]]  # noqa: PLW2901
            kept, dropped = logsigmoid(logit), logsigmoid(-logit)
            log_probability = log_probability + (mask * kept + (1 - mask) * dropped).sum(1)
        return (log_probability.exp() * losses).sum()

    def expected_loss_over_rates(self, uniforms: Tensor) -> Tensor:
        """The mean loss over all masks and, by the midpoint rule, over the rates themselves."""
        keeps = [rate.logit(uniforms).double().sigmoid()[:, None] for rate in self.rates]
        losses, masks = self._losses(keeps)
        weight = torch.ones((), dtype=torch.float64)
        for keep, mask in zip(keeps, masks, strict=True):
            count, size = mask.sum(1), mask.shape[1]
            weight = weight * (keep**count * (1 - keep) ** (size - count)).mean(0)
        return (weight * losses).sum()

    def _names(self, layer: int) -> list[Any]:
        """The distinct draws of a layer."""
        found = (self.sharing.draw(layer, v, u, i) for (v, u) in EDGES for i in range(WIDTH))
        return list(dict.fromkeys(name for name in found if name is not None))

    def _losses(self, keeps: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The loss under every mask `[masks]`, and the masks of each layer `[masks, draws]`."""
        sizes = [len(self._names(layer)) for layer in range(2)]
        every = torch.tensor(list(itertools.product((0.0, 1.0), repeat=sum(sizes)))).double()
        masks = list(torch.split(every, sizes, 1))
        hidden = X.double().expand(len(every), NODES, WIDTH)
        reached = torch.ones(len(every), NODES, 1, dtype=torch.float64)
        for layer, (mask, keep) in enumerate(zip(masks, keeps, strict=True)):
            weight, bias = (p.detach().double() for p in (self._layer(layer)))
            matrix = self._matrix(layer, mask)  # [masks, features, v, u]
            summed = torch.einsum("mivu,mui->mvi", matrix, hidden)
            if self.sharing.walk:
                summed, reached = reached * summed, (matrix[:, :1] > 0).any(-1).mT.double()
            if self.sharing.rescale:
                summed = summed / keep
            hidden = summed @ weight + bias.sum(0)
            hidden = hidden.relu() if layer == 0 else hidden
        losses = cross_entropy(
            hidden[:, self.rows].flatten(0, 1),
            LABELS[self.rows].repeat(len(every)),
            reduction="none",
        )
        return losses.view(len(every), -1).mean(1), masks

    def _layer(self, layer: int) -> tuple[Tensor, Tensor]:
        module = self.model.layers[layer]
        return module.weight, module.bias  # type: ignore[return-value]

    def _matrix(self, layer: int, mask: Tensor) -> Tensor:
        names = self._names(layer)
        written = torch.zeros(len(mask), WIDTH, NODES, NODES, dtype=torch.float64)
        for (v, u), i in itertools.product(EDGES, range(WIDTH)):
            name = self.sharing.draw(layer, v, u, i)
            written[:, i, v, u] = 1.0 if name is None else mask[:, names.index(name)]
        if self.sharing.before_normalization:
            return _normalized(written)
        return _normalized(written * 0.0 + _adjacency()) * written


def _adjacency() -> Tensor:
    """`A + I`."""
    matrix = torch.zeros(NODES, NODES, dtype=torch.float64)
    for v, u in EDGES:
        matrix[v, u] = 1.0
    return matrix


def _normalized(matrix: Tensor) -> Tensor:
    """`D^-1/2 (A + I) D^-1/2`."""
    degree = matrix.sum(-1)
    return matrix / (degree[..., :, None] * degree[..., None, :]).sqrt()


def copies(count: int) -> Graph:
    """The four edges so many times over, side by side: every copy has draws of its own."""
    edges = torch.tensor([SOURCES, DESTINATIONS])
    shift = NODES * torch.arange(count)
    return Graph.from_edge_index(
        (edges[:, None, :] + shift[:, None]).flatten(1), NODES * count, normalization="sym"
    )
