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

from graphdrop.calibration.temperature import TemperatureScaling
from graphdrop.metrics import nll


def fit(logits: torch.Tensor, labels: torch.Tensor, deviation: float = math.inf) -> float:
    """The temperature of one sample of logits ``[n, classes]``."""
    return TemperatureScaling.fit(lambda: iter([logits]), labels, deviation=deviation).temperature


def _draw(seed: int, examples: int, scale: float = 1.0):
    """Logits, and labels drawn from their softmax."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(examples, 5, generator=generator).double()
    return logits, torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]


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
    fitted = fit(distortion * logits, labels)
    assert fitted == pytest.approx(1 / inverse, rel=1e-5)


@given(seed=st.integers(0, 2**20), scale=st.floats(0.2, 8))
@settings(max_examples=40, deadline=None)
def test_no_temperature_on_a_grid_has_a_lower_nll(seed, scale):
    logits, labels = _draw(seed, 60)
    fitted = fit(scale * logits, labels)
    best = nll((scale * logits / fitted).softmax(-1), labels).item()
    for temperature in [1.0, *np.geomspace(0.01, 100, 41), fitted * 0.99, fitted * 1.01]:
        other = nll((scale * logits / float(temperature)).softmax(-1), labels).item()
        assert best <= other + 1e-10 or not 0.01 <= temperature <= 100


def test_the_extremes_are_held():
    confident = torch.tensor([[0.6, 0.4], [0.3, 0.7]])
    for labels, extreme in ((torch.tensor([0, 1]), 0.01), (torch.tensor([1, 0]), 100.0)):
        fitted = fit(confident.log(), labels)
        assert fitted == pytest.approx(extreme, rel=1e-3)


@pytest.mark.parametrize(("right", "logit"), [(21, 7.0), (39, 0.05)])
def test_a_temperature_near_the_extremes_is_still_the_minimum(right, logit):
    sure = torch.tensor([[logit, 0.0]]).double().repeat(40, 1)
    labels = (torch.arange(40) >= right).long()
    wanted = logit / math.log(right / (40 - right))  # 70, and 0.014
    fitted = fit(sure, labels)
    assert fitted == pytest.approx(wanted, rel=1e-3)
