"""Reproduction of the paper's tables and figures: recipes, runs, rendering."""

from experiments.runner import run_cells
from experiments.store import Store
from experiments.targets import (
    TARGETS,
    Reproduced,
    Request,
    reproduce,
    rows_of,
    targets_of,
    usual_recipe,
)

__all__ = [
    "TARGETS",
    "Reproduced",
    "Request",
    "Store",
    "reproduce",
    "rows_of",
    "run_cells",
    "targets_of",
    "usual_recipe",
]
