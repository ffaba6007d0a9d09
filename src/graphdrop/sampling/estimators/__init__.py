"""Gradient estimators: gradients of the expected loss with respect to learned rates."""

from graphdrop.sampling.estimators.arm import ARM, DisARM
from graphdrop.sampling.estimators.base import Estimator, LayerDraws, Run
from graphdrop.sampling.estimators.concrete import Concrete
from graphdrop.sampling.estimators.reinforce import REINFORCE

__all__ = ["ARM", "REINFORCE", "Concrete", "DisARM", "Estimator", "LayerDraws", "Run"]
