"""PAvPU, patch accuracy versus patch uncertainty: accurate when certain, uncertain when wrong."""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import torch
from torch import Tensor

from graphdrop.metrics.inputs import choose
from graphdrop.metrics.selective import judge


class ThresholdAxis(StrEnum):
    """The unit of a threshold, here for a threshold of 0.5."""

    LARGEST = "fraction-of-largest"
    """Half of the largest uncertainty observed: the axis of the paper's figure."""
    LOG_CLASSES = "fraction-of-log-classes"
    """Half of `log(classes)`, the entropy of a uniform guess: comparable between models."""
    RANGE = "smallest-to-largest"
    """Half of the way from the smallest to the largest uncertainty observed."""
    VALUE = "value"
    """An uncertainty of 0.5 itself: for a threshold that was chosen on other data."""


class PavpuResult(NamedTuple):
    """PAvPU at one threshold, and its two conditional probabilities (NaN where undefined)."""

    pavpu: Tensor
    accurate_given_certain: Tensor
    uncertain_given_inaccurate: Tensor


class PavpuCurveResult(NamedTuple):
    """PAvPU at each threshold, all `(thresholds,)`; `cutoffs` are the uncertainties they stand for.

    A conditional probability is NaN where nothing meets its condition.
    """

    thresholds: Tensor
    cutoffs: Tensor
    pavpu: Tensor
    accurate_given_certain: Tensor
    uncertain_given_inaccurate: Tensor


def pavpu(
    probabilities: Tensor,
    labels: Tensor,
    threshold: float,
    *,
    axis: ThresholdAxis | str = ThresholdAxis.LARGEST,
    uncertainty: Tensor | None = None,
    predictions: Tensor | None = None,
) -> PavpuResult:
    """PAvPU at one threshold, `(n_ac + n_iu) / (n_ac + n_au + n_ic + n_iu)`.

    The paper's figure 1 shows it. `a` and `i` stand for accurate and inaccurate, `c` and `u` for
    certain and uncertain. A prediction is certain if its uncertainty is at most the threshold; at
    1.0 of the largest uncertainty PAvPU is therefore the accuracy.

    Args:
        probabilities: mean probabilities `(n, classes)`, or `(samples, n, classes)`.
        labels: true class ids `(n,)`.
        threshold: the largest uncertainty that counts as certain, on `axis`.
        axis: the unit of `threshold` (`ThresholdAxis`).
        uncertainty: `(n,)`, such as the mutual information; by default the predictive entropy.
        predictions: class ids `(n,)`, such as the majority vote; by default the argmax.

    Example:
        >>> probabilities = torch.tensor([[0.9, 0.1], [0.5, 0.5]])
        >>> pavpu(probabilities, torch.tensor([0, 1]), threshold=0.5).pavpu.item()
        1.0
    """
    curve = pavpu_curve(
        probabilities,
        labels,
        [float(threshold)],
        axis=axis,
        uncertainty=uncertainty,
        predictions=predictions,
    )
    return PavpuResult(
        curve.pavpu[0], curve.accurate_given_certain[0], curve.uncertain_given_inaccurate[0]
    )


def pavpu_curve(
    probabilities: Tensor,
    labels: Tensor,
    thresholds: Sequence[float] | Tensor | None = None,
    *,
    axis: ThresholdAxis | str = ThresholdAxis.LARGEST,
    uncertainty: Tensor | None = None,
    predictions: Tensor | None = None,
) -> PavpuCurveResult:
    """PAvPU over thresholds, by default 0, 0.05, ... 1; the other arguments are those of `pavpu`.

    The paper's figure shows the fractions 0.5 to 1.
    """
    scores, right, classes = judge(probabilities, labels, uncertainty, predictions)
    axis = choose(ThresholdAxis, axis, "axis")
    rising, order = scores.sort()
    positions = _check_thresholds(thresholds, axis).to(rising.device)
    cutoffs = positions
    match axis:
        case ThresholdAxis.LOG_CLASSES:
            cutoffs = positions * math.log(classes)
        case ThresholdAxis.RANGE:
            # lerp is exact at both ends, where smallest + 1 * (largest - smallest) may fall an
            # ulp short of the largest and lose it.
            cutoffs = torch.lerp(rising[0], rising[-1], positions)
        case ThresholdAxis.LARGEST:
            if rising[-1] < 0:
                raise ValueError(
                    f"uncertainty is at most {rising[-1].item():.4g}, but a fraction of the "
                    "largest needs it to be non-negative: use the axis "
                    f"{ThresholdAxis.RANGE.value!r}"
                )
            cutoffs = positions * rising[-1]
    examples, accurate = rising.numel(), right[order].double().cumsum(0)
    certain = torch.searchsorted(rising, cutoffs, right=True)
    accurate_certain = torch.cat([accurate.new_zeros(1), accurate])[certain]
    inaccurate_uncertain = (examples - certain) - (accurate[-1] - accurate_certain)
    return PavpuCurveResult(
        thresholds=positions,
        cutoffs=cutoffs,
        pavpu=(accurate_certain + inaccurate_uncertain) / examples,
        accurate_given_certain=accurate_certain / certain,
        uncertain_given_inaccurate=inaccurate_uncertain / (examples - accurate[-1]),
    )


def _check_thresholds(thresholds: Sequence[float] | Tensor | None, axis: ThresholdAxis) -> Tensor:
    if thresholds is None:
        if axis is ThresholdAxis.VALUE:
            raise ValueError(
                "thresholds is not given, but on the axis 'value' there is no default: "
                "pass the uncertainties to use as thresholds"
            )
        return torch.linspace(0, 1, 21, dtype=torch.float64)
    positions = torch.as_tensor(thresholds, dtype=torch.float64)
    if positions.ndim != 1 or positions.numel() == 0:
        raise ValueError(
            f"thresholds has shape {tuple(positions.shape)}; it takes a list of at least one "
            "number: pass for example [0.5, 1.0]"
        )
    inside = (positions >= 0) & (positions <= 1)
    valid = positions.isfinite() if axis is ThresholdAxis.VALUE else inside
    if not valid.all():
        wrong = positions[~valid][0].item()
        takes = "a finite number" if axis is ThresholdAxis.VALUE else "a fraction in [0, 1]"
        raise ValueError(
            f"threshold is {wrong}, but on the axis {axis.value!r} it must be {takes}: "
            "choose another axis if it is an uncertainty in nats"
        )
    return positions
