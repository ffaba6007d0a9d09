"""`EdgeRate`: a keep probability for every edge, from a prior that was fitted to a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphdrop.sampling.edges import EdgeFit, EdgePrior
from graphdrop.sampling.rates.base import Rate

if TYPE_CHECKING:
    from graphdrop.graph import CSR, Graph


class EdgeRate(Rate):
    """The fitted keep probability of every edge, fixed in training.

    The rates are computed from what the prior reads of the edges of a graph, of the one it was
    fitted to and of any other. Self-loops are always kept. A sampler that normalizes what a mask
    leaves uses them as the closed-form model does to which they were fitted:
    `GraphDropConnect(EdgeRate(fit), before_normalization=True)`.

    Args:
        prior: what `fit_edge_prior` returned, or its `prior`.

    Example:
        >>> from graphdrop import load_dataset
        >>> from graphdrop.sampling import DropEdge, fit_edge_prior
        >>> fit = fit_edge_prior(load_dataset("synthetic").data)
        >>> sampler = DropEdge(EdgeRate(fit), before_normalization=True)
    """

    def __init__(self, prior: EdgePrior | EdgeFit) -> None:
        super().__init__()
        self.prior = prior.prior if isinstance(prior, EdgeFit) else prior
        self.entries = torch.Size((0,))
        self._logits: Tensor | None = None

    @property
    def reads_edges(self) -> bool:
        """True: rates are computed from what is known of the edges."""
        return True

    def describe(self, graph: Graph, x: Tensor | CSR) -> Tensor:
        """The logit of the keep probability of every edge."""
        logits: Tensor = self.prior(graph, x)
        return logits

    def observe(self, edges: Tensor) -> None:
        """Set the logits of the keep probabilities, `[E]`, as `describe` returns them."""
        if edges.dim() != 1:
            raise ValueError(
                f"edges has shape {tuple(edges.shape)}; it takes (edges,), a logit for every edge."
                " Call describe(graph, x)."
            )
        self._logits = edges
        self.entries = edges.shape

    def logit(self, u: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """The logits of the observed edges, `[E]`; `u` is ignored."""
        if self._logits is None:
            raise ValueError(
                "edges are not set; EdgeRate computes its rates from the edges of a graph. Call a"
                " graphdrop.GCN that has this rate on a graph, or call"
                " observe(describe(graph, x))."
            )
        return self._logits

    def mean(self) -> Tensor:
        """The keep probability of every observed edge, `[E]`; before, that of a usual edge."""
        return (self.prior.bias[None] if self._logits is None else self._logits).sigmoid()

    def kl(self) -> Tensor:
        """0: the rates stay where they were fitted."""
        return torch.zeros_like(self.prior.bias)

    def extra_repr(self) -> str:
        """Nothing: the prior shows itself."""
        return ""
