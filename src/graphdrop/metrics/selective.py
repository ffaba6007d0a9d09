"""Selective prediction: risk-coverage curves and AURC."""

from typing import NamedTuple

import torch
from torch import Tensor

from graphdrop.metrics.inputs import (
    check_fraction,
    check_labels,
    check_probabilities,
    check_scores,
    count_at_least,
    sort_by,
)
from graphdrop.metrics.scoring import predictive_entropy


class Outcomes(NamedTuple):
    """`uncertainty` and `accurate`, both `(n,)`, and the number of classes."""

    uncertainty: Tensor
    accurate: Tensor
    classes: int


def judge(
    probabilities: Tensor,
    labels: Tensor,
    uncertainty: Tensor | None = None,
    predictions: Tensor | None = None,
) -> Outcomes:
    """Compare predictions with labels; the predictive entropy and the argmax are the defaults."""
    mean = check_probabilities(probabilities)
    examples, classes = mean.shape
    labels = check_labels(labels, examples, classes)
    uncertainty = predictive_entropy(mean) if uncertainty is None else uncertainty
    predictions = mean.argmax(-1) if predictions is None else predictions
    accurate = check_labels(predictions, examples, classes, "predictions") == labels
    return Outcomes(check_scores(uncertainty, examples), accurate, classes)


class RiskCoverage(NamedTuple):
    """`coverage` k/n for k = 1..n and the selective `risk` at each, both `(n,)`."""

    coverage: Tensor
    risk: Tensor


def risk_coverage_curve(
    probabilities: Tensor,
    labels: Tensor,
    *,
    uncertainty: Tensor | None = None,
    predictions: Tensor | None = None,
) -> RiskCoverage:
    """The error rate among the k most certain examples, for every k.

    Among equal uncertainties the risk is the expectation over all ways to order them, so the curve
    does not depend on the order of the examples.

    Args:
        probabilities: mean probabilities `(n, classes)`, or `(samples, n, classes)`.
        labels: true class ids `(n,)`.
        uncertainty: `(n,)`, such as one minus the largest probability; the predictive entropy if
            not given.
        predictions: class ids `(n,)`, such as the majority vote; the argmax if not given.
    """
    return _curve(judge(probabilities, labels, uncertainty, predictions))


def selective_risk(
    probabilities: Tensor,
    labels: Tensor,
    coverage: float,
    *,
    uncertainty: Tensor | None = None,
    predictions: Tensor | None = None,
) -> Tensor:
    """The error rate among the `ceil(coverage * n)` most certain examples.

    The other arguments and the handling of ties are those of `risk_coverage_curve`.
    """
    risk = _curve(judge(probabilities, labels, uncertainty, predictions)).risk
    return risk[count_at_least(check_fraction(coverage, "coverage"), risk.numel()) - 1]


def aurc(
    probabilities: Tensor,
    labels: Tensor,
    *,
    uncertainty: Tensor | None = None,
    predictions: Tensor | None = None,
) -> Tensor:
    """Area under the risk-coverage curve, `(1/n) sum_k risk(k)` over k = 1..n.

    0 when every prediction is right; the error rate, on average, for a random uncertainty.
    The arguments and the handling of ties are those of `risk_coverage_curve`.

    Example:
        >>> probabilities = torch.tensor([[0.9, 0.1], [0.6, 0.4]])
        >>> aurc(probabilities, torch.tensor([0, 1])).item()  # risks 0 and 1/2
        0.25
    """
    return _curve(judge(probabilities, labels, uncertainty, predictions)).risk.mean()


def excess_aurc(
    probabilities: Tensor,
    labels: Tensor,
    *,
    uncertainty: Tensor | None = None,
    predictions: Tensor | None = None,
) -> Tensor:
    """AURC less the AURC of the best order, which puts every error after every right answer.

    At equal accuracy it judges the uncertainty alone: 0 is perfect. The best order's area is the
    finite sum, not its logarithmic approximation. The arguments are those of `risk_coverage_curve`.
    """
    outcomes = judge(probabilities, labels, uncertainty, predictions)
    # With all errors in one group of equal uncertainty the order inside it is immaterial.
    best = outcomes._replace(uncertainty=(~outcomes.accurate).to(torch.float64))
    return (_curve(outcomes).risk.mean() - _curve(best).risk.mean()).clamp(min=0.0)


def _curve(outcomes: Outcomes) -> RiskCoverage:
    _, errors = sort_by(outcomes.uncertainty, ~outcomes.accurate)
    kept = torch.arange(1, errors.numel() + 1, dtype=torch.float64, device=errors.device)
    # The cumulative mean of zeros and ones can round an ulp past 1.
    return RiskCoverage(kept / errors.numel(), (errors.cumsum(0) / kept).clamp(max=1.0))
