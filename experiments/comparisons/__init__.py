"""Intervals and tests of the difference between two methods, and their correction for many."""

from experiments.comparisons.crossed import crossed, simulated_p
from experiments.comparisons.difference import Difference, seeds_alone
from experiments.comparisons.holm import holm
from experiments.comparisons.left_out_nodes import (
    aurc_without_each,
    ece_without_each,
    node_values,
    pavpu_without_each,
)
from experiments.comparisons.resampled_t import resampled_t

__all__ = [
    "Difference",
    "aurc_without_each",
    "crossed",
    "ece_without_each",
    "holm",
    "node_values",
    "pavpu_without_each",
    "resampled_t",
    "seeds_alone",
    "simulated_p",
]
