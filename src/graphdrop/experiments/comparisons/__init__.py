"""Intervals and tests of the difference between two methods, and their correction for many."""

from graphdrop.experiments.comparisons.crossed import crossed
from graphdrop.experiments.comparisons.difference import Difference, seeds_alone
from graphdrop.experiments.comparisons.holm import holm
from graphdrop.experiments.comparisons.resampled_t import resampled_t

__all__ = ["Difference", "crossed", "holm", "resampled_t", "seeds_alone"]
