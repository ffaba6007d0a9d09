"""A run with a calibrator: fitted on validation nodes, carried by the model, raw figures beside."""

import torch

from graphdrop import load, predict
from graphdrop.train import Trainer
from graphdrop.train.post_hoc_calibration import fit_calibrator, out_of_fold
from graphdrop.train.progress import Silent


def test_a_calibrated_run_answers_alike_whoever_asks(tiny, settings_of, tmp_path):
    config = settings_of(train={"epochs": 20}, predict={"calibration": "temperature"})
    trainer = Trainer(config, tiny, tmp_path / "run", progress=Silent())
    result = trainer.fit()
    assert set(result.uncalibrated) == {"validation", "test"}
    assert result.calibration["nodes"] == int(tiny.split.val.sum())
    assert result.calibration["ece_floor"] < result.calibration["ece_floor_high"]
    assert any("validation nodes to calibrate on" in one for one in result.warnings)
    answer = predict(load(tmp_path / "run"), tiny.data)
    assert answer.calibrated == "samples"
    assert torch.equal(answer.probabilities, predict(trainer.model, tiny.data).probabilities)
    raw = predict(load(tmp_path / "run"), tiny.data, calibrator=None)
    assert not torch.equal(raw.probabilities, answer.probabilities)


def test_validation_figures_are_out_of_fold(tiny, settings_of):
    config = settings_of(train={"epochs": 20}, predict={"calibration": "temperature"})
    trainer = Trainer(config, tiny, progress=Silent())
    trainer.fit()
    rows = trainer.rows["validation"]
    _, halves = fit_calibrator(trainer, rows)
    together = out_of_fold(trainer, halves, rows)
    for half, other in zip(halves.rows, reversed(halves.calibrators), strict=True):
        alone = predict(trainer.model, trainer.data, rows=half, calibrator=other)
        places = torch.isin(rows, half)
        order = torch.argsort(torch.argsort(rows[places]))
        wanted = alone.probabilities[torch.argsort(half)][order]
        torch.testing.assert_close(together.probabilities[places], wanted)
