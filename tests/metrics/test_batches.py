"""A metric over batches equals its function on the whole, for any split in any order."""

import pickle
from functools import partial
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdrop.metrics import (
    OverBatches,
    calibration_error,
    ood_auroc,
    pavpu_curve,
)

# by name: a function, its options, and the columns below that it takes
MEASURES = {
    "calibration error": (
        calibration_error,
        {"bins": 6, "binning": "equal-mass"},
        ("probabilities", "labels"),
    ),
    "pavpu": (
        pavpu_curve,
        {"thresholds": [0.0, 0.3, 1.0]},
        ("probabilities", "labels", "uncertainty", "predictions"),
    ),
    "auroc": (ood_auroc, {}, ("uncertainty", "out_of_distribution")),
}


def _columns(name: str, seed: int, examples: int):
    """Probabilities on a coarse grid, so that scores tie, and everything else an update takes."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randint(1, 4, (examples, 4), generator=generator).float()
    probabilities = weights / weights.sum(-1, keepdim=True)
    outside = torch.rand(examples, generator=generator) < 0.5
    outside[0], outside[-1] = True, False
    columns = {
        "probabilities": probabilities,
        "labels": torch.randint(4, (examples,), generator=generator),
        "uncertainty": torch.randint(5, (examples,), generator=generator) / 4,
        "predictions": torch.randint(4, (examples,), generator=generator),
        "out_of_distribution": outside,
    }
    return {column: columns[column] for column in MEASURES[name][2]}


@pytest.mark.parametrize("name", MEASURES)
@given(
    seed=st.integers(0, 2**20),
    examples=st.integers(2, 40),
    cuts=st.lists(st.floats(0, 1), max_size=4),
)
@settings(max_examples=15, deadline=None)
def test_batches_in_any_order_equal_the_function_on_the_whole(name, seed, examples, cuts):
    function, options, _ = MEASURES[name]
    columns = _columns(name, seed, examples)
    order = torch.randperm(examples, generator=torch.Generator().manual_seed(seed))
    metric = OverBatches(function, **options)
    for start, end in pairwise(sorted({0, examples, *(int(cut * examples) for cut in cuts)})):
        metric.update(**{key: column[order[start:end]] for key, column in columns.items()})
    torch.testing.assert_close(metric.compute(), function(**columns, **options), equal_nan=True)


@pytest.mark.parametrize("name", MEASURES)
def test_two_processes_merge_to_the_function_on_the_whole_and_a_reset_forgets_it(name):
    function, options, _ = MEASURES[name]
    columns, whole = _columns(name, 3, 30), partial(function, **options)
    here, there = OverBatches(function, **options), OverBatches(function, **options)
    here.update(**{key: column[:11] for key, column in columns.items()})
    there.update(**{key: column[11:] for key, column in columns.items()})
    here.merge_state(there)
    torch.testing.assert_close(here.compute(), whole(**columns), equal_nan=True)
    # What was merged survives pickling, and is forgotten on reset.
    copy = pickle.loads(pickle.dumps(here))
    torch.testing.assert_close(copy.compute(), whole(**columns), equal_nan=True)
    copy.reset()
    copy.update(**_columns(name, 5, 25))
    torch.testing.assert_close(copy.compute(), whole(**_columns(name, 5, 25)), equal_nan=True)
