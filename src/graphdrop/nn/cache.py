"""Remember what was worked out for a tensor for as long as that tensor lives unchanged."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any

from torch import Tensor

CAPACITY = 8


class TensorCache:
    """Results keyed by the identity and version of tensors; the oldest goes first.

    A model is called with the same graph thousands of times. Sorting its edges once is enough,
    but an edge list that was changed in place must be sorted again.
    """

    def __init__(self) -> None:
        self._entries: dict[Hashable, tuple[list[weakref.ref[Tensor]], Any]] = {}

    def get(self, make: Callable[[], Any], *tensors: Tensor | None, extra: Hashable = None) -> Any:
        """The result for these tensors, made on the first call."""
        present = [tensor for tensor in tensors if tensor is not None]
        key = (extra, *((id(tensor), tensor._version) for tensor in present))
        found = self._entries.get(key)
        if found is not None and all(
            reference() is tensor for reference, tensor in zip(found[0], present, strict=True)
        ):
            return found[1]
        while len(self._entries) >= CAPACITY:
            self._entries.pop(next(iter(self._entries)))
        result = make()
        self._entries[key] = ([weakref.ref(tensor) for tensor in present], result)
        return result

    def __deepcopy__(self, memo: Any) -> TensorCache:
        return TensorCache()

    def __reduce__(self) -> tuple[type[TensorCache], tuple[()]]:
        return TensorCache, ()
