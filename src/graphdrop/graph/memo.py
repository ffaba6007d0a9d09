"""`Memo`: a thread-safe cache of results derived from an immutable object."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch

T = TypeVar("T")


class Memo:
    """Results by key; the first thread computes a result while the others wait.

    They are computed outside of inference mode, because a later training step may need them in its
    backward pass. A copy of a memo, also by pickle, is empty.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}
        self._lock = threading.RLock()  # what is made may ask for something else first

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result for this key, computed by `make()` on the first call."""
        if key not in self._known:
            with self._lock, torch.inference_mode(False), torch.no_grad():
                if key not in self._known:
                    self._known[key] = make()
        found: T = self._known[key]
        return found

    def __reduce__(self) -> tuple[type[Memo], tuple[()]]:
        return Memo, ()
