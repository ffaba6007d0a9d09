"""``reproduce calibration``: one network is scored by every calibrator, beside the record."""

import pytest
import torch

from experiments.calibrators import CALIBRATORS, Divided
from experiments.single_run import run_config
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
