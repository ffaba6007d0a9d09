"""Calibration error and reliability diagrams: confidence against accuracy.

Against the true posterior of the labels, which is known for synthetic graphs, the metrics are
expectations over labels that are sampled from it: they have no noise of the labels, and are 0 for
the posterior itself.
"""

from enum import StrEnum
from typing import NamedTuple

import torch
from torch import Tensor

from graphdrop.metrics.inputs import check_labels, check_probabilities, choose, sort_by


class Binning(StrEnum):
    """How examples are grouped by confidence, the largest mean probability."""

    EQUAL_WIDTH = "equal-width"
    """Bin i of B holds confidences in `(i/B, (i+1)/B]`."""
    EQUAL_MASS = "equal-mass"
    """Bins of the same number of examples, within 1, as adaptive ECE has them."""


class CalibrationNorm(StrEnum):
    """The reduction of the differences between accuracy and confidence over bins."""

    EXPECTED = "expected"
    """Mean over the examples: ECE."""
    MAXIMUM = "maximum"
    """The largest gap of any bin: MCE."""


class ReliabilityBins(NamedTuple):
    """Mean `confidence`, `accuracy` and `examples` in each bin, `(bins,)`; NaN where empty."""

    confidence: Tensor
    accuracy: Tensor
    examples: Tensor


def reliability(
    probabilities: Tensor,
    labels: Tensor,
    *,
    bins: int = 15,
    binning: Binning | str = Binning.EQUAL_WIDTH,
) -> ReliabilityBins:
    """The bins of a reliability diagram: mean confidence and accuracy by confidence.

    With equal mass, examples of equal confidence that straddle two bins count with their group's
    accuracy in both, so the bins do not depend on the order of the examples.

    Args:
        probabilities: mean probabilities `(n, classes)`, or `(samples, n, classes)`.
        labels: true class ids `(n,)`.
        bins: how many bins.
        binning: equal width or equal mass.

    Example:
        >>> bins = reliability(torch.tensor([[0.75, 0.25]]), torch.tensor([0]), bins=2)
        >>> bins.accuracy[1].item(), bins.confidence[1].item()
        (1.0, 0.75)
    """
    mean = check_probabilities(probabilities)
    confidence, predictions = mean.max(-1)
    return bin_by_confidence(
        confidence, predictions == check_labels(labels, *mean.shape), bins, binning
    )


def calibration_error(
    probabilities: Tensor,
    labels: Tensor,
    *,
    bins: int = 15,
    norm: CalibrationNorm | str = CalibrationNorm.EXPECTED,
    binning: Binning | str = Binning.EQUAL_WIDTH,
) -> Tensor:
    """The expected calibration error, `sum_b (n_b / n) |accuracy_b - confidence_b|`.

    Args:
        probabilities: mean probabilities `(n, classes)`, or `(samples, n, classes)`.
        labels: true class ids `(n,)`.
        bins: number of bins.
        norm: `"expected"` (ECE) or `"maximum"` (MCE, the largest difference of a bin).
        binning: `"equal-width"`, or `"equal-mass"` for the adaptive ECE.

    Returns:
        A scalar.

    Example:
        >>> probabilities = torch.tensor([[0.75, 0.25], [0.75, 0.25]])
        >>> calibration_error(probabilities, torch.tensor([0, 1])).item()  # right half of the time
        0.25
    """
    return reduce_gaps(reliability(probabilities, labels, bins=bins, binning=binning), norm)


def bin_by_confidence(
    confidence: Tensor, accurate: Tensor, bins: int, binning: Binning | str
) -> ReliabilityBins:
    """Group examples `(n,)` by confidence; `accurate` is true or false, or a probability."""
    if not isinstance(bins, int) or bins < 1:
        raise ValueError(f"bins is {bins!r}; it takes a whole number of at least 1, such as 15")
    binning = choose(Binning, binning, "binning")
    confidence, accuracy = sort_by(confidence, accurate)
    if binning is Binning.EQUAL_WIDTH:
        edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64, device=confidence.device)
        index = torch.bucketize(confidence, edges[1:-1])
    else:
        examples = confidence.numel()
        index = torch.arange(examples, device=confidence.device) * bins // examples
    count = torch.bincount(index, minlength=bins)
    return ReliabilityBins(
        torch.bincount(index, weights=confidence, minlength=bins) / count,
        torch.bincount(index, weights=accuracy, minlength=bins) / count,
        count,
    )


def reduce_gaps(found: ReliabilityBins, norm: CalibrationNorm | str) -> Tensor:
    """One number for the gaps between accuracy and confidence of all bins."""
    norm = choose(CalibrationNorm, norm, "norm")
    gaps = (found.accuracy - found.confidence).abs().nan_to_num(nan=0.0)
    if norm is CalibrationNorm.MAXIMUM:
        return gaps.max()
    return (gaps * found.examples).sum() / found.examples.sum()


def posterior_calibration_error(
    probabilities: Tensor,
    posterior: Tensor,
    *,
    bins: int = 15,
    norm: CalibrationNorm | str = CalibrationNorm.EXPECTED,
    binning: Binning | str = Binning.EQUAL_WIDTH,
) -> Tensor:
    """`calibration_error` with the posterior probability of the predicted class for its accuracy.

    Args:
        probabilities: mean probabilities `(n, classes)`, or `(samples, n, classes)`.
        posterior: the true probabilities of the classes `(n, classes)`, which are known for
            synthetic graphs.
        bins: how many bins.
        norm: the mean over examples or the largest gap.
        binning: equal width or equal mass.
    """
    mean, true = _check_both(probabilities, posterior)
    confidence, predictions = mean.max(-1)
    expected = true.gather(1, predictions[:, None]).squeeze(1)
    return reduce_gaps(bin_by_confidence(confidence, expected, bins, binning), norm)


def posterior_divergence(probabilities: Tensor, posterior: Tensor) -> Tensor:
    """`mean_i KL(posterior_i || p_i)` in nats: the expected NLL above the least there can be.

    A probability of exactly 0 counts as in `nll`. The arguments are those of
    `posterior_calibration_error`.
    """
    mean, true = _check_both(probabilities, posterior)
    floor = torch.finfo(probabilities.dtype).tiny
    return (torch.xlogy(true, true) - true * mean.clamp(min=floor).log()).sum(-1).mean()


def _check_both(probabilities: Tensor, posterior: Tensor) -> tuple[Tensor, Tensor]:
    mean, true = check_probabilities(probabilities), check_probabilities(posterior, "posterior")
    if mean.shape != true.shape:
        raise ValueError(
            f"posterior has shape {tuple(true.shape)}; it takes {tuple(mean.shape)}, that of "
            "the probabilities: select the same nodes in both"
        )
    return mean, true
