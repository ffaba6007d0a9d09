"""A run on a device has the scores of the run on the CPU: on a stand-in that refuses to mix."""

from typing import Any

import pytest
import torch

from contracts import shadow_device
from graphdrop.config import Config
from graphdrop.train import Trainer, trainer
from graphdrop.train.progress import Silent
from graphdrop.train.result import Result


@pytest.mark.parametrize("settings", [{"batch_size": 0}, {"batch_size": 64}], ids=["full", "mini"])
def test_a_run_on_a_device_has_the_scores_of_the_cpu(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "find_device", torch.device)

    def fit(device: torch.device | None) -> Result:
        config = Config(
            data={"dataset": "synthetic"},
            model={"hidden": 8},
            train={"epochs": 2, "evaluate_every": 1, **settings},
            predict={"samples": 2, "calibration": "temperature"},
            recipe="paper",
        )
        run = Trainer(
            config,
            progress=Silent(),
            device=device,
            # the meta device, which the stand-in is called, has no fused Adam
            optimizer=lambda parameters: torch.optim.Adam(parameters, 0.01, foreach=False),
        )
        result = run.fit()
        assert device is None or all(p.device == device for p in run.model.parameters())
        return result

    wanted = fit(None)
    with shadow_device.device() as device:
        got = fit(device)
    assert got.test.accuracy == wanted.test.accuracy
    assert got.test.nll == pytest.approx(wanted.test.nll, rel=1e-4)
