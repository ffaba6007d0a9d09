"""Prediction with uncertainty, by sampling a network."""

from graphdrop.inference.calibrating import calibrate
from graphdrop.inference.calibration import Calibrator
from graphdrop.inference.classes import Predictive
from graphdrop.inference.energies import energy, vacuity
from graphdrop.inference.gaussian import GaussianPredictive
from graphdrop.inference.labels import LabelPredictive
from graphdrop.inference.predictive import predict
from graphdrop.inference.rejection import Rejection
from graphdrop.inference.sets import PredictionSets

__all__ = [
    "Calibrator",
    "GaussianPredictive",
    "LabelPredictive",
    "PredictionSets",
    "Predictive",
    "Rejection",
    "calibrate",
    "energy",
    "predict",
    "vacuity",
]
