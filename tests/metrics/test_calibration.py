"""Calibration error by hand, against torchmetrics, and on models calibrated by construction."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchmetrics.functional.classification import multiclass_calibration_error

from graphdrop.metrics import (
    calibration_error,
    nll,
    posterior_calibration_error,
    posterior_divergence,
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


@pytest.mark.parametrize(
    ("norm", "theirs", "bins"),
    [("expected", "l1", 15), ("maximum", "max", 7)],
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


@pytest.mark.parametrize("binning", ["equal-width", "equal-mass"])
def test_labels_drawn_from_the_probabilities_are_calibrated(binning):
    probabilities, _ = _random(3, 100_000)
    labels = torch.multinomial(probabilities, 1, generator=torch.Generator().manual_seed(4))[:, 0]
    calibrated = calibration_error(probabilities, labels, binning=binning)
    assert calibrated.item() < 0.01
    sharpened = (3 * probabilities.log()).softmax(-1)
    assert calibration_error(sharpened, labels, binning=binning).item() > 0.1


@given(
    seed=st.integers(0, 2**20),
    examples=st.integers(1, 60),
    bins=st.integers(1, 20),
    binning=st.sampled_from(["equal-width", "equal-mass"]),
)
@settings(max_examples=50, deadline=None)
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


OTHER = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]], dtype=torch.float64)
TRUE = torch.tensor([[0.25, 0.75, 0.0], [0.0, 1.0, 0.0]], dtype=torch.float64)


def test_two_examples_by_hand():
    first = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.3)
    second = math.log(1 / 0.6)
    assert posterior_divergence(OTHER, TRUE).item() == pytest.approx((first + second) / 2)
    # one bin each: predicted with 0.5 and right with 0.25, predicted with 0.6 and always right
    error = posterior_calibration_error(OTHER, TRUE, bins=20)
    assert error.item() == pytest.approx((0.25 + 0.4) / 2)
    worst = posterior_calibration_error(OTHER, TRUE, bins=20, norm="maximum")
    assert worst.item() == pytest.approx(0.4)


def test_a_certain_label_is_a_posterior_too():
    generator = torch.Generator().manual_seed(1)
    probabilities = torch.randn(300, 5, generator=generator).double().softmax(-1)
    labels = torch.randint(5, (300,), generator=generator)
    certain = torch.nn.functional.one_hot(labels).double()
    torch.testing.assert_close(
        posterior_calibration_error(probabilities, certain),
        calibration_error(probabilities, labels),
    )
    torch.testing.assert_close(
        posterior_divergence(probabilities, certain), nll(probabilities, labels)
    )


def test_other_nodes_are_refused():
    with pytest.raises(ValueError, match=r"posterior has shape \(1, 3\).*select the same nodes"):
        posterior_divergence(OTHER, TRUE[:1])


def test_a_posterior_is_calibrated_and_a_sharper_or_flatter_one_is_not():
    posterior, _ = _random(6, 4000)
    labels = torch.multinomial(posterior, 1, generator=torch.Generator().manual_seed(7))[:, 0]
    assert posterior_calibration_error(posterior, posterior) == 0
    assert posterior_divergence(posterior, posterior).item() == pytest.approx(0, abs=1e-6)
    for temperature in (0.5, 2.0):
        other = (posterior.log() / temperature).softmax(1)
        assert posterior_calibration_error(other, posterior) > 0.03
        assert posterior_divergence(other, posterior) > 0.01
        assert nll(other, labels) > nll(posterior, labels)
