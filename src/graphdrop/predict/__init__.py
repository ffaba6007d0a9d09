"""Prediction with uncertainty, by sampling a network."""

from graphdrop.predict.classes import Predictive
from graphdrop.predict.gaussian import GaussianPredictive
from graphdrop.predict.labels import LabelPredictive
from graphdrop.predict.predictive import predict
from graphdrop.predict.rejection import Rejection

__all__ = ["GaussianPredictive", "LabelPredictive", "Predictive", "Rejection", "predict"]
