"""How answers are made honest: calibrators, their floor, refusal; prediction sets by their name."""

from graphdrop.calibration.fit import apply, calibrate
from graphdrop.calibration.floor import calibration_floor
from graphdrop.calibration.refusal import Trust, find_trusted
from graphdrop.inference.calibrator import Calibrator
from graphdrop.inference.sets import PredictionSets

__all__ = [
    "Calibrator",
    "PredictionSets",
    "Trust",
    "apply",
    "calibrate",
    "calibration_floor",
    "find_trusted",
]
