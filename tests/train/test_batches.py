"""Mini-batches: a step is an unbiased estimate of the full batch, for every method; runs resume."""

from itertools import cycle
from typing import Any

import pytest
import torch

from graphdrop.config import Method
from graphdrop.config.recipes import ARCHITECTURES
from graphdrop.data import Dataset
from graphdrop.train import StoppedError, Trainer
from graphdrop.train.loop import estimate_loss
from graphdrop.train.progress import Silent
from graphdrop.train.trainer import Callback

FULL = {"batch_size": 7, "fan_out": "-1"}


def gradients(trainer: Trainer) -> tuple[dict[str, float], list[torch.Tensor]]:
    """The terms of the objective and its gradients, over all steps of an epoch, at one step."""
    steps = [None] if trainer.run.batches is None else list(trainer.run.batches.epoch(0))
    sampled = trainer.run.engine
    totals: dict[str, float] = {}
    trainer.model.zero_grad()
    for step in steps:
        if hasattr(sampled, "stream"):
            sampled.stream[1] = 3
        else:
            for layer in sampled.sampled_layers().values():
                layer.stream[1] = 3
        found, agree = estimate_loss(trainer.run, step)
        terms = trainer.run.objective(found.loss, found.tape, 30) | agree
        (sum(terms.values()) / len(steps)).backward()
        for name, term in terms.items():
            totals[name] = totals.get(name, 0.0) + float(term.detach()) / len(steps)
    return totals, [p.grad for p in trainer.model.parameters() if p.grad is not None]


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("GCN-BBGDC", {}),
        ("GCN-BBGDC", {"model": {"mask": "before", "norm": "sym", "dropout": 0.4}}),
        ("GCN-BBGDC", {"objective": {"agree": 1.5, "class_weights": "balanced"}}),
        ("GCN-DO-DE", {"data": {"features": "unit"}, "train": {"passes": 2}}),
        ("SAGE-BBGDC", {}),
        ("GAT-BBDE", {"model": {"heads": 2}, "objective": {"agree": 0.5}}),
        ("GCNII-BBGDC", {}),
        ("PROPAGATION-BBNS", {"model": {"orders": 2}}),
        ("PROPAGATION-BBGDC", {"model": {"orders": 2}, "objective": {"agree": 0.5}}),
    ],
    ids=str,
)
def test_the_mean_over_all_batches_is_the_full_batch_objective(
    method: str, changes: dict[str, Any], tiny: Dataset, settings_of: Any
) -> None:
    train = changes.get("train", {})
    rest = {key: value for key, value in changes.items() if key != "train"}
    full = Trainer(settings_of(method, train=train, **rest), tiny, progress=Silent())
    batches = Trainer(settings_of(method, train=train | FULL, **rest), tiny, progress=Silent())
    assert batches.run.batches.steps > 2
    assert len(full.run.labels) % 7  # the last batch is smaller
    (terms, found), (wanted_terms, wanted) = gradients(batches), gradients(full)
    assert terms == pytest.approx(wanted_terms, rel=1e-4)
    assert len(found) == len(wanted)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("method", list(Method))
def test_every_method_trains_on_mini_batches(method: str, tiny: Dataset, settings_of: Any) -> None:
    train = {"batch_size": 9, "fan_out": "3,2", "epochs": 2, "evaluate_every": 1, "samples": 2}
    result = Trainer(settings_of(method, train=train), tiny, progress=Silent()).fit()
    assert result.epochs == 2
    assert 0.0 < result.test.nll < 10.0


@pytest.mark.parametrize(  # a layer reads a batch in the same way whoever chose its nodes
    ("architecture", "sampler"),
    [
        *zip([name for name in ARCHITECTURES if name != "gcn"], cycle(["neighbor", "labor"])),
        ("gat", "labor"),
        ("propagation", "labor"),
    ],
)
def test_every_architecture_trains_on_mini_batches(
    architecture: str, sampler: str, tiny: Dataset, settings_of: Any
) -> None:
    train = {"batch_size": 9, "fan_out": "3,2", "epochs": 2, "samples": 2, "sampler": sampler}
    model = {"architecture": architecture, "heads": 2}
    config = settings_of("GCN-BBGDC", train=train, model=model)
    trainer = Trainer(config, tiny, progress=Silent())
    # features that are propagated before all layers are not divided into chunks of rows
    assert trainer.run.layerwise == (architecture != "propagation")
    assert 0.0 < trainer.fit().test.nll < 20.0


class StopAfter(Callback):
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_epoch(self, trainer: Trainer, line: Any) -> None:
        assert line["loss"] == pytest.approx(line["nll"] + line["kl"] + line["l2"] + line["agree"])
        if line["epoch"] == self.epoch:
            trainer.stop()


def test_a_stopped_and_resumed_run_ends_with_the_same_bits(
    tiny: Dataset, settings_of: Any, tmp_path: Any
) -> None:
    train = {"batch_size": 9, "fan_out": "3,2", "epochs": 6, "average": 0.9, "samples": 2}
    config = settings_of("GCN-BBGDC", train=train, objective={"agree": 1.0})
    whole = Trainer(config, tiny, tmp_path / "whole", progress=Silent())
    whole.fit()
    first = Trainer(config, tiny, tmp_path / "cut", progress=Silent(), callbacks=[StopAfter(3)])
    with pytest.raises(StoppedError):
        first.fit()
    again = Trainer(config, tiny, tmp_path / "cut", resume=True, progress=Silent())
    again.fit()
    assert again.state.selection == whole.state.selection
    for one, other in (
        (again.state.best, whole.state.best),
        *zip([again.model.state_dict()], [whole.model.state_dict()], strict=True),
    ):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)
    without = [
        [{k: v for k, v in line.items() if k != "seconds"} for line in one.journal.lines]
        for one in (again, whole)
    ]
    assert without[0] == without[1]


def test_the_command_trains_on_mini_batches(run: Any, tmp_path: Any) -> None:
    code, out, _ = run(
        "train", "--dataset", "synthetic", "--out", tmp_path / "a", "--epochs", 2,
        "--batch-size", 64, "--fan-out", "5,3", "--set", "train.samples=2",
        "--set", "predict.samples=2",
    )  # fmt: skip
    assert code == 0
    assert "epoch 2 of 2" in out
    text = (tmp_path / "a" / "config.toml").read_text()
    assert "batch_size = 64" in text
    assert 'fan_out = "5,3"' in text


def test_nodes_without_a_label_stand_for_all_of_them(tiny: Dataset, settings_of: Any) -> None:
    # 4 batches of 1 labelled node: 4 of the 76 others are drawn, and weighed for all of them
    data = tiny.data.clone()
    data.train_mask = torch.zeros(80, dtype=torch.bool)
    data.train_mask[[3, 9, 20, 41]] = True
    data.val_mask, data.test_mask = ~data.train_mask, torch.arange(80) == 79
    data.val_mask[79] = False
    config = settings_of(train={"batch_size": 1, "fan_out": "-1"}, objective={"agree": 1.0})
    steps = list(Trainer(config, data, progress=Silent()).run.batches.epoch(0))
    assert len(steps) == 4
    for step in steps:
        assert [part for part, _ in step.parts] == [slice(0, 1), slice(1, 2)]
        assert [factor for _, factor in step.parts] == pytest.approx([4 / 80, 76 / 80])
