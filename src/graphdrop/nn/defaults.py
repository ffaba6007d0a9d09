"""``PredictionDefaults``: what a trained model needs to know to answer as it did in training."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from torch import Tensor

from graphdrop.config import Config
from graphdrop.data.features import column_moments, row_normalized, standardized
from graphdrop.nn.cache import TensorCache

if TYPE_CHECKING:
    from torch_geometric.data import Data

Masks = Literal["relaxed", "hard", "expected", "off"]


@dataclass(frozen=True)
class PredictionDefaults:
    """How a model predicts unless ``predict`` is told otherwise. It is saved with the model."""

    features: Literal["stored", "row", "standardize"] = "stored"
    """What the network takes: features as stored, with rows divided by their sum, or with columns
    standardized by ``feature_moments``."""
    feature_moments: tuple[Sequence[float], Sequence[float]] | None = None
    """Mean and standard deviation of every column over the training nodes."""
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
    reject_by: str | None = None
    """The uncertainty score that was best at finding errors on the validation nodes."""
    _prepared: TensorCache = field(default_factory=TensorCache, repr=False, compare=False)

    def inputs(self, data: Data) -> Data:
        """A graph with its features as the network takes them; made once for the same tensor."""
        x = getattr(data, "x", None)
        if self.features == "stored" or x is None:
            return data
        data = copy.copy(data)
        data.x = self._prepared.get(lambda: self._transformed(x), x, extra="features")
        return data

    def fitted(self, x: Tensor, train: Tensor) -> Self:
        """The same with the moments of the training nodes, where features are standardized."""
        if self.features != "standardize":
            return self
        mean, deviation = column_moments(x, train)
        return replace(self, feature_moments=(tuple(mean.tolist()), tuple(deviation.tolist())))

    def _transformed(self, x: Tensor) -> Tensor:
        if self.features == "row":
            return row_normalized(x)
        if self.feature_moments is None:
            raise ValueError(
                "features is 'standardize', but there are no moments of training nodes: call "
                "fitted(x, train) first, or train with Trainer, which does"
            )
        mean, deviation = (torch.tensor(m, dtype=torch.float64) for m in self.feature_moments)
        if len(mean) != x.shape[1]:
            raise ValueError(
                f"data.x has {x.shape[1]} features, but the model was trained with {len(mean)}: "
                "give the same columns in the same order"
            )
        return standardized(x, mean, deviation)

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
