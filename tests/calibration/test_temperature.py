"""One temperature: recovered where it is known, and never worse than none on what it was fitted."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from graphdrop.calibration import apply_temperature, fit_temperature
from graphdrop.calibration.floor import refitted_temperatures
from graphdrop.metrics import nll


def _draw(seed: int, examples: int, scale: float = 1.0):
    """Logits, and labels drawn from their softmax."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(examples, 5, generator=generator).double()
    return logits, torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]


@pytest.mark.parametrize("true", [0.4, 2.5])
def test_it_undoes_a_known_distortion(true):
    logits, labels = _draw(0, 50_000, scale=2.0)
    distorted = (logits * true).softmax(-1)
    fitted = fit_temperature(distorted, labels)
    assert fitted == pytest.approx(true, rel=0.03)
    torch.testing.assert_close(
        apply_temperature(distorted, fitted), logits.softmax(-1), atol=0.02, rtol=0
    )


class Passing(ClassifierMixin, BaseEstimator):
    """A classifier of scikit-learn's kind whose logits are its input."""

    def fit(self, _, labels):
        self.classes_ = np.unique(labels)
        return self

    def decision_function(self, logits):
        return logits

    def predict(self, logits):
        return self.classes_[logits.argmax(1)]


@pytest.mark.parametrize("distortion", [0.5, 3.0])
def test_it_is_scikit_learns(distortion):
    logits, labels = _draw(1, 500)
    given = (distortion * logits).numpy()
    frozen = FrozenEstimator(Passing().fit(given, labels.numpy()))
    theirs = CalibratedClassifierCV(frozen, method="temperature", ensemble=False)
    theirs.fit(given, labels.numpy())
    inverse = theirs.calibrated_classifiers_[0].calibrators[0].beta_
    fitted = fit_temperature((distortion * logits).softmax(-1), labels, deviation=math.inf)
    assert fitted == pytest.approx(1 / inverse, rel=1e-5)


@given(seed=st.integers(0, 2**20), scale=st.floats(0.2, 8))
@settings(max_examples=40, deadline=None)
def test_no_temperature_on_a_grid_has_a_lower_nll(seed, scale):
    logits, labels = _draw(seed, 60)
    probabilities = (scale * logits).softmax(-1)
    fitted = fit_temperature(probabilities, labels, deviation=math.inf)
    best = nll(apply_temperature(probabilities, fitted), labels).item()
    for temperature in [1.0, *np.geomspace(0.01, 100, 41), fitted * 0.99, fitted * 1.01]:
        other = nll(apply_temperature(probabilities, float(temperature)), labels).item()
        assert best <= other + 1e-10 or not 0.01 <= temperature <= 100


def test_the_extremes_are_held():
    confident = torch.tensor([[0.6, 0.4], [0.3, 0.7]])
    for labels, extreme in ((torch.tensor([0, 1]), 0.01), (torch.tensor([1, 0]), 100.0)):
        fitted = fit_temperature(confident, labels, deviation=math.inf)
        assert fitted == pytest.approx(extreme, rel=1e-3)


@pytest.mark.parametrize(("right", "logit"), [(21, 7.0), (39, 0.05)])
def test_a_temperature_near_the_extremes_is_still_the_minimum(right, logit):
    sure = torch.tensor([[logit, 0.0]]).double().softmax(-1).repeat(40, 1)
    labels = (torch.arange(40) >= right).long()
    wanted = logit / math.log(right / (40 - right))  # 70, and 0.014
    fitted = fit_temperature(sure, labels, deviation=math.inf)
    assert fitted == pytest.approx(wanted, rel=1e-3)


def test_many_drawn_labels_are_fitted_as_one_set_is():
    logits, _ = _draw(3, 60, scale=2.0)
    probabilities = logits.softmax(-1)
    labels = torch.multinomial(probabilities, 8, True, generator=torch.Generator().manual_seed(1))
    expected = [fit_temperature(probabilities, one) for one in labels.t()]
    found = refitted_temperatures(probabilities, labels.t())
    assert found.tolist() == pytest.approx(expected, rel=1e-3)


def test_uniform_probabilities_leave_nothing_to_fit():
    assert fit_temperature(torch.full((4, 3), 1 / 3), torch.tensor([0, 1, 2, 0])) == 1.0


def test_an_underflowed_probability_of_the_true_class_is_survived():
    probabilities = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.9, 0.1]])
    fitted = fit_temperature(probabilities, torch.tensor([0, 1, 0]))
    assert 1 < fitted <= 100
    assert nll(apply_temperature(probabilities, fitted), torch.tensor([0, 1, 0])).isfinite()


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_the_order_of_the_classes_and_the_precision_stay(temperature):
    probabilities = torch.randn(50, 6, generator=torch.Generator().manual_seed(1)).softmax(-1)
    scaled = apply_temperature(probabilities, temperature)
    assert scaled.dtype == probabilities.dtype
    assert torch.equal(scaled.argsort(-1), probabilities.argsort(-1))
    if temperature == 1.0:
        torch.testing.assert_close(scaled, probabilities)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf"), float("nan")])
def test_a_temperature_that_is_not_positive_is_refused(temperature):
    with pytest.raises(ValueError, match=r"temperature is .*; it takes a finite number above 0"):
        apply_temperature(torch.full((1, 2), 0.5), temperature)


def test_an_empty_validation_set_is_refused():
    with pytest.raises(ValueError, match="at least one example"):
        fit_temperature(torch.empty(0, 3), torch.empty(0, dtype=torch.long))
