"""Checks of the arguments of metrics, and sorting by a score."""

import math
from enum import StrEnum
from typing import TypeVar

import torch
from torch import Tensor

Choice = TypeVar("Choice", bound=StrEnum)


def check_probabilities(probabilities: Tensor, name: str = "probabilities") -> Tensor:
    """The mean probabilities `(n, classes)` in float64; `(samples, n, classes)` is averaged."""
    if not isinstance(probabilities, Tensor) or not probabilities.is_floating_point():
        kind = getattr(probabilities, "dtype", type(probabilities).__name__)
        raise ValueError(
            f"{name} is {kind}, but a floating-point tensor is needed: "
            "pass the softmax of the logits, not the predicted classes"
        )
    if probabilities.ndim not in (2, 3):
        raise ValueError(
            f"{name} has shape {tuple(probabilities.shape)}; it takes (n, classes) or "
            "(samples, n, classes): add or remove a dimension"
        )
    if probabilities.numel() == 0:
        raise ValueError(
            f"{name} has shape {tuple(probabilities.shape)}, but at least one example is needed: "
            "check the mask that selected the examples"
        )
    if probabilities.isnan().any():
        raise ValueError(
            f"{name} holds NaN, but every entry must lie in [0, 1]: "
            "the model diverged, or a row was divided by zero"
        )
    smallest, largest = (bound.item() for bound in probabilities.aminmax())
    # Rounding in a row's sum grows with the precision of what was summed, so half precision gets
    # a wider margin.
    margin = 1e-4 if torch.finfo(probabilities.dtype).bits >= 32 else 2e-2
    if smallest < 0 or largest > 1 + margin:
        raise ValueError(
            f"{name} ranges from {smallest:.4g} to {largest:.4g}, but every entry must lie in "
            "[0, 1]: apply a softmax to logits first"
        )
    off = (probabilities.sum(-1, dtype=torch.float64) - 1).abs().max().item()
    if off > margin:
        raise ValueError(
            f"{name} has a row whose sum is {off:.4g} away from 1, but each row must sum to 1 "
            f"within {margin:g}: classes go in the last dimension"
        )
    if probabilities.ndim == 3:
        return probabilities.mean(0, dtype=torch.float64)
    return probabilities.to(torch.float64)


def check_labels(labels: Tensor, examples: int, classes: int, name: str = "labels") -> Tensor:
    """The class ids `(n,)` as int64, each checked to lie in `[0, classes)`."""
    check_length(labels, examples, name)
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(f"{name} is {labels.dtype}, but class ids are integers: call .long()")
    smallest, largest = (int(bound) for bound in labels.aminmax())
    if smallest < 0 or largest >= classes:
        raise ValueError(
            f"{name} ranges from {smallest} to {largest}, but with {classes} classes it must lie "
            f"in 0..{classes - 1}: leave unlabelled examples out, or check the number of classes"
        )
    return labels.to(torch.int64)


def check_scores(scores: Tensor, examples: int, name: str = "uncertainty") -> Tensor:
    """One finite number per example, `(n,)`, in float64."""
    check_length(scores, examples, name)
    if scores.is_complex():
        raise ValueError(f"{name} is {scores.dtype}; it takes one real number per example")
    if not scores.isfinite().all():
        raise ValueError(
            f"{name} holds NaN or infinity, but every score must be finite: "
            "look for a logarithm of zero in it"
        )
    return scores.to(torch.float64)


def check_flags(flags: Tensor, examples: int, name: str) -> Tensor:
    """One boolean per example, `(n,)`; integers 0 and 1 pass too."""
    check_length(flags, examples, name)
    if flags.dtype != torch.bool and not torch.isin(flags, flags.new_tensor([0, 1])).all():
        raise ValueError(f"{name} holds values other than 0 and 1: pass a boolean per example")
    return flags.to(torch.bool)


def check_length(values: Tensor, examples: int, name: str) -> None:
    """One value per example and at least one example, or an error that says which."""
    if not isinstance(values, Tensor):
        raise ValueError(f"{name} is {type(values).__name__}; it takes a tensor of shape (n,)")
    if values.shape != (examples,) or examples == 0:
        raise ValueError(
            f"{name} has shape {tuple(values.shape)}; it takes one value for each of the "
            f"{examples} examples and at least one example: select the same examples in both"
        )


def check_fraction(fraction: float, name: str) -> float:
    """A number in `(0, 1]`."""
    if not 0 < fraction <= 1:
        raise ValueError(f"{name} is {fraction}; it takes a number in (0, 1], such as 0.9")
    return float(fraction)


def choose(options: type[Choice], value: str, name: str) -> Choice:
    """The member of `options` that `value` names, or an error that lists them all."""
    try:
        return options(value)
    except ValueError:
        known = ", ".join(repr(option.value) for option in options)
        raise ValueError(f"{name} is {value!r}; it takes one of {known}") from None


def count_at_least(fraction: float, total: int) -> int:
    """The smallest whole number that is at least `fraction * total`, and at least 1.

    Rounding must not raise it: 0.07 * 100 is a hair above 7 in floating point and is still 7.
    """
    return max(1, math.ceil(fraction * total - 1e-9 * total))


def sort_by(score: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Sort by a score; the values in that order are averaged among equal scores.

    Giving each of a group of equal scores the group's mean makes a cumulative sum of the values
    the expectation over all ways to order the group.
    """
    score, order = score.sort()
    _, group, size = torch.unique_consecutive(score, return_inverse=True, return_counts=True)
    total = torch.bincount(group, weights=values[order].to(torch.float64))
    return score, (total / size)[group]
