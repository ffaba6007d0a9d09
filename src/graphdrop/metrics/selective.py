"""Selective prediction: risk-coverage curves and AURC."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphdrop.metrics.inputs import check_fraction, count_at_least
from graphdrop.metrics.ordering import sort_by
from graphdrop.metrics.outcomes import OutcomeMetric, Outcomes, judge


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
    return _risk_at(judge(probabilities, labels, uncertainty, predictions), coverage)


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
    return _area(judge(probabilities, labels, uncertainty, predictions))


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
    return _excess(judge(probabilities, labels, uncertainty, predictions))


class RiskCoverageCurve(OutcomeMetric):
    """`risk_coverage_curve` over batches."""

    def compute(self) -> RiskCoverage:
        """The curve over all batches."""
        return _curve(self.outcomes())


class SelectiveRisk(OutcomeMetric):
    """`selective_risk` over batches."""

    higher_is_better = False

    def __init__(self, coverage: float, **options: Any) -> None:
        super().__init__(**options)
        self.coverage = check_fraction(coverage, "coverage")

    def compute(self) -> Tensor:
        """The risk over all batches."""
        return _risk_at(self.outcomes(), self.coverage)


class AURC(OutcomeMetric):
    """`aurc` over batches."""

    higher_is_better = False

    def compute(self) -> Tensor:
        """The area over all batches."""
        return _area(self.outcomes())


class ExcessAURC(OutcomeMetric):
    """`excess_aurc` over batches."""

    higher_is_better = False

    def compute(self) -> Tensor:
        """The excess over all batches."""
        return _excess(self.outcomes())


def _curve(outcomes: Outcomes) -> RiskCoverage:
    _, errors = sort_by(outcomes.uncertainty, ~outcomes.accurate)
    kept = torch.arange(1, errors.numel() + 1, dtype=torch.float64, device=errors.device)
    # The cumulative mean of zeros and ones can round an ulp past 1.
    return RiskCoverage(kept / errors.numel(), (errors.cumsum(0) / kept).clamp(max=1.0))


def _risk_at(outcomes: Outcomes, coverage: float) -> Tensor:
    risk = _curve(outcomes).risk
    return risk[count_at_least(check_fraction(coverage, "coverage"), risk.numel()) - 1]


def _area(outcomes: Outcomes) -> Tensor:
    return _curve(outcomes).risk.mean()


def _excess(outcomes: Outcomes) -> Tensor:
    best = outcomes._replace(uncertainty=(~outcomes.accurate).to(torch.float64))
    # With all errors in one group of equal uncertainty the order inside it is immaterial.
    return (_area(outcomes) - _area(best)).clamp(min=0.0)
