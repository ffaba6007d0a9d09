"""Settings: typed, explained, with the recipe of every method, read from and written as TOML."""

from graphdrop.config.recipes import Method, recipe
from graphdrop.config.settings import (
    Config,
    DataSettings,
    ModelSettings,
    ObjectiveSettings,
    PredictSettings,
    TrainSettings,
)
from graphdrop.config.toml import differences, explained, override, read, read_run, settle, to_toml

__all__ = [
    "Config",
    "DataSettings",
    "Method",
    "ModelSettings",
    "ObjectiveSettings",
    "PredictSettings",
    "TrainSettings",
    "differences",
    "explained",
    "override",
    "read",
    "read_run",
    "recipe",
    "settle",
    "to_toml",
]
