"""What was worked out for a tensor is remembered as long as it lives and does not change."""

import gc
import weakref

import pytest
import torch
from torch import Tensor

from contracts.dense_layers import TOWN
from contracts.masked_sums import normal
from graphdrop.nn import GCN
from graphdrop.nn.cache import TensorCache
from graphdrop.nn.features import SparseFeatures
from graphdrop.nn.inputs import Inputs


class Counter:
    """A result that is new every time it is made."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> int:
        self.made += 1
        return self.made


def test_a_result_is_made_once_for_each_owner_and_name() -> None:
    cache, make, one, two = TensorCache(), Counter(), torch.zeros(1), torch.zeros(1)
    assert [cache.get(make, one), cache.get(make, one)] == [1, 1]
    assert cache.get(make, two) == 2
    assert cache.get(make, one, None) == 1
    assert cache.get(make, one, two) == 3
    assert cache.get(make, one, extra="rows") == 4
    assert cache.get(make, one) == 1


def test_a_tensor_that_was_changed_in_place_is_another() -> None:
    cache, make, tensor = TensorCache(), Counter(), torch.zeros(2, 2)
    assert cache.get(make, tensor) == 1
    tensor[0].add_(1.0)  # through a view
    assert cache.get(make, tensor) == 2
    assert cache.get(make, tensor) == 2


def test_the_id_of_a_tensor_that_is_gone_names_nothing() -> None:
    cache, make, seen = TensorCache(), Counter(), set()
    for number in range(50):
        tensor = torch.full((1,), float(number))
        seen.add(id(tensor))
        assert cache.get(make, tensor) == number + 1
        del tensor
    assert len(seen) < 50  # ids were indeed used again


def test_what_belongs_to_tensors_that_are_gone_is_forgotten() -> None:
    cache, tensor = TensorCache(), torch.zeros(1)
    result = weakref.ref(cache.get(lambda: torch.ones(1), tensor))
    gc.collect()
    assert result() is not None
    del tensor
    cache.get(Counter(), torch.zeros(1))
    gc.collect()
    assert result() is None


def test_inference_tensors_are_never_remembered_since_their_changes_cannot_be_seen() -> None:
    cache, make = TensorCache(), Counter()
    with torch.inference_mode():
        tensor = torch.zeros(1)
        assert [cache.get(make, tensor), cache.get(make, tensor)] == [1, 2]
        made = cache.get(lambda: torch.zeros(1), torch.zeros(1))
    assert not made.is_inference()  # a training step may use it


X, ROWS = normal(TOWN.num_nodes, 5), torch.tensor([1, 4])


def fresh(model: GCN, *arguments: Tensor, rows: Tensor | None = None) -> Tensor:
    """The same model's output when it remembers nothing."""
    model.inputs = model.convs[0].inputs = Inputs()
    out: Tensor = model(*(argument.clone() for argument in arguments), rows=rows)
    return out


@pytest.mark.parametrize(
    ("changed", "rows"),
    [("x", None), ("x", ROWS), ("edge_index", ROWS), ("edge_weight", None)],
)
def test_a_model_notices_what_was_changed_in_place(changed: str, rows: Tensor | None) -> None:
    model = GCN(5, 5, 2, 3).eval()
    arguments = {
        "x": X * (X > 0.8),  # mostly zeros: multiplied as sparse
        "edge_index": TOWN.edge_index.clone(),
        "edge_weight": TOWN.edge_weight.clone(),
    }
    before = model(**arguments, rows=rows)
    assert torch.equal(model(**arguments, rows=rows), before)
    if changed == "edge_index":
        arguments[changed][0, 1] = 4
        arguments[changed][0, 4] = 1
    else:
        arguments[changed].mul_(torch.arange(1.0, arguments[changed].shape[-1] + 1.0))
    after = model(**arguments, rows=rows)
    assert not torch.allclose(after, before)
    assert torch.equal(after, fresh(model, *arguments.values(), rows=rows))


def test_a_model_does_not_take_one_matrix_of_features_for_another() -> None:
    model = GCN(5, 5, 2, 3).eval()
    one = SparseFeatures.from_tensor(X)
    two = one.scaled(torch.tensor(2.0))  # shares the places of its nonzeros with the first
    first = model(one, TOWN.edge_index, rows=ROWS)
    second = model(two, TOWN.edge_index, rows=ROWS)
    torch.testing.assert_close(second, model(2.0 * X, TOWN.edge_index, rows=ROWS))
    assert not torch.allclose(first, second)


def test_a_model_keeps_no_features_alive() -> None:
    model = GCN(5, 5, 2, 3)
    for x in (X.clone(), X * (X > 1.0)):
        alive = weakref.ref(x)
        model(x, TOWN.edge_index)
        del x
    gc.collect()
    assert alive() is None
