"""Samples that are made together have the bits of single passes, whatever the sampler."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from contracts.masked_sums import normal, power_law_edges
from graphdrop.nn import GCN
from graphdrop.sampling.rates import BetaBernoulliRate, FixedRate
from graphdrop.sampling.samplers import (
    Draw,
    DropEdge,
    DropNode,
    DropOut,
    GraphDropConnect,
    RandomWalk,
    Sampler,
)

NODES, FEATURES = 120, 24
SAMPLERS: dict[str, Callable[[], Sampler | None]] = {
    "no sampler": lambda: None,
    "two blocks": lambda: GraphDropConnect(BetaBernoulliRate(), blocks=2),
    "a mask per feature": lambda: GraphDropConnect(FixedRate(keep=0.6), blocks=None),
    "DropEdge": lambda: DropEdge(FixedRate(keep=0.6)),
    "DropNode, rescaled": lambda: DropNode(FixedRate(keep=0.6), rescale=True),
    "DropEdge, symmetric": lambda: DropEdge(BetaBernoulliRate(), symmetric=True),
    "DropOut": lambda: DropOut(FixedRate(keep=0.6)),
    "random walk": lambda: RandomWalk(FixedRate(keep=0.6)),
}


@pytest.fixture(params=SAMPLERS)
def sampler(request: pytest.FixtureRequest) -> Sampler | None:
    return SAMPLERS[request.param]()


@pytest.fixture
def data() -> Data:
    return Data(x=normal(NODES, FEATURES).relu(), edge_index=power_law_edges(NODES, 600))


@pytest.mark.parametrize(
    ("sampler", "temperature"),
    [
        *((name, None) for name in SAMPLERS),
        *((name, 0.67) for name in ("two blocks", "DropEdge, symmetric", "DropOut", "random walk")),
    ],
    indirect=["sampler"],
)
@torch.no_grad()
def test_samples_equal_single_passes(
    sampler: Sampler | None, data: Data, temperature: float | None
) -> None:
    model = GCN(FEATURES, FEATURES, 3, 5, sampler, residual=True, seed=1).eval()
    draws = [Draw(3, 4, sample, temperature=temperature) for sample in range(5)]
    alone = [next(model.samples(data, [draw])) for draw in draws]
    together = list(model.samples(data, draws))
    assert all(map(torch.equal, together, alone))
    for out, draw in zip(together, draws, strict=True):
        torch.testing.assert_close(out, model(data.x, data.edge_index, draw=draw))


@torch.no_grad()
def test_a_hook_sees_every_pass(data: Data) -> None:
    model = GCN(FEATURES, 8, 2, 5, DropEdge(FixedRate(keep=0.6)), seed=1).eval()
    seen: list[Tensor] = []
    model.layers[0].register_forward_hook(lambda _m, _i, out: seen.append(out))
    list(model.samples(data, [Draw(0, 0, sample) for sample in range(3)]))
    assert len(seen) == 3
    assert any((out < 0.0).any() for out in seen)  # before the relu
