"""The eight files of a Planetoid citation graph, put together as one PyG `Data`."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.data.matrices import feature_tensor
from graphdrop.data.unpickle import read_adjacency, read_array, read_csr

PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
PUBLIC_VALIDATION = 500


def read_planetoid(files: Mapping[str, bytes], name: str) -> Data:
    """Read `{"ind.<name>.<part>": contents}` into features, labels, stored edges and public masks.

    The rows of `allx` are nodes 0, 1, …; row `i` of `tx` is node `test.index[i]`. Training nodes
    are the rows of `x`, the next 500 validate, `test.index` tests. A node in neither matrix
    (Citeseer has 15) has zero features, label -1 and is in no mask.
    """
    part = {suffix: f"ind.{name}.{suffix}" for suffix in PARTS}
    missing = [file for file in part.values() if file not in files]
    if missing:
        raise ValueError(f"{name} lacks {', '.join(missing)}: a Planetoid graph has 8 files")
    matrices = {
        suffix: read_csr(files[part[suffix]], part[suffix]) for suffix in ("x", "tx", "allx")
    }
    one_hot = {
        suffix: read_array(files[part[suffix]], part[suffix]) for suffix in ("y", "ally", "ty")
    }
    edges, num_nodes = read_adjacency(files[part["graph"]], part["graph"])
    test_nodes = _read_index(files[part["test.index"]], part["test.index"])
    num_known, num_train = matrices["allx"].shape[0], one_hot["y"].shape[0]
    _check_sizes(name, matrices, one_hot, len(test_nodes))
    if num_train + PUBLIC_VALIDATION > num_known:
        raise ValueError(
            f"{part['allx']} has {num_known} rows: {num_train} training and "
            f"{PUBLIC_VALIDATION} validation nodes take more"
        )
    if num_known > num_nodes or not np.all((test_nodes >= num_known) & (test_nodes < num_nodes)):
        raise ValueError(
            f"{part['test.index']} and {part['graph']} disagree: test nodes must lie between the "
            f"{num_known} rows of allx and the {num_nodes} nodes of the graph"
        )
    if len(np.unique(test_nodes)) < len(test_nodes):
        raise ValueError(f"{part['test.index']} lists a node twice: list every node once")
    train, val, test = torch.zeros(3, num_nodes, dtype=torch.bool)
    train[:num_train] = True
    val[num_train : num_train + PUBLIC_VALIDATION] = True
    test[torch.from_numpy(test_nodes)] = True
    rows = np.concatenate([np.arange(num_known), test_nodes])
    return Data(
        x=feature_tensor(_spread(vstack([matrices["allx"], matrices["tx"]]), rows, num_nodes)),
        edge_index=torch.from_numpy(edges),
        y=_labels(np.concatenate([one_hot["ally"], one_hot["ty"]]), rows, num_nodes, name),
        train_mask=train,
        val_mask=val,
        test_mask=test,
    )


def _read_index(raw: bytes, name: str) -> NDArray[np.int64]:
    try:
        index = np.array([int(line) for line in raw.split()], dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name} is not a list of node ids, one per line: {error}") from error
    if not len(index):
        raise ValueError(f"{name} is empty: it takes one node id per line")
    return index


def _check_sizes(
    name: str, matrices: dict[str, csr_matrix], one_hot: dict[str, NDArray[Any]], tests: int
) -> None:
    for suffix, array in one_hot.items():
        if array.ndim != 2 or array.dtype.kind not in "iu" or array.shape[1] == 0:
            raise ValueError(
                f"ind.{name}.{suffix} has shape {array.shape} and type {array.dtype}: "
                "it takes one integer row of classes per node"
            )
        if array.shape[1] != one_hot["ally"].shape[1]:
            raise ValueError(
                f"ind.{name}.{suffix} has {array.shape[1]} classes and ind.{name}.ally "
                f"{one_hot['ally'].shape[1]}: they must agree"
            )
    for suffix, matrix in matrices.items():
        if matrix.shape[1] != matrices["allx"].shape[1]:
            raise ValueError(
                f"ind.{name}.{suffix} has {matrix.shape[1]} features and ind.{name}.allx "
                f"{matrices['allx'].shape[1]}: they must agree"
            )
        features, labels = matrix.shape[0], one_hot[suffix.replace("x", "y")].shape[0]
        if features != labels:
            raise ValueError(
                f"ind.{name}.{suffix} has {features} rows but there are labels for {labels} nodes: "
                "they must agree"
            )
    if matrices["tx"].shape[0] != tests:
        raise ValueError(
            f"ind.{name}.tx has {matrices['tx'].shape[0]} rows and ind.{name}.test.index "
            f"{tests} nodes: they must agree"
        )


def _spread(matrix: csr_matrix, rows: NDArray[np.int64], num_nodes: int) -> csr_matrix:
    """Put row `i` of the matrix in row `rows[i]` of one with a row per node."""
    place = csr_matrix(
        (np.ones(len(rows), matrix.dtype), (rows, np.arange(len(rows)))),
        shape=(num_nodes, len(rows)),
    )
    return place @ matrix


def _labels(one_hot: NDArray[Any], rows: NDArray[np.int64], num_nodes: int, name: str) -> Tensor:
    if not np.isin(one_hot, (0, 1)).all() or (one_hot.sum(axis=1) > 1).any():
        raise ValueError(f"{name}: a node has more than one class, each takes one")
    labels = np.full(num_nodes, -1, dtype=np.int64)
    labels[rows] = np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)
    return torch.from_numpy(labels)
