"""Consistency loss: sampled predictions are pulled towards their sharpened mean."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphdrop.config import ObjectiveSettings
from graphdrop.train.tasks import Task


def check_consistency(settings: ObjectiveSettings, task: Task) -> None:
    """Raise if the outputs are not logits of classes, which the consistency loss compares."""
    if settings.agree and task.output != "classes":
        raise ValueError(
            f"objective.agree is {settings.agree:g}, but the task is {type(task).__name__}, and "
            "the consistency loss compares probabilities of classes: set it to 0"
        )


def consistency_loss(logits: Sequence[Tensor], temperature: float) -> Tensor:
    r"""Consistency loss: mean squared distance of the samples to their sharpened mean.

    .. math:: \frac{1}{Sn} \sum_{s,i} \lVert p_{si} - q_i \rVert^2, \qquad
        q_{ic} \propto \bar p_{ic}^{1/T}, \quad \bar p_i = \frac1S \sum_s p_{si}

    It applies to labelled and unlabelled nodes. No gradient passes through the target ``q``.

    Args:
        logits: ``S`` samples, ``[n, classes]`` each.
        temperature: ``T``, the sharpening temperature; below 1 the target is sharper than the mean.
    """
    probabilities = torch.stack([one.softmax(-1) for one in logits])
    with torch.no_grad():
        mean = probabilities.mean(0)
        target = torch.softmax(mean.clamp_min(torch.finfo(mean.dtype).tiny).log() / temperature, -1)
    return (probabilities - target).square().sum(-1).mean()
