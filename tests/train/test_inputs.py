"""Features are read as stored or with rows that sum to 1, dense or sparse."""

import pytest
import torch

from graphdrop.config import DataSettings
from graphdrop.data.features import row_normalized
from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.train.inputs import check_name, load_for

X = torch.tensor([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 1.0], [0.0, 0.5, 0.0]])
EXPECTED = torch.tensor([[0.25, 0.75, 0.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning")
def test_rows_are_divided_by_their_sum():
    assert torch.equal(row_normalized(X), EXPECTED)
    sparse = row_normalized(X.to_sparse_csr())
    assert sparse.layout is torch.sparse_csr
    assert torch.equal(sparse.to_dense(), EXPECTED)
    assert torch.equal(row_normalized(X.to_sparse_coo()).to_dense(), EXPECTED)


def test_the_dataset_itself_is_not_changed(tiny):
    before = tiny.data.x.clone()
    assert PredictionDefaults(features="stored").inputs(tiny.data) is tiny.data
    by_row = PredictionDefaults(features="row")
    changed = by_row.inputs(tiny.data)
    torch.testing.assert_close(changed.x.sum(1), (before.sum(1) > 0).float())
    assert torch.equal(tiny.data.x, before)
    assert by_row.inputs(tiny.data).x is changed.x  # made once


def test_the_dataset_is_the_one_that_is_named():
    dataset = load_for(DataSettings(dataset="synthetic", split="random-fractions", split_seed=3))
    assert dataset.name == "synthetic"
    assert (dataset.split.name, dataset.split.seed) == ("random-fractions", 3)


@pytest.mark.parametrize("name", ["data", "some/where/data.npz"])
def test_a_graph_goes_with_settings_that_call_it_by_its_name(tiny, name):
    check_name(tiny, DataSettings(dataset=name))


def test_a_graph_is_refused_by_the_settings_of_another(tiny):
    with pytest.raises(ValueError, match=r"dataset is 'data' and data\.dataset 'cora'"):
        check_name(tiny, DataSettings(dataset="cora"))
