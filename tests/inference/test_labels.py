"""What a yes or no in every entry says, from samples that are written down."""

import pytest
import torch
from scipy.stats import bernoulli
from torch import Tensor

from graphdrop.inference import LabelPredictive, Predictive, predictive

SAMPLES = torch.tensor(  # [samples, nodes, labels]
    [
        [[0.7, 0.2], [0.5, 0.01], [0.05, 0.9]],
        [[0.6, 0.3], [0.2, 0.99], [0.05, 0.9]],
        [[0.1, 0.8], [0.2, 0.98], [0.05, 0.9]],
    ],
    dtype=torch.float64,
)


def summary_of(samples: Tensor, intervals: bool = False) -> LabelPredictive:
    summary = predictive.sum_samples(iter(samples.logit()), "labels", intervals)
    assert isinstance(summary, LabelPredictive)
    return summary


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found.double(), wanted.double(), rtol=0, atol=2e-7)


@pytest.mark.parametrize(("shape", "together"), [((3, 2), 1), ((6,), 1 << 18)])
def test_every_figure_is_that_of_its_definition(
    together: int, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictive, "FOLDED_NUMBERS", together)
    samples = SAMPLES.view(3, *shape)
    summary = summary_of(samples)
    mean = samples.mean(0)
    close(summary.probabilities, mean)
    assert torch.equal(summary.labels, mean > 0.5)
    close(summary.entropy, torch.from_numpy(bernoulli(mean.numpy()).entropy()))
    aleatoric = torch.from_numpy(bernoulli(samples.numpy()).entropy()).mean(0)
    close(summary.aleatoric, aleatoric)
    close(summary.epistemic, summary.entropy.double() - aleatoric)
    close(summary.deviation, samples.std(0))
    assert summary.samples == 3
    assert summary.probabilities.dtype == torch.float32


def test_a_label_is_a_choice_between_two_classes() -> None:
    """Logits of yes, beside logits of 0 for no: all that both kinds of output say is the same."""
    logits = torch.randn(9, 20, generator=torch.Generator().manual_seed(0))
    label = predictive.sum_samples(iter(logits), "labels", True)
    two = torch.stack([torch.zeros_like(logits), logits], -1)
    classes = predictive.sum_samples(iter(two), "classes", True)
    assert isinstance(label, LabelPredictive)
    assert isinstance(classes, Predictive)
    close(label.probabilities, classes.probabilities[:, 1])
    for name in ("entropy", "aleatoric", "epistemic", "least_confidence"):
        close(getattr(label, name), getattr(classes, name))
    close(label.deviation, classes.deviation[:, 1])
    assert torch.equal(label.reject(0.4).kept, classes.reject(0.4).kept)
    for one, other in zip(label.intervals(0.8), classes.intervals(0.8), strict=True):
        assert torch.equal(one, other[:, 1])
