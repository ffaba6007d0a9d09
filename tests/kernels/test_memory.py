"""A mask is a function, never an array: a masked pass allocates what an unmasked one does."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from contracts import patience, step_under_limit
from contracts.allocations import allocations
from contracts.masked_sums import normal, passes, power_law_edges
from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, Sharing, stream_key

TESTS = Path(__file__).parents[1]
CORA_NODES, CORA_EDGES, FEATURES = 2708, 10556, 128


@pytest.fixture(scope="module")
def cora_sized() -> Graph:
    return Graph.from_edge_index(power_law_edges(CORA_NODES, CORA_EDGES), CORA_NODES)


def both_passes(graph: Graph, mask: Mask) -> Callable[[], object]:
    x, gradient = normal(CORA_NODES, FEATURES), normal(CORA_NODES, FEATURES, seed=1)
    return lambda: passes(graph, x, mask, gradient, "fused")


@pytest.mark.parametrize(
    ("kind", "per_edge", "sharing"),
    [
        (Kind.HARD, False, Sharing.EDGE),
        (Kind.HARD, False, Sharing.SOURCE),
        (Kind.CONCRETE, False, Sharing.SOURCE),
        (Kind.CONCRETE, True, Sharing.EDGE),
    ],
)
def test_a_mask_per_feature_allocates_less_than_a_mebibyte_more_than_none(
    cora_sized: Graph, kind: Kind, per_edge: bool, sharing: Sharing
) -> None:
    key = stream_key(1)
    logit = normal(cora_sized.num_edges) if per_edge else torch.tensor(0.3)
    mask = Mask(kind, logit, key, blocks=None, sharing=sharing)
    plain = allocations(both_passes(cora_sized, Mask(Kind.NONE, torch.zeros(()), key)))
    masked = allocations(both_passes(cora_sized, mask))
    assert masked.peak - plain.peak < 1 << 20
    if not per_edge:  # rates become thresholds in a few steps, each an array of E numbers
        assert masked.total - plain.total < 1 << 20
    smallest_mask = cora_sized.num_edges * FEATURES  # a byte for each
    assert smallest_mask > 1 << 20


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the limit is set as it is done on Linux"
)
@pytest.mark.parametrize(
    ("kind", "per_edge"),
    [pytest.param(Kind.HARD, False, marks=pytest.mark.slow), (Kind.CONCRETE, True)],
)
def test_a_masked_pass_fits_where_no_array_of_masks_does(kind: Kind, per_edge: bool) -> None:
    finished = subprocess.run(
        [sys.executable, step_under_limit.__file__, kind, *["--per-edge"] * per_edge],
        # one arena and one thread: what malloc sets aside for others is no array of ours
        env={
            **os.environ,
            "PYTHONPATH": str(TESTS),
            "OMP_NUM_THREADS": "1",
            "MALLOC_ARENA_MAX": "1",
        },
        capture_output=True,
        check=False,
        text=True,
        timeout=patience.SECONDS,
    )
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout) == {
        "fused": True,
        "all messages at once": False,
        "n by n": False,
        "E by features": False,
    }
