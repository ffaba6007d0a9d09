"""How a network is sampled: the same passes anybody can make, at the cost of what differs."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from contracts.allocations import allocations
from contracts.masked_sums import normal, power_law_edges
from graphdrop.inference import Predictive, predict, predictive
from graphdrop.nn import GCN, conv, models
from graphdrop.sampling.rates import BetaBernoulliRate, FixedRate, LearnedRate
from graphdrop.sampling.samplers import (
    Draw,
    DropEdge,
    DropNode,
    DropOut,
    GraphDropConnect,
    Sampler,
)

FEATURES, CLASSES, NODES = 12, 4, 60
SAMPLERS: dict[str, Callable[[], Sampler | None]] = {
    "none": lambda: None,
    "DropOut": lambda: DropOut(FixedRate(keep=0.5)),
    "DropEdge": lambda: DropEdge(FixedRate(keep=0.7), before_normalization=True),
    "DropNode": lambda: DropNode(FixedRate(keep=0.6), rescale=True),
    "learned": lambda: DropEdge(LearnedRate(0.6)),
    "beta-Bernoulli": lambda: GraphDropConnect(BetaBernoulliRate(), blocks=3),
    "a rate per edge": lambda: GraphDropConnect(BetaBernoulliRate(entries=217)),
}


def a_graph(nodes: int = NODES, edges: int = 160, seed: int = 0) -> Data:
    edge_index = torch.unique(power_law_edges(nodes, edges, seed), dim=1)
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]
    weight = 0.5 + normal(edge_index.shape[1], seed=seed).abs()
    return Data(x=normal(nodes, FEATURES, seed=seed), edge_index=edge_index, edge_weight=weight)


def a_network(name: str, data: Data, layers: int = 3) -> GCN:
    torch.manual_seed(0)
    sampler = SAMPLERS[name]()
    if sampler is not None and sampler.rate.entries:
        entries = data.edge_index.shape[1] + data.num_nodes
        sampler = GraphDropConnect(BetaBernoulliRate(entries=entries))
    return GCN(FEATURES, 8, layers, CLASSES, sampler, seed=0).eval()


def by_hand(model: GCN, data: Data, draws: list[Draw]) -> Tensor:
    """The probabilities `[samples, nodes, classes]` of single passes."""
    with torch.no_grad():
        logits = [model(data.x, data.edge_index, data.edge_weight, draw=draw) for draw in draws]
    return torch.stack(logits).double().softmax(-1)


def masks_of(temperature: float | None) -> dict[str, Any]:
    return {"masks": "hard"} if temperature is None else {"temperature": temperature}


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found.double(), wanted.double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "temperature"),
    [
        *((name, None) for name in SAMPLERS),
        ("beta-Bernoulli", 0.67),
    ],
)
def test_a_prediction_is_the_mean_of_single_passes(
    name: str, temperature: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = a_graph()
    model = a_network(name, data)
    monkeypatch.setattr(models, "DRAWN_TOGETHER", 3)
    found = predict(model, data, 7, seed=5, **masks_of(temperature))
    step = predictive.PREDICTION_STEP
    draws = [Draw(5, step, sample, temperature=temperature) for sample in range(7)]
    samples = by_hand(model, data, draws)
    close(found.probabilities, samples.mean(0))
    close(found.deviation, samples.std(0))
    assert found.samples == 7
    assert name == "none" or found.deviation.max() > 0.01


@pytest.mark.parametrize("name", ["DropNode", "a rate per edge"])
def test_no_samples_is_one_pass_with_masks_in_expectation(name: str) -> None:
    data = a_graph()
    model = a_network(name, data)
    found = predict(model, data, 0)
    with torch.no_grad():
        logits = model(data.x, data.edge_index, data.edge_weight)
    close(found.probabilities, logits.softmax(-1))
    assert found.samples == 1
    assert not found.deviation.any()


def same(one: Predictive, other: Predictive) -> bool:
    return torch.equal(one.probabilities, other.probabilities) and torch.equal(
        one.votes, other.votes
    )


def test_the_same_seed_gives_the_same_answer_whatever_was_drawn_before() -> None:
    data = a_graph()
    model = a_network("beta-Bernoulli", data)
    one = predict(model, data, 5, seed=1)
    model.train()
    model(data.x, data.edge_index)
    torch.rand(3)
    assert same(predict(model, data, 5, seed=1), one)
    assert not same(predict(model, data, 5, seed=2), one)
    assert same(predict(copy.deepcopy(model), data, 5, seed=1), one)


def test_rows_are_those_of_the_whole_prediction() -> None:
    data = a_graph()
    model = a_network("beta-Bernoulli", data)
    whole = predict(model, data, 4, temperature=0.67).probabilities
    rows = torch.tensor([41, 3, 17])
    close(predict(model, data, 4, temperature=0.67, rows=rows).probabilities, whole[rows])
    mask = torch.zeros(NODES, dtype=torch.bool)
    mask[rows] = True
    close(predict(model, data, 4, temperature=0.67, rows=mask).probabilities, whole[mask])


@pytest.mark.parametrize(("name", "temperature"), [("DropNode", None), ("beta-Bernoulli", 0.67)])
def test_a_network_predicts_on_a_graph_it_was_not_trained_on(
    name: str, temperature: float | None
) -> None:
    """As on that graph in one piece with the training graph, where no edge joins the two."""
    known, new = a_graph(), a_graph(35, 90, seed=1)
    model = a_network(name, known).train()
    loss = model(known.x, known.edge_index, known.edge_weight).square().mean()
    loss.backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    found = predict(model, new, 6, **masks_of(temperature))
    both = Data(
        x=torch.cat([new.x, known.x]),
        edge_index=torch.cat([new.edge_index, known.edge_index + 35], 1),
        edge_weight=torch.cat([new.edge_weight, known.edge_weight]),
    )
    together = predict(model, both, 6, **masks_of(temperature))
    close(found.probabilities, together.probabilities[:35])
    assert found.probabilities.shape == (35, CLASSES)


def test_rates_per_edge_are_refused_on_another_graph() -> None:
    model = a_network("a rate per edge", a_graph())
    with pytest.raises(ValueError, match=r"the rate has \d+ entries, and the graph \d+ edges"):
        predict(model, a_graph(35, 90, seed=1), 2)


@pytest.mark.parametrize(
    ("name", "products"), [("beta-Bernoulli", 1), ("DropEdge", 1), ("DropOut", 40)]
)
def test_all_samples_share_the_first_product_where_no_mask_touches_it(
    name: str, products: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = a_graph()
    model = a_network(name, data)
    multiplied = []

    def counted(x, weight, bias=None):  # type: ignore[no-untyped-def]
        multiplied.append(weight)
        return product(x, weight, bias)

    product = conv.multiply
    monkeypatch.setattr(conv, "multiply", counted)
    predict(model, data, 40)  # more than have their rates drawn together
    first = model.layers[0].weight
    assert sum(weight is first for weight in multiplied) == products


@pytest.mark.parametrize("name", ["beta-Bernoulli", "a rate per edge"])
def test_memory_does_not_grow_with_the_number_of_samples(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = a_graph(2000, 6000)
    model = a_network(name, data)
    monkeypatch.setattr(predictive, "FOLDED_NUMBERS", 5 * 2000 * CLASSES)
    few, many = (
        allocations(lambda samples=samples: predict(model, data, samples)).peak
        for samples in (96, 192)  # both more than are under way at once
    )
    one_sample = 8 * 2000 * CLASSES  # in float64
    assert many < few + 8 * one_sample  # how groups of samples overlap takes a few either way


def test_what_is_asked_must_make_sense() -> None:
    data = a_graph()
    with pytest.raises(TypeError, match=r"data is a tensor.*predict\(model, Data\(x=x, edge_index"):
        predict(a_network("none", data), data.x, data.edge_index)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="masks is 'soft': give relaxed, hard, expected or off"):
        predict(a_network("none", data), data, masks="soft")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="samples is -1; it takes"):
        predict(a_network("none", data), data, -1)


def test_what_is_not_finite_is_named() -> None:
    data = a_graph()
    model = a_network("beta-Bernoulli", data)
    data.x[17, 3] = torch.nan
    with pytest.raises(ValueError, match=r"x has a feature of node 17 .* \(1 such nodes\)"):
        predict(model, data, 2)
    with torch.no_grad():
        model.layers[1].weight[0, 0] = torch.inf
    with pytest.raises(ValueError, match=r"the model's layers\.1\.weight is not finite"):
        predict(model, a_graph(), 2)
