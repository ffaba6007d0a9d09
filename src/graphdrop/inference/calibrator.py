"""``Calibrator``, the base class of calibrators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from torch import Tensor

from graphdrop.inference.surroundings import Surroundings

if TYPE_CHECKING:
    from graphdrop.inference.gaussian import GaussianPredictive

Samples = Callable[[], Iterable[Tensor]]
"""Makes the outputs of every Monte Carlo sample on the calibration nodes, the same each time."""
FEW = 50
"""With fewer calibration nodes than this a calibrator is unreliable."""


class Calibrator(ABC):
    """Post-hoc calibration: changes the outputs of every Monte Carlo sample before averaging.

    Entropy and its parts are then those of the calibrated distribution. ``graphdrop.calibrate``
    fits one on nodes that were not trained on, such as validation nodes.

    Example:
        >>> import torch
        >>> from graphdrop import calibrate
        >>> logits = torch.tensor([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0], [4.0, 0.0]])
        >>> isinstance(calibrate(logits, torch.tensor([0, 1, 0, 1])), Calibrator)
        True
    """

    name: ClassVar[str]
    """The name in files and settings."""
    output: ClassVar[str] = "classes"
    """The kind of outputs, as in ``predict(output=...)``."""
    worth_from: ClassVar[int] = 5
    """The number of calibration nodes from which on it is worth choosing, as measured on sampled
    logits with a known posterior and on trained networks; 5 is the least that was measured."""
    reads_graph: ClassVar[bool] = False
    """Whether it takes ``fit_within`` and ``seeing``: the graph, and the outputs of all nodes."""
    reads_samples: ClassVar[bool] = False
    """Whether it takes ``reading``: all samples of the rows, before one of them is corrected."""
    spread: float = 1.0
    """By how much it moves samples from their mean; below 1 towards it."""

    @abstractmethod
    def correct(self, outputs: Tensor) -> Tensor:
        """The calibrated outputs of one sample, in the same shape."""

    @classmethod
    @abstractmethod
    def fit(cls, samples: Samples, targets: Tensor) -> Self:
        """Fit by maximum likelihood of the targets of the calibration nodes."""

    @classmethod
    def fit_within(cls, surroundings: Surroundings, samples: Samples, targets: Tensor) -> Self:
        """``fit`` with the graph in sight; most calibrators do not look at it."""
        del surroundings
        return cls.fit(samples, targets)

    def seeing(self, surroundings: Surroundings) -> Self:
        """The calibrator for the outputs of ``surroundings.rows``; most are the same for all."""
        del surroundings
        return self

    @classmethod
    def joined(cls, parts: list[Self]) -> Self:
        """The calibrator for the outputs of several graphs, one after the other."""
        return parts[0]

    def reading(self, samples: Samples) -> Self:
        """The calibrator for the rows of these samples; most are the same for all."""
        del samples
        return self

    def finish(self, answer: GaussianPredictive) -> GaussianPredictive:
        """The calibrated prediction of numbers, whose moments are those of all samples."""
        return answer

    def summary(self) -> dict[str, Any]:
        """The values of ``as_json`` that a person may read; weights of a network are left out."""
        return self.as_json()

    @abstractmethod
    def as_json(self) -> dict[str, Any]:
        """Plain values, for a file."""

    @classmethod
    @abstractmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of ``as_json``."""


KEPT_NUMBERS = 1 << 25
"""Samples that are read several times are kept up to this many numbers, else computed again."""


def replayable(draw: Samples) -> Samples:
    """The same samples each time: those of the first time if they are few, else drawn again."""
    kept, numbers = list[Tensor](), 0
    for one in draw():
        kept.append(one)
        numbers += one.numel()
        if numbers > KEPT_NUMBERS:
            return draw
    return lambda: iter(kept)


def check_targets(targets: Tensor) -> None:
    """Raise unless there is something to calibrate on."""
    if not len(targets):
        raise ValueError(
            "targets is empty; a calibrator takes labelled nodes that were not trained on. Pass "
            "some, such as the validation nodes."
        )
