"""How answers are made honest: calibrators, their floor, prediction sets, refusal."""

from graphdrop.calibration.conformal import ConformalScore, SplitConformal
from graphdrop.calibration.fit import apply, calibrate
from graphdrop.calibration.floor import CalibrationFloor, calibration_floor
from graphdrop.calibration.mean_temperature import apply_temperature, fit_temperature
from graphdrop.calibration.sets import PredictionSets
from graphdrop.calibration.trust import Trust, trusted
from graphdrop.inference.calibrator import Calibrator

__all__ = [
    "CalibrationFloor",
    "Calibrator",
    "ConformalScore",
    "PredictionSets",
    "SplitConformal",
    "Trust",
    "apply",
    "apply_temperature",
    "calibrate",
    "calibration_floor",
    "fit_temperature",
    "trusted",
]
