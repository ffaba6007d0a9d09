"""How answers are made honest: calibrators, their floor, prediction sets, refusal."""

from graphdrop.calibration.fit import apply, calibrate
from graphdrop.calibration.floor import calibration_floor
from graphdrop.calibration.refusal import Trust, find_trusted
from graphdrop.calibration.sets import PredictionSets
from graphdrop.inference.calibrator import Calibrator

__all__ = [
    "Calibrator",
    "PredictionSets",
    "Trust",
    "apply",
    "calibrate",
    "calibration_floor",
    "find_trusted",
]
