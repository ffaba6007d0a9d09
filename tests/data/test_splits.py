"""Splits are disjoint, exact in size, and a function of the labels and the seed alone."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphdrop.data.splits import (
    Split,
    fixed,
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


def test_fractions_below_one_leave_the_rest_in_no_mask():
    split = random_fractions(labels_of(100, 100), train=0.1, val=0.1, test=0.2)
    assert split.sizes == (20, 20, 40)


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


@pytest.mark.parametrize("draw", [random_per_class, random_fractions])
def test_drawing_leaves_the_global_generators_alone(draw):
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    draw(labels_of(900, 900))
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    "draw",
    [lambda y, **k: random_per_class(y, 2, 10, 10, **k), random_fractions],
    ids=["per_class", "fractions"],
)
@given(seed=st.integers(0, 2**32), excluded=st.integers(0, 30))
def test_unlabelled_and_excluded_nodes_are_in_no_mask(draw, seed, excluded):
    labels = labels_of(40, 40, unlabelled=30)
    exclude = torch.zeros(len(labels), dtype=torch.bool)
    exclude[:excluded] = True
    split = draw(labels, seed=seed, exclude=exclude)
    used = split.train | split.val | split.test
    assert not (used & (exclude | (labels < 0))).any()


def test_every_node_of_a_class_is_equally_likely_to_train():
    labels = torch.arange(20) % 2
    trials = 2000
    counts = sum(
        random_per_class(labels, 2, 4, 4, seed=seed).train.double() for seed in range(trials)
    )
    # Each count is Binomial(2000, 0.2); five standard deviations are 90.
    assert (counts - trials * 0.2).abs().max() < 90


def test_validation_nodes_are_drawn_in_proportion_to_what_remains():
    labels = labels_of(1020, 3020)
    drawn = sum(int((labels[random_per_class(labels, seed=s).val] == 0).sum()) for s in range(40))
    assert drawn / (40 * 500) == pytest.approx(0.25, abs=0.02)


def test_fixed_is_index_exact():
    split = fixed([0, 2], torch.tensor([1]), range(3, 5), num_nodes=6)
    assert torch.equal(split.train, mask(1, 0, 1, 0, 0, 0))
    assert torch.equal(split.val, mask(0, 1, 0, 0, 0, 0))
    assert torch.equal(split.test, mask(0, 0, 0, 1, 1, 0))
    assert (split.name, split.seed) == ("public", None)


def test_fixed_takes_empty_validation_and_test_lists():
    assert fixed([1], [], [], num_nodes=2).sizes == (1, 0, 0)


def test_a_split_cannot_be_changed():
    split = fixed([0], [1], [2], num_nodes=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        split.train = split.val


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
        ({"labels": torch.tensor([0, 2] * 30)}, "class 1 has 0 usable nodes"),
        ({"labels": torch.tensor([1, 2] * 30)}, "classes count from 0: give labels - 1"),
        ({"labels": labels_of(30, 30)}, "val=500 and test=1000 ask for 1500 nodes but 20 usable"),
        ({"labels": torch.full((5,), -1)}, "labels has no labelled node"),
        ({"labels": torch.tensor([0, -2])}, "labels contains -2"),
        ({"labels": torch.zeros(3)}, "labels has shape .* torch.float32"),
        ({"labels": torch.zeros(3, 2).long()}, r"labels has shape \(3, 2\)"),
        ({"labels": labels_of(9), "per_class": 0}, "per_class is 0"),
        ({"labels": labels_of(9), "val": -1}, "val is -1"),
        ({"labels": labels_of(9), "seed": -1}, "seed is -1"),
        ({"labels": labels_of(9), "exclude": mask(1, 0)}, "exclude has 2 entries but labels has 9"),
        ({"labels": labels_of(9), "exclude": torch.tensor([3])}, "exclude has .*boolean mask"),
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


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (([0, 9], [1], [2]), "train_idx contains node 9, outside 0..4"),
        (([0], [-1], [2]), "val_idx contains node -1"),
        (([0], [1], [2, 2]), "test_idx lists 2 nodes but only 1 different"),
        (([0.5], [1], [2]), "train_idx has .* torch.float32"),
        ((mask(1, 0, 0, 0, 0), [1], [2]), "train_idx has .* torch.bool"),
        (([0], [0], [2]), "train and val share 1 nodes"),
    ],
)
def test_index_lists_that_are_not_a_split_are_refused(lists, message):
    with pytest.raises(ValueError, match=message):
        fixed(*lists, num_nodes=5)
