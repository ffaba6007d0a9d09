"""What a piece of code allocates, counted: tensors by torch's profiler, arrays by tracemalloc."""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

from torch.profiler import ProfilerActivity, profile


@dataclass(frozen=True)
class Allocations:
    """Bytes, above what was allocated before."""

    total: int
    """Of all tensors that were ever made."""
    peak: int
    """Of the tensors that were alive at once, plus the largest that Python and numpy held."""


def allocations(run: Callable[[], object]) -> Allocations:
    """Count what `run` allocates; run it once before, so that nothing is made for the first time.

    Every piece of memory that torch's CPU allocator gives out or takes back is an event.
    """
    run()
    tracemalloc.start()
    try:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            run()
            arrays = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    results = profiler.profiler.kineto_results
    events = sorted(
        (event for event in results.events() if event.name() == "[memory]"),
        key=lambda event: event.start_ns(),
    )
    alive = peak = total = 0
    for event in events:
        alive += event.nbytes()
        peak = max(peak, alive)
        total += max(0, event.nbytes())
    assert total > 0, "the profiler saw no allocation at all"
    return Allocations(total, peak + arrays)
