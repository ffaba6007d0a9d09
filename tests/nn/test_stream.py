"""Steps count themselves: where a model's random numbers come from, and how they go on."""

import copy
import io
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from contracts.dense_layers import TOWN
from contracts.masked_sums import normal
from graphdrop.nn import GCN
from graphdrop.sampling.rates import BetaBernoulliRate, FixedRate
from graphdrop.sampling.samplers import Draw, DropEdge, GraphDropConnect

X = normal(TOWN.num_nodes, 5)


def make(seed: int | None = None) -> GCN:
    return GCN(5, 5, 2, 3, GraphDropConnect(BetaBernoulliRate()), dropout=0.5, seed=seed)


def call(model: GCN, draw: Draw | None = None) -> Tensor:
    out: Tensor = model(X, TOWN.edge_index, TOWN.edge_weight, draw=draw)
    return out.detach()


def test_every_training_call_draws_afresh_and_no_call_in_evaluation_does() -> None:
    model = make()
    seen = [call(model) for _ in range(3)]
    assert not any(torch.equal(seen[i], seen[j]) for i in range(3) for j in range(i))
    model.eval()
    assert torch.equal(call(model), call(model))
    assert model.stream.tolist()[1] == 3


def test_a_call_is_the_draw_of_its_step() -> None:
    model = make(seed=5)
    for step in range(3):
        draw = Draw(5, step, temperature=model.temperature)
        assert torch.equal(call(model), call(model, draw))


def test_a_saved_model_goes_on_with_the_same_bits() -> None:
    model = make(seed=3)
    for _ in range(4):
        call(model)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    wanted = [call(model) for _ in range(2)]
    file.seek(0)
    torch.manual_seed(99)
    other = make()
    other.load_state_dict(torch.load(file))
    found = [call(other) for _ in range(2)]
    assert all(map(torch.equal, found, wanted))


def test_manual_seed_decides_the_stream_and_a_seed_of_its_own_goes_before_it() -> None:
    def masks_of(global_seed: int, seed: int | None = None) -> list[Tensor]:
        torch.manual_seed(global_seed)
        model = GCN(5, 5, 2, 3, DropEdge(FixedRate(keep=0.5)), seed=seed)
        for parameter in model.parameters():
            torch.nn.init.ones_(parameter)
        return [call(model) for _ in range(2)]

    def same(one: list[Tensor], other: list[Tensor]) -> bool:
        return all(map(torch.equal, one, other))

    assert same(masks_of(1), masks_of(1))
    assert not same(masks_of(1), masks_of(2))
    assert same(masks_of(1, seed=7), masks_of(2, seed=7))
    assert same(masks_of(1), masks_of(2, seed=1))


def pickled(model: GCN) -> GCN:
    loaded: GCN = pickle.loads(pickle.dumps(model))
    return loaded


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickled])
def test_a_copy_of_a_model_goes_its_own_way_on_the_same_stream(
    duplicate: Callable[[GCN], GCN],
) -> None:
    model = make()
    call(model)
    model(X, TOWN.graph(), rows=torch.tensor([1]))  # so that there is something in the cache
    other = duplicate(model)
    wanted = [call(model) for _ in range(2)]
    assert other.stream.tolist()[1] == 2
    assert all(map(torch.equal, [call(other) for _ in range(2)], wanted))
    with torch.no_grad():
        next(other.parameters()).zero_()
    assert not torch.equal(call(other, Draw(1, 1)), call(model, Draw(1, 1)))
