"""Clusters have few edges between them, and a batch has all edges among its nodes."""

import pytest
import torch
from torch_geometric.data import Data

from graphdrop.graph import Graph
from graphdrop.loading import ClusterLoader, WholeGraph
from graphdrop.loading.clusters import cluster_nodes


def communities(count: int = 6, size: int = 30) -> Data:
    generator = torch.Generator().manual_seed(0)
    nodes = count * size
    inside = torch.randint(size, (2, 8 * nodes), generator=generator)
    inside = inside + size * torch.randint(count, (1, 8 * nodes), generator=generator)
    between = torch.randint(nodes, (2, nodes // 2), generator=generator)
    edges = torch.cat([inside, between], 1)
    shuffle = torch.randperm(nodes, generator=generator)
    return Data(torch.randn(nodes, 2, generator=generator), shuffle[edges])


DATA = communities()


@pytest.mark.parametrize("method", ["metis", "label-propagation"])
def test_clusters_are_even_and_cut_few_edges(method: str) -> None:
    cluster = torch.from_numpy(cluster_nodes(WholeGraph.from_data(DATA), 6, method))
    sizes = cluster.bincount(minlength=6)
    assert int(sizes.max()) <= 1.2 * DATA.num_nodes / 6
    source, destination = cluster[DATA.edge_index]
    cut = float((source != destination).double().mean())
    assert cut < (0.1 if method == "metis" else 0.6)  # at random it would be 5 of 6


@pytest.mark.parametrize("shuffle", [False, True])
def test_the_batches_of_an_epoch_have_every_node_once(shuffle: bool) -> None:
    loader = ClusterLoader(DATA, 6, batch_size=4, shuffle=shuffle)
    batches = list(loader)
    assert len(batches) == len(loader) == 2
    assert torch.equal(
        torch.cat([batch.n_id for batch in batches]).sort().values, torch.arange(DATA.num_nodes)
    )
    for batch in batches:
        assert torch.equal(DATA.edge_index[:, batch.e_id], batch.n_id[batch.edge_index])
        inside = torch.isin(DATA.edge_index, batch.n_id).all(0)
        assert torch.equal(batch.e_id.sort().values, inside.nonzero().flatten())


def test_importance_makes_the_sum_over_random_clusters_unbiased() -> None:
    loader = ClusterLoader(DATA, 6, batch_size=3, shuffle=True, importance=True)
    graph = Graph.from_data(DATA)
    wanted = torch.zeros(DATA.num_nodes).index_add_(
        0, graph.edge_dst.long(), graph.value * DATA.x[graph.indices.long(), 0]
    )
    total, epochs = torch.zeros(DATA.num_nodes), 300
    square = torch.zeros(DATA.num_nodes)
    for _ in range(epochs):
        for batch in loader:
            (part,) = batch.graph.parts(graph.normalization, 1)
            found = torch.zeros(batch.num_nodes).index_add_(
                0, part.edge_dst.long(), part.value * batch.x[part.indices.long(), 0]
            )
            total[batch.n_id] += found
            square[batch.n_id] += found.square()
    mean = total / epochs
    error = ((square / epochs - mean.square()).clamp_min(1e-12) / epochs).sqrt()
    assert float(((mean - wanted) / (error + 1e-6)).abs().max()) < 5.0


def test_importance_needs_clusters_that_meet() -> None:
    with pytest.raises(ValueError, match="importance is True"):
        ClusterLoader(DATA, 6, importance=True, shuffle=True)
