"""Prediction with uncertainty, by sampling a network."""

from graphdrop.predict.predictive import Predictive, predict

__all__ = ["Predictive", "predict"]
