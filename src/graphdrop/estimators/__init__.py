"""Gradient estimators: gradients of the expected loss with respect to learned rates."""

from graphdrop.estimators.arm import ARM, DisARM
from graphdrop.estimators.base import Estimator, LayerDraws, Run
from graphdrop.estimators.concrete import Concrete
from graphdrop.estimators.reinforce import REINFORCE

__all__ = ["ARM", "REINFORCE", "Concrete", "DisARM", "Estimator", "LayerDraws", "Run"]
