"""The flagged test nodes, and no others, have noise or shifted columns as features."""

import pytest
import torch
from torch_geometric.data import Data

from experiments.perturbed_features import feature_noise, shifted_columns
from graphdrop.data.splits import Split, random_per_class


@pytest.fixture
def data() -> Data:
    generator = torch.Generator().manual_seed(0)
    x = 0.25 * (torch.rand(400, 2000, generator=generator) < 0.1).float()
    return Data(x=x, y=torch.arange(400) % 4, edge_index=torch.zeros(2, 0, dtype=torch.long))


@pytest.fixture
def split(data: Data) -> Split:
    return random_per_class(data.y, per_class=10, val=100, test=150, seed=1)


@pytest.mark.parametrize("kind", ["bernoulli", "gaussian"])
def test_noise_replaces_exactly_the_flagged_test_nodes(data, split, kind):
    before = data.x.clone()
    first, again, other = (feature_noise(data, 0.3, kind, seed, split) for seed in (3, 3, 4))
    assert torch.equal((first.data.x != data.x).any(dim=1), first.ood_mask)
    assert int(first.ood_mask.sum()) == 45
    assert not (first.ood_mask & ~split.test).any()
    assert torch.equal(first.data.x, again.data.x)
    assert not torch.equal(first.ood_mask, other.ood_mask)
    assert torch.equal(data.x, before)


def test_bernoulli_noise_has_the_density_of_the_features_and_says_nothing_else(data, split):
    noise = feature_noise(data, 1.0, "bernoulli", split=split)
    rows, own = noise.data.x[noise.ood_mask], data.x[noise.ood_mask]
    assert set(rows.unique().tolist()) == {0.0, 0.25}
    density = float((data.x != 0).float().mean())
    assert (rows != 0).float().mean() == pytest.approx(density, rel=0.03)
    assert ((rows != 0) & (own != 0)).sum() / (own != 0).sum() == pytest.approx(0.1, abs=0.01)


def test_gaussian_noise_has_the_mean_and_deviation_of_the_features(data, split):
    data.x = 5 + 3 * data.x
    noise = feature_noise(data, 1.0, "gaussian", split=split)
    rows = noise.data.x[noise.ood_mask]
    assert rows.mean() == pytest.approx(float(data.x.mean()), rel=0.01)
    assert rows.std() == pytest.approx(float(data.x.std()), rel=0.01)


def test_shifted_columns_keep_the_values_of_a_row(data, split):
    shifted = shifted_columns(data, 0.2, split=split)
    assert torch.equal(
        shifted.data.x[:, :1000][shifted.ood_mask], data.x[:, 1000:][shifted.ood_mask]
    )
    assert int(shifted.ood_mask.sum()) == 30


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fraction": 0.0}, "fraction is 0.0 of 150 test nodes"),
        ({"fraction": 1.5}, "fraction is 1.5"),
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
