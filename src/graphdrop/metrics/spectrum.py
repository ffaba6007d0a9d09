"""The adjacency matrix of a graph, and its spectral radius."""

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import ArpackNoConvergence, eigs, eigsh
from torch import Tensor

# Below this size a dense solver is exact and quick, and Lanczos has no room for its basis.
_DENSE_LIMIT = 64
_KRYLOV_VECTORS = 40
_TOLERANCE = 1e-6


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
