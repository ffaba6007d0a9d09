"""Calibration error by hand, against torchmetrics, and on models calibrated by construction."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchmetrics.functional.classification import multiclass_calibration_error

from graphdrop.metrics import (
    calibration_error,
    reliability,
)


def _random(seed: int, examples: int, classes: int = 5):
    generator = torch.Generator().manual_seed(seed)
    probabilities = (2 * torch.randn(examples, classes, generator=generator)).softmax(-1)
    return probabilities, torch.randint(classes, (examples,), generator=generator)


def _two_classes(confidences: list[float]):
    top = torch.tensor(confidences, dtype=torch.float64)
    return torch.stack([top, 1 - top], dim=1)


def test_four_examples_by_hand():
    # Bins (0.5, 0.75] with 0.6 right and 0.7 wrong, and (0.75, 1] with 0.8 right and 1.0 right.
    probabilities = _two_classes([0.6, 0.7, 0.8, 1.0])
    labels = torch.tensor([0, 1, 0, 0])
    bins = reliability(probabilities, labels, bins=4)
    assert bins.examples.tolist() == [0, 0, 2, 2]
    nan = math.nan
    assert bins.confidence.tolist() == pytest.approx([nan, nan, 0.65, 0.9], nan_ok=True)
    assert bins.accuracy.tolist() == pytest.approx([nan, nan, 0.5, 1.0], nan_ok=True)
    ece = calibration_error(probabilities, labels, bins=4)
    mce = calibration_error(probabilities, labels, bins=4, norm="maximum")
    assert ece.item() == pytest.approx((2 * 0.15 + 2 * 0.1) / 4)
    assert mce.item() == pytest.approx(0.15)


def test_a_confidence_on_an_edge_belongs_to_the_bin_below():
    bins = reliability(_two_classes([0.5, 0.75, 1.0]), torch.tensor([0, 0, 0]), bins=4)
    assert bins.examples.tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("norm", "theirs", "bins"),
    [("expected", "l1", 1), ("expected", "l1", 15), ("maximum", "max", 7), ("maximum", "max", 15)],
)
def test_it_agrees_with_torchmetrics(norm, theirs, bins):
    probabilities, labels = _random(0, 400)
    expected = multiclass_calibration_error(
        probabilities, labels, num_classes=5, n_bins=bins, norm=theirs
    )
    found = calibration_error(probabilities, labels, bins=bins, norm=norm)
    torch.testing.assert_close(found.float(), expected, atol=1e-6, rtol=0)


def test_adaptive_bins_hold_equal_numbers_of_neighbours_in_confidence():
    probabilities, labels = _random(1, 103)
    bins = reliability(probabilities, labels, bins=10, binning="equal-mass")
    assert set(bins.examples.tolist()) == {10, 11}
    confidence, order = probabilities.double().max(-1).values.sort()
    right = (probabilities.argmax(-1) == labels).double()[order]
    start, gaps = 0, []
    for index, size in enumerate(bins.examples.tolist()):
        part = slice(start, start + size)
        assert bins.confidence[index].item() == pytest.approx(confidence[part].mean().item())
        assert bins.accuracy[index].item() == pytest.approx(right[part].mean().item())
        gaps.append(size * abs(confidence[part].mean() - right[part].mean()).item())
        start += size
    adaptive = calibration_error(probabilities, labels, bins=10, binning="equal-mass")
    assert adaptive.item() == pytest.approx(sum(gaps) / 103)


def test_adaptive_bins_share_a_group_of_equal_confidence_evenly():
    probabilities = _two_classes([0.75] * 4)
    labels = torch.tensor([0, 1, 1, 1])
    bins = reliability(probabilities, labels, bins=2, binning="equal-mass")
    assert bins.accuracy.tolist() == [0.25, 0.25]


def test_more_adaptive_bins_than_examples_leave_some_empty():
    probabilities, labels = _random(2, 3)
    bins = reliability(probabilities, labels, bins=5, binning="equal-mass")
    assert bins.examples.sum().item() == 3
    assert bins.accuracy.isnan().tolist() == (bins.examples == 0).tolist()
    assert calibration_error(probabilities, labels, bins=5, binning="equal-mass").isfinite()


@pytest.mark.parametrize("binning", ["equal-width", "equal-mass"])
def test_labels_drawn_from_the_probabilities_are_calibrated(binning):
    probabilities, _ = _random(3, 100_000)
    labels = torch.multinomial(probabilities, 1, generator=torch.Generator().manual_seed(4))[:, 0]
    calibrated = calibration_error(probabilities, labels, binning=binning)
    assert calibrated.item() < 0.01
    sharpened = (3 * probabilities.log()).softmax(-1)
    assert calibration_error(sharpened, labels, binning=binning).item() > 0.1


def test_fifteen_bins_of_equal_width_are_the_default():
    probabilities, labels = _random(5, 400)
    wanted = multiclass_calibration_error(probabilities, labels, 5, n_bins=15).item()
    assert calibration_error(probabilities, labels).item() == pytest.approx(wanted, abs=1e-6)
    assert len(reliability(probabilities, labels).examples) == 15


@given(
    seed=st.integers(0, 2**20),
    examples=st.integers(1, 60),
    bins=st.integers(1, 20),
    binning=st.sampled_from(["equal-width", "equal-mass"]),
)
@settings(max_examples=100, deadline=None)
def test_every_example_is_in_one_bin_and_the_errors_are_ordered(seed, examples, bins, binning):
    probabilities, labels = _random(seed, examples)
    filled = reliability(probabilities, labels, bins=bins, binning=binning)
    assert filled.examples.sum().item() == examples
    ece, mce = (
        calibration_error(probabilities, labels, bins=bins, binning=binning, norm=norm).item()
        for norm in ("expected", "maximum")
    )
    assert 0 <= ece <= mce + 1e-12
    assert mce <= 1
    overall = probabilities.double().max(-1).values.mean().item()
    accuracy = (probabilities.argmax(-1) == labels).double().mean().item()
    assert ece >= abs(overall - accuracy) - 1e-9  # merging bins can only cancel gaps


@given(seed=st.integers(0, 2**20), binning=st.sampled_from(["equal-width", "equal-mass"]))
@settings(max_examples=50, deadline=None)
def test_the_order_of_tied_examples_changes_nothing(seed, binning):
    generator = torch.Generator().manual_seed(seed)
    confidences = (5 + torch.randint(5, (30,), generator=generator)) / 10
    probabilities, labels = _two_classes(confidences.tolist()), torch.arange(30) % 2
    order = torch.randperm(30, generator=generator)
    here = reliability(probabilities, labels, bins=4, binning=binning)
    there = reliability(probabilities[order], labels[order], bins=4, binning=binning)
    for mine, other in zip(here, there, strict=True):
        torch.testing.assert_close(mine, other, equal_nan=True)
