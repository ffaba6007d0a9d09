"""``reproduce calibration``: one network is scored by every calibrator, beside the record."""

import pytest
import torch

from experiments.calibration_table import RECORDS, calibration
from experiments.calibrators import CALIBRATORS, Divided
from experiments.keys import run_key
from experiments.recipe import read_recipe
from experiments.single_run import run_config
from experiments.target_runs import CellRuns, TargetRuns
from graphdrop.data import load_dataset


def divided(config, **more) -> Divided:
    shares = {"train_share": 0.2, "validation_share": 0.1} | more
    return Divided.model_validate(dict(config) | shares)


def test_every_class_is_divided_20_10_70_by_the_seed_of_the_split(tiny_config):
    dataset = load_dataset("synthetic")
    one, other = (
        divided(tiny_config(data={"dataset": "synthetic", "split_seed": seed})).divided(dataset)
        for seed in (0, 1)
    )
    nodes = len(dataset.data.y)
    for mask, share in zip(
        (one.split.train, one.split.val, one.split.test), (0.2, 0.1, 0.7), strict=True
    ):
        assert int(mask.sum()) == pytest.approx(share * nodes, abs=7)
    assert torch.equal(one.data.train_mask, one.split.train)
    assert not torch.equal(one.split.train, other.split.train)
    assert not torch.equal(dataset.data.train_mask, one.split.train)


def test_shares_are_part_of_the_key(tiny_config):
    config = tiny_config()
    keys = {run_key(config), run_key(divided(config)), run_key(divided(config, train_share=0.3))}
    assert len(keys) == 3


def test_one_network_has_the_scores_of_all_calibrators_with_samples_and_with_masks_off(tiny_config):
    method = {"method": "GCN-DO", "layers": 2, "hidden": 8, "dropout": 0.5}
    config = tiny_config(model=method, predict={"samples": 2, "masks": "hard"})
    record = run_config(divided(config))
    views = record["calibrators"]
    assert set(views) == {"sampled", "off"}
    for scores in views.values():
        assert tuple(scores) == CALIBRATORS
        assert scores["temperature"]["nll"] <= scores["none"]["nll"] + 0.05
        assert scores["temperature"]["accuracy"] == pytest.approx(
            scores["none"]["accuracy"], abs=0.05
        )
    assert views["off"]["none"] != views["sampled"]["none"]


def line(error: float, floor: float) -> dict:
    scores = {"accuracy": 0.9, "nll": 0.3, "ece": error, "ece_floor": floor}
    views = dict.fromkeys(("sampled", "off"), dict.fromkeys(CALIBRATORS, scores))
    config = {"data": {"dataset": "cora"}}
    versions = {"graphdrop": "0", "torch": "0"}
    return {"calibrators": views, "seed": 400, "config": config, "data": "0" * 8} | {
        "versions": versions,
        "seconds": 1.0,
    }


@pytest.mark.parametrize(
    ("error", "floor", "verdict"),
    [
        (0.01, 0.01, "| reached |"),
        (0.03, 0.01, "| missed |"),
        (0.03, 0.025, "floor of a perfect forecaster lies above the record"),
    ],
)
def test_the_table_says_whether_the_record_is_reached_and_whether_it_can_be(error, floor, verdict):
    assert RECORDS["cora"] == 2.29
    recipe = read_recipe("calibration-tuned")
    cells = [cell for cell in recipe.cells(runs=1) if cell.dataset == "cora"]
    runs = [CellRuns(cell, [line(error, floor)], 0) for cell in cells]
    rendered = calibration(TargetRuns("calibration", recipe, "tuned", False, runs))
    assert verdict in rendered.tables["calibration-record"].to_markdown()
    assert "published 3.22" in rendered.tables["calibration"].to_markdown()
