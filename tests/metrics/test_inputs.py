"""Bad input is refused with an error that names the argument and what it takes."""

import pytest
import torch

from graphdrop.metrics import (
    aurc,
    brier_score,
    calibration_error,
    nll,
    ood_auroc,
    pavpu,
    reliability,
    risk_coverage_curve,
    selective_risk,
)
from graphdrop.metrics.inputs import check_probabilities, count_at_least

GOOD = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
LABELS = torch.tensor([0, 2])

MEASURES = {
    "pavpu": lambda p, y: pavpu(p, y, 0.5),
    "calibration_error": calibration_error,
    "reliability": reliability,
    "brier_score": brier_score,
    "nll": nll,
    "selective_risk": lambda p, y: selective_risk(p, y, 0.5),
    "risk_coverage_curve": risk_coverage_curve,
    "aurc": aurc,
}

BAD_PROBABILITIES = {
    "NaN": (torch.tensor([[0.5, 0.5, float("nan")], [0.1, 0.8, 0.1]]), "holds NaN"),
    "logits": (torch.tensor([[3.0, -2.0, 0.0], [0.1, 0.8, 0.1]]), "apply a softmax"),
    "one below 0": (torch.tensor([[0.6, 0.5, -0.1], [0.1, 0.8, 0.1]]), "must lie in \\[0, 1\\]"),
    "rows that do not sum to 1": (torch.full((2, 3), 0.3), "must sum to 1"),
    "class ids": (LABELS, "floating-point"),
    "a list": ([[0.5, 0.5]], "floating-point"),
    "one dimension": (torch.tensor([0.5, 0.5]), "takes \\(n, classes\\)"),
    "no examples": (torch.empty(0, 3), "at least one example"),
}

BAD_LABELS = {
    "too large": (torch.tensor([0, 3]), "must lie in 0..2"),
    "negative": (torch.tensor([-1, 0]), "leave unlabelled"),
    "floating": (torch.tensor([0.0, 1.0]), "integers"),
    "too many": (torch.tensor([0, 1, 2]), "each of the 2 examples"),
    "one-hot": (torch.eye(3, dtype=torch.long)[:2], "each of the 2 examples"),
    "a list": ([0, 1], "takes a tensor"),
}


@pytest.mark.parametrize("measure", ["pavpu", "calibration_error", "nll", "aurc"])
def test_bad_probabilities_and_labels_are_named(measure):
    for probabilities, message in BAD_PROBABILITIES.values():
        with pytest.raises(ValueError, match=f"^probabilities .*{message}"):
            MEASURES[measure](probabilities, LABELS)
    for labels, message in BAD_LABELS.values():
        with pytest.raises(ValueError, match=f"^labels .*{message}"):
            MEASURES[measure](GOOD, labels)


@pytest.mark.parametrize("measure", MEASURES)
def test_samples_are_averaged_before_measuring(measure):
    samples = torch.softmax(torch.randn(5, 40, 3, generator=torch.Generator().manual_seed(0)), -1)
    labels = torch.arange(40) % 3
    from_samples = MEASURES[measure](samples, labels)
    from_mean = MEASURES[measure](samples.double().mean(0), labels)
    torch.testing.assert_close(from_samples, from_mean, equal_nan=True)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (torch.tensor([0.1, float("nan")]), "finite"),
        (torch.tensor([0.1, float("inf")]), "finite"),
        (torch.tensor([0.1]), "each of the 2 examples"),
        (torch.tensor([1j, 2j]), "real"),
    ],
)
def test_bad_uncertainty_is_named(scores, message):
    with pytest.raises(ValueError, match=f"^uncertainty .*{message}"):
        aurc(GOOD, LABELS, uncertainty=scores)


@pytest.mark.parametrize(
    ("scores", "flags", "message"),
    [
        (torch.tensor([0.1, 0.2]), torch.tensor([True, True]), "marks 2 of 2"),
        (torch.tensor([0.1, 0.2]), torch.tensor([0, 0]), "marks 0 of 2"),
        (torch.tensor([0.1, 0.2]), torch.tensor([0, 2]), "other than 0 and 1"),
        (torch.tensor([0.1, 0.2]), torch.tensor([True]), "out_of_distribution has shape"),
        (torch.tensor([[0.1], [0.2]]), torch.tensor([True, False]), "uncertainty has shape"),
        (torch.tensor([]), torch.tensor([], dtype=torch.bool), "at least one example"),
    ],
)
def test_bad_detection_input_is_named(scores, flags, message):
    with pytest.raises(ValueError, match=message):
        ood_auroc(scores, flags)


@pytest.mark.parametrize("coverage", [0.0, -0.1, 1.1, float("nan")])
def test_coverage_must_be_a_positive_fraction(coverage):
    with pytest.raises(ValueError, match=r"^coverage is .*\(0, 1\]"):
        selective_risk(GOOD, LABELS, coverage)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"bins": 0}, "bins is 0"),
        ({"bins": 1.5}, "bins is 1.5"),
        ({"norm": "l3"}, "norm is 'l3'; it takes one of 'expected', 'maximum'"),
        ({"binning": "log"}, "binning is 'log'; it takes one of 'equal-width', 'equal-mass'"),
    ],
)
def test_unknown_calibration_options_are_named(option, message):
    with pytest.raises(ValueError, match=message):
        calibration_error(GOOD, LABELS, **option)


@pytest.mark.parametrize(
    ("dtype", "margin"), [(torch.float16, 2e-2), (torch.float32, 1e-4), (torch.float64, 1e-4)]
)
def test_a_sum_is_1_within_the_rounding_of_its_precision(dtype, margin):
    for off, fits in ((0.7 * margin, True), (1.4 * margin, False)):
        near = torch.tensor([[0.5, 0.5 + off]]).to(dtype)
        if fits:
            check_probabilities(near)
        else:
            with pytest.raises(ValueError, match="each row must sum to 1"):
                check_probabilities(near)


@pytest.mark.parametrize(
    ("fraction", "total", "count"),
    [(0.07, 100, 7), (0.071, 100, 8), (0.9, 10, 9), (1.0, 3, 3), (1e-12, 5, 1), (0.29, 100, 29)],
)
def test_rounding_does_not_add_an_example_to_a_fraction(fraction, total, count):
    assert count_at_least(fraction, total) == count
