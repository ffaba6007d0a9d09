"""Reproduction of the paper's tables and figures: recipes, runs, rendering."""

from graphdrop.experiments.runner import run_cells
from graphdrop.experiments.store import Store
from graphdrop.experiments.targets import (
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
