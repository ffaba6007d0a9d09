"""Rows are cut into segments that cover every edge once, whatever the degrees."""

import pytest
import torch

from contracts.masked_sums import power_law_edges
from graphdrop.graph import Graph
from graphdrop.kernels.gpu import structure
from graphdrop.kernels.gpu.structure import num_slots, segments_of

STAR = torch.stack([torch.arange(1, 101), torch.zeros(100, dtype=torch.int64)])
GRAPHS = {
    "star": STAR,
    "outward": STAR.flip(0),
    "power law": power_law_edges(60, 500),
    "exact spans": torch.stack([torch.arange(32), torch.arange(32) // 16]),
    "edgeless": torch.empty(2, 0, dtype=torch.int64),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_every_edge_is_in_one_segment_of_its_row(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structure, "SPAN", 8)
    graph = Graph.from_edge_index(GRAPHS[name], 101, normalization="none")
    found = segments_of(graph.indptr, graph.num_edges)
    rows, slots = [[] for _ in range(101)], [[] for _ in range(101)]
    for row, begin, end, slot in zip(*(one.tolist() for one in found[:4]), strict=True):
        if row < 101:
            assert end - begin <= 8
            rows[row] += range(begin, end)
            slots[row].append(slot)
    edges = [list(range(*graph.indptr[row : row + 2].tolist())) for row in range(101)]
    assert rows == edges
    long = {
        row: (first, last)
        for row, first, last in zip(*(one.tolist() for one in found[4:]), strict=True)
        if row < 101
    }
    assert set(long) == {row for row in range(101) if len(edges[row]) > 8}
    taken = [slot for row in long for slot in slots[row]]
    assert all(slots[row] == list(range(*long[row])) for row in long)
    assert all(slots[row] == [-1] for row in range(101) if row not in long)
    assert len(set(taken)) == len(taken) <= num_slots(graph.num_edges)


def test_sizes_follow_from_the_numbers_of_rows_and_edges_alone() -> None:
    graph = Graph.from_edge_index(power_law_edges(60, 2000), 60).to("meta")
    found = segments_of(graph.indptr, graph.num_edges)
    assert all(one.is_meta for one in found)
    assert len(found.row) == 60 + graph.num_edges // structure.SPAN
