"""``reproduce sets``: coverage over random divisions, beside TorchCP's sizes."""

from pathlib import Path

import pytest

from experiments.recipe import read_recipe
from experiments.set_coverage import COVERAGE, Covered, division, set_scores
from experiments.set_table import sets, torchcp_sizes
from experiments.single_run import run_config
from experiments.store import Store
from experiments.target_runs import CellRuns, TargetRuns
from graphdrop.data import load_dataset
from graphdrop.inference import predict
from graphdrop.inference import sets as prediction
from graphdrop.train import Trainer
from graphdrop.train.progress import Silent

ROOT = Path(__file__).parents[2]


def test_what_is_counted_are_the_sets_of_the_prediction_before_empty_ones_are_filled(
    tiny_config, monkeypatch
):
    monkeypatch.setattr(prediction, "fill_empty", lambda members, predicted: members)
    config = tiny_config(model={"layers": 2, "hidden": 8})
    trainer = Trainer(config, load_dataset("synthetic"), progress=Silent())
    trainer.fit()
    found = set_scores(trainer, 1)["sets"]
    answer, labels = predict(trainer.model, trainer.data), trainer.data.y
    fitted, counted = division(trainer.rows["test"], 0)
    for method in ("lac", "aps", "daps", "snaps"):
        for name, by_class in (("all", False), ("by_class", True)):
            made = answer.sets(
                COVERAGE, method, calibration=(fitted, labels[fitted]), by_class=by_class
            )
            size = float(made.size()[counted].double().mean())
            held = float(made.contains(labels.clamp_min(0))[counted].double().mean())
            assert found[method][name]["size"] == pytest.approx(size)
            assert found[method][name]["coverage"] == pytest.approx(held)


def test_sizes_are_those_of_torchcp_within_two_percent():
    known = torchcp_sizes()
    ours = {
        r["config"]["data"]["dataset"]: r["sets"]
        for r in Store(ROOT / "results").records().values()
        if "sets" in r
    }
    assert len(ours) == 9
    for graph, found in ours.items():
        theirs = known["sizes"][graph] | known["sizes_joined"][graph]
        for method, size in theirs.items():
            assert found[method]["all"]["size"] == pytest.approx(size, rel=0.02)


def test_a_run_has_its_rows_beside_torchcp(tiny_config):
    config = tiny_config(model={"layers": 2, "hidden": 8})
    record = run_config(Covered.model_validate(dict(config) | {"divisions": 5}))
    assert 0.8 < record["sets"]["aps"]["all"]["coverage"] < 1.0
    recipe = read_recipe("sets-auto")
    runs = [CellRuns(recipe.cells()[0], [record], 0)]
    rendered = sets(TargetRuns("sets", recipe, "auto", False, runs))
    text = rendered.tables["sets"].to_markdown()
    assert "cora, SNAPS" in text
    assert all(f"{size:.3f}" in text for size in torchcp_sizes()["sizes"]["cora"].values())
