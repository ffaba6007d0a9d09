"""Metrics of predictions and hidden layers: functions, and torchmetrics classes over batches.

Every class agrees with the function it is named after, for any split into batches in any order.
(torchmetrics drops the dimension of a result that holds a single number.)
"""

from graphdrop.metrics.calibration import (
    Binning,
    CalibrationError,
    CalibrationNorm,
    Reliability,
    ReliabilityBins,
    calibration_error,
    reliability,
)
from graphdrop.metrics.entropy import predictive_entropy
from graphdrop.metrics.gap import AccuracyGap, accuracy_gap
from graphdrop.metrics.ood import OodAUPR, OodAUROC, ood_aupr, ood_auroc
from graphdrop.metrics.pavpu import (
    PAvPU,
    PAvPUCurve,
    PavpuCurveResult,
    PavpuResult,
    ThresholdAxis,
    pavpu,
    pavpu_curve,
)
from graphdrop.metrics.posterior import (
    PosteriorCalibrationError,
    PosteriorDivergence,
    posterior_calibration_error,
    posterior_divergence,
)
from graphdrop.metrics.rare import (
    RareFigures,
    average_precision,
    budget_nodes,
    cost_threshold,
    rare_classes,
    rare_figures,
    recall_at_budget,
)
from graphdrop.metrics.scoring import NLL, BrierScore, brier_score, nll
from graphdrop.metrics.selective import (
    AURC,
    ExcessAURC,
    RiskCoverage,
    RiskCoverageCurve,
    SelectiveRisk,
    aurc,
    excess_aurc,
    risk_coverage_curve,
    selective_risk,
)
from graphdrop.metrics.smoothing import (
    DirichletEnergy,
    MeanAverageDistance,
    TotalVariation,
    dirichlet_energy,
    mean_average_distance,
    total_variation,
)
from graphdrop.metrics.spectrum import adjacency, spectral_radius

__all__ = [
    "AURC",
    "NLL",
    "AccuracyGap",
    "Binning",
    "BrierScore",
    "CalibrationError",
    "CalibrationNorm",
    "DirichletEnergy",
    "ExcessAURC",
    "MeanAverageDistance",
    "OodAUPR",
    "OodAUROC",
    "PAvPU",
    "PAvPUCurve",
    "PavpuCurveResult",
    "PavpuResult",
    "PosteriorCalibrationError",
    "PosteriorDivergence",
    "RareFigures",
    "Reliability",
    "ReliabilityBins",
    "RiskCoverage",
    "RiskCoverageCurve",
    "SelectiveRisk",
    "ThresholdAxis",
    "TotalVariation",
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
