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


def test_a_given_draw_takes_no_step() -> None:
    model = make()
    one, two = (call(model, Draw(1, 2, 3)) for _ in range(2))
    assert torch.equal(one, two)
    assert model.stream.tolist()[1] == 0
    model.eval()
    assert torch.equal(call(model, Draw(1, 2, 3)), one)  # Monte Carlo at prediction time
    assert not torch.equal(call(model, Draw(1, 2, 4)), one)


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


def test_a_run_that_was_cut_and_resumed_ends_with_the_same_weights() -> None:
    def train(model: GCN, steps: int) -> GCN:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(steps):
            optimizer.zero_grad()
            model(X, TOWN.edge_index).square().mean().backward()
            optimizer.step()
        return model

    start = make()
    whole, half, resumed = copy.deepcopy(start), copy.deepcopy(start), make()
    train(whole, 4)
    resumed.load_state_dict(train(half, 2).state_dict())
    train(resumed, 2)
    for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)
    assert whole.stream.tolist()[1] == resumed.stream.tolist()[1] == 4


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


@pytest.mark.parametrize("seed", [0, 2**63 - 1, 2**64 - 1, -1])
def test_any_integer_is_a_seed(seed: int) -> None:
    model = make(seed=seed)
    assert 0 <= model.stream.tolist()[0] < 2**63
    assert torch.isfinite(call(model)).all()


def test_reset_parameters_starts_anew() -> None:
    model = make(seed=1)
    first = call(model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.reset_parameters()
    after = model.state_dict()
    assert after["stream"].tolist() == [1, 0]
    changed = {name for name in after if not torch.equal(after[name], before[name])}
    assert {"layers.0.weight", "layers.1.sampler.rate.raw_a", "stream"} <= changed
    assert not torch.equal(call(model), first)


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
