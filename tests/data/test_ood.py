"""Out-of-distribution variants hide what they should and leave their input alone."""

import pytest
import torch
from torch_geometric.data import Data

from graphdrop.data.ood import feature_noise, leave_class_out
from graphdrop.data.splits import Split, random_per_class


def citation_data(nodes: int = 400, features: int = 60) -> Data:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(nodes) % 4
    y[:10] = -1
    x = (torch.rand(nodes, features, generator=generator) < 0.1).float()
    edge_index = torch.randint(nodes, (2, 900), generator=generator)
    return Data(x=x, y=y, edge_index=edge_index)


@pytest.fixture
def data() -> Data:
    return citation_data()


@pytest.fixture
def split(data: Data) -> Split:
    return random_per_class(data.y, per_class=10, val=100, test=150, seed=1)


def unchanged(function, data: Data) -> bool:
    """Whether the tensors of the data, and their number, are the same after a call."""
    before = {key: value.clone() for key, value in data.to_dict().items()}
    function()
    after = data.to_dict()
    return before.keys() == after.keys() and all(
        torch.equal(before[key], after[key]) for key in before
    )


def test_the_left_out_class_is_only_in_the_test_set_and_flagged_there(data, split):
    result = leave_class_out(data, 1, split)
    held = data.y == 1
    assert not (result.data.train_mask & held).any()
    assert not (result.data.val_mask & held).any()
    assert torch.equal(result.data.test_mask, split.test)
    assert torch.equal(result.ood_mask, split.test & held)
    assert torch.equal(result.in_distribution_mask, split.test & ~held)
    assert result.ood_mask.any()
    assert result.in_distribution_mask.any()


def test_the_other_nodes_keep_their_place_in_the_split(data, split):
    result = leave_class_out(data, 1, split)
    others = data.y != 1
    for part in ("train", "val", "test"):
        old, new = getattr(split, part), getattr(result.split, part)
        assert torch.equal(old & others, new & others)
        assert torch.equal(new, result.data[f"{part}_mask"])
    assert (result.split.name, result.split.seed) == ("random-per-class without class 1", 1)


def test_the_remaining_labels_are_contiguous_and_name_their_old_class(data, split):
    result = leave_class_out(data, 1, split)
    assert result.classes.tolist() == [0, 2, 3]
    labelled = (data.y >= 0) & (data.y != 1)
    assert torch.equal(result.classes[result.data.y[labelled]], data.y[labelled])
    assert (result.data.y[~labelled] == -1).all()
    assert result.data.y.dtype == data.y.dtype


@pytest.mark.parametrize("held_out", [0, 3])
def test_the_first_and_last_class_can_be_left_out(data, split, held_out):
    result = leave_class_out(data, held_out, split)
    assert result.data.y.unique().tolist() == [-1, 0, 1, 2]


def test_leaving_a_class_out_keeps_graph_and_features_and_the_input(data, split):
    assert unchanged(lambda: leave_class_out(data, 1, split), data)
    result = leave_class_out(data, 1, split)
    assert torch.equal(result.data.edge_index, data.edge_index)
    assert torch.equal(result.data.x, data.x)


def test_masks_stored_in_the_data_serve_as_the_split(data, split):
    data.train_mask, data.val_mask, data.test_mask = split.train, split.val, split.test
    assert unchanged(lambda: leave_class_out(data, 2), data)
    stored, given = leave_class_out(data, 2), leave_class_out(data, 2, split)
    assert torch.equal(stored.ood_mask, given.ood_mask)
    assert torch.equal(stored.data.train_mask, given.data.train_mask)


@pytest.mark.parametrize("kind", ["bernoulli", "gaussian"])
def test_noise_replaces_exactly_the_flagged_test_nodes(data, split, kind):
    result = feature_noise(data, 0.3, kind, split=split)
    changed = (result.data.x != data.x).any(dim=1)
    assert torch.equal(changed, result.ood_mask)
    assert int(result.ood_mask.sum()) == 45
    assert not (result.ood_mask & ~split.test).any()
    assert torch.equal(result.data.y, data.y)
    assert result.data.x.dtype == data.x.dtype
    assert result.classes.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["bernoulli", "gaussian"])
def test_noise_leaves_the_input_alone(data, split, kind):
    assert unchanged(lambda: feature_noise(data, 0.3, kind, split=split), data)


def test_bernoulli_noise_has_the_density_and_value_of_the_features(split):
    data = citation_data(features=2000)
    data.x = data.x * 0.25
    noise = feature_noise(data, 1.0, "bernoulli", split=split)
    rows = noise.data.x[noise.ood_mask]
    assert set(rows.unique().tolist()) == {0.0, 0.25}
    density = float((data.x != 0).float().mean())
    assert (rows != 0).float().mean() == pytest.approx(density, rel=0.03)


def test_bernoulli_noise_says_nothing_about_the_original_row(split):
    data = citation_data(features=2000)
    noise = feature_noise(data, 1.0, "bernoulli", split=split)
    kept = (noise.data.x * data.x)[noise.ood_mask].sum() / data.x[noise.ood_mask].sum()
    assert kept == pytest.approx(0.1, abs=0.01)


def test_gaussian_noise_has_the_mean_and_deviation_of_the_features(split):
    data = citation_data(features=2000)
    data.x = 5 + 3 * data.x
    noise = feature_noise(data, 1.0, "gaussian", split=split)
    rows = noise.data.x[noise.ood_mask]
    assert rows.mean() == pytest.approx(float(data.x.mean()), rel=0.01)
    assert rows.std() == pytest.approx(float(data.x.std()), rel=0.01)


@pytest.mark.parametrize("kind", ["bernoulli", "gaussian"])
def test_noise_is_a_function_of_its_seed(data, split, kind):
    first, again, other = (feature_noise(data, 0.5, kind, seed, split) for seed in (3, 3, 4))
    assert torch.equal(first.data.x, again.data.x)
    assert torch.equal(first.ood_mask, again.ood_mask)
    assert not torch.equal(first.ood_mask, other.ood_mask)


def test_features_that_are_all_zero_stay_zero_under_matching_noise(data, split):
    data.x = torch.zeros_like(data.x)
    assert not feature_noise(data, 0.5, split=split).data.x.any()


@pytest.mark.parametrize("held_out", [4, -1])
def test_leaving_out_a_class_that_is_not_there_is_refused(data, split, held_out):
    with pytest.raises(ValueError, match=f"held_out is {held_out}: .*\\[0, 1, 2, 3\\]"):
        leave_class_out(data, held_out, split)


def test_a_left_out_class_without_test_nodes_is_refused(data, split):
    without = Split(split.train, split.val, split.test & (data.y != 2), "without")
    with pytest.raises(ValueError, match="held_out class 2 has no test node"):
        leave_class_out(data, 2, without)


def test_a_left_out_class_with_all_training_nodes_is_refused(data, split):
    only = Split(split.train & (data.y == 2), split.val, split.test, "only")
    with pytest.raises(ValueError, match="held_out class 2 has all training nodes"):
        leave_class_out(data, 2, only)


BROKEN = [
    (lambda d, s: (d, None), "split is None and data has no train_mask"),
    (lambda d, s: (Data(x=d.x), s), "data has no y"),
    (lambda d, s: (Data(y=d.y), s), "data has no x"),
    (lambda d, s: (Data(x=d.x, y=d.y.float()), s), "data.y has .* torch.float32"),
    (lambda d, s: (Data(x=d.x[:5], y=d.y[:5]), s), "split covers 400 nodes but data has 5"),
]


@pytest.mark.parametrize(  # both ask the same function for the split
    ("function", "break_it", "message"),
    [
        *((lambda d, s: leave_class_out(d, 1, s), *case) for case in BROKEN),
        *((lambda d, s: feature_noise(d, split=s), *case) for case in (BROKEN[0], BROKEN[2])),
    ],
)
def test_data_that_has_no_usable_split_is_refused(data, split, function, break_it, message):
    with pytest.raises(ValueError, match=message):
        function(*break_it(data, split))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fraction": 0.0}, "fraction is 0.0 of 150 test nodes"),
        ({"fraction": 1.5}, "fraction is 1.5"),
        ({"fraction": 0.001}, "fraction is 0.001"),
        ({"kind": "uniform"}, "kind is 'uniform': give 'bernoulli' or 'gaussian'"),
    ],
)
def test_noise_that_cannot_be_made_says_why(data, split, arguments, message):
    with pytest.raises(ValueError, match=message):
        feature_noise(data, split=split, **arguments)


def test_noise_asks_for_dense_floating_point_features(data, split):
    data.x = data.x.to_sparse()
    with pytest.raises(ValueError, match=r"data.x has .*sparse.*to_dense"):
        feature_noise(data, split=split)
    data.x = data.x.to_dense().long()
    with pytest.raises(ValueError, match=r"data.x has .*int64.*float"):
        feature_noise(data, split=split)
