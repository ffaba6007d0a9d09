"""Provenance of results: checksum of the data and versions of the packages."""

from __future__ import annotations

import hashlib
import platform
from importlib.metadata import version

from torch_geometric.data import Data

import graphdrop
from graphdrop.data.checksums import known_checksum, tensor_parts

_PACKAGES = ("torch", "torch_geometric", "numpy", "scipy", "numba", "safetensors")
_EDGES = ("edge_index", "edge_weight", "edge_attr")
_ARRAYS = ("x", *_EDGES, "y", "train_mask", "val_mask", "test_mask")


def versions() -> dict[str, str]:
    """The versions of this package and of the packages that its results depend on."""
    own = {"graphdrop": graphdrop.__version__, "python": platform.python_version()}
    return own | {package: version(package) for package in _PACKAGES}


def fingerprint(data: Data) -> str:
    """The sha256 of the features, edges, labels and split of a graph."""
    digest = hashlib.sha256()
    for name in _ARRAYS:
        tensor = data.get(name)
        if tensor is None:
            continue
        for part in tensor_parts(tensor):
            digest.update(f"{name} {part.dtype} {tuple(part.shape)}\n".encode())
            if (known := known_checksum(part)) is not None:
                digest.update(known.encode())
            else:
                digest.update(part.detach().cpu().contiguous().view(-1).numpy().data)
    return digest.hexdigest()
