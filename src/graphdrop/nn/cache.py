"""Caches of results that belong to a tensor or a graph, valid until it changes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

from graphdrop.graph import Graph
from graphdrop.nn.features import SparseFeatures

CAPACITY = 8


class TensorCache:
    """Results keyed by the identity and version of tensors; the oldest are evicted first.

    A model is called with the same graph thousands of times. Sorting its edges once is enough,
    but an edge list that was changed in place must be sorted again.
    """

    def __init__(self) -> None:
        self._entries: dict[Hashable, tuple[list[weakref.ref[Any]], list[int], Any]] = {}

    def get(self, make: Callable[[], Any], *owners: Any, extra: Hashable = None) -> Any:
        """The result for these owners, computed on the first call."""
        present = [owner for owner in owners if owner is not None]
        if not all(_has_versions(owner) for owner in present):
            return _make(make)
        key = (extra, *map(id, present))
        versions = [owner._version if isinstance(owner, Tensor) else 0 for owner in present]
        found = self._entries.get(key)
        if found is not None:
            references, known_versions, result = found
            # an id may have passed from a tensor that is gone to another one
            alive = [reference() for reference in references]
            if all(map(_is, alive, present)) and versions == known_versions:
                return result
        result = _make(make)
        self._forget()
        self._entries[key] = ([weakref.ref(owner) for owner in present], versions, result)
        return result

    def _forget(self) -> None:
        """Remove entries of deleted tensors, then the oldest of the rest."""
        entries = [
            (key, entry)
            for key, entry in list(self._entries.items())
            if all(reference() is not None for reference in entry[0])
        ]
        self._entries = dict(entries[-(CAPACITY - 1) :])

    def __deepcopy__(self, memo: Any) -> TensorCache:
        return TensorCache()

    def __reduce__(self) -> tuple[type[TensorCache], tuple[()]]:
        return TensorCache, ()


def _is(one: object, other: object) -> bool:
    return one is other


def _has_versions(owner: object) -> bool:
    """Whether changes of ``owner`` can be detected; inference tensors have no version."""
    if isinstance(owner, Tensor):
        return not owner.is_inference()
    return isinstance(owner, Graph | SparseFeatures)


def _make(make: Callable[[], Any]) -> Any:
    with torch.inference_mode(False):  # a training step may use it next, and save it for backward
        return make()
