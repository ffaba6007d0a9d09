"""Masked sums held to the float64 reference: an error is measured by the size of its terms."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask
from graphdrop.kernels import aggregate

TOLERANCE = 1e-5
"""Of a float32 sum, relative to the sum of its terms' absolute values."""
FLOOR = 1e-13
"""What float64 itself gets wrong: a mask within 1e-16 of 1 has forgotten its slope."""


@dataclass(frozen=True)
class Sums:
    """What one forward and backward pass computes."""

    value: Tensor
    x_gradient: Tensor
    logit_gradient: Tensor | None


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Float32 normal numbers that do not depend on torch's own generator."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def power_law_edges(num_nodes: int, num_edges: int, seed: int = 0) -> Tensor:
    """`edge_index [2, num_edges]` with a few hubs, parallels, self-loops and isolated nodes."""
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand(2, num_edges, generator=generator, dtype=torch.float64)
    return (num_nodes * uniform**3).long()


def passes(graph: Graph, x: Tensor, mask: Mask, gradient: Tensor, backend: str) -> Sums:
    """Run forward, and backward from the output's `gradient`."""
    x = x.detach().requires_grad_()
    logit = mask.keep_logit.detach().requires_grad_(mask.kind is Kind.CONCRETE)
    value = aggregate(graph, x, replace(mask, keep_logit=logit), backend=backend)
    inputs = [x, logit] if logit.requires_grad else [x]
    gradients = torch.autograd.grad(value, inputs, gradient)
    return Sums(value.detach(), gradients[0], gradients[1] if logit.requires_grad else None)


def exact(graph: Graph, x: Tensor, mask: Mask, gradient: Tensor) -> Sums:
    """The same passes by the reference, in float64, with the same draws."""
    mask = replace(mask, keep_logit=mask.keep_logit.double())
    return passes(graph.double(), x.double(), mask, gradient.double(), "reference")


def magnitudes(graph: Graph, x: Tensor, mask: Mask, gradient: Tensor) -> Sums:
    """The sums of the terms' absolute values.

    Masks, their slopes and temperatures are not negative, so the absolute values of weights,
    features and gradient give the absolute values of all terms.
    """
    graph = graph.double()
    graph = graph.with_values(graph.value.abs())
    return exact(graph, x.abs(), mask, gradient.abs())


def assert_within(got: Tensor, wanted: Tensor, scale: Tensor, tolerance: float = TOLERANCE) -> None:
    """Each error is at most `tolerance` times the magnitude of its own terms."""
    assert got.shape == wanted.shape
    excess = (got.double() - wanted.double()).abs() - (tolerance * scale.double() + FLOOR)
    assert not bool((excess > 0.0).any() | excess.isnan().any()), (
        f"off by up to {float(excess.max())} more than allowed, in {int((excess > 0).sum())} of "
        f"{excess.numel()} entries"
    )


def assert_fused_is_exact(
    graph: Graph, x: Tensor, mask: Mask, gradient: Tensor, backend: str = "fused"
) -> None:
    """Value, gradient to `x` and gradient to the keep logit equal the reference's."""
    fused = passes(graph, x, mask, gradient, backend)
    wanted, scale = exact(graph, x, mask, gradient), magnitudes(graph, x, mask, gradient)
    assert_within(fused.value, wanted.value, scale.value)
    assert_within(fused.x_gradient, wanted.x_gradient, scale.x_gradient)
    if mask.kind is Kind.CONCRETE:
        assert fused.logit_gradient is not None
        assert wanted.logit_gradient is not None
        assert scale.logit_gradient is not None
        assert_within(fused.logit_gradient, wanted.logit_gradient, scale.logit_gradient)
