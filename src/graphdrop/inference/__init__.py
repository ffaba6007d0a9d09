"""Prediction with uncertainty, by sampling a network."""

from graphdrop.inference.classes import Predictive
from graphdrop.inference.energies import energy, vacuity
from graphdrop.inference.gaussian import GaussianPredictive
from graphdrop.inference.labels import LabelPredictive
from graphdrop.inference.predictive import predict

__all__ = [
    "GaussianPredictive",
    "LabelPredictive",
    "Predictive",
    "energy",
    "predict",
    "vacuity",
]
