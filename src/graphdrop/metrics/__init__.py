"""Metrics of predictions and of hidden layers: pure functions, and the registry of scores."""

from graphdrop.metrics.batches import OverBatches
from graphdrop.metrics.calibration import (
    Binning,
    CalibrationNorm,
    ReliabilityBins,
    calibration_error,
    reliability,
)
from graphdrop.metrics.ood import ood_aupr, ood_auroc
from graphdrop.metrics.pavpu import PavpuCurveResult, PavpuResult, ThresholdAxis, pavpu, pavpu_curve
from graphdrop.metrics.posterior import posterior_calibration_error, posterior_divergence
from graphdrop.metrics.rare import (
    RareFigures,
    average_precision,
    budget_nodes,
    cost_threshold,
    rare_classes,
    rare_figures,
    recall_at_budget,
)
from graphdrop.metrics.scoring import accuracy_gap, brier_score, nll, predictive_entropy
from graphdrop.metrics.selective import (
    RiskCoverage,
    aurc,
    excess_aurc,
    risk_coverage_curve,
    selective_risk,
)
from graphdrop.metrics.smoothing import dirichlet_energy, mean_average_distance, total_variation
from graphdrop.metrics.spectrum import adjacency, spectral_radius

__all__ = [
    "Binning",
    "CalibrationNorm",
    "OverBatches",
    "PavpuCurveResult",
    "PavpuResult",
    "RareFigures",
    "ReliabilityBins",
    "RiskCoverage",
    "ThresholdAxis",
    "accuracy_gap",
    "adjacency",
    "aurc",
    "average_precision",
    "brier_score",
    "budget_nodes",
    "calibration_error",
    "cost_threshold",
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
    "rare_figures",
    "recall_at_budget",
    "reliability",
    "risk_coverage_curve",
    "selective_risk",
    "spectral_radius",
    "total_variation",
]
