"""Whatever is wrong with a graph is said before anything learns from it."""

import itertools
import math
import warnings

import pytest
import torch
from torch_geometric.data import Data

from graphdrop.data.dataset import load_dataset
from graphdrop.data.validate import validate_data


def graph(**changes: object) -> Data:
    masks = {
        "train_mask": torch.tensor([True, False, False, False]),
        "val_mask": torch.tensor([False, True, False, False]),
        "test_mask": torch.tensor([False, False, True, False]),
    }
    tensors = {
        "x": torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]),
        "edge_index": torch.tensor([[0, 1, 2], [1, 2, 0]]),
        "y": torch.tensor([0, 1, 2, -1]),
    }
    kept = {name: value for name, value in (tensors | masks | changes).items() if value is not None}
    return Data(**kept)


def features(value: float, layout: torch.layout = torch.strided) -> torch.Tensor:
    x = graph().x.clone()
    x[2, 1] = value
    if layout == torch.sparse_csr:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
            return x.to_sparse_csr()
    return x.to_sparse() if layout == torch.sparse_coo else x


def wide(columns: int) -> torch.Tensor:
    """Features of 4 nodes with so many columns, all of them zero."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        nothing = torch.zeros(0, dtype=torch.long)
        starts = torch.zeros(5, dtype=torch.long)
        return torch.sparse_csr_tensor(
            starts, nothing, torch.zeros(0), (4, columns), check_invariants=True
        )


def mask(*nodes: int, size: int = 4) -> torch.Tensor:
    chosen = torch.zeros(size, dtype=torch.bool)
    chosen[list(nodes)] = True
    return chosen


BAD = {
    "edge beyond the nodes": (
        {"edge_index": torch.tensor([[0, 1], [1, 4]])},
        r"edge_index has the edge \(1, 4\) in column 1, but the 4 rows of x are nodes 0\.\.3",
    ),
    "negative edge": ({"edge_index": torch.tensor([[-1], [0]])}, r"the edge \(-1, 0\) in column 0"),
    "edges of floats": ({"edge_index": torch.zeros(2, 3)}, "edge_index has type torch.float32"),
    "edges by row": (
        {"edge_index": torch.zeros(3, 2, dtype=torch.long)},
        r"edge_index has shape \(3, 2\): give \[2, edges\]",
    ),
    "weights of other edges": (
        {"edge_weight": torch.ones(2)},
        r"edge_weight has shape \(2,\): give one entry for each of the 3 edges",
    ),
    "infinite weight": (
        {"edge_weight": torch.tensor([1, math.inf, 1])},
        "edge_weight has NaN or infinite",
    ),
    "NaN feature": ({"x": features(math.nan)}, "1 NaN or infinite entries, the first in row 2"),
    "NaN in CSR": ({"x": features(math.nan, torch.sparse_csr)}, "x has 1 NaN or infinite"),
    "integer features": ({"x": torch.ones(4, 2, dtype=torch.long)}, "x has type torch.int64"),
    "flat features": ({"x": torch.ones(4)}, r"x has shape \(4,\)"),
    "no features": ({"x": None}, "x is None: give a tensor"),
    "labels as a column": (
        {"y": torch.zeros(4, 1, dtype=torch.long)},
        r"y has shape \(4, 1\) and type torch.int64: give an integer class for each of the 4",
    ),
    "labels of floats": ({"y": torch.tensor([0.0, 1, 2, 3])}, "y has type torch.float32 .*classes"),
    "label below -1": ({"y": torch.tensor([0, 1, -2, 0])}, "y has label -2 at node 2"),
    "label outside the declared classes": (
        {"y": torch.tensor([0, 1, 3, 0]), "num_classes": 3},
        r"y has label 3 at node 2, but the 3 classes are 0\.\.2",
    ),
    "label far outside any classes": (
        {"y": torch.tensor([0, 1, 2, 10**9])},
        r"y has label 1000000000 at node 3, but classes are numbered 0\.\.3",
    ),
    "no number of classes": ({"num_classes": "three"}, "num_classes is 'three'"),
    "a single class": (
        {"y": torch.tensor([0, 0, 0, -1])},
        "y has a single class: classification takes two or more",
    ),
    "classes beyond all memory": (
        {"num_classes": 10**12},
        "y has 1000000000000 classes: a score for every node of each would take 14.5 TiB",
    ),
    "more columns than memory": (
        {"x": wide(10**12)},
        "x has 1000000000000 columns: the weights of a single hidden unit would take 14.5 TiB",
    ),
    "features without values": (
        {"x": torch.empty(4, 2, device="meta")},
        "x is on the device meta, without values: give its values",
    ),
    "number of nodes that is not that of the rows": (
        {"num_nodes": 7},
        "num_nodes is 7 and data.x has 4 rows: give one row per node",
    ),
    "complex weights": (
        {"edge_weight": torch.ones(3, dtype=torch.complex64)},
        "edge_weight has type torch.complex64: give real numbers",
    ),
    "sparse edges": (
        {"edge_index": graph().edge_index.to_sparse()},
        "edge_index has type torch.int64 and layout torch.sparse_coo",
    ),
    "feature beyond float32": (
        {"x": torch.tensor([[1.0, 2], [3, 4], [5, 6], [7, 1e300]], dtype=torch.float64)},
        "x has 1 NaN or infinite entries, the first in row 3",
    ),
    "no labels at all": (
        {"y": torch.full((4,), -1), "train_mask": None, "val_mask": None, "test_mask": None},
        "y has no label of 0 or more",
    ),
    "empty train set": ({"train_mask": mask()}, "train is empty"),
    "a mask is missing": ({"val_mask": None}, "train_mask is given without data.val_mask"),
    "mask of integers": ({"val_mask": torch.zeros(4).long()}, "val_mask has .* torch.int64"),
    "masks of other splits": ({"val_mask": mask(1).unsqueeze(1)}, r"val_mask has shape \(4, 1\)"),
    "node in two masks": ({"test_mask": mask(0)}, "train and test share 1 nodes"),
    "node without label scored": (
        {"test_mask": mask(2, 3)},
        "test_mask contains node 3, which has no",
    ),
}


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_with_its_name_and_what_to_give(changes, message):
    with pytest.raises(ValueError, match=message):
        load_dataset(graph(**changes))


def test_the_number_of_classes_is_the_declared_one_or_the_highest_label_plus_one():
    assert validate_data(graph()) == 3
    assert validate_data(graph(num_classes=5)) == 5


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint16, torch.int32, torch.uint64])
def test_labels_and_edges_are_taken_in_any_integer_type(dtype):
    labels = torch.tensor([0, 1, 2, 1])
    given = graph(y=labels.to(dtype), edge_index=graph().edge_index.to(dtype))
    data = load_dataset(given).data
    assert (data.y.dtype, data.edge_index.dtype) == (torch.int64, torch.int64)
    assert torch.equal(data.y, labels)
    assert torch.equal(data.edge_index, graph().edge_index)


FLOATS = (torch.float16, torch.bfloat16, torch.float64, torch.float32)
LAYOUTS = (torch.strided, torch.sparse_coo, torch.sparse_csr)


@pytest.mark.parametrize(
    ("dtype", "layout"),
    [
        *((dtype, torch.strided) for dtype in (*FLOATS, torch.float8_e5m2)),
        # torch has no sparse tensors of 8 bits
        *zip(FLOATS, itertools.cycle(LAYOUTS[1:])),
    ],
)
def test_features_become_float32_whatever_they_were_and_the_summary_says_so(dtype, layout):
    given = graph(x=features(1.0, layout).to(dtype))
    dataset = load_dataset(given)
    assert dataset.data.x.dtype == torch.float32
    assert dataset.data.x.layout == layout
    assert torch.equal(dataset.data.x.to_dense(), features(1.0))
    assert given.x.dtype == dtype
    note = f"made float32 from {str(dtype).removeprefix('torch.')}"
    assert (note in str(dataset)) == (dtype != torch.float32)
