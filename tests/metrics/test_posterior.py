"""Calibration on synthetic graphs, whose labels have a posterior that is known."""

import math

import pytest
import torch

from experiments.block_posterior import class_posterior
from graphdrop import Config, Trainer, load_dataset, predict
from graphdrop.data.synthetic import SyntheticGraph, synthetic_graph
from graphdrop.metrics import (
    calibration_error,
    nll,
    posterior_calibration_error,
    posterior_divergence,
)
from graphdrop.train.progress import Silent

OTHER = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]], dtype=torch.float64)
TRUE = torch.tensor([[0.25, 0.75, 0.0], [0.0, 1.0, 0.0]], dtype=torch.float64)


def test_two_examples_by_hand() -> None:
    first = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.3)
    second = math.log(1 / 0.6)
    assert posterior_divergence(OTHER, TRUE).item() == pytest.approx((first + second) / 2)
    # one bin each: predicted with 0.5 and right with 0.25, predicted with 0.6 and always right
    error = posterior_calibration_error(OTHER, TRUE, bins=20)
    assert error.item() == pytest.approx((0.25 + 0.4) / 2)
    worst = posterior_calibration_error(OTHER, TRUE, bins=20, norm="maximum")
    assert worst.item() == pytest.approx(0.4)


def test_the_divergence_is_the_expected_nll_above_that_of_the_truth() -> None:
    generator = torch.Generator().manual_seed(0)
    other, true = torch.randn(2, 50, 4, generator=generator).double().softmax(-1)
    expected = 0.0
    for label in range(4):
        for node in range(50):
            at = torch.tensor([label])
            excess = nll(other[node : node + 1], at) - nll(true[node : node + 1], at)
            expected += float(true[node, label] * excess) / 50
    assert posterior_divergence(other, true).item() == pytest.approx(expected)


def test_a_certain_label_is_a_posterior_too() -> None:
    generator = torch.Generator().manual_seed(1)
    probabilities = torch.randn(300, 5, generator=generator).double().softmax(-1)
    labels = torch.randint(5, (300,), generator=generator)
    certain = torch.nn.functional.one_hot(labels).double()
    torch.testing.assert_close(
        posterior_calibration_error(probabilities, certain),
        calibration_error(probabilities, labels),
    )
    torch.testing.assert_close(
        posterior_divergence(probabilities, certain), nll(probabilities, labels)
    )


def test_other_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"posterior has shape \(1, 3\).*select the same nodes"):
        posterior_divergence(OTHER, TRUE[:1])


@pytest.fixture(scope="module")
def known() -> tuple[SyntheticGraph, torch.Tensor, torch.Tensor]:
    """A graph, the nodes whose labels are not given, and the posterior of those labels."""
    graph = synthetic_graph(1500, 4, num_features=200, words_per_node=8.0, feature_signal=0.15)
    observed = torch.arange(1500) < 100
    return graph, ~observed, class_posterior(graph, observed)[~observed]


def test_the_posterior_is_calibrated_and_a_sharper_or_flatter_one_is_not(known) -> None:
    graph, unknown, posterior = known
    labels = graph.data.y[unknown]
    assert posterior_calibration_error(posterior, posterior) == 0
    assert posterior_divergence(posterior, posterior).item() == pytest.approx(0, abs=1e-12)
    # The ECE by labels is that of labels drawn from the posterior, within their noise.
    generator = torch.Generator().manual_seed(0)
    drawn = torch.multinomial(posterior, 200, replacement=True, generator=generator)
    noise = torch.stack([calibration_error(posterior, each) for each in drawn.T])
    assert noise.mean() < 0.03
    assert abs(calibration_error(posterior, labels) - noise.mean()) < 4 * noise.std()
    for temperature in (0.5, 2.0):
        other = (posterior.log() / temperature).softmax(1)
        assert posterior_calibration_error(other, posterior) > 0.03
        assert calibration_error(other, labels) > noise.mean() + 4 * noise.std()
        assert posterior_divergence(other, posterior) > 0.01
        assert nll(other, labels) > nll(posterior, labels)


def test_a_trained_network_is_measured_by_the_posterior_and_comes_nearer_to_it(known) -> None:
    graph, unknown, posterior = known
    data = graph.data.clone()
    data.train_mask = ~unknown
    data.val_mask = unknown & (torch.arange(1500) < 300)
    data.test_mask = unknown & ~data.val_mask
    dataset = load_dataset(data, split="public")
    config = Config(
        recipe="paper",
        data={"dataset": dataset.name},
        model={"layers": 2, "hidden": 32},
        objective={"l2": 1e-3},
        train={"epochs": 100, "evaluate_every": 25, "learning_rate": 0.02},
    )
    trainer = Trainer(config, dataset, progress=Silent())
    untrained = predict(trainer.model, data, 20, temperature=0.67, rows=unknown)
    trainer.fit()
    trained = predict(trainer.model, data, 20, temperature=0.67, rows=unknown)
    before, after = (
        posterior_divergence(each.probabilities, posterior) for each in (untrained, trained)
    )
    prior = graph.class_prior.expand_as(posterior)
    assert after < 0.6 * before
    assert 0 < after < posterior_divergence(prior, posterior)  # it has learned, and not all
    # Measured by the posterior or by labels, it is the same error, within the noise of the labels.
    by_labels = calibration_error(trained.probabilities, graph.data.y[unknown])
    by_posterior = posterior_calibration_error(trained.probabilities, posterior)
    assert by_labels.item() == pytest.approx(by_posterior.item(), abs=0.05)
