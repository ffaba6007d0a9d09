"""Callbacks: hooks that are called during a run; `TensorBoard` is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphdrop.train.result import Result
    from graphdrop.train.trainer import Trainer

TENSORBOARD = "tensorboard"


class Callback:
    """Base class of callbacks: override the hooks you need. A callback must not change the run.

    Example: a logger of another service is a few lines::

        class Logger(Callback):
            def on_epoch(self, trainer, line):
                service.log(dict(scalars(line)), step=line["epoch"])
    """

    def on_start(self, trainer: Trainer) -> None:
        """Start hook: before the first epoch, or the first one after a run was resumed."""

    def on_evaluation(self, trainer: Trainer, answer: Any) -> None:
        """Evaluation hook: the model has the evaluated weights, the EMA if there is one.

        ``answer`` is the prediction of the validation nodes.
        """

    def on_epoch(self, trainer: Trainer, line: Mapping[str, Any]) -> None:
        """Epoch hook: after an epoch, with its line of metrics."""

    def on_end(self, trainer: Trainer, result: Result | None) -> None:
        """End hook: at the end of the run; `result` is None if the run was interrupted."""


class TensorBoard(Callback):
    """Writes every number of the metrics for TensorBoard, which must be installed.

    Args:
        folder: where; by default `tensorboard` in the run's folder.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self._folder = folder
        self._class = summary_writer()
        self._writer: Any = None

    def on_start(self, trainer: Trainer) -> None:
        """Open the file; events after the last checkpoint of a killed run are hidden."""
        folder = self._folder
        if folder is None:
            if trainer.folder is None:
                raise ValueError(
                    "TensorBoard has no folder to write to: give TensorBoard(folder), or the run "
                    "a folder"
                )
            folder = trainer.folder / TENSORBOARD
        self._writer = self._class(str(folder), purge_step=trainer.epoch + 1)

    def on_epoch(self, trainer: Trainer, line: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Write the numbers of one epoch."""
        for name, value in scalars(line):
            self._writer.add_scalar(name, value, line["epoch"])

    def on_end(self, trainer: Trainer, result: Result | None) -> None:  # noqa: ARG002
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def scalars(line: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Every number of a line of metrics by name, such as `validation/nll`."""
    for name, value in line.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}/{inner}", number) for inner, number in value.items())
        elif isinstance(value, list):
            numbers = [(f"{name}/layer {i}", v) for i, v in enumerate(value, 1) if v is not None]
            yield from numbers
        elif name != "epoch":
            yield name, value


def summary_writer() -> Any:
    """TensorBoard's `SummaryWriter`, or an error that says how to install it."""
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - not installed with us
    except ImportError as error:
        raise ValueError(
            "train.tensorboard is true and TensorBoard is not installed: run `pip install "
            "tensorboard`, or set it to false"
        ) from error
    return SummaryWriter
