"""Samples of a network are drawn together by the agreement term, whatever the method."""

import copy

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from graphdrop.sampling.estimators import ARM
from graphdrop.sampling.samplers import Draw
from graphdrop.train import Trainer
from graphdrop.train.loop import estimate_loss
from graphdrop.train.objective import consistency_loss
from graphdrop.train.progress import Silent

LOGITS = [torch.randn(5, 3, generator=torch.Generator().manual_seed(k)) for k in range(3)]


def by_hand(logits: list[torch.Tensor], temperature: float) -> float:
    sampled = [np.exp(one) / np.exp(one).sum(1, keepdims=True) for one in map(np.asarray, logits)]
    total = 0.0
    for node in range(len(sampled[0])):
        mean = sum(one[node] for one in sampled) / len(sampled)
        target = mean ** (1 / temperature) / (mean ** (1 / temperature)).sum()
        total += sum(float(((one[node] - target) ** 2).sum()) for one in sampled)
    return total / len(sampled) / len(sampled[0])


@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_it_is_the_squared_distance_to_the_sharpened_mean(temperature):
    assert float(consistency_loss(LOGITS, temperature)) == pytest.approx(
        by_hand(LOGITS, temperature)
    )


def first_step(config, dataset) -> tuple[Trainer, dict]:
    trainer = Trainer(config, dataset, progress=Silent())
    before = copy.deepcopy(trainer.model)
    trainer.fit()
    return before, trainer.journal.lines[0]


def outputs(model, dataset, passes: int, temperature: float | None) -> list[torch.Tensor]:
    seed = int(model.stream[0])
    return [
        model(dataset.data.x, dataset.data.edge_index, draw=Draw(seed, 0, k, temperature))
        for k in range(passes)
    ]


@pytest.mark.parametrize("method", ["GCN-DO", "GCN-DE", "GCN-BBGDC", "GCN-BBGDC-ARM"])
def test_the_first_step_has_the_terms_of_its_formula(tiny, settings_of, method):
    config = settings_of(
        method,
        data={"features": "stored"},
        objective={"agree": 0.7, "sharpen": 0.4},
        train={"epochs": 1},
    )
    model, line = first_step(config, tiny)
    logits = outputs(model, tiny, 2, model.temperature)
    train = tiny.split.train
    nll = sum(cross_entropy(one[train], tiny.data.y[train]) for one in logits) / 2
    assert line["nll"] == pytest.approx(float(nll.detach()), rel=1e-4)
    assert line["agree"] == pytest.approx(
        0.7 * float(consistency_loss(logits, 0.4).detach()), rel=1e-4
    )
    assert line["loss"] == pytest.approx(sum(line[t] for t in ("nll", "kl", "l2", "agree")))


def test_its_gradient_is_that_of_the_formula(tiny, settings_of):
    config = settings_of(objective={"agree": 0.7, "l2": 0.0, "kl_weight": 0.0})
    trainer = Trainer(config, tiny, progress=Silent())
    model = copy.deepcopy(trainer.model)
    found, agree = estimate_loss(trainer.run, None)
    (found.loss + agree["agree"]).backward()
    logits = outputs(model, tiny, 2, model.temperature)
    train = tiny.split.train
    nll = sum(cross_entropy(one[train], tiny.data.y[train]) for one in logits) / 2
    (nll + 0.7 * consistency_loss(logits, 0.5)).backward()
    for mine, direct in zip(trainer.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, direct.grad, rtol=1e-4, atol=1e-6)


def test_arm_weighs_the_agreement_with_the_likelihood(tiny, settings_of, monkeypatch):
    seen = []
    monkeypatch.setattr(
        ARM, "loss", lambda self, run: seen.append(run(antithetic=True)) or seen[0][0]
    )
    trainer = Trainer(
        settings_of("GCN-BBGDC-ARM", objective={"agree": 1.0}), tiny, progress=Silent()
    )
    (loss, tape), agree = estimate_loss(trainer.run, None)
    assert float(seen[0][0].detach()) == pytest.approx(float((loss + agree["agree"]).detach()))
    assert len(seen[0][1]) == 2 * len(tape)  # the draws of both samples
