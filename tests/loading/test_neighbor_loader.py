"""What is sampled are edges of the graph, as many as asked for, uniformly, and reproducibly."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.graph import Graph
from graphdrop.graph.masks import stream_key, uniforms
from graphdrop.kernels.reference import materialize
from graphdrop.loading import NeighborLoader, node_numbers
from graphdrop.loading.node_numbers import NodeNumbers
from graphdrop.sampling.samplers import Draw, DropEdge

NODES = 300


def graph(edges: int = 4000, seed: int = 0) -> Data:
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(NODES, (2, edges), generator=generator)
    edge_index[1] = (edge_index[1] ** 2) // NODES  # some nodes have many more edges than others
    weight = torch.rand(edges, generator=generator)
    x = torch.randn(NODES, 3, generator=generator)
    y, mask = torch.arange(NODES) % 4, torch.arange(NODES) % 3 == 0
    return Data(x, edge_index, y=y, edge_weight=weight, train_mask=mask)


DATA = graph()
DEGREE = DATA.edge_index[1].bincount(minlength=NODES)


@pytest.mark.parametrize(
    ("sampler", "fan_out"),
    [
        *(("neighbor", fan_out) for fan_out in ([4, 3], [-1, 2], [70, 1])),
        *(("labor", fan_out) for fan_out in ([4, 3], [-1, 2])),
    ],
    ids=str,
)
def test_a_batch_is_a_piece_of_the_graph(sampler: str, fan_out: list[int]) -> None:
    loader = NeighborLoader(
        DATA, fan_out, DATA.train_mask, sampler=sampler, batch_size=32, shuffle=True
    )
    seen = []
    for batch in loader:
        assert torch.equal(DATA.edge_index[:, batch.e_id], batch.n_id[batch.edge_index])
        for name in ("x", "y", "train_mask"):
            assert torch.equal(batch[name], DATA[name][batch.n_id])
        assert torch.equal(batch.edge_weight, DATA.edge_weight[batch.e_id])
        assert len(batch.e_id.unique()) == batch.num_edges  # without replacement
        assert len(batch.n_id.unique()) == batch.num_nodes == sum(batch.num_sampled_nodes)
        assert sum(batch.num_sampled_edges) == batch.num_edges
        seeds = batch.n_id[: batch.batch_size]
        assert torch.equal(DATA.train_mask.nonzero().flatten()[batch.input_id], seeds)
        seen.append(seeds)
        loops = DATA.edge_index[0] == DATA.edge_index[1]
        count = batch.edge_index[1][~loops[batch.e_id]].bincount(minlength=batch.num_nodes)
        others = DATA.edge_index[1][~loops].bincount(minlength=NODES)[batch.n_id]
        expanded = sum(batch.num_sampled_nodes[:-1])
        assert int(count[expanded:].sum()) == 0
        if sampler == "neighbor":
            hop = torch.tensor(fan_out).repeat_interleave(
                torch.tensor(batch.num_sampled_nodes[:-1])
            )
            wanted = torch.where(hop < 0, others[:expanded], others[:expanded].minimum(hop))
            assert torch.equal(count[:expanded], wanted)
    assert torch.equal(torch.cat(seen).sort().values, DATA.train_mask.nonzero().flatten())


def test_samples_do_not_depend_on_the_number_of_threads() -> None:
    before, found = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            loader = NeighborLoader(DATA, [5, 4, 3], batch_size=64, shuffle=True, seed=3)
            found.append([torch.cat([batch.n_id, batch.e_id]) for batch in loader])
    finally:
        torch.set_num_threads(before)
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_parts_of_the_edges_are_numbered_as_one(
    parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_numbers.numba, "get_num_threads", lambda: parts)
    # the last batch finds no values left, and begins with the lowest again
    monkeypatch.setattr(node_numbers, "LARGEST", 1500)
    generator, numbers = np.random.default_rng(parts), NodeNumbers(700)
    for edges in (0, 1, 5, 4000, 4000):
        seeds = generator.permutation(700)[:10]
        numbers.begin(seeds)
        nodes = seeds
        for hop in range(2):
            found = generator.integers(0, 700, edges).astype(np.int32)
            columns, known = np.empty(edges, dtype=np.int32), nodes
            nodes = numbers.number(columns, found, known, last=hop == 1)
            np.testing.assert_array_equal(nodes, np.concatenate([known, _named(found, known)]))
            np.testing.assert_array_equal(nodes[columns], found)


def _named(found: NDArray[Any], known: NDArray[Any]) -> NDArray[Any]:
    """The nodes that are not known, in the order in which they come first."""
    return np.array([n for n in dict.fromkeys(found.tolist()) if n not in known], dtype=np.int64)


def test_an_epoch_can_be_repeated_and_the_next_one_is_another() -> None:
    loader, again = (NeighborLoader(DATA, [5], batch_size=64, shuffle=True) for _ in range(2))
    first, second = (torch.cat([batch.e_id for batch in loader]) for _ in range(2))
    again.epoch = 1
    assert torch.equal(torch.cat([batch.e_id for batch in again]), second)
    assert not torch.equal(first, second)
    assert torch.equal(loader.batch(1, 2).n_id, again.batch(1, 2).n_id)


def chosen(loader: NeighborLoader, steps: int, node: int) -> Tensor:
    """How often each edge into a node is taken, ``[steps, edges]``."""
    place = torch.full((loader.whole.num_edges,), -1)
    own = (loader.data.edge_index[1] == node).nonzero().flatten()
    place[own] = torch.arange(len(own))
    counts = torch.zeros(steps, len(own))
    seeds = torch.tensor([node]).numpy()
    for step in range(steps):
        edges = place[loader.around(seeds, step).e_id]
        counts[step] = edges.bincount(minlength=len(own)).float()
    return counts


def star(leaves: int) -> Data:
    return Data(
        torch.zeros(leaves + 1, 1),
        torch.stack([torch.arange(1, leaves + 1), torch.zeros(leaves, dtype=torch.long)]),
    )


@pytest.mark.parametrize(
    ("sampler", "replace", "fan_out"),
    [("neighbor", False, 3), ("neighbor", True, 3), ("labor", False, 3), ("neighbor", False, 70)],
    ids=["without", "with", "labor", "many"],
)
def test_every_edge_is_taken_equally_often(sampler: str, replace: bool, fan_out: int) -> None:
    leaves, steps = (12, 1500) if fan_out == 3 else (90, 500)
    loader = NeighborLoader(star(leaves), [fan_out], None, replace, sampler=sampler)
    counts = chosen(loader, steps, 0)
    share = fan_out / leaves
    deviation = (counts.mean(0) - share) / (share / steps) ** 0.5
    assert float(deviation.abs().max()) < 4.5
    if sampler == "neighbor":
        assert bool((counts.sum(1) == fan_out).all())
        # of two edges, one does not make the other likelier than it should be
        both = (counts[:, 0] * counts[:, 1]).mean()
        wanted = share**2 if replace else share * (fan_out - 1) / (leaves - 1)
        wanted = wanted * (fan_out - 1) / fan_out if replace else wanted
        assert float(both) == pytest.approx(wanted, abs=4.5 * (wanted / steps) ** 0.5)


def test_labor_takes_a_source_for_all_nodes_or_for_none() -> None:
    # 40 nodes with the same 10 sources: each hop draws once for every source
    sources = torch.arange(10).repeat(40)
    edge_index = torch.stack([sources, torch.arange(10, 50).repeat_interleave(10)])
    data = Data(torch.zeros(50, 1), edge_index)
    seeds = torch.arange(10, 50)
    shared = NeighborLoader(data, [4], seeds, sampler="labor", batch_size=40)
    apart = NeighborLoader(data, [4], seeds, batch_size=40)
    sizes = []
    for step in range(50):
        batch = shared.around(torch.arange(40).numpy(), step)
        per_node = batch.edge_index[1].bincount(minlength=40)[:40]
        assert bool((per_node == per_node[0]).all())
        sizes.append(int(per_node[0]))
        assert apart.around(torch.arange(40).numpy(), step).num_nodes >= batch.num_nodes
    assert sum(sizes) / 50 == pytest.approx(4, abs=1.0)


@pytest.mark.parametrize(
    ("sampler", "replace"), [("neighbor", False), ("neighbor", True), ("labor", False)]
)
def test_an_importance_weighted_sum_is_unbiased(sampler: str, replace: bool) -> None:
    node = int(DEGREE.argmax())
    loader = NeighborLoader(DATA, [6], None, replace, sampler=sampler, importance=True)
    graph = Graph.from_data(DATA)
    wanted = graph.rows(torch.tensor([node]))
    wanted = float(wanted.value @ DATA.x[wanted.src_ids.long(), 0][wanted.indices.long()])
    found = []
    for step in range(400):
        batch = loader.around(torch.tensor([node]).numpy(), step)
        (part,) = batch.graph.parts(graph.normalization, 1)
        found.append(float(part.value @ batch.x[part.indices.long(), 0]))
    spread = torch.tensor(found)
    assert float(spread.std()) > 0.01
    assert float(spread.mean()) == pytest.approx(wanted, abs=4.5 * float(spread.std()) / 400**0.5)


@pytest.mark.parametrize("sampler", ["neighbor", "labor"])
def test_samples_are_independent_of_the_masks(sampler: str) -> None:
    # the same seed and step: whether an edge is taken says nothing about its mask
    steps, leaves = 1000, 12
    loader = NeighborLoader(star(leaves), [6], sampler=sampler)
    taken = chosen(loader, steps, 0)
    graph = Graph.from_data(star(leaves), self_loops=False)
    edge = DropEdge(0.5, symmetric=False)
    kept = torch.stack(
        [materialize(graph, edge.mask(graph, Draw(0, step), 0), 1)[:, 0] for step in range(steps)]
    )
    rates = torch.stack([uniforms(stream_key(0, step), leaves) for step in range(steps)])
    for other in (kept, rates.float()):
        both = torch.corrcoef(torch.cat([taken, other], 1).T)[:leaves, leaves:]
        assert float(both.abs().max()) < 4.5 / steps**0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_neighbors": [0]}, "num_neighbors is"),
        ({"num_neighbors": []}, "num_neighbors is"),
        ({"num_neighbors": [2], "sampler": "fast"}, "sampler is 'fast'"),
        ({"num_neighbors": [2], "sampler": "labor", "replace": True}, "replace is True"),
        ({"num_neighbors": [2], "batch_size": 0}, "batch_size is 0"),
        ({"num_neighbors": [2], "input_nodes": torch.tensor([1, 1])}, "more than once"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_sampled_is_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NeighborLoader(DATA, **options)
