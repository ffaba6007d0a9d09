"""``SampledGCNConv``: a graph convolution whose connections are drawn by a sampler."""

from __future__ import annotations

from enum import StrEnum
from typing import cast

import torch
from torch import Tensor, nn

from graphdrop.draws import Sharing
from graphdrop.estimators import Concrete, Estimator
from graphdrop.graph import Graph, Normalization
from graphdrop.nn.features import SparseFeatures
from graphdrop.nn.inputs import Inputs
from graphdrop.nn.plan import LayerPass, Order, SharedProduct, convolve, layer_passes
from graphdrop.nn.sampled_layer import SampledLayer
from graphdrop.samplers import DropOut, Sampler


class Init(StrEnum):
    """How weights and biases start."""

    GLOROT = "glorot"
    """Weights uniform after Glorot, biases zero, as in PyG."""
    PAPER = "paper"
    """Weights normal with variance 1 / out, a bias for every block uniform in ±1 / sqrt(out).

    Adam moves a sum of biases as many times faster as there are: with a mask per feature the
    network would soon predict a constant, so there it has one bias.
    """


class SampledGCNConv(SampledLayer):
    r"""A graph convolution with random connections (the paper's eq. 8 in its block form).

    .. math::
        H'[v] = \sum_{b} \Big( \sum_{u \in \mathcal N(v) \cup v}
            \hat A_{vu} \, z_{vub} \, H[u, b] \Big) W[b, :] + c

    where :math:`b` runs over the sampler's blocks of input features. It is called as PyG's
    ``GCNConv`` is and stands beside it in any ``nn.Module``; ``graphdrop.predict``, ``Trainer``,
    ``save`` and ``load`` take such a module as they take a ``GCN``. In training every call draws
    fresh masks; after ``eval()`` masks are replaced by their expectation.

    Args:
        in_channels: features of a source.
        out_channels: features of a destination.
        sampler: draws the connections; ``None`` keeps all.
        dropout: a DropOut on the layer's input, beside the sampler.
        normalization: ``sym``, ``row`` or ``paper`` (``Normalization``); self-loops are added.
        bias: add a bias, once, after the sum over blocks.
        init: how weights and biases start.
        estimator: how a gradient reaches the learned rates of the model that this is the first
            layer of; by default ``Concrete()``.
        seed: of the masks; by default drawn by torch's generator.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        sampler: Sampler | None = None,
        *,
        dropout: DropOut | None = None,
        normalization: Normalization | str = Normalization.SYM,
        bias: bool = True,
        init: Init | str = Init.GLOROT,
        estimator: Estimator | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.sampler, self.dropout = sampler, dropout
        self.normalization = Normalization.of(normalization)
        self.init = Init(init)
        self.order = Order.AUTO
        learned = sampler is not None and any(True for _ in sampler.rate.parameters())
        self.estimator = Concrete() if learned and estimator is None else estimator
        self.temperature = None if self.estimator is None else self.estimator.temperature
        self._inputs = Inputs()
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels))
        blocks = 1
        if self.init is Init.PAPER and sampler is not None and sampler.sharing is Sharing.EDGE:
            blocks = sampler.blocks or 1
        self.bias = nn.Parameter(torch.empty(blocks, out_channels)) if bias else None
        self.reset_parameters()
        self.start_stream(int(torch.randint(2**63 - 1, ())) if seed is None else seed)

    def reset_parameters(self) -> None:
        """Draw fresh weights and biases; rates are reset by their sampler."""
        if self.init is Init.PAPER:
            nn.init.normal_(self.weight, std=self.out_channels**-0.5)
            if self.bias is not None:
                bound = self.out_channels**-0.5
                nn.init.uniform_(self.bias, -bound, bound)
            return
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(
        self,
        x: Tensor | SparseFeatures,
        edge_index: Tensor | Graph,
        edge_weight: Tensor | None = None,
        *,
        drawn: LayerPass | None = None,
        shared: SharedProduct | None = None,
    ) -> Tensor:
        """Features ``[nodes, in_channels]`` to ``[nodes, out_channels]``.

        A compiler leaves it to Python: its sums are compiled kernels already.

        Args:
            x: features, dense or sparse.
            edge_index: ``[2, E]`` as in PyG, or a ``Graph``.
            edge_weight: ``[E]``, one where not given.
            drawn: what the pass draws here, where a model has worked it out for all its layers.
            shared: the product with the weights, where several passes share it.
        """
        if drawn is None:
            x = self._inputs.features(x, self)
            graph = self._inputs.graph(edge_index, edge_weight, x.shape[0], self.normalization)
            draw, number = self.next_draw(training=self.training)
            (drawn,) = layer_passes(self, graph, [draw], number)
        else:
            graph = cast("Graph", edge_index)
        return convolve(self, x, graph, drawn, shared)

    def weights_and_biases(self) -> tuple[list[Tensor], list[Tensor]]:
        """The matrix, and the biases of all blocks."""
        return [self.weight], [] if self.bias is None else [self.bias]

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.in_channels}, {self.out_channels}"
