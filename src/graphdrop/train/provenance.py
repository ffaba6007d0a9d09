"""Provenance of results: checksum of the data and versions of the packages."""

from __future__ import annotations

import hashlib
import platform
from importlib.metadata import version

import torch
from torch import Tensor
from torch_geometric.data import Data

import graphdrop
from graphdrop.data.store import stored_checksum

_PACKAGES = ("torch", "torch_geometric", "numpy", "scipy", "numba", "safetensors")
_EDGES = ("edge_index", "edge_weight", "edge_attr")
_ARRAYS = ("x", *_EDGES, "y", "train_mask", "val_mask", "test_mask")


def versions() -> dict[str, str]:
    """The versions of this package and of the packages that its results depend on."""
    own = {"graphdrop": graphdrop.__version__, "python": platform.python_version()}
    return own | {package: version(package) for package in _PACKAGES}


READ_BYTES = 1 << 31
"""Arrays of a store beyond this size count by the checksum that they were written with."""


def fingerprint(data: Data) -> str:
    """The sha256 of the features, edges, labels and split of a graph."""
    digest = hashlib.sha256()
    for name in _ARRAYS:
        tensor = data.get(name)
        if tensor is None:
            continue
        for part in _parts(tensor):
            digest.update(f"{name} {part.dtype} {tuple(part.shape)}\n".encode())
            known = stored_checksum(part) if part.nbytes > READ_BYTES else None
            if known is not None:
                digest.update(known.encode())
            else:
                digest.update(part.detach().cpu().contiguous().view(-1).numpy().data)
    return digest.hexdigest()


def _parts(tensor: Tensor) -> tuple[Tensor, ...]:
    if tensor.layout is torch.strided:
        return (tensor,)
    if tensor.layout is torch.sparse_csr:
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    whole = tensor.to_sparse(layout=torch.sparse_coo).coalesce()
    return whole.indices(), whole.values()
