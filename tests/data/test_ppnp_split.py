"""PPNP's splits: the published sizes, one set of test nodes, and nothing outside the component."""

import numpy as np
import pytest
import torch

from graphdrop.data.ppnp_split import SEEDS, largest_component, ppnp_split

COMPONENT, OUTSIDE, CLASSES = 1700, 30, 5
LABELS = torch.arange(COMPONENT + OUTSIDE) % CLASSES
# A ring that leaves out every 50th node of the first ones, which is joined to its like instead.
AWAY = torch.arange(COMPONENT + OUTSIDE)[::50][:OUTSIDE]
RING = torch.tensor([node for node in range(COMPONENT + OUTSIDE) if node not in set(AWAY.tolist())])
EDGES = torch.cat([torch.stack([RING, RING.roll(1)]), torch.stack([AWAY, AWAY.roll(1)])], dim=1)


def test_parts_have_the_published_sizes_and_all_splits_the_same_test_nodes():
    assert largest_component(EDGES, len(LABELS)).tolist() == RING.tolist()
    splits = [ppnp_split(LABELS, EDGES, number) for number in (0, 1, 19)]
    for split in splits:
        assert split.sizes == (20 * CLASSES, 500, COMPONENT - 1500)
        assert torch.bincount(LABELS[split.train]).tolist() == [20] * CLASSES
        assert not (split.train | split.val | split.test)[AWAY].any()
        assert torch.equal(split.test, splits[0].test)
    assert not torch.equal(splits[0].train, splits[1].train)
    assert len(set(SEEDS)) == 20


def test_draws_are_those_of_the_published_generator():
    order = np.random.RandomState(4143496719).permutation(COMPONENT)
    split = ppnp_split(LABELS, EDGES, 3)
    assert set(split.test.nonzero().flatten().tolist()) == set(RING[order[1500:]].tolist())
    development, draw = RING[order[:1500]], np.random.RandomState(2282690970)
    first = development[LABELS[development] == 0]
    chosen = first[draw.permutation(len(first))[:20]]
    assert set(chosen.tolist()) == set((split.train & (LABELS == 0)).nonzero().flatten().tolist())


def test_a_graph_that_is_too_small_and_a_number_beyond_the_last_are_refused():
    with pytest.raises(ValueError, match=r"seed is 20; split='ppnp' takes 0 to 19"):
        ppnp_split(LABELS, EDGES, 20)
    few = EDGES[:, EDGES.amax(0) < 1500]
    with pytest.raises(ValueError, match=r"the largest component has \d+ nodes; split='ppnp'"):
        ppnp_split(LABELS[:1500], few)
    rare = LABELS.clone()
    rare[RING[:9]] = CLASSES
    with pytest.raises(ValueError, match=r"a class has \d development nodes"):
        ppnp_split(rare, EDGES)
