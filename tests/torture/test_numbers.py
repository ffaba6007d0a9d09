"""Extreme rates, temperatures, priors and features: finite numbers, or a stop that says why."""

import pytest
import torch
from torch import Tensor

from contracts.odd_graphs import graph
from graphdrop import ARM, GCN, DropEdge, GraphDropConnect, load_dataset, predict
from graphdrop.sampling.estimators import Concrete
from graphdrop.sampling.rates import BetaBernoulliRate, FixedRate, LearnedRate
from graphdrop.sampling.samplers import DropNode, DropOut

KEEPS = [1e-12, 1e-6, 0.5, 1 - 1e-6, 1 - 1e-12]
TEMPERATURES = [1e-3, 1.0, 1e3]
DATA = load_dataset(graph()).data


def step(model: GCN) -> list[Tensor]:
    """The loss and the gradients of one step, KL included."""

    def loss() -> Tensor:
        logits = model(DATA.x, DATA.edge_index)
        return torch.nn.functional.cross_entropy(logits[DATA.train_mask], DATA.y[DATA.train_mask])

    total = model.loss(loss) + model.kl()
    total.backward()  # type: ignore[no-untyped-call]
    return [total.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


def check(model: GCN) -> None:
    found = step(model)
    assert len(found) > 2
    for tensor in found:
        assert torch.isfinite(tensor).all()
    assert torch.isfinite(predict(model, DATA, 2).probabilities).all()


@pytest.mark.parametrize("sampler", [DropOut, DropNode, DropEdge, GraphDropConnect])
def test_a_step_with_an_extreme_keep_probability_is_finite(sampler):
    for keep in KEEPS:
        check(GCN(3, 4, 2, 3, sampler(FixedRate(keep=keep))))
        check(GCN(3, 4, 2, 3, sampler(LearnedRate(keep)), estimator=ARM()))


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_a_step_with_an_extreme_temperature_is_finite(temperature):
    for keep in KEEPS:
        rate = LearnedRate(keep)
        check(GCN(3, 4, 2, 3, GraphDropConnect(rate), estimator=Concrete(temperature)))


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e3])
def test_a_step_with_an_extreme_prior_is_finite(alpha):
    for beta in (1e-3, 1.0, 1e3):
        rate = BetaBernoulliRate(prior_alpha=alpha, prior_beta=beta)
        check(GCN(3, 4, 2, 3, GraphDropConnect(rate)))
