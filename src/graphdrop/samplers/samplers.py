"""The samplers: DropOut, DropEdge, node sampling and Graph DropConnect."""

from __future__ import annotations

import copy
from typing import Self

from graphdrop.draws import Sharing
from graphdrop.rates import BetaBernoulliRate, Rate
from graphdrop.samplers.base import Sampler, check_blocks


class DropOut(Sampler):
    r"""Drop features of nodes: ``z[v, u, i] = d[u, i]``, one draw per node and feature.

    .. math:: H' = \mathfrak N(A) \, (Z \odot H) \, W

    As is usual for DropOut, what is kept is divided by the keep probability, and a prediction
    without sampling uses all of it; ``rescale=False`` gives the paper's plain form.
    """

    sharing = Sharing.SOURCE
    on_features = True

    def __init__(self, rate: Rate | float, *, rescale: bool = True) -> None:
        super().__init__(rate, blocks=None, rescale=rescale)


class DropNode(Sampler):
    r"""Drop whole nodes from what their neighbours read: ``z[v, u, :] = s[u]``.

    .. math:: H' = \mathfrak N(A) \, \mathrm{diag}(z) \, H \, W
    """

    sharing = Sharing.SOURCE

    def __init__(self, rate: Rate | float, *, rescale: bool = False) -> None:
        super().__init__(rate, blocks=1, rescale=rescale)


class DropEdge(Sampler):
    r"""Drop edges: ``z[v, u, :] = e[v, u]``, shared by both directions unless told otherwise.

    .. math:: H' = \mathfrak N(A \odot Z) \, H \, W
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
    r"""Drop every connection on its own: a draw for each edge and each block of features.

    .. math:: H' = \sum_i \mathfrak N(A \odot Z_i) \, H[:, i] \, W[i, :]

    Args:
        rate: the keep probability, fixed or learned; a plain number is a fixed drop rate, and
            without one the rate is learned (``BetaBernoulliRate()``).
        blocks: number of contiguous blocks of features with a draw each; ``None`` for one per
            feature. The first layer of a network uses ``first_blocks``.
        first_blocks: blocks in a network's first layer, whose input is wide and sparse.
        pairs: a draw for every (edge, input feature, output feature): the paper's general form,
            for small layers.
        symmetric: (u, v) and (v, u) share their draws.
        self_loops: mask self-loops like any edge.
        before_normalization: mask the adjacency matrix and normalize what is left.
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
