"""Warnings about a run say what is wrong, and advise nothing that is set already."""

import torch

from graphdrop.calibration.scaling import VarianceScaling
from graphdrop.config import Config
from graphdrop.inference import GaussianPredictive, Predictive
from graphdrop.train.result import find_warnings

LABELS = (torch.arange(1000) % 25 == 0).long()
"""One node in 25 is of class 1."""


def warned(scores: torch.Tensor, **model: object) -> list[str]:
    """Warnings about probabilities of class 1 that are between 0.01 and 0.2."""
    rare = 0.01 + 0.19 * scores.argsort().argsort() / len(scores)
    logits = torch.stack([1 - rare, rare], 1).log()
    return find_warnings(
        Predictive.from_logits(logits),
        LABELS,
        model=Config(recipe="paper", model=model).model,
        calibrator=None,
        calibration_nodes=0,
        selected_epoch=50,
        epochs=100,
        ece=0.0,
        floor=None,
        x=torch.zeros(2, 1),
    )


def test_a_rare_class_that_is_never_predicted_and_ranked_well_is_no_reason_to_warn():
    noise = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    assert warned(LABELS + noise) == []
    assert "not learned" in warned(noise)[0]


def test_few_nodes_to_calibrate_on_are_said_of_intervals_where_numbers_are_predicted():
    answer = GaussianPredictive(*torch.ones(3, 4, 1), 1)
    (said,) = find_warnings(
        answer,
        torch.ones(4),
        model=None,
        calibrator=VarianceScaling(torch.ones(1)),
        calibration_nodes=4,
        selected_epoch=50,
        epochs=100,
        ece=0.0,
        floor=None,
        x=torch.zeros(2, 1),
    )
    assert "the intervals may be too narrow or too wide" in said


def test_a_warning_advises_nothing_that_is_set_already():
    noise = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    (plain,), (both,) = warned(noise), warned(noise, residual="linear", norm_layer="layer")
    assert "model.residual" in plain
    assert "model.norm_layer" in plain
    assert "model." not in both
