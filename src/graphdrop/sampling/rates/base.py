"""`Rate`, the base class of rates: keep logit at given uniforms, mean, and KL term."""

import itertools
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from graphdrop.graph import CSR, Graph
from graphdrop.graph.masks import Table


class Rate(nn.Module, ABC):
    """A keep probability, or a distribution over one.

    A global rate holds one value (`entries` is `()`), a local rate one per edge (`entries` is
    `(E,)`). A rate has no random generator: it is a function of uniforms `u`, so that the same
    uniforms give the same keep probabilities. A subclass defines `logit`, `mean` and `kl`.

    Args:
        entries: How many values a local rate holds; `None` for a single, global one.
    """

    def __init__(self, entries: int | None = None) -> None:
        super().__init__()
        if entries is not None and entries < 1:
            raise ValueError(
                f"entries is {entries}; it takes the number of entries of a local rate (at least 1)"
                " or None for one rate shared by all. Pass entries=None or a positive number."
            )
        self.entries = torch.Size(() if entries is None else (entries,))

    @property
    def device(self) -> torch.device:
        """The device of the parameters, which the uniforms must be on."""
        tensors = itertools.chain(self.parameters(), self.buffers())
        return next((tensor.device for tensor in tensors), torch.device("cpu"))

    @property
    def keeps_all(self) -> bool:
        """Whether the keep probability is exactly 1."""
        return False

    @property
    def reads_edges(self) -> bool:
        """Whether the rates are computed from what `describe` says of the edges of a graph."""
        return False

    def describe(self, graph: Graph, x: Tensor | CSR) -> Tensor:
        """What `observe` takes for a whole graph with these features, a row per edge."""
        raise NotImplementedError

    def observe(self, edges: Tensor) -> None:
        """Set the edges that the rates belong to, if they are computed from edges."""

    @property
    def num_uniforms(self) -> int:
        """How many uniforms `logit` reads; 0 if the rate is not random and ignores `u`."""
        return 0

    @abstractmethod
    def logit(self, u: Tensor | None = None) -> Tensor:
        """The logit of the keep probability sampled with the uniforms `u`, which broadcast."""

    def table(self, temperature: float) -> Table | None:  # noqa: ARG002 - a subclass reads it
        """Relaxed masks at a temperature, where the rate is drawn anew for each; else `None`."""
        return None

    def sample(self, u: Tensor | None = None) -> Tensor:
        """The keep probability sampled with the uniforms `u`."""
        return self.logit(u).sigmoid()

    @abstractmethod
    def mean(self) -> Tensor:
        """The expected keep probability, in the shape of `entries`."""

    @abstractmethod
    def kl(self) -> Tensor:
        """The KL term of the objective: a scalar, summed over entries."""

    def reset_parameters(self) -> None:
        """Set the parameters, if there are any, to their initial values."""

    def extra_repr(self) -> str:
        """The `entries` of a local rate."""
        return f"entries={self.entries.numel()}" if self.entries else ""
