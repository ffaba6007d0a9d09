"""``reproduce ood --recipe auto``: every method by every score, from one training of each kind."""

import numpy as np
import pytest

from experiments.left_out_class import without_class
from experiments.ood_scores import Unfamiliar
from experiments.ood_table import SCORES, resampled
from experiments.single_run import run_config
from graphdrop.data import load_dataset
from graphdrop.inference import predict
from graphdrop.metrics import ood_auroc
from graphdrop.train import Trainer
from graphdrop.train.progress import Silent


def leaving(config, members: int = 2) -> Unfamiliar:
    more = {"left_out": 1, "members": members, "perturbed": 0.5}
    return Unfamiliar.model_validate(dict(config) | more)


@pytest.fixture
def dropout(tiny_config):
    method = {"method": "GCN-DO", "layers": 2, "hidden": 8, "dropout": 0.5}
    return leaving(tiny_config(model=method, predict={"samples": 3, "masks": "hard"}))


def test_networks_are_scored_with_samples_with_masks_off_and_as_an_ensemble(dropout):
    record = run_config(dropout)
    assert set(record["unfamiliar"]) == {"class", "noise", "shift"}
    for views in record["unfamiliar"].values():
        assert {view: len(one["entropy"]) for view, one in views.items()} == {
            "sampled": 2,
            "off": 2,
            "ensemble": 1,
        }
        assert set(views["sampled"]) == set(SCORES)
        assert set(views["off"]) == set(SCORES) - {"mutual_information"}
    known, outside = without_class(load_dataset("synthetic"), 1)
    trainer = Trainer(dropout.member_configs()[0], known, progress=Silent())
    trainer.fit()
    rows = known.split.test | outside
    answer = predict(trainer.model, known.data, masks="off")
    area = float(ood_auroc(answer.energy[rows], outside[rows]))
    assert record["unfamiliar"]["class"]["off"]["energy_all"][0] == pytest.approx(area, rel=1e-4)


def test_an_interval_of_equal_areas_is_a_point_and_it_covers_classes_and_seeds():
    assert resampled([np.full((3, 5), 80.0)]) == pytest.approx((80.0, 80.0))
    by_class = np.repeat([[70.0], [90.0]], 5, axis=1)
    assert resampled([by_class]) == pytest.approx((70.0, 90.0))
    assert resampled([by_class.T]) == pytest.approx((72.0, 88.0), abs=6.0)
