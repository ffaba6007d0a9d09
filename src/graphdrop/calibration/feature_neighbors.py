"""The nodes with the most similar features, found in chunks: no matrix of nodes by nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

CHUNK = 1 << 22
"""At most so many similarities are held at once, but at least one node's."""
SPARSE = 0.1
"""Features with a smaller share of nonzeros are multiplied as sparse ones."""


def feature_neighbors(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` other nodes of highest cosine similarity of features, and that similarity.

    Args:
        x: features ``[n, features]``, dense or sparse.
        k: at most n - 1 are returned.

    Returns:
        Node numbers ``[n, k]`` and similarities ``[n, k]``, at least 0.

    Example:
        >>> nodes, _ = feature_neighbors(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), 1)
        >>> nodes.flatten().tolist()
        [1, 0, 1]
    """
    nodes = x.shape[0]
    k = max(0, min(k, nodes - 1))
    rows = _unit_rows(x)
    found = torch.empty(nodes, k, dtype=torch.long)
    similarity = torch.empty(nodes, k, dtype=torch.float64)
    step = max(1, CHUNK // max(1, nodes))
    for start in range(0, nodes, step):
        chunk = rows[start : start + step]
        product = chunk @ rows.T
        dense = product.toarray() if sparse.issparse(product) else np.asarray(product)
        near = torch.from_numpy(dense)
        place = torch.arange(len(near))
        near[place, start + place] = -torch.inf
        top = near.topk(k, 1)
        found[start : start + step], similarity[start : start + step] = top.indices, top.values
    return found.to(x.device), similarity.clamp_min(0.0).to(x.device)


def _unit_rows(x: Tensor) -> Any:
    """Rows of length 1 in float64, as a scipy matrix where few entries are not 0."""
    x = x.detach().cpu()
    if x.layout is torch.strided:
        values = x.double().numpy()
        if np.count_nonzero(values) >= SPARSE * values.size:
            length = np.linalg.norm(values, axis=1, keepdims=True)
            return values / np.maximum(length, 1e-300)
        matrix = sparse.csr_matrix(values)
    else:
        entries = x.to_sparse_coo().coalesce()  # type: ignore[no-untyped-call]
        place, numbers = entries.indices().numpy(), entries.values().double().numpy()
        matrix = sparse.csr_matrix((numbers, tuple(place)), shape=tuple(x.shape))
    length = np.sqrt(np.asarray(matrix.multiply(matrix).sum(1)).ravel())
    return sparse.diags(1.0 / np.maximum(length, 1e-300)) @ matrix
