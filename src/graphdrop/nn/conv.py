"""``SampledGCNConv``: a graph convolution with sampled connections."""

from __future__ import annotations

from enum import StrEnum
from typing import cast

import torch
from torch import Tensor, nn

from graphdrop.graph import Graph, Normalization
from graphdrop.graph.masks import Sharing
from graphdrop.nn.batches import check_batch
from graphdrop.nn.features import SparseFeatures
from graphdrop.nn.plan import LayerPass, Order, SharedProduct, convolve, layer_passes
from graphdrop.nn.sampled_layer import SampledLayer
from graphdrop.sampling.estimators import Concrete, Estimator
from graphdrop.sampling.samplers import DropOut, Sampler


class Init(StrEnum):
    """Initialization of weights and biases."""

    GLOROT = "glorot"
    """Weights uniform after Glorot, biases zero, as in PyG."""
    PAPER = "paper"
    """Weights normal with variance 1 / out, a bias for every block uniform in ±1 / sqrt(out).

    Adam moves a sum of k biases k times as fast as one. With a mask per feature the network would
    soon predict a constant, so that it has only one bias then.
    """


class SampledGCNConv(SampledLayer):
    r"""Graph convolution with sampled connections, eq. (6) of the paper with blocks of features.

    .. math::
        H'[v] = \sum_{b} \Big( \sum_{u \in \mathcal N(v) \cup v}
            \hat A_{vu} \, z_{vub} \, H[u, b] \Big) W[b, :] + c

    where :math:`b` runs over the sampler's blocks of input features. It is called like PyG's
    ``GCNConv``: ``conv(x, edge_index, edge_weight)`` with ``x [n, in_channels]`` returns
    ``[n, out_channels]``. ``graphdrop.predict``, ``Trainer``, ``save`` and ``load`` take any
    ``nn.Module`` that contains such layers. In training every call samples new masks; after
    ``eval()`` the expected mask is used.

    Args:
        in_channels: number of input features.
        out_channels: number of output features.
        sampler: samples the connections; ``None`` keeps all.
        dropout: an additional DropOut on the input of the layer.
        normalization: ``sym``, ``row`` or ``paper`` (``Normalization``); self-loops are added.
        bias: add a bias, once, after the sum over blocks.
        init: initialization of weights and biases (``Init``).
        estimator: gradient estimator for the learned rates, read from the first sampled layer of a
            model; by default ``Concrete()``.
        seed: seed of the masks; by default drawn by torch's generator.

    Example:
        >>> from graphdrop import GraphDropConnect
        >>> conv = SampledGCNConv(16, 32, GraphDropConnect(blocks=2))
        >>> conv(torch.randn(3, 16), torch.tensor([[0, 1], [1, 2]])).shape
        torch.Size([3, 32])
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
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels))
        blocks = 1
        if self.init is Init.PAPER and sampler is not None and sampler.sharing is Sharing.EDGE:
            blocks = sampler.blocks or 1
        self.bias = nn.Parameter(torch.empty(blocks, out_channels)) if bias else None
        self.reset_parameters()
        self.start_stream(int(torch.randint(2**63 - 1, ())) if seed is None else seed)

    def reset_parameters(self) -> None:
        """Initialize weights and biases; rates are reset by their sampler."""
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

        ``torch.compile`` skips it: its sums are compiled kernels already.

        Args:
            x: features, dense or sparse.
            edge_index: ``[2, E]`` as in PyG, or a ``Graph``.
            edge_weight: ``[E]``, 1 by default.
            drawn: the draws of this layer, if the model has prepared them for all layers.
            shared: the product with the weights, if several passes share it.
        """
        if drawn is None:
            x = self.inputs.features(x, self)
            batch = self.in_batch
            if batch is None:
                graph = self.inputs.graph(edge_index, edge_weight, x.shape[0], self.normalization)
            else:
                check_batch(batch, x.shape[0], None)
                graph = batch.square(self.normalization)
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
