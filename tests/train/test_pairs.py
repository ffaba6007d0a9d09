"""Every architecture with every method trains, resumes, is kept and predicts, or says why not."""

import pytest
import torch

from graphdrop import load, load_dataset, predict
from graphdrop.config import Config, Method
from graphdrop.config.recipes import ARCHITECTURES
from graphdrop.data.synthetic import synthetic_graph
from graphdrop.nn.methods import find
from graphdrop.report.runs import gather
from graphdrop.train import StoppedError, Trainer
from graphdrop.train.progress import Silent
from graphdrop.train.trainer import Callback

DATA = load_dataset(
    synthetic_graph(30, 2, num_features=8, words_per_node=3.0).data, split="random-fractions"
)
REFUSED = [(a, m) for a in ARCHITECTURES for m in Method if a != "gcn" and find(m).local]
# The rates and estimators of these are also those of others: one kind of layer is enough.
SELDOM = {"GCN-BBNS", "GCN-BBDO", "GCN-BGDC", "GCN-BDE-ARM", "GCN-BBDE-ARM"}
PROPAGATED = {"GCN", "GCN-NS", "GCN-BBNS", "GCN-BBDO", "GCN-BBGDC", "GCN-BBGDC-ARM"}
"""Every kind of sampler, before all hops and in every hop."""


def is_tried(architecture: str, method: str) -> bool:
    if architecture == "propagation":
        return method in PROPAGATED
    return architecture == "gcn" or method not in SELDOM


def is_slow(architecture: str, method: str) -> bool:
    """Whether other pairs stand for this one: every other method of an architecture does."""
    if architecture in ("gcn", "propagation"):
        return False
    at = ARCHITECTURES.index(architecture) + [*Method].index(Method(method))
    return at % 2 == 1


TRAINED = [
    pytest.param(a, m, marks=pytest.mark.slow if is_slow(a, m) else ())
    for a in ARCHITECTURES
    for m in Method
    if (a, m) not in REFUSED and is_tried(a, m)
]


class StopsAfterTwo(Callback):
    def on_epoch(self, trainer, line):
        if line["epoch"] == 2:
            trainer.stop()


def config_of(architecture: str, method: str) -> Config:
    return Config(
        recipe="paper",
        data={"dataset": "data"},
        model={"architecture": architecture, "method": method, "hidden": 4, "heads": 2},
        train={"epochs": 3, "evaluate_every": 1, "samples": 2},
        predict={"samples": 2},
    )


def trainer_of(config: Config, folder=None, **options) -> Trainer:
    return Trainer(config, DATA, folder, progress=Silent(), **options)


def same_bits(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    theirs = other.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in one.state_dict().items())


@pytest.mark.parametrize(("architecture", "method"), TRAINED)
def test_a_pair_trains_resumes_is_kept_and_predicts(architecture, method, tmp_path):
    config, run = config_of(architecture, method), tmp_path / "run"
    whole = trainer_of(config)
    first = [value.clone() for value in whole.model.state_dict().values()]
    whole.fit()
    last = whole.model.state_dict().values()
    assert not all(torch.equal(one, other) for one, other in zip(first, last, strict=True))
    with pytest.raises(StoppedError):
        trainer_of(config, run, callbacks=[StopsAfterTwo()]).fit()
    resumed = trainer_of(config, run, resume=True)
    resumed.fit()
    assert same_bits(resumed.model, whole.model)
    kept = load(run)
    assert same_bits(kept, resumed.model)
    answer = predict(kept, DATA.data).probabilities
    assert torch.equal(answer, predict(whole.model, DATA.data).probabilities)
    assert torch.allclose(answer.sum(1), torch.ones(30))
    (evidence,), _ = gather([run], DATA)
    assert torch.equal(evidence.prediction.probabilities, answer)


def test_a_pair_that_cannot_work_is_refused_with_both_names(tmp_path):
    for architecture, method in REFUSED:
        reason = f"{method} has a rate for every edge, which a {architecture} layer.* cannot read"
        with pytest.raises(ValueError, match=reason):
            trainer_of(config_of(architecture, method), tmp_path / "run")
        assert not (tmp_path / "run").exists()
