"""A temperature, and one that depends on the entropy, minimize what their equations state."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, minimize_scalar
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from torch_geometric.data import Data

from graphdrop import GCN, GraphDropConnect, predict
from graphdrop.calibration.temperature import (
    DEVIATION,
    SLOPE_DEVIATION,
    SPREAD_DEVIATION,
    EntropyTemperatureScaling,
    TemperatureScaling,
)
from graphdrop.inference import calibrator as base
from graphdrop.metrics import calibration_error, nll

NODES, CLASSES, SAMPLES = 20_000, 4, 3


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


def drawn(probabilities: torch.Tensor, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.multinomial(probabilities, 1, generator=generator).squeeze(1)


@pytest.fixture(scope="module")
def logits() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    means = 2.0 * torch.randn(1, NODES, CLASSES, generator=generator)
    return means + 0.7 * torch.randn(SAMPLES, NODES, CLASSES, generator=generator)


def corrected(calibrator: EntropyTemperatureScaling, logits: torch.Tensor) -> torch.Tensor:
    correct = calibrator.corrector(lambda: iter(logits))
    return torch.softmax(correct(logits), 2).mean(0)


def test_a_temperature_that_makes_no_difference_is_one():
    same = torch.zeros(1, 10, 3)
    assert TemperatureScaling.fit(lambda: iter(same), torch.arange(10) % 3).temperature == 1.0


def test_one_more_right_node_hardly_changes_a_temperature():
    """Where all nodes are right, the likelihood alone takes the coldest temperature there is."""
    outputs = torch.zeros(1, 100, 3)
    outputs[:, :, 0] = 2.0
    labels = torch.zeros(100, dtype=torch.long)
    for kind in (TemperatureScaling, EntropyTemperatureScaling):
        fits = [kind.fit(lambda n=n: iter(outputs[:, :n]), labels[:n]) for n in (99, 100)]
        shown = [c.corrector(lambda: iter(outputs))(outputs)[0, 0, 0] for c in fits]
        assert fits[0].temperature == pytest.approx(fits[1].temperature, rel=0.01)
        assert float(shown[0]) == pytest.approx(float(shown[1]), rel=0.01)
        assert 2.0 < float(shown[0]) < 2.0 / 0.2


@pytest.mark.parametrize("nodes", [10, 500])
def test_the_logarithm_of_the_temperature_has_a_normal_prior_at_any_number_of_nodes(logits, nodes):
    few = logits[:, :nodes].double()
    labels = drawn(torch.softmax(few / 3.0, 2).mean(0))
    found = TemperatureScaling.fit(lambda: iter(few), labels).temperature

    def loss(log: float) -> float:
        mean = torch.softmax(few / math.exp(log), 2).mean(0)
        return nodes * float(nll(mean, labels)) + 0.5 * (log / 0.3) ** 2

    best = minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded", options={"xatol": 1e-7}).x
    assert math.log(found) == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize("temperature", [0.0, math.nan])
def test_a_temperature_is_finite_and_above_zero(temperature):
    with pytest.raises(ValueError, match="it takes a finite number above 0"):
        TemperatureScaling(temperature)


@pytest.mark.parametrize("slope", [-1.0, 1.5])
def test_a_known_slope_is_found_where_one_temperature_fails(logits, slope):
    labels = drawn(corrected(EntropyTemperatureScaling(1.3, 0.2, slope), logits))
    found = EntropyTemperatureScaling.fit(lambda: iter(logits), labels)
    error = float(calibration_error(corrected(found, logits), labels))
    common = TemperatureScaling.fit(lambda: iter(logits), labels)
    plain = torch.softmax(common.correct(logits), 2).mean(0)
    assert error < 0.012
    assert float(calibration_error(plain, labels)) > 2.0 * error
    assert found.slope * slope > 0.0


def test_a_temperature_follows_the_entropy_as_its_equation_states(logits):
    few = logits[:, :50].double()
    mean = torch.softmax(few / 1.3, 2).mean(0)
    entropy = -(mean * mean.log()).sum(1) / math.log(CLASSES)
    for shift, slope in ((0.2, 1.5), (-0.4, -1.0), (0.0, 40.0)):
        exponent = (shift + slope * (entropy - 0.5)).clamp(-math.log(1e4), math.log(1e4))
        correct = EntropyTemperatureScaling(1.3, shift, slope).corrector(lambda: iter(few))
        expected = few / (1.3 * exponent.exp())[:, None]
        torch.testing.assert_close(correct(few), expected, rtol=1e-9, atol=0)


def test_its_numbers_have_the_least_nll_with_normal_priors_on_all_of_them(logits):
    nodes = 60
    few = logits[:, :nodes].double()
    labels = drawn(corrected(EntropyTemperatureScaling(1.5, 0.0, 3.0, 0.5), logits))[:nodes]
    found = EntropyTemperatureScaling.fit(lambda: iter(few), labels)

    def loss(numbers):
        level, slope, log_spread = (float(one) for one in numbers)
        shift = level - math.log(found.temperature)
        spread = math.exp(log_spread)
        one = corrected(EntropyTemperatureScaling(found.temperature, shift, slope, spread), few)
        prior = (level / DEVIATION) ** 2 + (slope / SLOPE_DEVIATION) ** 2
        return nodes * float(nll(one, labels)) + 0.5 * (
            prior + (log_spread / SPREAD_DEVIATION) ** 2
        )

    options = {"xatol": 1e-6, "fatol": 1e-9, "maxiter": 2000}
    best = minimize(loss, [0.0, 0.0, 0.0], method="Nelder-Mead", options=options).x
    assert math.log(found.temperature) + found.shift == pytest.approx(best[0], abs=2e-3)
    assert found.slope == pytest.approx(best[1], abs=2e-3)
    assert math.log(found.spread) == pytest.approx(best[2], abs=2e-3)


def test_predict_reads_all_samples_before_it_corrects_one(monkeypatch):
    torch.manual_seed(0)
    data = Data(x=torch.rand(40, 5), edge_index=torch.randint(0, 40, (2, 160)))
    model = GCN(5, 8, 2, 3, GraphDropConnect(blocks=2), seed=1).eval()
    calibrator = EntropyTemperatureScaling(0.2, 0.1, 2.0)
    kept = predict(model, data, 5, calibrator=calibrator)
    monkeypatch.setattr(base, "KEPT_NUMBERS", 0)  # samples are computed a second time
    again = predict(model, data, 5, calibrator=calibrator)
    assert torch.equal(kept.probabilities, again.probabilities)
    raw = predict(model, data, 5, calibrator=None)
    assert not torch.allclose(kept.probabilities, raw.probabilities)
    assert bool((kept.epistemic >= -1e-6).all())
    some = torch.tensor([3, 17])
    part = predict(model, data, 5, calibrator=calibrator, rows=some)
    torch.testing.assert_close(part.probabilities, kept.probabilities[some])
