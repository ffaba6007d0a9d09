"""Factors and shifts of classes, labels and variances minimize what their equations state."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from graphdrop.calibration import scaling
from graphdrop.calibration.scaling import LabelScaling, VarianceScaling, VectorScaling
from graphdrop.calibration.temperature import TemperatureScaling
from graphdrop.metrics import nll


def test_vector_scaling_has_normal_priors_around_plain_temperature_scaling():
    generator = torch.Generator().manual_seed(0)
    few, nodes = 2.0 * torch.randn(3, 30, 4, generator=generator).double(), 30
    answers = torch.multinomial(torch.softmax(few / 2.0, 2).mean(0), 1, generator=generator)[:, 0]
    found = VectorScaling.fit(lambda: iter(few), answers)
    start = 1.0 / TemperatureScaling.fit(lambda: iter(few), answers).temperature
    deviations = np.repeat([scaling.CLASS_FACTOR_DEVIATION, scaling.SHIFT_DEVIATION], 4)

    def loss(numbers):
        factor, shift = torch.from_numpy(numbers).view(2, 4)
        mean = torch.softmax(few * start * factor.exp() + shift, 2).mean(0)
        return nodes * float(nll(mean, answers)) + 0.5 * float(
            np.square(numbers / deviations).sum()
        )

    best = minimize(loss, np.zeros(2 * 4), method="BFGS").x
    assert (found.factor / start).log().tolist() == pytest.approx(best[:4].tolist(), abs=1e-3)
    assert found.shift.tolist() == pytest.approx(best[4:].tolist(), abs=1e-3)


def test_platts_numbers_of_a_label_have_normal_priors_around_those_of_all():
    generator = torch.Generator().manual_seed(3)
    logits = 2.0 * torch.randn(2, 25, 3, generator=generator).double()
    truth = (torch.rand(25, 3, generator=generator) < 0.4).double()
    found = LabelScaling.fit(lambda: iter(logits), truth)
    deviations = np.array([scaling.LABEL_FACTOR_DEVIATION, scaling.SHIFT_DEVIATION])

    def best(columns, center):
        def loss(numbers):
            chance = torch.sigmoid(logits[..., columns] * math.exp(numbers[0]) + numbers[1]).mean(0)
            own = torch.where(truth[:, columns] == 1.0, chance, 1.0 - chance).log().sum()
            apart = (numbers - center) / deviations
            return float(-own) + 0.5 * float(apart @ apart)

        options = {"xatol": 1e-7, "fatol": 1e-10}
        return minimize(loss, center, method="Nelder-Mead", options=options).x

    common = best([0, 1, 2], np.zeros(2))
    expected = np.array([best([label], common) for label in range(3)])
    assert found.factor.log().tolist() == pytest.approx(expected[:, 0].tolist(), abs=1e-3)
    assert found.shift.tolist() == pytest.approx(expected[:, 1].tolist(), abs=1e-3)


def test_links_have_platts_two_numbers():
    generator = torch.Generator().manual_seed(3)
    logits = 2.0 * torch.randn(1, 6000, generator=generator)
    truth = torch.rand(6000, generator=generator) < torch.sigmoid(0.6 * logits[0] - 1.0)
    found = LabelScaling.fit(lambda: iter(logits), truth)
    assert float(found.factor) == pytest.approx(0.6, abs=0.06)
    assert float(found.shift) == pytest.approx(-1.0, abs=0.1)


def test_the_variance_of_samples_is_their_mean_variance_and_that_of_their_means():
    generator = torch.Generator().manual_seed(5)
    outputs = torch.randn(3, 8, 6, generator=generator).double()  # three targets
    truth = torch.randn(8, 3, generator=generator).double()
    mean, noise = outputs[..., :3].numpy(), outputs[..., 3:].exp().numpy()
    variance = noise.mean(0) + mean.var(0)
    expected = (10 + ((truth.numpy() - mean.mean(0)) ** 2 / variance).sum(0)) / (10 + 8)
    found = VarianceScaling.fit(lambda: iter(outputs), truth)
    assert found.factor.tolist() == pytest.approx(expected.tolist())
