"""The calibrators by name, and as plain values for a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphdrop.calibration.cagcn import CaGCN
from graphdrop.calibration.entropy_temperature import EntropyTemperatureScaling
from graphdrop.calibration.gats import GATS
from graphdrop.calibration.isotonic import IsotonicRegression
from graphdrop.calibration.labels import LabelScaling
from graphdrop.calibration.temperature import TemperatureScaling
from graphdrop.calibration.variance import VarianceScaling
from graphdrop.calibration.vector import VectorScaling
from graphdrop.inference.calibrator import Calibrator

METHODS: dict[str, type[Calibrator]] = {
    kind.name: kind
    for kind in (
        TemperatureScaling,
        EntropyTemperatureScaling,
        VectorScaling,
        IsotonicRegression,
        CaGCN,
        GATS,
        LabelScaling,
        VarianceScaling,
    )
}


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
    if values is None:
        return None
    numbers = {name: value for name, value in values.items() if name != "name"}
    return METHODS[values["name"]](**numbers)
