"""``Draw``: the key of the random numbers of one forward pass, and the form of its masks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor

from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, stream_key
from graphdrop.kernels.sums import DrawSums, draw_sums


@dataclass(frozen=True, eq=False)
class UsedMask:
    """A mask that a layer used in a forward pass, as gradient estimators read it."""

    mask: Mask
    graph: Graph
    features: int
    layer: int = 0
    """The index of the layer."""
    beside: bool = False
    """Whether it is the mask of the additional DropOut, not of the layer's sampler."""

    @property
    def keep_logit(self) -> Tensor:
        """The keep logit, differentiable in the rate's parameters."""
        return self.mask.keep_logit

    def sums(self) -> DrawSums:
        """Sums over the distinct draws, in the shape of ``keep_logit``: scalars or ``[E]``."""
        return draw_sums(self.graph, self.mask, self.features)


@dataclass(frozen=True)
class Draw:
    """The key of one forward pass: equal keys give equal masks in all layers, bit for bit.

    Args:
        seed: seed of the run.
        step: number of the training step or of the prediction.
        sample: number of the Monte Carlo sample within the step.

    Example:
        >>> Draw(seed=0, step=3).key(layer=1).shape
        torch.Size([2])
    """

    seed: int
    step: int
    sample: int = 0
    temperature: float | None = None
    """Relaxed masks at this temperature; ``None`` gives hard ones."""
    antithetic: bool = False
    """Whether every uniform u is replaced by 1 - u, as in the second pass of ARM."""
    tape: list[UsedMask] | None = field(default=None, compare=False, repr=False)
    """A list to which every layer appends its mask, or ``None``."""
    keeps_all: bool = False
    """Whether all masks are left out, so that every connection and feature is kept."""
    dropout: bool = True
    """Whether the additional DropOut of a layer is sampled; otherwise it keeps every feature."""

    @property
    def kind(self) -> Kind:
        """Hard or concrete."""
        return Kind.HARD if self.temperature is None else Kind.CONCRETE

    def key(self, layer: int) -> Tensor:
        """The key of the random stream of one layer, ``[2]`` int64."""
        return stream_key(self.seed, self.step, layer, self.sample)

    def record(
        self, mask: Mask, graph: Graph, features: int, layer: int = 0, *, beside: bool = False
    ) -> None:
        """Append a mask to ``tape``, if there is one."""
        if self.tape is not None:
            self.tape.append(UsedMask(mask, graph, features, layer, beside))

    def opposite(self) -> Draw:
        """The antithetic pass: every uniform u replaced by 1 - u, without a tape."""
        return replace(self, antithetic=not self.antithetic, tape=None)


KEEP_ALL = Draw(0, 0, keeps_all=True)
"""A forward pass in which nothing is dropped."""
