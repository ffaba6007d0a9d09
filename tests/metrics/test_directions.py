"""Every metric class says which way is better, and keeps no more than it has to."""

import pytest
from torchmetrics import Metric

from graphdrop import metrics

HIGHER_IS_BETTER = {
    "AURC": False,
    "NLL": False,
    "AccuracyGap": False,
    "BrierScore": False,
    "CalibrationError": False,
    "DirichletEnergy": None,
    "ExcessAURC": False,
    "MeanAverageDistance": None,
    "OodAUPR": True,
    "OodAUROC": True,
    "PAvPU": None,
    "PAvPUCurve": None,
    "PosteriorCalibrationError": False,
    "PosteriorDivergence": False,
    "Reliability": None,
    "RiskCoverageCurve": None,
    "SelectiveRisk": False,
    "TotalVariation": None,
}


def test_all_metric_classes_are_listed_here():
    named = {name: getattr(metrics, name) for name in metrics.__all__}
    classes = {name for name, one in named.items() if isinstance(one, type)}
    assert {name for name in classes if issubclass(named[name], Metric)} == set(HIGHER_IS_BETTER)


@pytest.mark.parametrize("name", sorted(HIGHER_IS_BETTER))
def test_a_metric_class_says_which_way_is_better(name):
    assert getattr(metrics, name).higher_is_better is HIGHER_IS_BETTER[name]
    assert getattr(metrics, name).full_state_update is False
