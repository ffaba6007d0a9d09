"""Checksums of tensors, by which one graph is told from another."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from graphdrop.data.store import stored_checksum

READ_BYTES = 1 << 31
"""Arrays of a store beyond this size count by the checksum that they were written with."""
_AT_ONCE = 1 << 22


def tensor_parts(tensor: Tensor) -> tuple[Tensor, ...]:
    """The dense tensors that a tensor consists of: itself, or the arrays of a sparse matrix."""
    if tensor.layout is torch.strided:
        return (tensor,)
    if tensor.layout is torch.sparse_csr:
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    whole = tensor.to_sparse(layout=torch.sparse_coo).coalesce()
    return whole.indices(), whole.values()


def known_checksum(part: Tensor) -> str | None:
    """The checksum that a large array of a store was written with; None of others."""
    return stored_checksum(part) if part.nbytes > READ_BYTES else None


def values_sha256(tensor: Tensor) -> str:
    """The sha256 of shape and values: the same in float32 and float64, or in CSR and CSC.

    Values are read in float32 or int64, as datasets hold them, and a few at a time.
    """
    if tensor.layout is torch.sparse_csc:
        tensor = tensor.to_sparse_csr()
    digest = hashlib.sha256(f"{tuple(tensor.shape)}\n".encode())
    for part in tensor_parts(tensor):
        if (known := known_checksum(part)) is not None:
            digest.update(known.encode())
            continue
        kind = torch.float32 if part.is_floating_point() else torch.int64
        count = max(1, _AT_ONCE // max(1, part[:1].numel()))
        for rows in torch.split(part.detach(), count):
            digest.update(rows.to("cpu", kind).contiguous().view(-1).numpy().data)
    return digest.hexdigest()
