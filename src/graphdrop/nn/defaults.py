"""``PredictionDefaults``: what a trained model needs to know to answer as it did in training."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

from graphdrop.config import Config
from graphdrop.data.features import row_normalized
from graphdrop.nn.cache import TensorCache

if TYPE_CHECKING:
    from torch_geometric.data import Data

Masks = Literal["relaxed", "hard", "expected", "off"]


@dataclass(frozen=True)
class PredictionDefaults:
    """How a model predicts unless ``predict`` is told otherwise. It is saved with the model."""

    features: Literal["stored", "row"] = "stored"
    """What the network takes: features as stored, or with rows divided by their sum."""
    samples: int = 20
    """Monte Carlo samples."""
    masks: Masks | None = None
    """Samples with relaxed or hard masks, one pass with the expected mask, or one with every
    connection kept; ``None`` is what the model was trained with, relaxed or hard."""
    temperature: float | None = None
    """Of relaxed masks; ``None`` is that of the model's estimator."""
    dropout: bool = True
    """Whether samples also draw a DropOut that stands beside masks of connections."""
    decision: Literal["vote", "mean"] = "mean"
    """The predicted class: what most samples chose, or the highest mean probability."""
    seed: int = 0
    """Of the samples."""
    calibration: Mapping[str, Any] | None = None
    """A fitted calibrator as JSON values (`graphdrop.inference.calibration`)."""
    calibrated_on: Mapping[str, float] | None = None
    """What the graph was like that it was fitted on, to notice another one by."""
    _prepared: TensorCache = field(default_factory=TensorCache, repr=False, compare=False)

    def inputs(self, data: Data) -> Data:
        """A graph with its features as the network takes them; made once for the same tensor."""
        x = getattr(data, "x", None)
        if self.features == "stored" or x is None:
            return data
        data = copy.copy(data)
        data.x = self._prepared.get(lambda: row_normalized(x), x, extra="features")
        return data

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return {name: value for name, value in asdict(self).items() if not name.startswith("_")}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """What ``as_json`` wrote."""
        return cls(**values)

    @classmethod
    def of(cls, config: Config) -> Self:
        """How a run predicts by its settings."""
        settings = config.predict
        return cls(
            features=config.data.features,
            samples=settings.samples,
            masks=settings.masks,
            temperature=config.model.temperature,
            dropout=settings.dropout,
            decision=settings.decision,
            seed=config.seed,
        )
