"""Prediction with uncertainty, by sampling a network."""

from graphdrop.inference.calibrating import calibrate
from graphdrop.inference.calibration import Calibrator
from graphdrop.inference.classes import Predictive
from graphdrop.inference.gaussian import GaussianPredictive
from graphdrop.inference.labels import LabelPredictive
from graphdrop.inference.predictive import predict
from graphdrop.inference.rejection import Rejection

__all__ = [
    "Calibrator",
    "GaussianPredictive",
    "LabelPredictive",
    "Predictive",
    "Rejection",
    "calibrate",
    "predict",
]
