"""EdgeRate: networks use the fitted rates as edge weights in the mean, saved and on new graphs."""

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn.models import basic_gnn
from torch_geometric.utils import remove_self_loops

from graphdrop import GCN, DropEdge, Graph, GraphDropConnect, attach, load, predict, save
from graphdrop.loading import NeighborLoader
from graphdrop.sampling import EdgeFit, EdgePrior, EdgeRate, fit_edge_prior
from graphdrop.sampling.samplers import Draw


def graph_of(nodes: int, seed: int) -> Data:
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(nodes, (2, 3 * nodes), generator=generator)
    ends = torch.cat([ends, ends.flip(0)], 1)
    x = torch.rand(nodes, 6, generator=generator)
    y = torch.randint(3, (nodes,), generator=generator)
    train = torch.arange(nodes) < nodes // 2
    return Data(x=x, edge_index=ends, y=y, train_mask=train, val_mask=~train)


@pytest.fixture(scope="module")
def fitted() -> tuple[Data, EdgeFit]:
    data = graph_of(40, seed=0)
    fit = fit_edge_prior(data)
    fit.prior.coefficients.copy_(torch.linspace(-1, 1, len(fit.names)))  # whatever they are
    return data, fit


def network(fit: EdgeFit) -> GCN:
    sampler = GraphDropConnect(EdgeRate(fit), blocks=2, before_normalization=True)
    torch.manual_seed(0)
    return GCN(6, 8, 2, 3, sampler, seed=3)


def test_the_expected_mask_is_that_of_weighted_edges(fitted: tuple[Data, EdgeFit]) -> None:
    data, fit = fitted
    own = network(fit).eval()
    plain = GCN(6, 8, 2, 3)
    plain.load_state_dict(own.state_dict(), strict=False)
    for graph in (data, graph_of(30, seed=1)):  # the graph of the fit, and a new one
        whole = Graph.from_data(graph)
        keep = torch.sigmoid(fit.prior(whole, graph.x)).masked_fill(whole.self_loop, 1.0)
        assert keep.std() > 0.05
        edge_index = torch.stack([whole.indices.long(), whole.edge_dst.long()])
        expected = plain.eval()(graph.x, edge_index, keep)
        torch.testing.assert_close(own(graph.x, graph.edge_index), expected)


@pytest.mark.parametrize("before", [True, False])
def test_edges_are_kept_as_often_as_their_rate_says_and_self_loops_always(
    fitted: tuple[Data, EdgeFit], before: bool
) -> None:
    data, fit = fitted
    graph = Graph.from_data(data)
    sampler = DropEdge(EdgeRate(fit), symmetric=False, before_normalization=before)
    sampler.observe(sampler.rate.describe(graph, data.x))
    mask = sampler.mask(graph, Draw(seed=0, step=0), layer=0)
    keep = sampler.rate.mean()
    assert bool((keep[graph.self_loop] > 1 - 2**-17).all())
    torch.testing.assert_close(mask.keep_logit.sigmoid(), keep)


def test_a_saved_network_has_its_rates_on_the_same_and_on_a_new_graph(
    fitted: tuple[Data, EdgeFit], tmp_path: Path
) -> None:
    data, fit = fitted
    own = network(fit)
    own(data.x, data.edge_index)  # what a call leaves behind is not needed
    save(own, tmp_path / "own.safetensors")
    read = load(tmp_path / "own.safetensors")
    for graph in (data, graph_of(25, seed=2)):
        one, other = (predict(model, graph, samples=3) for model in (own.eval(), read))
        torch.testing.assert_close(one.probabilities, other.probabilities)


def test_batches_have_the_masks_of_the_whole_graph(fitted: tuple[Data, EdgeFit]) -> None:
    data, fit = fitted
    own = network(fit).eval()
    draw = Draw(seed=0, step=1)
    whole = own(data.x, data.edge_index, draw=draw)
    for batch in NeighborLoader(data, [-1, -1], batch_size=7):
        (out,) = own.samples(batch, [draw])
        torch.testing.assert_close(out[: batch.batch_size], whole[batch.n_id[: batch.batch_size]])


@pytest.mark.parametrize("before", [True, False])
def test_an_attached_model_has_the_rates_of_our_own(
    fitted: tuple[Data, EdgeFit], before: bool
) -> None:
    data, fit = fitted
    sampler = GraphDropConnect(EdgeRate(fit), blocks=2, before_normalization=before)
    own, theirs = GCN(6, 8, 2, 3, sampler, seed=3), basic_gnn.GCN(6, 8, 2, 3)
    handle = attach(theirs, sampler, seed=3)
    for ours, masked in zip(own.layers, handle.layers.values(), strict=True):
        masked.layer.lin.weight.data = ours.weight.detach().T.clone()
    with pytest.raises(ValueError, match=r"call handle\.observe\(data\) first"):
        theirs(data.x, data.edge_index)
    data, new = data.clone(), graph_of(30, seed=1)
    for graph in (data, new):  # GCNConv makes one of several self-loops
        graph.edge_index, _ = remove_self_loops(graph.edge_index)
        for options in ({}, {"layerwise": True}):
            one, other = (predict(m, graph, 3, seed=1, **options) for m in (own, theirs))
            torch.testing.assert_close(one.probabilities, other.probabilities)
    handle.observe(data)
    draw = Draw(seed=0, step=1)
    with handle.drawing(draw):
        found = theirs(data.x, data.edge_index)
    torch.testing.assert_close(found, own(data.x, data.edge_index, draw=draw))
    for batch in NeighborLoader(data, [-1, -1], batch_size=7):
        (out,) = handle.samples(batch, [draw])
        torch.testing.assert_close(out, found[batch.n_id[: batch.batch_size]])


def test_rates_that_read_a_column_of_the_user_say_what_is_missing() -> None:
    rate = EdgeRate(EdgePrior(["trust"], features=0, classes=2))
    data = graph_of(10, seed=0)
    with pytest.raises(ValueError, match="columns lacks trust"):
        rate.describe(Graph.from_data(data), data.x)
    with pytest.raises(ValueError, match="edges are not set; EdgeRate"):
        rate.logit()


def test_nothing_is_learned() -> None:
    rate = EdgeRate(EdgePrior(["cosine"], features=3, classes=2))
    assert not list(rate.parameters())
    assert float(rate.kl()) == 0.0
