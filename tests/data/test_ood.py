"""A class that is left out is hidden from training, and the data itself stays as it is."""

import pytest
import torch
from torch_geometric.data import Data

from graphdrop.data.ood import leave_class_out
from graphdrop.data.splits import Split, random_per_class


@pytest.fixture
def data() -> Data:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(400) % 4
    y[:10] = -1
    x = (torch.rand(400, 60, generator=generator) < 0.1).float()
    return Data(x=x, y=y, edge_index=torch.randint(400, (2, 900), generator=generator))


@pytest.fixture
def split(data: Data) -> Split:
    return random_per_class(data.y, per_class=10, val=100, test=150, seed=1)


def test_the_left_out_class_is_only_in_the_test_set_and_flagged_there(data, split):
    result = leave_class_out(data, 1, split)
    held = data.y == 1
    assert torch.equal(result.data.train_mask, split.train & ~held)
    assert torch.equal(result.data.val_mask, split.val & ~held)
    assert torch.equal(result.data.test_mask, split.test)
    assert torch.equal(result.ood_mask, split.test & held)
    assert torch.equal(result.in_distribution_mask, split.test & ~held)
    assert (result.split.name, result.split.seed) == ("random-per-class without class 1", 1)


@pytest.mark.parametrize(("held_out", "others"), [(0, [1, 2, 3]), (1, [0, 2, 3]), (3, [0, 1, 2])])
def test_the_remaining_labels_are_contiguous_and_name_their_old_class(
    data, split, held_out, others
):
    result = leave_class_out(data, held_out, split)
    assert result.classes.tolist() == others
    labelled = (data.y >= 0) & (data.y != held_out)
    assert torch.equal(result.classes[result.data.y[labelled]], data.y[labelled])
    assert (result.data.y[~labelled] == -1).all()


def test_the_given_data_is_not_changed_and_its_masks_serve_as_the_split(data, split):
    data.train_mask, data.val_mask, data.test_mask = split.train, split.val, split.test
    before = {key: value.clone() for key, value in data.to_dict().items()}
    stored = leave_class_out(data, 2)
    assert all(torch.equal(data[key], value) for key, value in before.items())
    assert torch.equal(stored.data.x, data.x)
    assert torch.equal(stored.data.train_mask, leave_class_out(data, 2, split).data.train_mask)


@pytest.mark.parametrize(
    ("held_out", "split_of", "message"),
    [
        (4, lambda d, s: s, r"held_out is 4: .*\[0, 1, 2, 3\]"),
        (-1, lambda d, s: s, "held_out is -1"),
        (2, lambda d, s: Split(s.train, s.val, s.test & (d.y != 2), ""), "2 has no test node"),
        (2, lambda d, s: Split(s.train & (d.y == 2), s.val, s.test, ""), "has all training nodes"),
        (2, lambda d, s: None, "split is None and data has no train_mask"),
    ],
)
def test_a_class_that_cannot_be_left_out_says_why(data, split, held_out, split_of, message):
    with pytest.raises(ValueError, match=message):
        leave_class_out(data, held_out, split_of(data, split))


def test_labels_that_are_no_classes_are_refused(data, split):
    with pytest.raises(ValueError, match=r"data\.y has .* torch\.float32"):
        leave_class_out(Data(x=data.x, y=data.y.float()), 1, split)
    with pytest.raises(ValueError, match="split covers 400 nodes but data has 5"):
        leave_class_out(Data(x=data.x[:5], y=data.y[:5]), 1, split)
