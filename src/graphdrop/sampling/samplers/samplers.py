"""The samplers: DropOut, DropEdge, node sampling and Graph DropConnect."""

from __future__ import annotations

import copy
from typing import Self

from graphdrop.graph.masks import Sharing
from graphdrop.sampling.rates import BetaBernoulliRate, Rate
from graphdrop.sampling.samplers.base import Sampler, check_blocks


class DropOut(Sampler):
    r"""DropOut: one draw per node and feature, ``z[v, u, i] = d[u, i]``; eq. (1) of the paper.

    .. math:: H' = \mathfrak N(A) \, (Z \odot H) \, W

    As in torch, kept features are divided by the keep probability. ``rescale=False`` gives the
    paper's form without that division.

    Args:
        rate: a drop rate in [0, 1), or a ``Rate`` with one value.
        rescale: divide by the keep probability.

    Example:
        >>> DropOut(0.5)
        DropOut(
          blocks=per feature, rescale
          (rate): FixedRate(keep=0.5)
        )
    """

    sharing = Sharing.SOURCE
    on_features = True

    def __init__(self, rate: Rate | float, *, rescale: bool = True) -> None:
        super().__init__(rate, blocks=None, rescale=rescale)


class DropNode(Sampler):
    r"""Node sampling: one draw per source node, ``z[v, u, :] = s[u]``; eq. (3) of the paper.

    .. math:: H' = \mathfrak N(A) \, \mathrm{diag}(z) \, H \, W

    Args:
        rate: a drop rate in [0, 1), or a ``Rate`` with one value.
        rescale: divide by the keep probability.

    Example:
        >>> DropNode(0.1).rate
        FixedRate(keep=0.9)
    """

    sharing = Sharing.SOURCE

    def __init__(self, rate: Rate | float, *, rescale: bool = False) -> None:
        super().__init__(rate, blocks=1, rescale=rescale)


class DropEdge(Sampler):
    r"""DropEdge: one draw per edge, ``z[v, u, :] = e[v, u]``; eq. (2) of the paper.

    .. math:: H' = \mathfrak N(A \odot Z) \, H \, W

    Args:
        rate: a drop rate in [0, 1), or a ``Rate`` with one value or one per edge.
        symmetric: (u, v) and (v, u) share one draw.
        self_loops: mask self-loops like other edges; otherwise they are always kept.
        before_normalization: normalize the masked adjacency matrix, as the equation does;
            otherwise the normalized matrix is masked, as the authors' code does.

    Example:
        >>> from graphdrop import GCN
        >>> model = GCN(16, 32, 2, 7, DropEdge(0.25))
        >>> model.drop_rates()
        {'layers.0': 0.25, 'layers.1': 0.25}
    """

    def __init__(
        self,
        rate: Rate | float,
        *,
        symmetric: bool = True,
        self_loops: bool = True,
        before_normalization: bool = False,
    ) -> None:
        super().__init__(
            rate,
            blocks=1,
            symmetric=symmetric,
            self_loops=self_loops,
            before_normalization=before_normalization,
        )


class GraphDropConnect(Sampler):
    r"""Graph DropConnect: one draw per edge and block of features; eq. (5) of the paper.

    .. math:: H' = \sum_i \mathfrak N(A \odot Z_i) \, H[:, i] \, W[i, :]

    Args:
        rate: a drop rate in [0, 1), or a ``Rate`` with one value or one per edge; by default
            ``BetaBernoulliRate()``, which is learned.
        blocks: number of contiguous blocks of input features, each with its own draw; ``None`` for
            one draw per feature. The first layer of a network uses ``first_blocks`` instead.
        first_blocks: number of blocks in the first layer, whose input is wide and sparse.
        pairs: one draw per (edge, input feature, output feature), the general form of eq. (4); for
            small layers only.
        symmetric: (u, v) and (v, u) share their draws.
        self_loops: mask self-loops like other edges; otherwise they are always kept.
        before_normalization: normalize the masked adjacency matrix instead of masking the
            normalized one.

    Example:
        >>> from graphdrop import GCN, BetaBernoulliRate
        >>> model = GCN(16, 32, 2, 7, GraphDropConnect(BetaBernoulliRate(), blocks=4))
        >>> [layer.sampler.blocks for layer in model.layers]
        [1, 4]
    """

    def __init__(
        self,
        rate: Rate | float | None = None,
        *,
        blocks: int | None = 2,
        first_blocks: int | None = 1,
        pairs: bool = False,
        symmetric: bool = False,
        self_loops: bool = True,
        before_normalization: bool = False,
    ) -> None:
        super().__init__(
            BetaBernoulliRate() if rate is None else rate,
            blocks=None if pairs else blocks,
            symmetric=symmetric,
            self_loops=self_loops,
            before_normalization=before_normalization,
        )
        check_blocks("first_blocks", first_blocks)
        self.first_blocks = first_blocks
        self.pairs = pairs

    @property
    def needs_weights(self) -> bool:
        """With ``pairs``, a draw belongs to an input and an output feature."""
        return self.pairs

    def for_first_layer(self) -> Self:
        """A copy with ``first_blocks``; the general form stays general."""
        first = copy.deepcopy(self)
        if not self.pairs:
            first.blocks = self.first_blocks
        return first
