"""Concrete masks: biased, and less so at lower temperatures."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from contracts.toy_network import EDGES, LABELS, NODES, Toy, X, copies
from graphdrop.sampling.estimators import Concrete
from graphdrop.sampling.rates import LearnedRate
from graphdrop.sampling.samplers import Draw

COPIES = 100_000
TEMPERATURES = (2.0, 1.0, 0.67, 0.4, 0.2, 0.1)
LOGITS = (0.4, -0.4)


def test_concrete_approaches_the_exact_gradient_as_the_temperature_falls() -> None:
    toy = Toy("asymmetric", LearnedRate(entries=COPIES * len(EDGES)))
    graph, x, labels = copies(COPIES), X.repeat(COPIES, 1), LABELS.repeat(COPIES)
    leaves = [torch.tensor(logit, dtype=torch.float64, requires_grad=True) for logit in LOGITS]
    exact = torch.stack(torch.autograd.grad(toy.expected_loss(leaves), leaves))
    parameters = [parameter for rate in toy.rates for parameter in rate.parameters()]
    with torch.no_grad():
        for parameter, logit in zip(parameters, LOGITS, strict=True):
            parameter.fill_(logit)

    biases, errors = [], []
    for temperature in TEMPERATURES:
        estimator = Concrete(temperature)

        def run(antithetic: bool, estimator: Concrete = estimator):  # type: ignore[no-untyped-def]
            draw = Draw(1, 0, temperature=estimator.temperature, antithetic=antithetic)
            out = toy.model(x, graph, draw=draw)
            return cross_entropy(out, labels, reduction="none").view(-1, NODES).mean(1).sum(), []

        gradients = torch.autograd.grad(estimator.loss(run), parameters)
        # the copies share nothing, so the gradient of each is its own
        samples = torch.stack([g.view(COPIES, -1).double().sum(1) for g in gradients], 1)
        biases.append((samples.mean(0) - exact) / exact.abs())
        errors.append(samples.std(0) / COPIES**0.5 / exact.abs())
    bias, error = torch.stack(biases), torch.stack(errors)

    table = "\n".join(
        f"t = {t:4}: " + ", ".join(f"{b:+.3f} ± {e:.3f}" for b, e in zip(*row, strict=True))
        for t, *row in zip(TEMPERATURES, bias.tolist(), error.tolist(), strict=True)
    )
    print("bias relative to the exact gradient, by layer\n" + table)
    slack = 4.0 * error
    assert bool((bias[0].abs() > 0.3).all()), table
    assert bool((bias[1:].abs() - bias[:-1].abs() < slack[1:] + slack[:-1]).all()), table
    assert bool((bias[-1].abs() < slack[-1] + 0.02).all()), table


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_that_is_none_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match=r"temperature is .*; it takes a finite number above 0"):
        Concrete(temperature)
