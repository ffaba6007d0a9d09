"""Settings of a run: typed, documented, with defaults by method, read and written as TOML."""

from graphdrop.config.recipes import Method
from graphdrop.config.settings import (
    Config,
    DataSettings,
    ModelSettings,
    ObjectiveSettings,
    PredictSettings,
    TrainSettings,
)
from graphdrop.config.toml import settle

__all__ = [
    "Config",
    "DataSettings",
    "Method",
    "ModelSettings",
    "ObjectiveSettings",
    "PredictSettings",
    "TrainSettings",
    "settle",
]
