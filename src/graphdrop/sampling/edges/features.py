"""``describe_edges``: the edge features from which amortized rates are computed.

The features have the same meaning on every graph, so that rates trained on one graph apply to
another. Time and memory grow with the number of edges.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from graphdrop.graph import CSR, Graph

SKETCH = 8
"""The length of the random projection of one node's features."""
EDGE_FEATURES = 6 + 2 * SKETCH
"""The number of features of an edge."""
COMPARED = 1 << 22
"""How many entries of rows are compared at once."""

Integers = NDArray[np.int64]


@torch.no_grad()
def describe_edges(graph: Graph, x: Tensor | CSR) -> Tensor:
    r"""Describe every edge of a whole graph, self-loops included, ``[E, EDGE_FEATURES]``.

    In this order: :math:`\log(1 + d)` of the number of neighbours of both ends, destination first;
    :math:`\log(1 + c)` of the number of neighbours they have in common, and the share :math:`c` has
    of all their neighbours; the cosine between their features; whether it is a self-loop; and a
    sketch of the features of each end, destination first: their direction, projected onto
    ``SKETCH`` random ones that are the same in all graphs.

    Neighbours of a node are those that it reads, itself and repetitions left out.

    Args:
        graph: a whole graph, not a part.
        x: features of its nodes, ``[nodes, features]``; sparse ones as a ``CSR``.

    Example:
        >>> graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]))
        >>> describe_edges(graph, torch.eye(2)).shape  # two edges and two self-loops
        torch.Size([4, 22])
    """
    if graph.parent is not None or graph.num_src != graph.num_dst:
        raise ValueError(
            f"graph is {graph}; it takes a whole graph, not a part. Describe graph.parent, and "
            "select the rows of parent_edge."
        )
    destination, source = (
        ends.cpu().numpy().astype(np.int64) for ends in (graph.edge_dst, graph.indices)
    )
    loop = destination == source
    neighbours = adjacency(destination[~loop], source[~loop], graph.num_dst)
    degree = np.diff(neighbours.indptr)
    common = row_products(neighbours, destination, source)
    together = degree[destination] + degree[source] - common
    unit = directions(x)
    sketch = _sketch(unit)
    numbers = [
        np.log1p(degree[destination]),
        np.log1p(degree[source]),
        np.log1p(common),
        common / np.maximum(together, 1.0),
        row_products(unit, destination, source),
        loop,
        *sketch[destination].T,
        *sketch[source].T,
    ]
    described = np.stack([column.astype(np.float32) for column in numbers], 1)
    return torch.from_numpy(described).to(graph.indices.device)


def row_products(matrix: csr_array, one: Integers, other: Integers) -> NDArray[np.float64]:
    """The inner product of rows ``one[k]`` and ``other[k]`` for every ``k``.

    The entries of the shorter row are looked up in the longer one: a neighbour of a hub costs what
    its own few edges cost, and all edges together at most their number to the power of 3/2.
    """
    pointer, columns = matrix.indptr.astype(np.int64), matrix.shape[1]
    length = np.diff(pointer)
    swapped = length[other] < length[one]
    short, long = np.where(swapped, other, one), np.where(swapped, one, other)
    key = np.repeat(np.arange(len(length)) * columns, length) + matrix.indices
    result = np.zeros(len(one))
    for part in _runs(length[short]):
        count = length[short[part]]
        pair = np.repeat(np.arange(len(count)), count)
        entry = np.arange(len(pair)) + np.repeat(
            pointer[short[part]] - np.cumsum(count) + count, count
        )
        wanted = long[part][pair] * columns + matrix.indices[entry]
        place = np.minimum(np.searchsorted(key, wanted), max(len(key) - 1, 0))
        found = key[place] == wanted
        products = matrix.data[entry[found]] * matrix.data[place[found]]
        result[part] = np.bincount(pair[found], products, minlength=len(count))
    return result


def _runs(work: Integers) -> Iterator[slice]:
    """Cut a list into runs of about ``COMPARED`` units of work."""
    done = np.cumsum(work)
    cuts = np.searchsorted(done, np.arange(COMPARED, int(done[-1]) if len(done) else 0, COMPARED))
    edges = np.unique([0, *cuts, len(work)])
    yield from map(slice, edges[:-1], edges[1:])


def adjacency(destination: Integers, source: Integers, nodes: int) -> csr_array:
    """The edges as a matrix of ones, repetitions once."""
    matrix = csr_array((np.ones(len(source)), (destination, source)), shape=(nodes, nodes))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


def directions(x: Tensor | CSR) -> csr_array:
    """The features with rows of length 1; a row of zeros stays one."""
    if isinstance(x, CSR):
        parts = (x.value.detach(), x.indices, x.indptr)
        shape = (x.num_rows, x.num_columns)
        matrix = csr_array(tuple(part.cpu().numpy().copy() for part in parts), shape=shape)
    else:
        matrix = csr_array(x.detach().to_dense().float().cpu().numpy())
    matrix.sum_duplicates()
    size = np.sqrt(matrix.multiply(matrix).sum(1))
    matrix.data /= np.repeat(np.where(size > 0.0, size, 1.0), np.diff(matrix.indptr))
    return matrix


def _sketch(unit: csr_array) -> NDArray[np.float64]:
    """The rows projected onto random directions, ``[nodes, SKETCH]``, of size 1 or so each."""
    generator = np.random.default_rng(0)
    sketch: NDArray[np.float64] = unit @ generator.standard_normal((unit.shape[1], SKETCH))
    return sketch
