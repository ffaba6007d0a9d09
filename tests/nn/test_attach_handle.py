"""What a handle does to a whole model: train it, sample it, save it, copy it, and let it go."""

import copy
import pickle
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, GraphNorm, conv

from contracts.attach_contract import two_blocks
from contracts.dense_layers import TOWN
from contracts.masked_sums import normal
from graphdrop import ARM, attach, predict
from graphdrop.calibration.temperature import TemperatureScaling
from graphdrop.nn.attach import Handle
from graphdrop.nn.sampled import sampled
from graphdrop.sampling.rates import BetaBernoulliRate, FixedRate, LearnedRate
from graphdrop.sampling.samplers import Draw, DropEdge, GraphDropConnect, RandomWalk

IN, OUT = 5, 3
DATA = Data(x=normal(TOWN.num_nodes, IN, seed=1), edge_index=TOWN.edge_index)
X, EDGES = DATA.x, DATA.edge_index


def stock(dropout: float = 0.5) -> GAT:
    return GAT(IN, 8, 2, OUT, heads=2, norm="batch_norm", dropout=dropout)


def connections() -> GraphDropConnect:
    return GraphDropConnect(BetaBernoulliRate(), blocks=2)


def norms(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.named_buffers() if "norm" in name}


def test_each_layer_has_a_rate_of_its_own_among_the_parameters_of_the_model():
    model = stock()
    own = {id(parameter) for parameter in model.parameters()}
    handle = attach(model, connections())
    rates = list(handle.parameters())
    assert len(rates) == 4
    assert {id(p) for p in model.parameters()} - own == {id(p) for p in rates}
    parts = [masked.sampler.rate.kl() for masked in handle.layers.values()]
    torch.testing.assert_close(handle.kl(), parts[0] + parts[1])
    assert list(handle.drop_rates()) == ["convs.0", "convs.1"]
    keep = handle.layers["convs.1"].sampler.rate.mean().item()
    assert handle.drop_rates()["convs.1"] == pytest.approx(1.0 - keep)
    assert [masked.sampler.blocks for masked in handle.layers.values()] == [1, 2]


def test_a_loop_of_ones_own_learns_weights_and_rates():
    model = stock()
    handle = attach(model, connections())
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(X, EDGES).square().mean() + 0.1 * handle.kl()
        loss.backward()
        optimizer.step()
    changed = [not torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True)]
    assert all(changed)


def test_the_passes_of_arm_share_dropout_and_update_running_means_once():
    model, drawn = stock(), []
    model.dropout.register_forward_hook(lambda _m, _i, out: drawn.append(out == 0.0))
    handle = attach(model, GraphDropConnect(LearnedRate(1 - 1e-6)), ARM())  # nothing is dropped
    twin = copy.deepcopy(model)
    generator = torch.get_rng_state()
    outputs = []

    def closure() -> Tensor:
        outputs.append(model(X, EDGES))
        return outputs[-1].square().mean()

    handle.backward(closure)
    assert len(outputs) == 2
    assert torch.equal(outputs[0], outputs[1])  # masks keep all, so only DropOut could differ
    assert len(drawn) % 2 == 0
    half = len(drawn) // 2
    assert all(torch.equal(one, two) for one, two in zip(drawn[:half], drawn[half:], strict=True))
    assert any(bool(mask.any()) for mask in drawn)
    assert torch.equal(torch.get_rng_state(), generator)
    with Handle(twin).drawing(Draw(int(handle.layers["convs.0"].stream[0]), 0)):
        twin(X, EDGES)
    assert list(norms(model)) == list(norms(twin)) != []
    for name, value in norms(model).items():
        assert torch.equal(value, norms(twin)[name]), name
    outputs.clear()
    handle.backward(closure)
    assert not torch.equal(norms(model)["norms.0.module.running_mean"], torch.zeros(16))


def test_a_second_pass_leaves_no_trace_in_any_buffer():
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = conv.SAGEConv(IN, OUT), GraphNorm(OUT)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            self.calls = self.calls + 1  # a new tensor every time
            return self.norm(self.conv(x, edge_index))

    handle = attach(Counting(), two_blocks(), ARM())
    for count in (1, 2):
        handle.backward(lambda: handle.model(X, EDGES).square().mean())
        assert handle.model.calls == count


def test_prediction_samples_the_masks_and_nothing_else_unless_asked():
    handle = attach(stock(), DropEdge(FixedRate(keep=1.0)))
    for _ in range(3):
        handle.model(X, EDGES)  # moves the running means
    before = norms(handle.model)
    prediction = predict(handle.model, DATA, samples=4)
    assert prediction.probabilities.shape == (TOWN.num_nodes, OUT)
    assert float(prediction.deviation.max()) < 1e-6
    assert handle.model.training
    assert all(module.training for module in handle.model.modules())
    assert all(torch.equal(value, before[name]) for name, value in norms(handle.model).items())


def test_dropout_of_the_model_can_be_sampled_too():
    model = stock()
    attach(model, DropEdge(FixedRate(keep=1.0)), sample_dropout=True)
    found = predict(model, DATA, samples=3, seed=1)
    assert float(found.deviation.max()) > 1e-3
    assert torch.equal(predict(model, DATA, samples=3, seed=1).probabilities, found.probabilities)
    assert torch.equal(
        predict(model, DATA, samples=0).probabilities, predict(model, DATA, 0).probabilities
    )


def test_batch_norm_can_go_on_normalizing_by_the_batch():
    running, batch = (stock() for _ in range(2))
    batch.load_state_dict(running.state_dict())
    keep_all = DropEdge(FixedRate(keep=1.0))
    attach(running, keep_all)
    attach(batch, keep_all, batch_statistics=True)
    before = norms(batch)
    one, other = (predict(model, DATA, samples=1) for model in (running, batch))
    assert not torch.allclose(one.probabilities, other.probabilities, atol=1e-3)
    assert all(torch.equal(value, before[name]) for name, value in norms(batch).items())
    Handle(batch).remove()
    assert not attach(batch, keep_all).defaults.batch_statistics


def test_data_gives_the_arguments_of_forward_by_their_names():
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = conv.TransformerConv(IN, OUT, edge_dim=2)

        def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
            out: Tensor = self.conv(x, edge_index, edge_attr)
            return out

    class Wrapped(nn.Module):
        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, data: Data) -> Tensor:
            out: Tensor = self.model(data.x, data.edge_index, data.weird)
            return out

    model = Named()
    attach(model, two_blocks())
    with pytest.raises(ValueError, match="takes 'edge_attr', which the data does not have"):
        predict(model, DATA)
    full = Data(x=X, edge_index=EDGES, edge_attr=normal(EDGES.shape[1], 2, seed=3))
    wanted = predict(model, full, 2)
    odd = Data(x=X, edge_index=EDGES, weird=full.edge_attr)
    assert torch.equal(predict(Wrapped(model), odd, 2).probabilities, wanted.probabilities)


@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
@pytest.mark.parametrize("decomposed", [1, 2])
def test_models_are_copied_with_their_handle(way, decomposed):
    model = GCN(IN, 8, 2, OUT, decomposed_layers=decomposed)
    plain = model(X, EDGES)
    handle = attach(model, connections())
    model(X, EDGES)
    pair = (model, handle)
    twin, theirs = copy.deepcopy(pair) if way == "deepcopy" else pickle.loads(pickle.dumps(pair))
    assert theirs.model is twin
    assert theirs.layers["convs.0"].layer is twin.convs[0]
    assert torch.equal(twin(X, EDGES), model(X, EDGES))
    theirs.kl().backward()
    assert all(parameter.grad is None for parameter in handle.parameters())
    alone = Handle(copy.deepcopy(model))
    torch.testing.assert_close(alone.kl(), handle.kl())
    theirs.remove()
    torch.testing.assert_close(twin(X, EDGES), plain)
    assert twin.convs[0].decomposed_layers == decomposed
    assert not torch.allclose(model(X, EDGES), plain)  # the first model is still attached
    handle.remove()
    assert torch.equal(model(X, EDGES), plain)


class NeverSends(conv.MessagePassing):
    def forward(self, x: Tensor) -> Tensor:
        return 2.0 * x


class PropagatesInItsOwnWay(conv.MessagePassing):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x)

    def propagate(self, edge_index: Tensor, x: Tensor) -> Tensor:
        return x.index_add(0, edge_index[1], x[edge_index[0]])


def test_a_layer_whose_messages_cannot_be_masked_is_an_error_and_not_left_unmasked():
    never = attach(NeverSends(), two_blocks())
    with pytest.raises(RuntimeError, match="passed no messages"):
        never.model(X)
    own_way = attach(PropagatesInItsOwnWay(), two_blocks())
    with pytest.raises(RuntimeError, match=r"did not call message\(\)"):
        own_way.model(X, EDGES)


@pytest.mark.parametrize(("name", "value"), [("decomposed_layers", 2), ("explain", True)])
def test_what_undoes_the_masks_behind_the_handle_is_an_error(name, value):
    handle = attach(conv.SGConv(IN, OUT), two_blocks())
    setattr(handle.model, name, value)
    with pytest.raises(RuntimeError, match="was replaced after attach"):
        handle.model(X, EDGES)


@pytest.mark.parametrize(
    ("attempt", "problem"),
    [
        (lambda: attach(nn.Linear(2, 2), two_blocks()), "without a MessagePassing layer"),
        (lambda: attach(attach(stock(), two_blocks()).model, two_blocks()), "attached already"),
        (
            lambda: attach(stock(), FixedRate(keep=0.5)),
            "sampler is of type FixedRate; it takes a Sampler",
        ),
        (lambda: attach(stock(), two_blocks(), 0.67), "estimator is of type"),
        (
            lambda: attach(stock(), DropEdge(FixedRate(keep=0.5), before_normalization=True)),
            "a GATConv takes no edge_weight",
        ),
        (
            lambda: attach(
                conv.TAGConv(2, 2), GraphDropConnect(0.5, first_blocks=2, before_normalization=True)
            ),
            "one weight per edge",
        ),
        (
            lambda: attach(
                conv.GCNConv(2, 2, cached=True), DropEdge(0.5, before_normalization=True)
            ),
            "cached=True",
        ),
        (lambda: attach(stock(), GraphDropConnect(FixedRate(keep=0.5), pairs=True)), "pairs=True"),
        (lambda: attach(stock(), RandomWalk(FixedRate(keep=0.5))), "RandomWalk"),
        (lambda: Handle(stock()), "has no layer that samples its connections"),
        (lambda: predict(stock(), DATA), "has no layer that samples its connections"),
        (
            lambda: Handle(nn.ModuleList([attach(stock(), two_blocks()).model for _ in "ab"])),
            "apart",
        ),
    ],
)
def test_bad_arguments_are_named(attempt, problem):
    with pytest.raises((TypeError, ValueError), match=problem):
        attempt()


def test_a_rate_per_edge_must_fit_the_messages():
    messages = EDGES.shape[1]
    handle = attach(
        conv.SAGEConv(IN, OUT), DropEdge(LearnedRate(entries=messages), symmetric=False)
    )
    handle.model(X, EDGES).sum().backward()
    (rates,) = handle.parameters()
    assert rates.grad.shape == (messages,)
    assert bool((rates.grad != 0.0).all())
    with pytest.raises(ValueError, match="the rate has 10 entries, and the graph 9 edges"):
        handle.model(X, EDGES[:, 1:])


def test_what_a_model_carries_for_its_answers_is_one_attribute_that_prints():
    model = stock()
    handle = attach(model, connections())
    assert repr(handle.defaults) == "PredictionDefaults()"
    handle.defaults = replace(handle.defaults, samples=7, calibrator=TemperatureScaling(2.0))
    shown = "PredictionDefaults(samples=7, calibrator=TemperatureScaling(temperature=2.0))"
    assert repr(model.defaults) == shown
    again = pickle.loads(pickle.dumps(copy.deepcopy(model)))
    assert repr(sampled(again).defaults) == shown
    answer = predict(again, DATA)
    assert (answer.samples, answer.calibrated) == (7, "samples")
    model.defaults = "of the user's own"
    with pytest.raises(ValueError, match=r"GAT.defaults is a str.*Give that attribute another"):
        handle.defaults = replace(handle.defaults, samples=8)
