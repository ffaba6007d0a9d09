"""Provenance of results: checksum of the data and versions of the packages."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable
from importlib.metadata import version

from torch_geometric.data import Data

import graphdrop
from graphdrop.data.checksums import known_checksum, tensor_parts
from graphdrop.data.names import Names

_PACKAGES = ("torch", "torch_geometric", "numpy", "scipy", "numba", "safetensors")
_EDGES = ("edge_index", "edge_weight", "edge_attr")
_TARGETS = ("y", "train_mask", "val_mask", "test_mask")
_ARRAYS = ("x", *_EDGES, *_TARGETS)
_GRAPH = ("edge_index", *_TARGETS)


def versions() -> dict[str, str]:
    """The versions of this package and of the packages that its results depend on."""
    own = {"graphdrop": graphdrop.__version__, "python": platform.python_version()}
    return own | {package: version(package) for package in _PACKAGES}


def fingerprint(data: Data) -> str:
    """The sha256 of the features, edges, labels and split of a graph."""
    return _sha256_of(data, _ARRAYS).hexdigest()


def graph_fingerprint(data: Data) -> str:
    """The sha256 of the ids, edges, labels and split of a graph: of all but its features.

    Runs on tables from which other columns were read have it in common.
    """
    digest = _sha256_of(data, _GRAPH)
    names = Names.of(data)
    digest.update(repr((names.ids, names.classes)).encode(errors="surrogatepass"))
    return digest.hexdigest()


def _sha256_of(data: Data, names: Iterable[str]) -> hashlib._Hash:
    digest = hashlib.sha256()
    for name in names:
        tensor = data.get(name)
        if tensor is None:
            continue
        for part in tensor_parts(tensor):
            digest.update(f"{name} {part.dtype} {tuple(part.shape)}\n".encode())
            if (known := known_checksum(part)) is not None:
                digest.update(known.encode())
            else:
                digest.update(part.detach().cpu().contiguous().view(-1).numpy().data)
    return digest
