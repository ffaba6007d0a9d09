"""The fingerprint of a graph changes with anything that a run reads of it."""

import copy

import pytest
import torch

import graphdrop
from graphdrop.train.records import versions
from graphdrop.train.run_dataset import fingerprint


def test_a_copy_has_the_same_fingerprint(tiny):
    assert fingerprint(copy.deepcopy(tiny.data)) == fingerprint(tiny.data)


@pytest.mark.parametrize("name", ["x", "edge_index", "y", "train_mask", "val_mask", "test_mask"])
def test_any_changed_number_changes_the_fingerprint(tiny, name):
    data = copy.deepcopy(tiny.data)
    flat = data[name].view(-1)
    flat[5] = ~flat[5] if flat.dtype is torch.bool else flat[5] + 1
    assert fingerprint(data) != fingerprint(tiny.data)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning")
def test_sparse_features_count_by_place_and_by_value(tiny):
    prints = set()
    for change in (None, "value", "place"):
        data = copy.copy(tiny.data)
        x = torch.zeros(80, 30)
        x[3, 4 if change != "place" else 5] = 2.0 if change == "value" else 1.0
        data.x = x.to_sparse_csr()
        prints.add(fingerprint(data))
    assert len(prints) == 3


def test_versions_name_what_the_numbers_depend_on():
    assert versions()["graphdrop"] == graphdrop.__version__
    assert versions()["torch"] == torch.__version__
    assert {"python", "numpy", "numba"} <= versions().keys()
