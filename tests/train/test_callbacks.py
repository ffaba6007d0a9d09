"""Callbacks hear of a run from its start to its end, and TensorBoard is one of them."""

import sys

import pytest

from graphdrop.train import Trainer
from graphdrop.train.progress import Silent
from graphdrop.train.trainer import TENSORBOARD, Callback, TensorBoard


class Noting(Callback):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_start(self, trainer):
        self.heard.append(f"start {trainer.epoch}")

    def on_evaluation(self, trainer, answer):
        assert len(answer.probabilities) == len(trainer.rows["validation"])
        self.heard.append(f"evaluation {trainer.epoch}")

    def on_epoch(self, trainer, line):
        self.heard.append(f"epoch {line['epoch']}")

    def on_end(self, trainer, result):
        self.heard.append("end" if result is not None else "interrupted")


def test_a_callback_hears_of_everything_in_order(tiny, settings_of):
    noting = Noting()
    config = settings_of(train={"epochs": 3, "evaluate_every": 2})
    Trainer(config, tiny, progress=Silent(), callbacks=[noting]).fit()
    assert noting.heard == [
        "start 0", "epoch 1", "evaluation 2", "epoch 2", "evaluation 3", "epoch 3", "end",
    ]  # fmt: skip


def test_a_callback_hears_of_an_interruption(tiny, settings_of):
    class Interrupting(Callback):
        def on_epoch(self, trainer, line):
            raise KeyboardInterrupt

    noting = Noting()
    callbacks = [Interrupting(), noting]
    trainer = Trainer(settings_of(), tiny, progress=Silent(), callbacks=callbacks)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit()
    assert noting.heard == ["start 0", "interrupted"]


def test_without_tensorboard_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match=r"train\.tensorboard is true .*pip install tensorboard"):
        TensorBoard()


def test_tensorboard_gets_every_number(tiny, settings_of, tmp_path):
    config = settings_of(train={"epochs": 2, "tensorboard": True})
    Trainer(config, tiny, tmp_path / "run", progress=Silent()).fit()
    (events,) = (tmp_path / "run" / TENSORBOARD).iterdir()
    content = events.read_bytes()
    assert all(name in content for name in (b"loss", b"validation/nll", b"drop_rates/layer 1"))
