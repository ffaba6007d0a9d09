"""Isotonic regression undoes a rising distortion, and is scikit-learn's for one sample."""

import numpy as np
import pytest
import torch
from sklearn.isotonic import IsotonicRegression as Reference

from graphdrop import calibrate
from graphdrop.calibration.isotonic import IsotonicRegression


def labelled(truth: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.multinomial(truth, 1, generator=generator).squeeze(1)


@pytest.mark.parametrize("samples", [1, 4])
def test_a_rising_distortion_of_two_classes_is_undone(samples):
    generator = torch.Generator().manual_seed(0)
    shown = torch.rand(6000, generator=generator) * 0.98 + 0.01
    truth = torch.where(shown < 0.5, 0.5 * shown, 0.25 + 1.5 * (shown - 0.5))  # no temperature
    labels = labelled(torch.stack([1 - truth, truth], 1))
    logits = torch.stack([torch.zeros_like(shown), torch.logit(shown)], 1)
    found = calibrate(logits.expand(samples, -1, -1), labels, "isotonic")
    corrected = torch.softmax(found.correct(logits), 1)[:, 1]
    assert float((corrected - truth).abs().mean()) < 0.03


def test_one_sample_gives_the_curves_of_scikit_learn():
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(200, 3, generator=generator)
    labels = labelled(torch.softmax(2.0 * logits, 1))
    found = IsotonicRegression.fit(lambda: iter(logits[None]), labels)
    new = np.linspace(0.0, 1.0, 101)
    probabilities = torch.softmax(logits.double(), 1).numpy()
    for label, (knots, values) in enumerate(found.curves):
        hit = (labels == label).double().numpy()
        wanted = Reference(out_of_bounds="clip").fit(probabilities[:, label], hit).predict(new)
        np.testing.assert_allclose(np.interp(new, knots, values), wanted, atol=1e-6)


def test_nothing_becomes_impossible():
    logits = torch.tensor([[5.0, 0.0, 0.0]]).repeat(9, 1)
    corrected = calibrate(logits, torch.zeros(9, dtype=torch.long), "isotonic").correct(logits)
    assert bool(torch.isfinite(corrected).all())


def test_a_curve_is_linear_between_its_knots_and_constant_beyond_them():
    knots = torch.tensor([0.2, 0.3, 0.7])
    first, second = torch.tensor([0.1, 0.4, 0.9]), torch.tensor([0.3, 0.5, 0.6])
    one_knot = torch.tensor([0.5]), torch.tensor([0.25])
    found = IsotonicRegression([(knots, first), (knots, second), one_knot], 0.15)
    logits = 3.0 * torch.randn(50, 3, generator=torch.Generator().manual_seed(4)).double()
    p = torch.softmax(logits, 1).numpy()
    assert p.min() < 0.2
    assert p.max() > 0.7
    mapped = [
        np.interp(p[:, 0], knots, first),
        np.interp(p[:, 1], knots, second),
        0.25 + 0 * p[:, 2],
    ]
    chance = np.stack(mapped, 1).clip(0.15, 1.0)
    expected = np.log(chance / chance.sum(1, keepdims=True))
    np.testing.assert_allclose(found.correct(logits).numpy(), expected, atol=1e-7)
    np.testing.assert_allclose(found.correct(logits[None]).numpy()[0], expected, atol=1e-7)


def test_several_samples_have_the_curve_of_least_squared_error_of_their_mean():
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(2, 40, 2, generator=generator).double()
    labels = labelled(torch.softmax(logits, 2).mean(0))
    found = IsotonicRegression.fit(lambda: iter(logits), labels)
    p = torch.softmax(logits, 2).numpy()
    for label, (knots, values) in enumerate(found.curves):
        assert np.all(np.diff(values) >= 0)
        hit = (labels == label).double().numpy()

        def error(curve, knots=knots, label=label, hit=hit):
            return np.square(np.interp(p[..., label], knots, curve).mean(0) - hit).sum()

        for place in range(len(values)):  # no rising curve beside it is nearer
            for step in (-0.01, 0.01):
                beside = values.numpy().copy()
                beside[place] += step
                if np.all(np.diff(beside) >= 0) and beside.min() >= 0.0 and beside.max() <= 1.0:
                    assert error(beside) >= error(values.numpy()) - 1e-9
