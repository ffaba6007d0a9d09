"""Time several things in one run: warmed up, in turns, the best of several repeats."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

REPEATS = 7
SECONDS = 0.05  # a repeat runs its function until this much time has passed


def best_of(
    functions: Mapping[str, Callable[[], object]],
    repeats: int = REPEATS,
    seconds: float = SECONDS,
) -> dict[str, float]:
    """Best seconds per call of each; the functions take turns, so noise hits them alike."""
    calls = {}
    for name, function in functions.items():
        function()
        start = time.perf_counter()
        function()
        calls[name] = max(1, int(seconds / max(time.perf_counter() - start, 1e-9)))
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in range(calls[name]):
                function()
            best[name] = min(best[name], (time.perf_counter() - start) / calls[name])
    return best
