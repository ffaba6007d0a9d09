"""Draws for single entries of a sparse matrix: DropOut on sparse features."""

# ruff: noqa: PLR0917 - a compiled loop takes its arrays one by one

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphdrop.graph import sorting
from graphdrop.graph.masks import SOURCE_ONLY, draw_bits, edge_hash
from graphdrop.kernels.loops import SOURCE, compiled, draw_value, edge_bits
from graphdrop.kernels.passes import array


def entry_draws(key: Tensor, ids: Tensor | None, indptr: Tensor, columns: Tensor) -> Tensor:
    """The 16-bit draw of every entry's row and column, ``[entries]`` int32.

    Args:
        key: of the mask.
        ids: the node id of each row; by default its number.
        indptr: where each row begins.
        columns: the column of each entry, which is the number of its draw.
    """
    if not columns.is_cpu:
        return _drawn_by_torch(key, ids, indptr, columns)
    out = torch.empty(len(columns), dtype=torch.int32)
    nodes = torch.arange(len(indptr) - 1, dtype=torch.int32) if ids is None else ids
    first, second = key.tolist()
    _draw_entries(out.numpy(), first, second, array(nodes), array(indptr), array(columns))
    return out


def _drawn_by_torch(key: Tensor, ids: Tensor | None, indptr: Tensor, columns: Tensor) -> Tensor:
    device, rows = columns.device, len(indptr) - 1
    nodes = torch.arange(rows, device=device) if ids is None else ids.to(device)
    alone = torch.full_like(nodes, SOURCE_ONLY, dtype=torch.int64)
    bits = edge_hash(key.to(device), alone, nodes)
    row = sorting.rows_of(indptr, len(columns)).long()
    return draw_bits(bits[row], columns.long()).to(torch.int32)


@partial(compiled, parallel=False)
def _draw_entries(out: Any, key0: Any, key1: Any, ids: Any, indptr: Any, columns: Any) -> None:
    for row in range(indptr.size - 1):
        node = np.int64(ids[row])
        bits = edge_bits(node, node, np.int64(0), key0, key1, SOURCE)
        for entry in range(indptr[row], indptr[row + 1]):
            out[entry] = draw_value(bits, columns[entry])
