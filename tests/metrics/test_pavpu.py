"""PAvPU against counts made by hand, on every axis."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdrop.metrics import ThresholdAxis, pavpu, pavpu_curve
from graphdrop.metrics import predictive_entropy as entropy

# Six examples of two classes, all predicted as class 0, with these uncertainties:
#   right at 0.1 and 0.2, wrong at 0.2, right at 0.4, wrong at 0.6, wrong at 0.8
PROBABILITIES = torch.tensor([[0.9, 0.1]] * 6)
LABELS = torch.tensor([0, 0, 1, 0, 1, 1])
UNCERTAINTY = torch.tensor([0.1, 0.2, 0.2, 0.4, 0.6, 0.8], dtype=torch.float64)


def _by_counting(uncertainty, accurate, cutoff):
    certain = [u <= cutoff for u in uncertainty]
    pairs = list(zip(accurate, certain, strict=True))
    n_ac, n_au = pairs.count((True, True)), pairs.count((True, False))
    n_ic, n_iu = pairs.count((False, True)), pairs.count((False, False))

    def divide(part, whole):
        return part / whole if whole else math.nan

    return (
        divide(n_ac + n_iu, n_ac + n_au + n_ic + n_iu),
        divide(n_ac, n_ac + n_ic),
        divide(n_iu, n_ic + n_iu),
    )


def test_six_examples_by_hand():
    # At 0.5 of the largest, 0.4: certain are two right, one wrong and one right.
    result = pavpu(PROBABILITIES, LABELS, 0.5, uncertainty=UNCERTAINTY)
    assert result.pavpu.item() == pytest.approx(5 / 6)
    assert result.accurate_given_certain.item() == pytest.approx(3 / 4)
    assert result.uncertain_given_inaccurate.item() == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("axis", "cutoffs"),
    [
        (ThresholdAxis.LARGEST, [0.0, 0.2, 0.4, 0.8]),
        (ThresholdAxis.LOG_CLASSES, [0.0, math.log(2) / 4, math.log(2) / 2, math.log(2)]),
        (ThresholdAxis.RANGE, [0.1, 0.275, 0.45, 0.8]),
        (ThresholdAxis.VALUE, [0.0, 0.25, 0.5, 1.0]),
    ],
)
def test_every_axis_by_counting(axis, cutoffs):
    curve = pavpu_curve(
        PROBABILITIES, LABELS, [0.0, 0.25, 0.5, 1.0], axis=axis.value, uncertainty=UNCERTAINTY
    )
    assert curve.thresholds.tolist() == [0.0, 0.25, 0.5, 1.0]
    assert curve.cutoffs.tolist() == pytest.approx(cutoffs, rel=1e-15)
    accurate = (LABELS == 0).tolist()
    expected = [_by_counting(UNCERTAINTY.tolist(), accurate, cutoff) for cutoff in cutoffs]
    for values, column in zip(curve[2:], zip(*expected, strict=True), strict=True):
        assert values.tolist() == pytest.approx(list(column), nan_ok=True)


@given(seed=st.integers(0, 2**20), examples=st.integers(1, 30), classes=st.integers(2, 9))
@settings(max_examples=40, deadline=None)
def test_at_the_largest_it_is_the_accuracy(seed, examples, classes):
    generator = torch.Generator().manual_seed(seed)
    probabilities = (4 * torch.randn(examples, classes, generator=generator)).softmax(-1)
    probabilities[0] = 1 / classes
    labels = torch.randint(classes, (examples,), generator=generator)
    accuracy = (probabilities.argmax(-1) == labels).double().mean().item()
    for axis in ("fraction-of-largest", "fraction-of-log-classes", "smallest-to-largest"):
        result = pavpu(probabilities, labels, 1.0, axis=axis)
        assert result.pavpu.item() == pytest.approx(accuracy)
        assert result.accurate_given_certain.item() == pytest.approx(accuracy)
        if accuracy < 1:
            assert result.uncertain_given_inaccurate.item() == 0.0


@given(seed=st.integers(0, 2**20), examples=st.integers(1, 30), axis=st.sampled_from(ThresholdAxis))
@settings(max_examples=40, deadline=None)
def test_the_curve_is_counting_at_each_of_its_cutoffs(seed, examples, axis):
    generator = torch.Generator().manual_seed(seed)
    probabilities = torch.randn(examples, 3, generator=generator).softmax(-1)
    labels = torch.randint(3, (examples,), generator=generator)
    curve = pavpu_curve(probabilities, labels, [0.0, 0.4, 0.9, 0.97, 1.0], axis=axis)
    uncertainty = entropy(probabilities).tolist()
    accurate = (probabilities.argmax(-1) == labels).tolist()
    for index, cutoff in enumerate(curve.cutoffs.tolist()):
        expected = _by_counting(uncertainty, accurate, cutoff)
        found = [values[index].item() for values in curve[2:]]
        assert found == pytest.approx(expected, nan_ok=True)
        assert all(math.isnan(value) or 0 <= value <= 1 for value in found)


@pytest.mark.parametrize("threshold", [-0.1, 1.01, float("nan")])
def test_a_fraction_outside_zero_to_one_is_refused(threshold):
    with pytest.raises(ValueError, match=r"threshold is .* a fraction in \[0, 1\]"):
        pavpu(PROBABILITIES, LABELS, threshold)


def test_what_a_curve_cannot_know_is_asked_for():
    with pytest.raises(ValueError, match="no default"):
        pavpu_curve(PROBABILITIES, LABELS, axis="value")
    with pytest.raises(ValueError, match="thresholds has shape"):
        pavpu_curve(PROBABILITIES, LABELS, [])
    with pytest.raises(ValueError, match="smallest-to-largest"):
        pavpu(PROBABILITIES, LABELS, 0.5, uncertainty=UNCERTAINTY - 1)
