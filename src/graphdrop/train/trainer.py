"""`Trainer`: train a method on a dataset, from initial weights to test scores.

    graphdrop train --dataset cora --method GCN-BBGDC --layers 4 --out runs/a

    Trainer(Config(model={"method": "GCN-BBGDC"}), load_dataset("cora"), "runs/a").fit()

A `Trainer` has a `Run`, which stays the same, and a `State`, which the loop (`loop.train_epochs`)
changes. Around the loop it looks after what a user sees: the folder of the run with its
checkpoints, the display of the progress, and the callbacks. At the end `scoring.score_selected`
calibrates and scores the selected weights. A `Callback` is told of all that happens in a run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphdrop.config import Config
from graphdrop.data import Dataset
from graphdrop.inference.calibrator import Calibrator
from graphdrop.io.files import replace_file
from graphdrop.io.locks import folder_lock
from graphdrop.train import folder
from graphdrop.train.auto import choose_settings
from graphdrop.train.baselines import fit_baselines
from graphdrop.train.checkpoint import (
    LAST,
    describe_origin,
    restore_checkpoint,
    write_checkpoint,
)
from graphdrop.train.loop import train_epochs
from graphdrop.train.model_file import BEST, write_model
from graphdrop.train.objective import DivergedError
from graphdrop.train.progress import Mute, Progress
from graphdrop.train.ranks import Ranks
from graphdrop.train.result import Result
from graphdrop.train.run import Loss, prepare_run
from graphdrop.train.run_dataset import resolve_dataset
from graphdrop.train.scoring import score_selected
from graphdrop.train.state import MakeOptimizer, State
from graphdrop.train.tasks import Task

TENSORBOARD = "tensorboard"
"""The folder of TensorBoard's events in a run's folder."""


class StoppedError(RuntimeError):
    """A run was stopped before its end; it can be resumed from its folder."""


class Trainer:
    """Trains a model on a dataset: minimizes the variational loss, eq. (9) of the paper.

    `fit()` returns a `Result`: the scores of the state that was best on the validation nodes.

    Args:
        config: all settings of the run.
        data: a PyG `Data`, or a `Dataset` from `load_dataset`; by default the dataset that
            `config.data` names.
        run_folder: where settings, metrics, checkpoints and the result go; `None` keeps all in
            memory.
        resume: continue the run in the folder, if there is one.
        progress: displays the progress; by default a bar in a terminal.
        model: a model of your own with sampled layers, or after `attach`, instead of the one that
            `config.model` describes. Its own estimator is used, unless `config.train.estimator`
            names one.
        task: what is predicted, such as `tasks.Links(...)`; by default classes, labels or numbers,
            by the type and shape of `data.y`.
        loss: a function of outputs and targets that replaces the loss of the task.
        optimizer: a function that builds the optimizer from the parameters; by default Adam with
            `config.train.learning_rate`.
        device: the device of model and data, such as `auto`; by default they stay where they are.
        callbacks: objects whose methods are called during the run (`Callback`).

    Example:
        >>> from graphdrop.train.progress import Silent
        >>> train = {"epochs": 2, "evaluate_every": 1}
        >>> config = Config(data={"dataset": "synthetic"}, model={"hidden": 8}, train=train)
        >>> Trainer(config, progress=Silent()).fit().epochs
        2
    """

    def __init__(
        self,
        config: Config,
        data: Dataset | Data | None = None,
        run_folder: str | Path | None = None,
        *,
        resume: bool = False,
        progress: Progress | None = None,
        model: nn.Module | None = None,
        task: Task | None = None,
        loss: Loss | None = None,
        optimizer: MakeOptimizer | None = None,
        device: str | torch.device | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        config, dataset = resolve_dataset(config, data, task)
        # the processes that torchrun started, of which the first one displays and writes; without
        # torchrun this process is the only one, and a broadcast returns its argument
        ranks = Ranks()
        first = ranks.first
        self.progress = (progress or Progress()) if first else Mute()
        stored = None  # the settings of the run that is to be resumed
        if first and run_folder is not None:
            stored = folder.check_folder(run_folder, resume=resume)
        stored = ranks.broadcast(stored)
        config = choose_settings(
            config, dataset, self.progress, stored=stored, own=model is not None, device=device
        )
        self.run = prepare_run(config, dataset, model=model, task=task, loss=loss, device=device)
        self.state = State.initial(self.run, optimizer)
        self.folder: Path | None = None
        self.journal = folder.Journal(None)
        """The lines of metrics, in ``journal.lines``; those of a run in a folder are also there."""
        self.callbacks = list(callbacks) if first else []
        self._fitted = self._stopping = False
        self._lock = ExitStack()  # a run is its folder's only writer, from here to the end of fit
        if run_folder is not None and first:
            if config.train.tensorboard:
                self.callbacks.append(TensorBoard())
            self._open_folder(run_folder, resume=resume)
        if ranks.size > 1:  # all begin with the checkpoint that the first one has read
            state = ranks.broadcast((self.state.tensors(), self.state.counts()))
            if not first:
                self.state.load(*state)

    def _open_folder(self, run_folder: str | Path, *, resume: bool) -> None:
        """Take the folder, and load the newest checkpoint in it if the run is to be resumed."""
        self._lock.enter_context(folder_lock(run_folder))
        try:
            self.folder = folder.claim_folder(run_folder, self.config, resume=resume)
            if resume:
                restore_checkpoint(self.folder, self.run, self.state, self.progress.say)
        except BaseException:
            self._lock.close()
            raise

    @property
    def config(self) -> Config:
        """All settings of the run, those that were chosen for the graph among them."""
        return self.run.config

    @property
    def model(self) -> Any:
        """The network; after `fit` it has the selected weights and its calibrator."""
        return self.run.model

    @property
    def data(self) -> Data:
        """The graph, on the device of the run."""
        return self.run.data

    @property
    def rows(self) -> dict[str, Tensor]:
        """The indices of the nodes in each part: train, validation, calibration, sets and test."""
        return self.run.rows

    @property
    def epoch(self) -> int:
        """The number of epochs that are done."""
        return self.state.epoch

    def fit(self) -> Result:
        """Train to the end, then score the selected state on validation and test nodes."""
        if self._fitted:
            raise ValueError(
                "fit was called before, and a Trainer trains once: make a new Trainer, with "
                "resume=True to go on in the folder of a run that was stopped"
            )
        self._fitted = True
        result = None
        try:
            for callback in self.callbacks:
                callback.on_start(self)
            self._train()
            result = self._score() if self.run.ranks.first else None
        except DivergedError as error:
            error.epoch = error.epoch or self.state.epoch
            if self.folder is not None and (self.folder / LAST).exists():
                error.checkpoint = self.folder / LAST
            raise
        finally:
            self.progress.stop()
            self.journal.close()
            self._lock.close()
            for callback in self.callbacks:
                callback.on_end(self, result)
        result = self.run.ranks.broadcast(result)
        assert result is not None  # noqa: S101 - the first rank has it
        return result

    def _train(self) -> None:
        """Train the remaining epochs; checkpoints are written in between."""
        self.journal = folder.Journal(self.folder, self.state.epoch)
        written = time.monotonic()
        for line in train_epochs(self.run, self.state, self.progress, self._after_evaluation):
            self.journal.write(line)
            self.progress.update(line, self.state.selection)
            for callback in self.callbacks:
                callback.on_epoch(self, line)
            stopping = self.run.ranks.any(self._stopping)
            due = time.monotonic() - written >= self.config.train.checkpoint_seconds
            if self.folder is not None and (due or stopping or self.state.finished):
                self.journal.flush()  # a checkpoint must not be newer than the lines
                write_checkpoint(self.folder, self.run, self.state)
                written = time.monotonic()
            if stopping and not self.state.finished:
                raise StoppedError(f"stopped after epoch {self.epoch}, as it was asked to")

    def _after_evaluation(self, answer: Any) -> None:
        for callback in self.callbacks:
            callback.on_evaluation(self, answer)

    def _score(self) -> Result:
        """Score the selected state and compare it with simple models, on the CPU."""
        device, run = self.run.targets.device, self.run.on_cpu()
        started = time.monotonic()
        try:
            result, samples = score_selected(run, self.state)
            spent = self.state.seconds + time.monotonic() - started
            result = replace(result, seconds=round(spent, 3))
            if self.config.train.baselines:
                baselines, notes = fit_baselines(run, samples)
                result = replace(result, baselines=baselines, warnings=result.warnings + notes)
            for warning in result.warnings:
                self.progress.say(f"Note: {warning}.")
            if self.folder is not None:
                self._write_result(self.folder, result)
        finally:
            self.model.to(device)
        return result

    def _write_result(self, path: Path, result: Result) -> None:
        """Write the result of the run, and its selected and calibrated model."""
        origin = describe_origin(self.run)
        dataset = self.run.dataset
        split = dataset.split
        data = {
            **origin["data"],
            "name": dataset.name,
            "files": dict(dataset.checksums),
            "split": {"name": split.name, "seed": split.seed, **split.sizes._asdict()},
        }
        seed = self.config.seed
        written = {**result.as_json(), "seed": seed, **origin, "data": data}
        replace_file(path / folder.RESULT, (json.dumps(written, indent=2) + "\n").encode())
        header = {"epoch": result.selected_epoch, **origin}
        write_model(path / BEST, self.model, self.model.state_dict(), header)

    def stop(self) -> None:
        """Stop after the current epoch: `fit` writes a checkpoint and raises `StoppedError`.

        A run without a folder keeps its state in memory alone. If the current epoch is the last
        one, the run ends as usual. A signal handler or another thread may call this.
        """
        self._stopping = True

    def predict(
        self,
        rows: Tensor,
        samples: int | None = None,
        calibrator: Calibrator | Literal["model"] | None = "model",
    ) -> Any:
        """Predict some nodes, or some of the task's links, with the model's present weights.

        After `fit` these are the selected ones.
        """
        if not isinstance(rows, Tensor):
            raise TypeError(
                f"rows is a {type(rows).__name__}: Trainer.predict takes a tensor of rows of the "
                "training graph; for a graph give graphdrop.predict(trainer.model, data)"
            )
        return self.run.predict(rows, samples, calibrator)


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
        self._writer: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - not installed with us
        except ImportError as error:
            raise ValueError(
                "train.tensorboard is true and TensorBoard is not installed: run `pip install "
                "tensorboard`, or set it to false"
            ) from error
        self._class = SummaryWriter

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
