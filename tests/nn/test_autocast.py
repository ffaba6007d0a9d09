"""Training under autocast: products in bfloat16, sums over neighbours in float32."""

from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from graphdrop import ARM, GCN, DropEdge, GraphDropConnect, LearnedRate
from graphdrop.graph import Graph
from graphdrop.kernels import aggregate

X = torch.rand(40, 12, generator=torch.Generator().manual_seed(0))
EDGES = torch.randint(0, 40, (2, 200), generator=torch.Generator().manual_seed(1))
Y = torch.arange(40) % 3


def gradients(model: Any, dtype: torch.dtype | None) -> list[torch.Tensor]:
    def loss() -> torch.Tensor:
        with torch.autocast("cpu", dtype, enabled=dtype is not None):
            return cross_entropy(model(X, EDGES), Y)

    model.zero_grad()
    model.loss(loss).backward()
    return [p.grad for p in model.parameters()]


@pytest.mark.parametrize("name", ["connections", "edges"])
def test_a_step_under_autocast_has_nearly_the_gradients_of_float32(name: str) -> None:
    def build() -> GCN:
        torch.manual_seed(0)
        if name == "connections":
            return GCN(12, 16, 3, 3, GraphDropConnect(blocks=2), seed=1)
        sampler = DropEdge(LearnedRate(0.6), before_normalization=True)
        return GCN(12, 16, 3, 3, sampler, estimator=ARM(), seed=1)

    wanted, got = gradients(build(), None), gradients(build(), torch.bfloat16)
    for one, other in zip(got, wanted, strict=True):
        assert one.dtype == torch.float32
        if one.dim() or name == "connections":  # the rate's is that of a difference of two losses
            assert float((one - other).norm()) <= 0.1 * float(other.norm()) + 1e-4
        assert one.isfinite().all()


def test_a_hub_in_half_precision_is_summed_in_float32() -> None:
    spokes = torch.arange(1, 2001)
    star = torch.stack([spokes, torch.zeros_like(spokes)])
    graph = Graph.from_edge_index(star, normalization="none")
    out = aggregate(graph, torch.ones(2001, 2, dtype=torch.bfloat16))
    assert out.dtype == torch.bfloat16
    assert out[0].tolist() == [2000.0, 2000.0]  # added up in bfloat16 it would stop at 256
