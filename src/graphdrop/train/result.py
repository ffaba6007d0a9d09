"""The result of a run, and the error for a run that was stopped before it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from graphdrop.metrics.registry import Scores


class StoppedError(RuntimeError):
    """A run was stopped before its end; it can be resumed from its folder."""


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a run: scores of the state that was best on the validation nodes."""

    validation: Any
    """The scores on the validation nodes: `Scores`, unless the task returns its own."""
    test: Any
    drop_rates: list[float | None]
    """The expected drop rate of each layer; None for a layer without a sampler."""
    selected_epoch: int
    epochs: int
    seconds: float
    uncalibrated: dict[str, Any] = field(default_factory=dict)
    """The scores of validation and test before calibration; empty without a calibrator."""
    calibration: dict[str, Any] = field(default_factory=dict)
    """The calibrator as JSON values, and the calibration error that chance alone gives. Its name is
    "none" where validation nodes refuted the calibrator, which is then not applied."""
    always_the_mean: dict[str, float] = field(default_factory=dict)
    """Of numbers: the RMSE on the test nodes of answering the mean of the training nodes."""
    baselines: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The scores of simple models by name: `validation`, `test` and the `seconds` of their fit."""
    warnings: list[str] = field(default_factory=list)
    """Warnings about the run, as sentences."""
    rare: list[dict[str, Any]] = field(default_factory=list)
    """For every rare class its label, name and share of the labelled training nodes, and how well
    it is found on validation and test nodes (`graphdrop.metrics.RareFigures` by name)."""

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
