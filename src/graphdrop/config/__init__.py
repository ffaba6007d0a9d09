"""Settings of a run: typed, documented, with defaults by method, read and written as TOML."""

from graphdrop.config.recipes import Method, recipe
from graphdrop.config.settings import (
    Config,
    DataSettings,
    ModelSettings,
    ObjectiveSettings,
    PredictSettings,
    TrainSettings,
)
from graphdrop.config.toml import differences, explained, override, read, settle, to_toml

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
    "recipe",
    "settle",
    "to_toml",
]
