"""Entropy-based temperature scaling finds a known slope, and is temperature scaling without one."""

import math

import pytest
import torch
from scipy.optimize import minimize
from torch_geometric.data import Data

from graphdrop import GCN, GraphDropConnect, Predictive, calibrate, predict
from graphdrop.calibration.fit import apply
from graphdrop.calibration.floor import refit, rescale
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


def drawn(probabilities: torch.Tensor, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.multinomial(probabilities, 1, generator=generator).squeeze(1)


@pytest.fixture(scope="module")
def logits() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    base_logits = 2.0 * torch.randn(1, NODES, CLASSES, generator=generator)
    return base_logits + 0.7 * torch.randn(SAMPLES, NODES, CLASSES, generator=generator)


def corrected(calibrator: EntropyTemperatureScaling, logits: torch.Tensor) -> torch.Tensor:
    correct = calibrator.corrector(lambda: iter(logits))
    return torch.softmax(correct(logits), 2).mean(0)


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


def test_without_a_slope_it_is_temperature_scaling(logits):
    labels = drawn(torch.softmax(logits / 2.0, 2).mean(0))
    found = EntropyTemperatureScaling.fit(lambda: iter(logits), labels)
    assert abs(found.slope) < 0.1
    assert found.temperature == pytest.approx(2.0, rel=0.05)
    plain = EntropyTemperatureScaling(2.0, 0.0, 0.0)
    expected = torch.softmax(TemperatureScaling(2.0).correct(logits), 2).mean(0)
    torch.testing.assert_close(corrected(plain, logits), expected)


def test_samples_that_disagree_too_much_are_brought_together(logits):
    """Where the truth is surer than any mean over the samples, no temperature is low enough."""
    noisy = logits + 6.0 * torch.randn(logits.shape, generator=torch.Generator().manual_seed(3))
    labels = drawn(corrected(EntropyTemperatureScaling(1.3, 0.2, 0.5, 0.2), noisy))
    found = EntropyTemperatureScaling.fit(lambda: iter(noisy), labels)
    assert found.spread < 0.4
    assert float(calibration_error(corrected(found, noisy), labels)) < 0.012
    again = EntropyTemperatureScaling(**found.as_json())
    torch.testing.assert_close(corrected(again, noisy), corrected(found, noisy))
    without = EntropyTemperatureScaling(found.temperature, found.shift, found.slope)
    assert float(calibration_error(corrected(without, noisy), labels)) > 0.05


def test_a_temperature_follows_the_entropy_as_its_equation_states(logits):
    few = logits[:, :50].double()
    mean = torch.softmax(few / 1.3, 2).mean(0)
    entropy = -(mean * mean.log()).sum(1) / math.log(CLASSES)
    for shift, slope in ((0.2, 1.5), (-0.4, -1.0), (0.0, 40.0)):
        exponent = (shift + slope * (entropy - 0.5)).clamp(-math.log(1e4), math.log(1e4))
        correct = EntropyTemperatureScaling(1.3, shift, slope).corrector(lambda: iter(few))
        expected = few / (1.3 * exponent.exp())[:, None]
        torch.testing.assert_close(correct(few), expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("nodes", [8, 60])
def test_its_numbers_have_the_least_nll_with_normal_priors_on_all_of_them(logits, nodes):
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


def test_few_nodes_leave_the_slope_near_zero(logits):
    labels = drawn(corrected(EntropyTemperatureScaling(1.0, 0.0, 3.0), logits))
    few = EntropyTemperatureScaling.fit(lambda: iter(logits[:, :4]), labels[:4])
    many = EntropyTemperatureScaling.fit(lambda: iter(logits[:, :2000]), labels[:2000])
    assert abs(few.slope) < abs(many.slope)


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


def test_logits_of_any_model_are_calibrated_in_one_call(logits):
    labels = drawn(corrected(EntropyTemperatureScaling(1.0, 0.0, 1.0), logits))
    found = calibrate(logits, labels, "entropy-temperature")
    answer = Predictive.from_logits(logits, calibrator=found)
    torch.testing.assert_close(apply(found, logits), answer.probabilities)
    with pytest.raises(ValueError, match="by what it reads of all samples"):
        found.correct(logits[0])


@pytest.mark.parametrize("kind", [TemperatureScaling, EntropyTemperatureScaling])
def test_the_floor_refits_as_a_fit_would(kind):
    generator = torch.Generator().manual_seed(5)
    forecast = torch.softmax(2.0 * torch.randn(3000, 4, generator=generator).double(), 1)
    labels = torch.multinomial(forecast, 6, replacement=True, generator=generator).t()
    refits = refit(forecast, labels, by_entropy=kind is EntropyTemperatureScaling)
    for numbers, row in zip(refits, labels, strict=True):
        outputs = forecast.log()[None]
        expected = corrected(kind.fit(lambda outputs=outputs: iter(outputs), row), outputs)
        assert float((expected - forecast).abs().max()) > 0.001
        assert float((rescale(forecast, numbers) - expected).abs().max()) < 0.01
