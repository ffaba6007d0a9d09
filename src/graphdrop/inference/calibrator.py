"""``Calibrator``: what ``predict`` asks of a calibrator, and what a calibrator may read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor

if TYPE_CHECKING:
    from graphdrop.inference.gaussian import GaussianPredictive

Samples = Callable[[], Iterable[Tensor]]
"""Makes the outputs of every Monte Carlo sample on some nodes, the same each time."""
Corrector = Callable[[Tensor], Tensor]
"""Corrects the outputs of one sample; the result has the same shape."""
KEPT_NUMBERS = 1 << 25
"""Samples that are read several times are kept up to this many numbers, else computed again."""


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The graph around the nodes that are calibrated, with the outputs of all of its nodes."""

    logits: Tensor
    """Mean over the samples, of all nodes, ``[n, classes]``."""
    edge_index: Tensor
    """``[2, E]``."""
    rows: Tensor | None = None
    """The nodes whose outputs are corrected, by number or as a bool mask; ``None`` for all."""
    train: Tensor | None = None
    """The training nodes, by number, where they are known."""

    @classmethod
    def of(cls, data: Any, logits: Tensor, rows: Tensor | None = None) -> Self:
        """Read a PyG ``Data``; its ``train_mask [n]``, if it has one, gives the training nodes."""
        edge_index = getattr(data, "edge_index", None)
        if not isinstance(edge_index, Tensor):
            raise ValueError(
                "data has no edge_index tensor; a calibrator that reads the graph takes a PyG Data "
                "with edge_index [2, E]. Pass data=Data(x=x, edge_index=edge_index)."
            )
        if len(edge_index.flatten()) and int(edge_index.max()) >= len(logits):
            raise ValueError(
                f"logits has {len(logits)} rows and edge_index names node {int(edge_index.max())}; "
                "a calibrator that reads the graph takes the logits of all nodes. Pass those, and "
                "mask=... for the nodes to calibrate on."
            )
        mask = getattr(data, "train_mask", None)
        known = isinstance(mask, Tensor) and mask.dim() == 1 and mask.dtype == torch.bool
        train = mask.nonzero().flatten() if known and mask is not None else None
        return cls(logits, edge_index, rows, train)


class Calibrator(ABC):
    """Post-hoc calibration: changes the outputs of every Monte Carlo sample before averaging.

    Entropy and its parts are then those of the calibrated distribution. ``graphdrop.calibrate``
    fits one on nodes that were not trained on, such as validation nodes. A calibrator is a
    dataclass, whose fields are what a file holds of it.

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
    """The number of calibration nodes from which on it is worth choosing, as measured
    (``results/auto/few-nodes.md``); 5 is the least that was measured."""
    reads_graph: ClassVar[bool] = False
    """Whether ``fit`` and ``corrector`` take the ``Surroundings`` of the nodes."""
    reads_samples: ClassVar[bool] = False
    """Whether ``corrector`` reads all samples before one of them is corrected."""
    spread: float = 1.0
    """The factor by which it moves samples from their mean; below 1 they come nearer to it."""

    @classmethod
    @abstractmethod
    def fit(
        cls, samples: Samples, targets: Tensor, surroundings: Surroundings | None = None
    ) -> Self:
        """Fit by maximum likelihood of the targets of the calibration nodes."""

    def corrector(self, samples: Samples, surroundings: Surroundings | None = None) -> Corrector:
        """The correction of the rows of these samples; for most calibrators it is ``correct``."""
        del samples, surroundings
        return self.correct

    def correct(self, outputs: Tensor) -> Tensor:  # noqa: ARG002
        """The calibrated outputs of one sample, whichever rows these are."""
        raise ValueError(
            f"{type(self).__name__} corrects rows by what it reads of all samples or of the graph: "
            "use predict(model, data, calibrator=...), or graphdrop.calibration.apply"
        )

    def finish(self, answer: GaussianPredictive) -> GaussianPredictive:
        """The calibrated prediction of numbers, whose moments are those of all samples."""
        return answer

    def summary(self) -> dict[str, Any]:
        """The values of ``as_json`` that a person may read; weights of a network are left out."""
        return self.as_json()

    def as_json(self) -> dict[str, Any]:
        """The fields as plain values, for a file; the calibrator takes them as arguments again."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}  # type: ignore[arg-type]
        return {name: _to_plain(value) for name, value in values.items()}


def _to_plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _to_plain(entry) for key, entry in value.items()}
    return [_to_plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def keep_samples(samples: Samples) -> Samples:
    """The same samples each time: those of the first time if they are few, else drawn again."""
    kept, numbers = list[Tensor](), 0
    for outputs in samples():
        kept.append(outputs)
        numbers += outputs.numel()
        if numbers > KEPT_NUMBERS:
            return samples
    return lambda: iter(kept)


def average(samples: Iterable[Tensor]) -> Tensor:
    """The mean of outputs that come one by one, in float64."""
    total, count = torch.zeros(()), 0
    for outputs in samples:
        total = total.to(outputs.device) + outputs.double()
        count += 1
    return total / count


def check_width(columns: int, outputs: Tensor) -> None:
    """Raise unless a calibrator has numbers for each column of the outputs, or one for all."""
    if columns not in (1, outputs.shape[-1]):
        raise ValueError(
            f"the calibrator has numbers for {columns} columns, and the outputs have "
            f"{outputs.shape[-1]}: fit one for these outputs"
        )
