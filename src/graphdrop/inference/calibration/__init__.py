"""Post-hoc calibrators: of temperatures, classes, curves, labels and variances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphdrop.inference.calibration.base import FEW, Calibrator, Samples, replayable
from graphdrop.inference.calibration.cagcn import CaGCN
from graphdrop.inference.calibration.entropy_temperature import EntropyTemperatureScaling
from graphdrop.inference.calibration.gats import GATS
from graphdrop.inference.calibration.gaussian import VarianceScaling
from graphdrop.inference.calibration.isotonic import IsotonicRegression
from graphdrop.inference.calibration.labels import LabelScaling
from graphdrop.inference.calibration.node_temperature import GraphCalibrator
from graphdrop.inference.calibration.surroundings import Surroundings
from graphdrop.inference.calibration.temperature import TemperatureScaling
from graphdrop.inference.calibration.vector import VectorScaling

__all__ = [
    "FEW",
    "GATS",
    "METHODS",
    "CaGCN",
    "Calibrator",
    "EntropyTemperatureScaling",
    "GraphCalibrator",
    "IsotonicRegression",
    "LabelScaling",
    "Samples",
    "Surroundings",
    "TemperatureScaling",
    "VarianceScaling",
    "VectorScaling",
    "calibrator_for",
    "from_json",
    "replayable",
    "to_json",
]

_KINDS: tuple[type[Calibrator], ...] = (
    TemperatureScaling,
    EntropyTemperatureScaling,
    VectorScaling,
    IsotonicRegression,
    CaGCN,
    GATS,
    LabelScaling,
    VarianceScaling,
)
METHODS: dict[str, type[Calibrator]] = {kind.name: kind for kind in _KINDS}


def calibrator_for(method: str, output: str) -> type[Calibrator]:
    """The class of calibrator for a method; labels and numbers have one class each."""
    if method not in METHODS:
        raise ValueError(f"method is {method!r}: give one of {', '.join(METHODS)}")
    if output == "classes":
        return METHODS[method]
    return LabelScaling if output == "labels" else VarianceScaling


def to_json(calibrator: Calibrator | None) -> dict[str, Any] | None:
    """A calibrator as plain values, its name among them."""
    return None if calibrator is None else {"name": calibrator.name, **calibrator.as_json()}


def from_json(values: Mapping[str, Any] | None) -> Calibrator | None:
    """The calibrator that ``to_json`` wrote."""
    return None if values is None else METHODS[values["name"]].from_json(values)
