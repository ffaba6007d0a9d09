"""Training: the objective, the trainer, checkpoints, and trained networks as files."""

from graphdrop.train.model_file import load, save
from graphdrop.train.node_estimators import NodeClassifier, NodeRegressor
from graphdrop.train.objective import DivergedError
from graphdrop.train.result import Result
from graphdrop.train.trainer import StoppedError, Trainer

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
