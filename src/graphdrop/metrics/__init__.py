"""Metrics of predictions and of hidden layers: pure functions, and the registry of scores."""

from graphdrop.metrics.batches import OverBatches
from graphdrop.metrics.calibration import calibration_error, reliability
from graphdrop.metrics.ood import ood_aupr, ood_auroc
from graphdrop.metrics.pavpu import ThresholdAxis, pavpu, pavpu_curve
from graphdrop.metrics.posterior import posterior_calibration_error, posterior_divergence
from graphdrop.metrics.rare import average_precision, rare_classes, recall_at_budget
from graphdrop.metrics.scoring import brier_score, nll, predictive_entropy
from graphdrop.metrics.selective import aurc, excess_aurc, risk_coverage_curve, selective_risk
from graphdrop.metrics.smoothing import dirichlet_energy, mean_average_distance, total_variation
from graphdrop.metrics.spectrum import adjacency, spectral_radius

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
