"""``Calibrator``: turns the outputs of a sample into calibrated ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self

from torch import Tensor

Samples = Callable[[], Iterable[Tensor]]
"""Makes the outputs of every Monte Carlo sample on the calibration nodes, the same each time."""
FEW = 50
"""With fewer calibration nodes than this a calibrator is not to be trusted."""


class Calibrator(ABC):
    """Corrects the outputs of every Monte Carlo sample before they are averaged.

    Entropy and its parts then belong to the calibrated distribution. It is fitted on nodes that the
    weights were not fitted to.
    """

    name: ClassVar[str]
    """Under which a file and the settings have it."""
    output: ClassVar[str] = "classes"
    """What the outputs are, as ``predict`` has it."""

    @abstractmethod
    def correct(self, outputs: Tensor) -> Tensor:
        """The outputs of one sample, in the shape that they came in."""

    @classmethod
    @abstractmethod
    def fit(cls, samples: Samples, targets: Tensor) -> Self:
        """The calibrator that makes the targets of the calibration nodes the most likely."""

    @abstractmethod
    def as_json(self) -> dict[str, Any]:
        """Plain values, for a file."""

    @classmethod
    @abstractmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """What ``as_json`` wrote."""


def check_targets(targets: Tensor) -> None:
    """Raise unless there is something to calibrate on."""
    if not len(targets):
        raise ValueError(
            "a calibrator needs labelled nodes that were not trained on: give some, such as the "
            "validation nodes"
        )
