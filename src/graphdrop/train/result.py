"""What comes out of a run: its result, or the reason why it has none."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from graphdrop.train.evaluation import Scores


class DivergedError(ValueError):
    """A run in which a number became infinite or undefined."""


class StoppedError(RuntimeError):
    """A run that was asked to stop before its end; its folder has all that it takes to go on."""


@dataclass(frozen=True, repr=False)
class Result:
    """What came out of a run: the scores of the state that was best on the validation nodes."""

    validation: Any
    """The scores on the validation nodes: `Scores`, unless the task returns its own."""
    test: Any
    drop_rates: list[float | None]
    """Expected drop rate of each layer; None where it drops nothing."""
    selected_epoch: int
    epochs: int
    seconds: float
    uncalibrated: dict[str, Any] = field(default_factory=dict)
    """The figures of validation and test without the calibrator; empty where there is none."""
    calibration: dict[str, Any] = field(default_factory=dict)
    """The calibrator as JSON values, and the floor of the calibration error on the test nodes."""
    warnings: list[str] = field(default_factory=list)
    """What is wrong with the run, in words; empty where nothing is."""

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    def __repr__(self) -> str:
        parts = {"test": self.test, "validation": self.validation}
        scores = "; ".join(f"{name} {_in_words(one)}" for name, one in parts.items())
        rates = ", ".join("none" if one is None else f"{one:.3f}" for one in self.drop_rates)
        return (
            f"Result({scores}; drop rates {rates}; epoch {self.selected_epoch} of {self.epochs}, "
            f"{self.seconds:.1f} s)"
        )


def _in_words(scores: Any) -> str:
    shown = scores.shown() if isinstance(scores, Scores) else {}
    return ", ".join(f"{title} {value:.4f}" for title, value in shown.items())
