"""Over-smoothing: total variation, Dirichlet energy, mean average distance.

Low values mean that the features of neighbours are nearly equal. The metrics have no gradients;
they are computed in float64.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import ArpackNoConvergence, eigs, eigsh
from torch import Tensor

from graphdrop.io.devices import to_float64

_COLUMNS_AT_A_TIME = 64
_NUMBERS_AT_A_TIME = 2**21
# Below this size a dense solver is exact and quick, and Lanczos has no room for its basis.
_DENSE_LIMIT = 64
_KRYLOV_VECTORS = 40
_TOLERANCE = 1e-6


def total_variation(signal: Tensor, edge_index: Tensor, *, radius: float | None = None) -> Tensor:
    """Total variation of features on a graph, `||X - A X / |lambda_max| ||_F^2 / ||X||_F^2`.

    The paper's figure 2 shows it: a low value means over-smoothed features. `A[v, u]` is the
    adjacency matrix without normalization. NaN if the signal is zero everywhere.

    Args:
        signal: a layer's output `(n, features)`, after its activation.
        edge_index: sources and destinations `(2, edges)`. Every edge counts, self-loops too: leave
            out those that were only added for a convolution.
        radius: `|lambda_max|` if it is known already, from `spectral_radius`.

    Returns:
        A scalar.

    Example:
        >>> edge_index = torch.tensor([[0, 1], [1, 0]])
        >>> total_variation(torch.tensor([[1.0], [1.0]]), edge_index).item()  # equal neighbours
        0.0
    """
    _check_signal(signal)
    matrix = adjacency(edge_index, signal.size(0))
    if radius is None:
        radius = spectral_radius(matrix)
        if radius == 0:
            raise ValueError(
                "edge_index has no cycle, so its largest eigenvalue is 0 and the total variation "
                "is undefined: store each undirected edge in both directions"
            )
    if not 0 < radius < float("inf"):
        raise ValueError(f"radius is {radius}; it takes a finite number above 0")
    variation = norm = 0.0
    for columns in torch.split(signal, _COLUMNS_AT_A_TIME, dim=1):
        x = to_float64(columns).numpy(force=True)
        variation += float(np.square(x - matrix @ x / radius).sum())
        norm += float(np.square(x).sum())
    return torch.tensor(variation / norm if norm > 0 else float("nan"), dtype=torch.float64)


def dirichlet_energy(signal: Tensor, edge_index: Tensor) -> Tensor:
    """`1/2 sum_(u,v) || x_v / sqrt(1 + d_v) - x_u / sqrt(1 + d_u) ||^2` over directed edges.

    `d` counts incoming edges; self-loops are left out of both. When every edge is stored in both
    directions it is `trace(X^T L X)` with `L = I - (D+I)^-1/2 (A+I) (D+I)^-1/2`. It is 0 when the
    rows are proportional to `sqrt(1 + d)`, and grows with the square of the signal. The arguments
    are those of `total_variation`.
    """
    _check_signal(signal)
    matrix = adjacency(edge_index, signal.size(0))
    destination, source, count = _links(matrix)
    degree = np.bincount(destination, weights=count, minlength=len(signal))
    scaled = to_float64(signal).numpy(force=True) / np.sqrt(1 + degree)[:, None]
    energy = (count * _squared_distances(scaled, destination, source)).sum() / 2
    return torch.tensor(float(energy), dtype=torch.float64)


def mean_average_distance(signal: Tensor, edge_index: Tensor) -> Tensor:
    """MAD: the mean over nodes of the mean of `1 - cos(x_v, x_u)` over the node's neighbours u.

    Neighbours are the sources of incoming edges, self-loops left out; nodes without any do not
    count. A zero row is at distance 0 from another and 1 from any other row, so that a layer whose
    units all died counts as smooth. From 0 to 2. The arguments are those of `total_variation`.
    """
    _check_signal(signal)
    nodes = signal.size(0)
    destination, source, count = _links(adjacency(edge_index, nodes))
    if not count.size:
        raise ValueError(
            "edge_index has no edge between two different nodes, but the distance between "
            "neighbours needs at least one"
        )
    x = to_float64(signal).numpy(force=True)
    # Scaled by the largest entry first: the squares of tiny features underflow.
    x = x / np.where(largest := np.abs(x).max(1, keepdims=True), largest, 1)
    x /= np.where(length := np.linalg.norm(x, axis=1, keepdims=True), length, 1)
    # Half of the squared distance of unit vectors is 1 - cos, without its cancellation near 0.
    distance = _squared_distances(x, destination, source) / 2
    zero = (x == 0).all(axis=1)
    distance[zero[destination] != zero[source]] = 1.0
    neighbours = np.bincount(destination, weights=count, minlength=nodes)
    summed = np.bincount(destination, weights=count * distance, minlength=nodes)
    mean = (summed[neighbours > 0] / neighbours[neighbours > 0]).mean()
    return torch.tensor(float(mean), dtype=torch.float64)


def _links(matrix: sparse.csr_array) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Destination, source and number of the edges between different nodes."""
    entries = matrix.tocoo()
    destination, source = entries.coords
    different = destination != source
    return destination[different], source[different], entries.data[different]


def _squared_distances(
    x: NDArray[np.float64], destination: NDArray[Any], source: NDArray[Any]
) -> NDArray[np.float64]:
    """`||x_v - x_u||^2` of each edge, a bounded number of edges at a time."""
    distances = np.empty(destination.size)
    step = max(1, _NUMBERS_AT_A_TIME // x.shape[1])
    for start in range(0, destination.size, step):
        part = slice(start, start + step)
        distances[part] = np.square(x[destination[part]] - x[source[part]]).sum(1)
    return distances


def _check_signal(signal: Tensor) -> None:
    if not isinstance(signal, Tensor) or signal.ndim != 2 or signal.numel() == 0:
        shape = tuple(getattr(signal, "shape", ()))
        raise ValueError(f"signal has shape {shape}; it takes (n, features), neither of them 0")
    if signal.is_complex() or not signal.isfinite().all():
        raise ValueError("signal holds NaN or infinity, or is complex: pass finite real features")


def adjacency(edge_index: Tensor, num_nodes: int) -> sparse.csr_array:
    """The matrix `A[v, u]` = number of edges from u to v, unnormalized.

    Args:
        edge_index: sources and destinations `(2, edges)`, integers, in PyG's convention. Self-loops
            are kept: leave out those that were only added for a convolution.
        num_nodes: number of nodes n.
    """
    if not isinstance(edge_index, Tensor) or edge_index.ndim != 2 or edge_index.size(0) != 2:
        shape = tuple(getattr(edge_index, "shape", ()))
        raise ValueError(
            f"edge_index has shape {shape}; it takes (2, edges): sources in the first row, "
            "destinations in the second"
        )
    if edge_index.is_floating_point() or edge_index.is_complex() or edge_index.dtype == torch.bool:
        raise ValueError(f"edge_index is {edge_index.dtype}, but node ids are integers")
    if num_nodes < 1:
        raise ValueError(f"num_nodes is {num_nodes}, but a graph needs at least one node")
    source, destination = edge_index.numpy(force=True)
    if source.size and not 0 <= edge_index.min() <= edge_index.max() < num_nodes:
        raise ValueError(
            f"edge_index ranges from {int(edge_index.min())} to {int(edge_index.max())}, but with "
            f"{num_nodes} nodes it must lie in 0..{num_nodes - 1}: check the number of nodes"
        )
    ones = np.ones(source.size)
    return sparse.csr_array(
        sparse.coo_array((ones, (destination, source)), shape=(num_nodes, num_nodes))
    )


def spectral_radius(matrix: sparse.csr_array) -> float:
    """`|lambda_max|` of a non-negative matrix; 0 when the graph has no cycle.

    The largest eigenvalue in size of a non-negative matrix is real and non-negative, and only edges
    inside a strongly connected component bear on it. Restricting to those makes acyclic graphs
    exact and gives the start vector of ones, the same in every call, a share in the eigenvector
    that is sought.
    """
    _, component = csgraph.connected_components(matrix, directed=True, connection="strong")
    entries = matrix.tocoo()
    row, column = entries.coords
    cyclic = component[row] == component[column]
    if not cyclic.any():
        return 0.0
    nodes, position = np.unique(row[cyclic], return_inverse=True)
    size = nodes.size
    columns = np.searchsorted(nodes, column[cyclic])
    core = sparse.csr_array((entries.data[cyclic], (position, columns)), shape=(size, size))
    if size <= _DENSE_LIMIT:
        return float(np.abs(np.linalg.eigvals(core.toarray())).max())
    symmetric = (core != core.T).nnz == 0
    solver, which = (eigsh, "LA") if symmetric else (eigs, "LR")
    try:
        largest = solver(
            core,
            k=1,
            which=which,
            v0=np.ones(size),
            ncv=_KRYLOV_VECTORS,
            tol=_TOLERANCE,
            return_eigenvectors=False,
        )
    except ArpackNoConvergence as failure:
        raise ValueError(
            f"the largest eigenvalue of the adjacency of this graph ({size} nodes on cycles) did "
            f"not converge to {_TOLERANCE:g}: pass its value as radius if it is known"
        ) from failure
    return float(np.abs(largest[0]))
