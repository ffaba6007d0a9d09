"""A plain sparse matrix: its transpose, its products, and what takes a graph instead."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, random_array
from torch import Tensor

from contracts.masked_sums import normal
from graphdrop.graph import CSR
from graphdrop.graph.masks import Kind, Mask, stream_key
from graphdrop.kernels import aggregate

ROWS, COLUMNS = 9, 6


def matrix(density: float = 0.3) -> tuple[CSR, Tensor]:
    """A matrix, and the same dense."""
    entries = csr_array(random_array((ROWS, COLUMNS), density=density, rng=3, dtype=np.float32))
    parts = (torch.from_numpy(part) for part in (entries.indptr, entries.indices, entries.data))
    return CSR.from_rows(*parts, COLUMNS), torch.from_numpy(entries.toarray())


def test_rows_and_columns_name_the_same_entries() -> None:
    sparse, dense = matrix()
    assert (sparse.num_rows, sparse.num_columns) == (ROWS, COLUMNS)
    assert sparse.num_entries == int(dense.count_nonzero())
    again = torch.zeros_like(dense)
    again[sparse.entry_row.long(), sparse.indices.long()] = sparse.value
    assert torch.equal(again, dense)
    column = torch.arange(COLUMNS).repeat_interleave(sparse.column_length)
    again = torch.zeros_like(dense)
    again[sparse.t_indices.long(), column] = sparse.t_value
    assert torch.equal(again, dense)


@pytest.mark.parametrize(
    ("density", "backend"), [(0.0, "fused"), (0.3, "fused"), (0.3, "reference"), (1.0, "reference")]
)
def test_the_sum_over_any_matrix_is_its_product_and_has_its_gradient(
    density: float, backend: str
) -> None:
    sparse, dense = matrix(density)
    x, gradient = normal(COLUMNS, 5).requires_grad_(), normal(ROWS, 5, seed=1)
    out = aggregate(sparse, x, backend=backend)
    torch.testing.assert_close(out, dense @ x)
    (found,) = torch.autograd.grad(out, x, gradient)
    torch.testing.assert_close(found, dense.T @ gradient)


def test_a_mask_needs_the_ids_of_a_graph() -> None:
    sparse, _ = matrix()
    mask = Mask(Kind.HARD, torch.tensor(0.0), stream_key(1))
    with pytest.raises(TypeError, match="with a mask it takes a Graph"):
        aggregate(sparse, normal(COLUMNS, 5), mask)
