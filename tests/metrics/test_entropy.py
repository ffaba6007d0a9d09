"""Entropy is in nats, exact on known distributions, and never above log C."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from graphdrop.metrics import predictive_entropy


def test_it_is_scipys_entropy_in_nats():
    probabilities = torch.randn(50, 7, generator=torch.Generator().manual_seed(0)).softmax(-1)
    expected = torch.from_numpy(entropy(probabilities.double().numpy(), axis=1))
    torch.testing.assert_close(predictive_entropy(probabilities), expected, atol=1e-6, rtol=0)


def test_certainty_has_entropy_zero_and_a_coin_log_two():
    result = predictive_entropy(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    assert result.tolist() == [0.0, math.log(2)]


@given(st.integers(1, 200))
def test_no_rounding_lifts_a_uniform_guess_above_log_classes(classes):
    uniform = torch.full((1, classes), 1 / classes)
    assert predictive_entropy(uniform).item() <= math.log(classes)


def test_samples_that_disagree_are_averaged_before_the_entropy():
    samples = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])
    assert predictive_entropy(samples).item() == math.log(2)
