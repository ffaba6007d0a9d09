"""A run on a device has the scores of the run on the CPU: on a stand-in that refuses to mix."""

import json
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pandas
import pytest
import torch

from contracts import shadow_device, small_runs
from contracts.in_turn import LastFirst
from graphdrop.config import Config
from graphdrop.data import load_dataset
from graphdrop.train import Trainer, auto, many
from graphdrop.train import run as run_module
from graphdrop.train.progress import Silent
from graphdrop.train.result import Result
from graphdrop.train.selection import Selection


@pytest.mark.parametrize("case", ["full", "mini", "full, no float64"])
def test_a_run_on_a_device_has_the_scores_of_the_cpu(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "find_device", torch.device)

    def fit(device: torch.device | None) -> Result:
        config = Config(
            data={"dataset": "synthetic"},
            model={"hidden": 8},
            train={"epochs": 2, "evaluate_every": 1, "batch_size": 64 if case == "mini" else 0},
            predict={"samples": 2, "calibration": "temperature"},
            recipe="paper",
        )
        trainer = Trainer(
            config,
            progress=Silent(),
            device=device,
            # the meta device, which the stand-in is called, has no fused Adam
            optimizer=lambda parameters: torch.optim.Adam(parameters, 0.01, foreach=False),
        )
        result = trainer.fit()
        assert device is None or all(p.device == device for p in trainer.model.parameters())
        return result

    wanted = fit(None)
    with ExitStack() as context:
        if case.endswith("no float64"):
            device, asked = context.enter_context(shadow_device.without_float64())
        else:
            device, asked = context.enter_context(shadow_device.device()), []
        got = fit(device)
    assert asked == []
    assert got.test.accuracy == wanted.test.accuracy
    assert got.test.nll == pytest.approx(wanted.test.nll, rel=1e-4)


@pytest.mark.parametrize("executor", [None, LastFirst()], ids=["here", "executor"])
def test_all_trials_are_computed_on_the_device_that_was_asked_for(
    executor: LastFirst | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices: list[Any] = []

    def prepare(*_: Any, device: Any) -> None:
        devices.append(device)

    trained = SimpleNamespace(selection=Selection(1, 0.5, 1.0))
    monkeypatch.setattr(auto, "prepare_run", prepare)
    monkeypatch.setattr(auto, "train", lambda *_: trained)
    # two ways to choose from, so that the recipe makes trials, too
    monkeypatch.setattr(auto, "ways", lambda _: list(auto.DESCRIPTIONS)[:2])
    dataset = load_dataset("synthetic")
    config = Config(data={"dataset": "synthetic"}, recipe="auto")
    many.tune(config, dataset, 3, device="mps", executor=executor)
    assert devices == ["mps"] * 5
    devices.clear()
    many.tune(config, dataset, 1, executor=executor)  # on the CPU, where the data are
    assert devices == ["cpu"] * 3


def test_predict_and_evaluate_compute_on_the_device_that_is_asked_for(
    run: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = small_runs.write_graph(tmp_path / "graph.npz")
    folder = small_runs.train(tmp_path / "run", graph)
    monkeypatch.setattr("graphdrop.io.devices.find_device", torch.device)
    answers, scores = [], []
    for device in ("cpu", "meta"):
        with shadow_device.device() if device == "meta" else ExitStack():
            output = tmp_path / f"{device}.csv"
            assert run("predict", folder, "-o", output, "--device", device)[0] == 0
            answers.append(pandas.read_csv(output))
            code, out, _ = run("evaluate", folder, "--device", device, "--json")
            assert code == 0
            scores.append(json.loads(out)["test"])
    pandas.testing.assert_frame_equal(*answers, atol=1e-4)
    assert scores[1] == pytest.approx(scores[0], rel=1e-4)
