"""Metrics against the true posterior of the labels, which is known for synthetic graphs.

They are the expectations of metrics over labels sampled from that posterior: they have no noise of
the labels, and are 0 for the posterior itself.
"""

import torch
from torch import Tensor

from graphdrop.metrics.calibration import Binning, CalibrationNorm, bin_by_confidence, reduce_gaps
from graphdrop.metrics.inputs import check_probabilities


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
