"""``PredictionDefaults``: what a model carries for its answers.

``print(model.defaults)`` shows it: how many samples with which masks, the calibrator, the nodes by
which prediction sets are calibrated, the scales of features and targets.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from graphdrop.config import Config
from graphdrop.data.checksums import values_sha256
from graphdrop.data.features import column_moments, row_normalized, standardized
from graphdrop.nn.cache import TensorCache

if TYPE_CHECKING:
    from torch_geometric.data import Data

Masks = Literal["relaxed", "hard", "expected", "off"]
Features = Literal["stored", "row", "unit", "standardize"]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Stored(BaseModel):
    """The types and ranges of the values in a file."""

    model_config = ConfigDict(extra="forbid")

    features: Features = "stored"
    feature_moments: tuple[list[Finite], list[Finite]] | None = None
    target_moments: tuple[list[Finite], list[Finite]] | None = None
    samples: Annotated[int, Field(ge=1, lt=2**31)] = 20
    masks: Masks | None = None
    temperature: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | None = None
    dropout: bool = True
    sample_dropout: bool = False
    batch_statistics: bool = False
    decision: Literal["vote", "mean"] = "mean"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    calibration: dict[str, Any] | None = None
    calibrated_on: dict[str, float] | None = None
    trained_on: dict[str, str] | None = None
    reject_by: Literal["least_confidence", "entropy", "aleatoric", "epistemic"] | None = None
    set_nodes: dict[str, Any] | None = None
    class_counts: list[Annotated[int, Field(ge=0)]] | None = None
    deviation_quantiles: Annotated[list[Finite], Field(min_length=2)] | None = None


@dataclass(frozen=True, eq=False)
class SetNodes:
    """The labelled nodes by which prediction sets are calibrated, as a model carries them."""

    nodes: Tensor
    """Their numbers in the graph, ``[m]``."""
    labels: Tensor
    """``[m]``."""
    probabilities: Tensor
    """What the model predicted for them, ``[m, classes]``, for predictions that leave them out."""
    held_out: bool
    """Whether they were used for nothing else: neither for the selection nor for a calibrator."""
    calibrated: bool
    """Whether these probabilities are calibrated ones."""

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a file; six digits of a probability."""
        probabilities = [[round(p, 6) for p in row] for row in self.probabilities.tolist()]
        return {
            "nodes": self.nodes.tolist(),
            "labels": self.labels.tolist(),
            "probabilities": probabilities,
            "held_out": self.held_out,
            "calibrated": self.calibrated,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """What ``as_json`` wrote."""
        for name in ("nodes", "labels"):
            wrong = [n for n in values[name] if type(n) is not int or not 0 <= n < 2**48]
            if wrong:
                raise ValueError(
                    f"the {name} of the calibration nodes have {wrong[0]!r}, which is no number of "
                    "one: save the model again"
                )
        nodes, labels = (
            torch.tensor(values[name], dtype=torch.long) for name in ("nodes", "labels")
        )
        probabilities = torch.tensor(values["probabilities"])
        if not 0 < len(nodes) == len(labels) == len(probabilities) or nodes.dim() != 1:
            raise ValueError(
                f"the calibration nodes have {len(nodes)} numbers, {len(labels)} labels and "
                f"{len(probabilities)} predictions: save the model again"
            )
        classes = probabilities.shape[1] if probabilities.dim() == 2 else 0
        inside = (probabilities >= 0.0) & (probabilities <= 1.0)
        if int(labels.max()) >= classes or not bool(inside.all()):
            raise ValueError(
                "the calibration nodes have probabilities outside of [0, 1] or labels that are no "
                "class of theirs: save the model again"
            )
        held_out, calibrated = bool(values["held_out"]), bool(values["calibrated"])
        return cls(nodes, labels, probabilities, held_out, calibrated)

    def __repr__(self) -> str:
        return f"SetNodes({len(self.nodes)} nodes{', held out' if self.held_out else ''})"


@dataclass(frozen=True, repr=False)
class PredictionDefaults:
    """The default arguments of ``predict`` for a model; they are saved with it.

    Example:
        >>> PredictionDefaults(samples=50, reject_by="entropy")
        PredictionDefaults(samples=50, reject_by='entropy')
    """

    features: Features = "stored"
    """What the network takes: features as stored, with rows divided by their sum or by their
    length, or with columns standardized by ``feature_moments``."""
    feature_moments: tuple[Sequence[float], Sequence[float]] | None = None
    """Mean and standard deviation of every column over the training nodes."""
    target_moments: tuple[Sequence[float], Sequence[float]] | None = None
    """Mean and standard deviation of every target over the training nodes: a network that predicts
    numbers was trained on standardized targets, and ``predict`` answers in the unit of the data."""
    samples: int = 20
    """Monte Carlo samples."""
    masks: Masks | None = None
    """Samples with relaxed or hard masks, one pass with the expected mask, or one with every
    connection kept; ``None`` is what the model was trained with, relaxed or hard."""
    temperature: float | None = None
    """The temperature of relaxed masks; ``None`` for that of the model's estimator."""
    dropout: bool = True
    """Whether samples also apply the additional DropOut of layers."""
    sample_dropout: bool = False
    """Whether samples of an attached model also draw its own DropOut."""
    batch_statistics: bool = False
    """Whether BatchNorm of an attached model normalizes samples by the batch."""
    decision: Literal["vote", "mean"] = "mean"
    """The predicted class: majority vote of the samples, or highest mean probability."""
    seed: int = 0
    """The seed of the samples."""
    calibrator: Any = None
    """A fitted ``graphdrop.Calibrator``; ``None`` for uncalibrated answers."""
    calibrated_on: Mapping[str, float] | None = None
    """Properties of the graph that the calibrator was fitted on, to detect another graph."""
    trained_on: Mapping[str, str] | None = None
    """The sha256 of the features ``x`` and the ``edge_index`` of the training graph."""
    reject_by: str | None = None
    """The uncertainty score that was best at finding errors on the validation nodes."""
    set_nodes: SetNodes | None = None
    """The nodes by which prediction sets are calibrated."""
    class_counts: Sequence[int] | None = None
    """The number of labelled training nodes of every class, which tells the rare ones."""
    deviation_quantiles: Sequence[float] | None = None
    """Of numbers: 101 quantiles of the predicted standard deviation on the validation nodes."""
    _prepared: TensorCache = field(default_factory=TensorCache, repr=False, compare=False)
    _digests: TensorCache = field(default_factory=TensorCache, repr=False, compare=False)

    def inputs(self, data: Data) -> Data:
        """A graph with preprocessed features; cached for the same tensor."""
        x = getattr(data, "x", None)
        if self.features == "stored" or x is None:
            return data
        data = copy.copy(data)
        data.x = self._prepared.get(lambda: self.transform(x), x, extra="features")
        return data

    def digest(self, tensor: Tensor) -> str:
        """The sha256 of the values of a tensor; cached for the same tensor."""
        found: str = self._digests.get(lambda: values_sha256(tensor), tensor)
        return found

    def fit_moments(self, x: Tensor, train: Tensor) -> Self:
        """The same with the moments of the training nodes, if features are standardized."""
        if self.features != "standardize":
            return self
        mean, deviation = column_moments(x, train)
        return replace(self, feature_moments=(tuple(mean.tolist()), tuple(deviation.tolist())))

    def transform(self, x: Tensor) -> Tensor:
        """Preprocessed features of all nodes or of some: every row depends on itself alone."""
        if self.features in ("row", "unit"):
            return row_normalized(x, 1 if self.features == "row" else 2)
        if self.feature_moments is None:
            raise ValueError(
                "features is 'standardize', but there are no moments of training nodes: call "
                "fit_moments(x, train) first, or train with Trainer, which does"
            )
        mean, deviation = (torch.tensor(m, dtype=torch.float64) for m in self.feature_moments)
        if len(mean) != x.shape[1]:
            raise ValueError(
                f"data.x has {x.shape[1]} features, but the model was trained with {len(mean)}: "
                "give the same columns in the same order"
            )
        return standardized(x, mean, deviation)

    def standardize_targets(self, targets: Tensor) -> Tensor:
        """Targets ``[n]`` or ``[n, targets]`` in the unit in which the network was trained."""
        if self.target_moments is None:
            return targets
        columns = targets if targets.dim() > 1 else targets[:, None]
        mean, deviation = (torch.tensor(m, dtype=torch.float64) for m in self.target_moments)
        scaled = (columns.cpu().double() - mean) / deviation
        return scaled.reshape(targets.shape).float().to(targets.device)

    def _values(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if not f.name.startswith("_")}

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        values, made, nodes = self._values(), self.calibrator, self.set_nodes
        del values["calibrator"]
        return values | {
            "calibration": None if made is None else {"name": made.name, **made.as_json()},
            "set_nodes": None if nodes is None else nodes.as_json(),
        }

    @classmethod
    def from_json(
        cls, values: Mapping[str, Any], make_calibrator: Callable[[Mapping[str, Any]], Any]
    ) -> Self:
        """The inverse of ``as_json``; values of other types or ranges are refused.

        Args:
            values: what ``as_json`` returned.
            make_calibrator: makes a calibrator from its values (``graphdrop.calibration.fit``).
        """
        stored = dict(_Stored.model_validate(dict(values)))
        made, nodes = stored.pop("calibration"), stored.pop("set_nodes")
        return cls(
            calibrator=None if made is None else make_calibrator(made),
            set_nodes=None if nodes is None else SetNodes.from_json(nodes),
            **stored,
        )

    def __repr__(self) -> str:
        default, shown = type(self)(), []
        for name, value in self._values().items():
            if value != getattr(default, name):
                long = isinstance(value, Sequence) and len(str(value)) > 100
                shown.append(f"{name}={'...' if long else repr(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"

    @classmethod
    def of(cls, config: Config) -> Self:
        """The defaults of a run, from its settings."""
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
