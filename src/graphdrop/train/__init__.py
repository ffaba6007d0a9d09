"""Training: the objective, the trainer, checkpoints, and trained networks as files."""

from graphdrop.train.divergence import DivergedError
from graphdrop.train.model_file import load, save
from graphdrop.train.node_estimators import NodeClassifier, NodeRegressor
from graphdrop.train.result import Result, StoppedError
from graphdrop.train.trainer import Trainer

__all__ = [
    "DivergedError",
    "NodeClassifier",
    "NodeRegressor",
    "Result",
    "StoppedError",
    "Trainer",
    "load",
    "save",
]
