"""Tasks beyond one class per node, by our own network and by PyG's with a sampler attached."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from contracts.masked_sums import normal, power_law_edges
from graphdrop.inference import predict, predictive
from graphdrop.nn import GCN
from graphdrop.nn.attach import Handle, attach
from graphdrop.sampling.rates import BetaBernoulliRate
from graphdrop.sampling.samplers import Draw, GraphDropConnect

FEATURES, OUT, NODES = 6, 4, 40
PAIRS = torch.tensor([[0, 1, 2, 3, 7], [9, 8, 7, 6, 5]])


def a_graph(nodes: int = NODES, seed: int = 0) -> Data:
    edges = power_law_edges(nodes, 3 * nodes, seed)
    return Data(x=normal(nodes, FEATURES, seed=seed), edge_index=edges)


def a_network(kind: str) -> nn.Module:
    torch.manual_seed(0)
    sampler = GraphDropConnect(BetaBernoulliRate(), blocks=2)
    if kind == "own":
        return GCN(FEATURES, 8, 2, OUT, sampler=sampler, seed=0)
    model = pyg.GAT(FEATURES, 8, 2, OUT, heads=2)
    attach(model, sampler, seed=0)
    return model


def by_hand(model: nn.Module, data: Data, samples: int = 6, batch: int = 0) -> Tensor:
    """The outputs of single passes, `[samples, rows, columns]`, in float64."""
    outputs = []
    for sample in range(samples):
        draw = Draw(0, predictive.PREDICTION_STEP + batch, sample, temperature=0.67)
        with torch.no_grad():
            if isinstance(model, GCN):
                outputs.append(model.eval()(data.x, data.edge_index, draw=draw))
            else:
                outputs += Handle(model).samples(data, [draw])
    return torch.stack(outputs).double()


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found.double(), wanted.double(), rtol=1e-5, atol=1e-6)


def scores_of(z: Tensor) -> Tensor:
    return (z[PAIRS[0]] * z[PAIRS[1]]).sum(1)


@pytest.mark.parametrize("kind", ["own", "attached"])
def test_labels_are_means_of_the_sigmoids_of_single_passes(kind: str) -> None:
    model, data = a_network(kind), a_graph()
    rows = torch.tensor([3, 1, 20])
    answer = predict(model, data, 6, output="labels", rows=rows)
    samples = by_hand(model, data)[:, rows].sigmoid()
    close(answer.probabilities, samples.mean(0))
    close(answer.deviation, samples.std(0))
    assert answer.deviation.max() > 0.01


@pytest.mark.parametrize("kind", ["own", "attached"])
def test_numbers_have_the_moments_of_single_passes(kind: str) -> None:
    model, data = a_network(kind), a_graph()
    answer = predict(model, data, 6, output="gaussian")
    mean, log_variance = by_hand(model, data).chunk(2, -1)
    close(answer.mean, mean.mean(0))
    close(answer.epistemic, mean.var(0, correction=0))
    close(answer.aleatoric, log_variance.exp().mean(0))


def test_links_are_decoded_from_one_embedding_of_all_nodes_per_sample() -> None:
    model, data = pyg.GAE(a_network("attached")), a_graph()
    answer = predict(
        model.encoder,
        data,
        6,
        output="labels",
        decode=lambda z: model.decode(z, PAIRS, sigmoid=False),
    )
    samples = torch.stack([scores_of(z) for z in by_hand(model.encoder, data)]).sigmoid()
    close(answer.probabilities, samples.mean(0))
    close(answer.deviation, samples.std(0))
    assert answer.probabilities.shape == (PAIRS.shape[1],)


class Variational(nn.Module):
    """Two stacks of layers, as a VGAE wants its encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = pyg.GCN(FEATURES, 8, 2, OUT)
        self.spread = pyg.GCN(FEATURES, 8, 2, OUT)

    def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        return self.mean(x, edge_index), self.spread(x, edge_index)


class Links(nn.Module):
    """Scores of the links that the data asks for."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, data: Data) -> Tensor:
        return scores_of(self.model.encode(data.x, data.edge_index))


def test_a_variational_encoder_is_sampled_in_its_embedding_too_where_asked() -> None:
    data = a_graph()
    deviations = []
    for sample_dropout in (False, True):
        torch.manual_seed(0)
        model = pyg.VGAE(Variational())
        sampler = GraphDropConnect(BetaBernoulliRate())
        attach(model, sampler, seed=0, sample_dropout=sample_dropout)
        answer = predict(Links(model), data, 30, output="labels")
        again = predict(Links(model), data, 30, output="labels")
        assert torch.equal(answer.probabilities, again.probabilities)
        deviations.append(answer.deviation)
    alone, both = deviations
    assert bool((both > 1.2 * alone).all())
    assert bool((alone > 0.0).all())


class Graphs(nn.Module):
    """Logits of a graph's class."""

    def __init__(self) -> None:
        super().__init__()
        self.gnn = pyg.GIN(FEATURES, 8, 2, OUT)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        out: Tensor = pyg.global_mean_pool(self.gnn(x, edge_index), batch)
        return out


def a_graph_classifier() -> nn.Module:
    torch.manual_seed(0)
    model = Graphs()
    attach(model, GraphDropConnect(BetaBernoulliRate()), seed=0)
    return model


def test_graphs_of_a_loader_are_those_of_its_batches_each_with_draws_of_its_own() -> None:
    model = a_graph_classifier()
    graphs = [a_graph(nodes, seed=nodes) for nodes in (5, 9, 12, 7, 8)]
    answer = predict(model, DataLoader(graphs, batch_size=2), 6)
    parts = [Batch.from_data_list(graphs[i : i + 2]) for i in (0, 2, 4)]
    samples = [by_hand(model, part, batch=number) for number, part in enumerate(parts)]
    close(answer.probabilities, torch.cat(samples, 1).softmax(-1).mean(0))
    assert answer.probabilities.shape == (5, OUT)


def test_copies_of_a_graph_have_masks_of_their_own_within_a_batch_and_between_batches() -> None:
    model = a_graph_classifier()
    copies = [a_graph(12)] * 4
    loader = DataLoader(copies, batch_size=2)
    one = predict(model, loader, 1, output="labels").probabilities
    assert len(torch.unique(one, dim=0)) == 4
    many = predict(model, loader, 300, output="labels")
    error = many.deviation / 300**0.5
    spread = (many.probabilities - many.probabilities.mean(0)).abs()
    assert bool((spread < 5 * error).all())


def test_what_cannot_be_read_as_asked_is_an_error() -> None:
    data = a_graph()
    model = a_network("own")
    with pytest.raises(ValueError, match="output is 'numbers'; it takes one of 'classes', 'l"):
        predict(model, data, output="numbers")  # type: ignore[call-overload]
    one = GCN(FEATURES, 8, 2, 1, sampler=GraphDropConnect(BetaBernoulliRate()))
    with pytest.raises(ValueError, match=r"shape \(40, 1\), but output='classes' takes.*labels"):
        predict(one, data)
    loader = DataLoader([data])
    with pytest.raises(ValueError, match=r"rows are nodes of one graph.*leave rows out"):
        predict(model, loader, rows=torch.arange(3))
    with pytest.raises(ValueError, match="DataLoader without a batch"):
        predict(model, DataLoader([]))


def test_a_list_of_graphs_is_predicted_like_a_loader_of_them():
    data = Data(x=normal(40, 10), edge_index=power_law_edges(40, 80))
    model = GCN(10, 8, 2, 3, GraphDropConnect())
    one, other = (predict(model, d, 4) for d in ([data, data], DataLoader([data, data], 64)))
    assert torch.equal(one.probabilities, other.probabilities)
    assert len(one.probabilities) == 80
    with pytest.raises(ValueError, match="data is an empty list"):
        predict(model, [])
