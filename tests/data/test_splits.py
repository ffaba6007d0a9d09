"""Splits are disjoint, exact in size, and a function of the labels and the seed alone."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphdrop.data.splits import (
    PPNP_SEEDS,
    Split,
    ppnp_split,
    random_fractions,
    random_per_class,
    split_by_time,
)


def labels_of(*counts: int, unlabelled: int = 0) -> torch.Tensor:
    """Labels with the given number of nodes per class, in a mixed but fixed order."""
    labels = torch.cat(
        [torch.full((count,), c) for c, count in enumerate(counts)]
        + [torch.full((unlabelled,), -1)]
    )
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(7))]


def mask(*bits: int) -> torch.Tensor:
    return torch.tensor(bits, dtype=torch.bool)


def same(first: Split, second: Split) -> bool:
    return all(
        torch.equal(getattr(first, part), getattr(second, part))
        for part in ("train", "val", "test")
    )


def test_per_class_takes_the_same_number_of_each_class_and_the_asked_sizes():
    labels = labels_of(300, 200, 100)
    split = random_per_class(labels, per_class=20, val=100, test=250, seed=3)
    assert torch.bincount(labels[split.train]).tolist() == [20, 20, 20]
    assert split.sizes == (60, 100, 250)
    assert split.sizes.val == 100
    assert (split.name, split.seed, split.num_nodes) == ("random-per-class", 3, 600)


def test_fractions_hold_within_each_class_to_within_one_node():
    counts = (300, 41, 7)
    labels = labels_of(*counts)
    split = random_fractions(labels, train=0.6, val=0.2, test=0.2)
    for part, fraction in (("train", 0.6), ("val", 0.2), ("test", 0.2)):
        per_class = torch.bincount(labels[getattr(split, part)], minlength=3)
        for got, count in zip(per_class.tolist(), counts, strict=True):
            assert abs(got - fraction * count) < 1
    assert sum(split.sizes) == len(labels)


def test_every_part_has_a_node_of_each_class_that_has_three():
    labels = labels_of(40, 3, 4, 5, 2, 2, 1)
    split = random_fractions(labels)
    counts = [torch.bincount(labels[mask], minlength=7) for mask in (split.train, split.val)]
    counts.append(torch.bincount(labels[split.test], minlength=7))
    assert torch.stack(counts)[:, :4].min() == 1
    assert torch.stack(counts)[:, 4:].tolist() == [[1, 1, 1], [1, 0, 0], [0, 1, 0]]


@given(st.lists(st.integers(0, 8), min_size=3, max_size=40).filter(lambda t: len(set(t)) > 2))
def test_a_split_by_time_keeps_ties_together_and_parts_in_order(times):
    split = split_by_time(np.array(times, dtype=float), torch.ones(len(times), dtype=torch.bool))
    parts = [np.array(times)[mask.numpy()] for mask in (split.train, split.val, split.test)]
    assert parts[0].max() < parts[1].min()
    assert parts[1].max() < parts[2].min()
    assert sum(split.sizes) == len(times)


@pytest.mark.parametrize("draw", [random_per_class, random_fractions])
def test_the_split_is_a_function_of_labels_and_seed_alone(draw):
    labels = labels_of(800, 900, 1000)
    first = draw(labels, seed=5)
    np.random.seed(1)
    torch.manual_seed(1)
    assert same(first, draw(labels.clone().int(), seed=5))
    assert not same(first, draw(labels, seed=6))


def test_the_split_of_a_seed_is_the_same_on_every_machine():
    split = random_per_class(torch.arange(30) % 3, per_class=2, val=4, test=4, seed=0)
    assert split.train.nonzero().flatten().tolist() == [7, 10, 11, 15, 18, 23]
    assert split.test.nonzero().flatten().tolist() == [0, 2, 17, 21]


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ((mask(1, 0, 0), mask(1, 0, 0), mask(0, 0, 1)), "train and val share 1 nodes.*node 0"),
        ((mask(1, 0, 0), mask(0, 1, 1), mask(0, 0, 1)), "val and test share 1 nodes.*node 2"),
        ((mask(0, 0), mask(1, 0), mask(0, 1)), "train is empty"),
        ((mask(1, 0), mask(0, 1, 0), mask(0, 0)), "val has 3 entries but train has 2"),
        ((mask(1, 0), mask(0, 1), torch.tensor([0, 1])), "test has .* torch.int64.*boolean mask"),
        ((torch.ones(2, 2, dtype=torch.bool), mask(0), mask(0)), r"train has shape \(2, 2\)"),
    ],
)
def test_masks_that_are_not_a_split_are_refused(masks, message):
    with pytest.raises(ValueError, match=message):
        Split(*masks, name="test")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": labels_of(30, 19)}, "class 1 has 19 usable nodes but per_class is 20"),
        ({"labels": torch.tensor([1, 2] * 30)}, "classes count from 0: give labels - 1"),
        ({"labels": labels_of(30, 30)}, "val=500 and test=1000 ask for 1500 nodes but 20 usable"),
        ({"labels": torch.full((5,), -1)}, "labels has no labelled node"),
        ({"labels": torch.tensor([0, -2])}, "labels contains -2"),
        ({"labels": torch.zeros(3)}, "labels has shape .* torch.float32"),
        ({"labels": labels_of(9), "per_class": 0}, "per_class is 0"),
        ({"labels": labels_of(9), "val": -1}, "val is -1"),
        ({"labels": labels_of(9), "seed": -1}, "seed is -1"),
    ],
)
def test_a_per_class_split_that_cannot_be_drawn_says_why(arguments, message):
    with pytest.raises(ValueError, match=message):
        random_per_class(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"train": 0.7, "val": 0.3, "test": 0.1}, "sum to 1.1"),
        ({"train": 0.0}, "train is 0"),
        ({"val": -0.1}, "val is -0.1"),
        ({"test": float("nan")}, "test is nan"),
        ({"train": 0.1}, "class 1 has 3 usable nodes, too few for a training node"),
    ],
)
def test_fractions_that_cannot_be_drawn_say_why(arguments, message):
    with pytest.raises(ValueError, match=message):
        random_fractions(labels_of(50, 3), **arguments)


# The splits of PPNP

COMPONENT, OUTSIDE, CLASSES = 1700, 30, 5
LABELS = torch.arange(COMPONENT + OUTSIDE) % CLASSES
# A ring that leaves out every 50th node of the first ones, which is joined to its like instead.
AWAY = torch.arange(COMPONENT + OUTSIDE)[::50][:OUTSIDE]
RING = torch.tensor([node for node in range(COMPONENT + OUTSIDE) if node not in set(AWAY.tolist())])
EDGES = torch.cat([torch.stack([RING, RING.roll(1)]), torch.stack([AWAY, AWAY.roll(1)])], dim=1)


def test_parts_have_the_published_sizes_and_all_splits_the_same_test_nodes():
    splits = [ppnp_split(LABELS, EDGES, number) for number in (0, 1, 19)]
    for split in splits:
        assert split.sizes == (20 * CLASSES, 500, COMPONENT - 1500)
        assert torch.bincount(LABELS[split.train]).tolist() == [20] * CLASSES
        assert not (split.train | split.val | split.test)[AWAY].any()
        assert torch.equal(split.test, splits[0].test)
    assert not torch.equal(splits[0].train, splits[1].train)
    assert len(set(PPNP_SEEDS)) == 20


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
