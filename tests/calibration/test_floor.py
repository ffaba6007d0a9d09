"""The floor of a calibration error is what chance alone gives a perfect forecast."""

import pytest
import torch

from graphdrop.calibration import calibration_floor
from graphdrop.calibration.floor import refit, rescale
from graphdrop.calibration.temperature import EntropyTemperatureScaling, TemperatureScaling
from graphdrop.metrics import calibration_error


def draw(probabilities: torch.Tensor, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.multinomial(probabilities, 1, generator=generator).squeeze(1)


def test_the_floor_of_a_calibration_error_is_what_a_perfect_forecaster_shows():
    generator = torch.Generator().manual_seed(5)
    forecast = torch.softmax(2.0 * torch.randn(1000, 7, generator=generator), 1)
    floor = calibration_floor(forecast, forecast[:500], draws=60)
    errors = [float(calibration_error(forecast, draw(forecast, seed))) for seed in range(60)]
    assert floor.mean == pytest.approx(sum(errors) / 60, abs=0.008)
    assert floor.mean < floor.high < 0.1
    assert calibration_floor(forecast.repeat(20, 1), draws=5).mean < 0.4 * floor.mean


@pytest.mark.parametrize("kind", [TemperatureScaling, EntropyTemperatureScaling])
def test_the_floor_refits_as_a_fit_would(kind):
    generator = torch.Generator().manual_seed(5)
    forecast = torch.softmax(2.0 * torch.randn(3000, 4, generator=generator).double(), 1)
    labels = torch.multinomial(forecast, 6, replacement=True, generator=generator).t()
    refits = refit(forecast, labels, by_entropy=kind is EntropyTemperatureScaling)
    for numbers, row in zip(refits, labels, strict=True):
        outputs = forecast.log()[None]
        fitted = kind.fit(lambda outputs=outputs: iter(outputs), row)
        expected = fitted.corrector(lambda outputs=outputs: iter(outputs))(outputs[0]).softmax(1)
        assert float((expected - forecast).abs().max()) > 0.001
        assert float((rescale(forecast, numbers) - expected).abs().max()) < 0.01
