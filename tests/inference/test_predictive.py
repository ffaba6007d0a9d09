"""What a predictive distribution says, from samples that are written down."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import entropy
from torch import Tensor

from graphdrop.inference import Predictive, predictive

SAMPLES = torch.tensor(  # [samples, nodes, classes]
    [
        [[0.7, 0.2, 0.1], [0.5, 0.5, 0.0], [0.05, 0.05, 0.9], [0.4, 0.35, 0.25]],
        [[0.6, 0.3, 0.1], [0.2, 0.8, 0.0], [0.05, 0.05, 0.9], [0.3, 0.45, 0.25]],
        [[0.1, 0.8, 0.1], [0.2, 0.8, 0.0], [0.05, 0.05, 0.9], [0.1, 0.15, 0.75]],
    ],
    dtype=torch.float64,
)


def summary_of(samples: Tensor, intervals: bool = False) -> Predictive:
    """Of probabilities `[samples, nodes, classes]`, given as logits one by one."""
    summary = predictive.sum_samples(iter(samples.log().clamp_min(-700.0)), "classes", intervals)
    assert isinstance(summary, Predictive)
    return summary


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found.double(), wanted.double(), rtol=0, atol=2e-7)


@pytest.mark.parametrize("together", [1, 13, 1 << 18])
def test_every_figure_is_that_of_its_definition(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictive, "FOLDED_NUMBERS", together)
    summary = summary_of(SAMPLES)
    mean = SAMPLES.mean(0)
    close(summary.probabilities, mean)
    close(summary.entropy, torch.from_numpy(entropy(mean, axis=1)))
    aleatoric = torch.from_numpy(entropy(SAMPLES, axis=2).mean(0))
    close(summary.aleatoric, aleatoric)
    close(summary.epistemic, summary.entropy.double() - aleatoric)
    close(summary.deviation, SAMPLES.std(0))
    close(summary.least_confidence, 1.0 - mean.amax(1))
    assert summary.samples == 3
    assert summary.probabilities.dtype == torch.float32


def test_the_vote_is_what_most_samples_chose_and_not_the_highest_mean() -> None:
    summary = summary_of(SAMPLES)
    # the second node's first sample is a tie, which goes to the first class
    assert summary.votes.tolist() == [[2, 1, 0], [1, 2, 0], [0, 0, 3], [1, 1, 1]]
    assert summary.vote.tolist() == [0, 1, 2, 2]  # and one vote each goes to the highest mean
    assert summary.classes.tolist() == [0, 1, 2, 2]
    two_of_three = torch.tensor([[[0.4, 0.3, 0.3]], [[0.4, 0.3, 0.3]], [[0.0, 1.0, 0.0]]])
    summary = summary_of(two_of_three)
    assert (summary.vote.item(), summary.classes.item()) == (0, 1)


def test_samples_that_agree_leave_no_epistemic_part_and_no_deviation() -> None:
    summary = summary_of(SAMPLES[:1].expand(50, -1, -1))
    assert summary.epistemic.abs().max() < 2e-7
    assert summary.deviation.max() < 1e-12
    close(summary.entropy, summary.aleatoric)


def test_samples_that_contradict_each_other_are_all_epistemic() -> None:
    certain = torch.eye(2, dtype=torch.float64).clamp_min(1e-300)[:, None]
    summary = summary_of(certain)
    close(summary.epistemic, torch.tensor([math.log(2.0)]))
    assert summary.aleatoric.item() == 0.0


def test_a_deviation_far_below_the_probability_is_still_found() -> None:
    near = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    shift = 1e-9 * torch.tensor([1.0, -1.0, 0.0], dtype=torch.float64)
    summary = summary_of(torch.stack([near + shift, near - shift, near])[:, None])
    torch.testing.assert_close(
        summary.deviation[0, :2], torch.full((2,), 1e-9), rtol=1e-3, atol=0.0
    )


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_hold_the_middle_of_the_samples_to_a_thousandth(level: float) -> None:
    generator = torch.Generator().manual_seed(0)
    samples = torch.randn(401, 3, 4, generator=generator, dtype=torch.float64).softmax(-1)
    low, high = summary_of(samples, intervals=True).intervals(level)
    ends = [(1 - level) / 2, (1 + level) / 2]
    exact_low, exact_high = torch.from_numpy(
        np.quantile(samples, ends, axis=0, method="inverted_cdf")
    )
    assert bool(((low <= exact_low) & (exact_low <= low + 1 / 1024)).all())
    assert bool(((high - 1 / 1024 <= exact_high) & (exact_high <= high)).all())
    inside = ((samples >= low) & (samples <= high)).double().mean(0)
    assert bool((inside >= level).all())
    assert bool((inside <= level + 0.03).all())


def test_an_interval_of_certainty_is_its_bin() -> None:
    low, high = summary_of(SAMPLES[:, 2:3], intervals=True).intervals()
    assert (low[0, 2].item(), high[0, 2].item()) == (921 / 1024, 922 / 1024)  # 0.9 lies between
    certain = torch.tensor([[[1.0, 1e-300]]], dtype=torch.float64)
    low, high = summary_of(certain, intervals=True).intervals()
    assert (low[0, 0].item(), high[0, 0].item()) == (1023 / 1024, 1.0)


def test_intervals_say_what_they_need() -> None:
    with pytest.raises(ValueError, match=r"call predict\(\.\.\., intervals=True\)"):
        summary_of(SAMPLES).intervals()
    with pytest.raises(ValueError, match=r"level is 1\.0; it takes a number between 0 and 1"):
        summary_of(SAMPLES, intervals=True).intervals(1.0)
