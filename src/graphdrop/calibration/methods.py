"""The calibrators by name, and from plain values of a file."""

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


def from_json(values: Mapping[str, Any]) -> Calibrator:
    """Make the calibrator whose ``name`` and fields (``as_json``) these are."""
    numbers = {name: value for name, value in values.items() if name != "name"}
    return METHODS[values["name"]](**numbers)
