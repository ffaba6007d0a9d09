"""Estimators: how a gradient reaches a rate through masks that are drawn."""

from graphdrop.estimators.arm import ARM, DisARM
from graphdrop.estimators.base import Estimator, LayerDraws, Run
from graphdrop.estimators.concrete import Concrete
from graphdrop.estimators.reinforce import REINFORCE

__all__ = ["ARM", "REINFORCE", "Concrete", "DisARM", "Estimator", "LayerDraws", "Run"]
