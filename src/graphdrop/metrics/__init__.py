"""Metrics of predictions and of hidden layers: pure functions, and the registry of scores."""

from graphdrop.metrics.batches import OverBatches
from graphdrop.metrics.calibration import (
    calibration_error,
    posterior_calibration_error,
    posterior_divergence,
    reliability,
)
from graphdrop.metrics.pavpu import ThresholdAxis, pavpu, pavpu_curve
from graphdrop.metrics.ranking import (
    average_precision,
    ood_aupr,
    ood_auroc,
    rare_classes,
    recall_at_budget,
)
from graphdrop.metrics.scoring import brier_score, nll, predictive_entropy
from graphdrop.metrics.selective import aurc, excess_aurc, risk_coverage_curve, selective_risk
from graphdrop.metrics.smoothing import (
    adjacency,
    dirichlet_energy,
    mean_average_distance,
    spectral_radius,
    total_variation,
)

__all__ = [
    "OverBatches",
    "ThresholdAxis",
    "adjacency",
    "aurc",
    "average_precision",
    "brier_score",
    "calibration_error",
    "dirichlet_energy",
    "excess_aurc",
    "mean_average_distance",
    "nll",
    "ood_aupr",
    "ood_auroc",
    "pavpu",
    "pavpu_curve",
    "posterior_calibration_error",
    "posterior_divergence",
    "predictive_entropy",
    "rare_classes",
    "recall_at_budget",
    "reliability",
    "risk_coverage_curve",
    "selective_risk",
    "spectral_radius",
    "total_variation",
]
