"""A graph on which neighbours differ in class: residuals and a normalization layer learn it."""

import os
from pathlib import Path

import pytest
import torch
from sklearn.metrics import roc_auc_score

from graphdrop import Config, Trainer, predict
from graphdrop.train.progress import Silent

MINESWEEPER = Path(os.environ.get("GRAPHDROP_DATA", "")) / "dev" / "minesweeper.npz"


@pytest.mark.slow
@pytest.mark.skipif(not MINESWEEPER.is_file(), reason=f"{MINESWEEPER} is not there")
def test_a_gcn_with_residuals_and_layer_normalization_finds_the_mines():
    config = Config(
        recipe="paper",
        data={"dataset": str(MINESWEEPER), "features": "stored"},
        model={
            "method": "GCN-DO",
            "layers": 4,
            "hidden": 64,
            "dropout": 0.2,
            "residual": "linear",
            "norm_layer": "layer",
            "jumping": "last",  # a graph convolution at the end would smooth what it predicts
        },
        objective={"l2": 0.0},
        train={"epochs": 300, "learning_rate": 0.01, "select": "nll", "patience": 0},
    )
    trainer = Trainer(config, progress=Silent())
    trainer.fit()
    rows = trainer.rows["validation"]
    mines: torch.Tensor = predict(trainer.model, trainer.data, rows=rows).probabilities[:, 1]
    assert roc_auc_score(trainer.run.targets[rows], mines) > 0.9
