"""``Draw``: which random numbers one forward pass uses, and in which form."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor

from graphdrop.draws import Kind, Mask, stream_key
from graphdrop.graph import Graph
from graphdrop.kernels.sums import DrawSums, draw_sums


@dataclass(frozen=True, eq=False)
class Drawn:
    """A mask that a forward pass used: what an estimator needs to weigh its draws."""

    mask: Mask
    graph: Graph
    features: int
    layer: int = 0
    """The number of the layer that drew it."""
    beside: bool = False
    """Whether it is the mask of a DropOut that stands beside the layer's sampler."""

    @property
    def keep_logit(self) -> Tensor:
        """The logit of the keep probability, with its way back to the rate's parameters."""
        return self.mask.keep_logit

    def sums(self) -> DrawSums:
        """Sums over the distinct draws, a scalar each or one entry per edge as ``keep_logit``."""
        return draw_sums(self.graph, self.mask, self.features)


@dataclass(frozen=True)
class Draw:
    """One forward pass through all layers: the same draw gives the same masks, bit for bit."""

    seed: int
    step: int
    sample: int = 0
    temperature: float | None = None
    """Relaxed masks at this temperature; ``None`` gives hard ones."""
    antithetic: bool = False
    """Every uniform u becomes 1 - u."""
    tape: list[Drawn] | None = field(default=None, compare=False, repr=False)
    """Where the masks of this pass are noted down, if anywhere."""
    keeps_all: bool = False
    """Nothing is drawn: every connection and every feature is kept."""
    dropout: bool = True
    """Whether a DropOut that stands beside a sampler is drawn; else it keeps every feature."""

    @property
    def kind(self) -> Kind:
        """Hard or concrete."""
        return Kind.HARD if self.temperature is None else Kind.CONCRETE

    def key(self, layer: int) -> Tensor:
        """The stream of one layer."""
        return stream_key(self.seed, self.step, layer, self.sample)

    def record(
        self, mask: Mask, graph: Graph, features: int, layer: int = 0, *, beside: bool = False
    ) -> None:
        """Note a mask down with the layer that drew it, if this pass keeps a tape."""
        if self.tape is not None:
            self.tape.append(Drawn(mask, graph, features, layer, beside))

    def opposite(self) -> Draw:
        """The antithetic pass: the same uniforms, each turned round, and no tape."""
        return replace(self, antithetic=not self.antithetic, tape=None)


KEEP_ALL = Draw(0, 0, keeps_all=True)
"""A pass through the whole network, in which nothing is dropped."""
