"""Nodes are placed by forces, the same way every time, and neighbours come to lie together."""

import numpy as np
import pytest

from graphdrop.report.layout import _repulsion, layout


def two_cliques(size: int) -> np.ndarray:
    """Two cliques of this size with one edge between them."""
    inside = np.array([(u, v) for u in range(size) for v in range(u)])
    return np.concatenate([inside, inside + size, [[0, size]]]).T


def test_the_same_graph_is_drawn_the_same_way():
    edges = two_cliques(12)
    assert np.array_equal(layout(edges, 24), layout(edges, 24))


def test_what_is_connected_lies_together():
    place = layout(two_cliques(12), 24)
    centres = place[:12].mean(0), place[12:].mean(0)
    apart = np.linalg.norm(centres[0] - centres[1])
    within = max(place[:12].std(0).max(), place[12:].std(0).max())
    assert apart > 3 * within


@pytest.mark.parametrize("nodes", [0, 1, 2, 7])
def test_a_graph_without_edges_fits_the_square(nodes):
    place = layout(np.zeros((2, 0), np.int64), nodes)
    assert place.shape == (nodes, 2)
    assert np.isfinite(place).all()
    assert (np.abs(place) <= 1.0).all()
    assert len(np.unique(place, axis=0)) == nodes


def test_the_push_is_the_sum_over_all_other_nodes():
    # On a sparse lattice, where no two nodes are so near that the grid blurs them.
    rng = np.random.default_rng(0)
    lattice = np.stack(np.meshgrid(np.arange(8.0), np.arange(8.0)), -1).reshape(-1, 2)
    place = (lattice + rng.uniform(-0.2, 0.2, lattice.shape)).astype(np.float32)
    mass = rng.uniform(0.5, 2.0, 64).astype(np.float32)
    away = place[:, None] - place[None]
    square = (away**2).sum(-1) + np.eye(64)
    direct = (mass[None, :, None] * away / square[..., None]).sum(1)
    error = np.abs(_repulsion(place, mass, 128) - direct)
    assert error.max() < 0.02 * np.abs(direct).max()
