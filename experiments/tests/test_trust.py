"""``reproduce trust``: pooled calibration errors, their floor, and the table of a short run."""

import pytest
import torch

from experiments.measures import BINS
from experiments.trust import floor_gaps, pooled_ece
from graphdrop.calibration import calibration_floor
from graphdrop.metrics import calibration_error, reliability


def forecast(nodes: int, seed: int) -> torch.Tensor:
    return torch.randn(nodes, 4, generator=torch.Generator().manual_seed(seed)).mul(2).softmax(1)


def record(nodes: int, seed: int) -> tuple[dict, torch.Tensor, torch.Tensor]:
    probabilities = forecast(nodes, seed)
    labels = torch.randint(4, (nodes,), generator=torch.Generator().manual_seed(seed))
    bins = reliability(probabilities, labels, bins=BINS)
    found = {
        "curves": {"reliability": {n: v.tolist() for n, v in bins._asdict().items()}},
        "floor_gaps": floor_gaps(probabilities, forecast(200, seed + 50), seed),
    }
    return found, probabilities, labels


def test_the_pooled_error_is_that_of_all_test_nodes_together():
    runs = [record(300, 0), record(500, 1)]
    error, _, _ = pooled_ece([found for found, _, _ in runs])
    together = [torch.cat([run[k] for run in runs]) for k in (1, 2)]
    assert error == pytest.approx(float(calibration_error(*together, bins=BINS)), abs=1e-5)


def test_the_floor_of_one_run_is_that_of_the_metrics():
    found, probabilities, _ = record(1000, 2)
    _, mean, high = pooled_ece([found])
    other = calibration_floor(probabilities, forecast(200, 52), draws=400)
    # 50 draws with a deviation of about 0.005: six standard errors of their mean
    assert mean == pytest.approx(other.mean, abs=0.005)
    assert mean < high
