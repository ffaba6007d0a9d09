"""`Memo`: what has been worked out from something that never changes, each of it once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch

T = TypeVar("T")


class Memo:
    """Results by key, made on first use by one thread while the others wait.

    They are made outside of inference mode: a training step may be the next to use them, and save
    them for its backward pass. A copy of a memo, also by pickle, is an empty one.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}
        self._lock = threading.RLock()  # what is made may ask for something else first

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result under this key; `make()` on the first call."""
        if key not in self._known:
            with self._lock, torch.inference_mode(False), torch.no_grad():
                if key not in self._known:
                    self._known[key] = make()
        found: T = self._known[key]
        return found

    def __reduce__(self) -> tuple[type[Memo], tuple[()]]:
        return Memo, ()
