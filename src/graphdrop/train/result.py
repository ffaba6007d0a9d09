"""What comes out of a run: its result, or the reason why it has none."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


class DivergedError(ValueError):
    """A run in which a number became infinite or undefined."""


class StoppedError(RuntimeError):
    """A run that was asked to stop before its end; its folder has all that it takes to go on."""


@dataclass(frozen=True)
class Result:
    """What came out of a run: the scores of the state that was best on the validation nodes."""

    validation: Any
    """The task's figures: of classes `Scores`."""
    test: Any
    drop_rates: list[float | None]
    """Expected drop rate of each layer; None where it drops nothing."""
    selected_epoch: int
    epochs: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)
