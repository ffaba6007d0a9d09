"""`Trainer`: train a method on a dataset, from initial weights to test scores.

    graphdrop train --dataset cora --method GCN-BBGDC --layers 4 --out runs/a

    Trainer(Config(model={"method": "GCN-BBGDC"}), load_dataset("cora"), "runs/a").fit()

By default training is full batch: every epoch is one step of Adam on all training nodes, computed
on their receptive field. With `train.batch_size` there is a step for every mini-batch (`batches`),
and processes that `torchrun` started share the batches (`ranks`). Torch's generator is not used:
initial weights depend on the seed, and every mask on the seed and the step. A resumed run therefore
has the same result as an uninterrupted one.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphdrop.config import Config
from graphdrop.data import Dataset
from graphdrop.data.names import Names
from graphdrop.inference import Predictive
from graphdrop.inference.calibrator import Calibrator
from graphdrop.inference.shift import digests
from graphdrop.io.devices import find_device, has_float64
from graphdrop.io.locks import folder_lock
from graphdrop.metrics import registry
from graphdrop.metrics.registry import as_columns, mean_error
from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.nn.methods import Blueprint, estimator, find, named_estimator
from graphdrop.nn.sampled import SampledModel, sampled
from graphdrop.sampling.estimators import Estimator
from graphdrop.train import (
    auto,
    baselines,
    checkpoint,
    folder,
    inputs,
    keeping,
    predicting,
    provenance,
)
from graphdrop.train.batches import Step
from graphdrop.train.callbacks import Callback, TensorBoard
from graphdrop.train.consistency_loss import check_consistency
from graphdrop.train.divergence import check_gradients, check_tensors, check_terms, watched
from graphdrop.train.journal import Journal
from graphdrop.train.memory_estimate import check_memory
from graphdrop.train.objective import Objective
from graphdrop.train.post_hoc_calibration import draw_samples, keep_set_nodes, score_calibrated
from graphdrop.train.progress import Mute, Progress
from graphdrop.train.ranks import Ranks
from graphdrop.train.result import Result, StoppedError
from graphdrop.train.scoring_device import on_cpu
from graphdrop.train.selection import Selection, tempered_nll
from graphdrop.train.step_loss import mini_batches, step_loss
from graphdrop.train.tasks import Task, task_for, weighted
from graphdrop.train.weight_ema import WeightEMA, check_ema_buffers

Loss = Callable[[Tensor, Tensor], Tensor]

SCORED = ("validation", "test")


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
        optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer] | None = None,
        device: str | torch.device | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        config, dataset = inputs.dataset_for(config, data, task)
        self.ranks = ranks = Ranks()
        self.progress = (progress or Progress()) if ranks.first else Mute()
        stored = ranks.tell(folder.opened(run_folder, resume=resume) if ranks.first else None)
        if not ranks.first:  # which writes nothing
            run_folder, callbacks = None, ()
        if device is not None:
            device = find_device(device)
        config, trial = auto.decided(
            config, dataset, stored, self.progress, own=model is not None, device=device
        )
        self.config, self.dataset, self.own_model = config, dataset, model is not None
        self.fingerprint = provenance.fingerprint(dataset.data)
        # a copy, since PyG moves the tensors of the Data itself
        self.data = dataset.data if device is None else copy.copy(dataset.data).to(device)
        self.task = weighted(task or task_for(dataset, config), config, dataset)
        self.loss = loss or self.task.loss
        check_consistency(config.objective, self.task)
        self.targets = self.task.targets(self.data).to(self.data.x.device)
        parts = inputs.with_calibration_part(self.task.parts(dataset.split), config)
        # The same tensors in every call: what was worked out for them is then found again.
        self.rows = {n: mask.nonzero().flatten().to(device) for n, mask in parts.items()}
        for name, rows in self.rows.items():
            if not len(rows):
                raise ValueError(f"the split of {dataset.name} has no {name} nodes: give another")

        self.model: Any = (self._built() if model is None else model).to(device)
        self.engine: SampledModel = sampled(self.model)
        self.engine.defaults = self._prediction_defaults(raw=loss is not None)
        self.labels = self.engine.defaults.standardized_targets(self.targets[self.rows["train"]])
        if config.train.estimator != "method":
            self.engine.estimator = self._asked_estimator(own=self.own_model)
        self.batches = mini_batches(self)
        self.objective = Objective(config.objective, self.engine, len(self.labels))
        rate, decay = config.train.learning_rate, config.train.average
        make = optimizer or (lambda parameters: torch.optim.Adam(parameters, rate, fused=True))
        self.optimizer = make(self.model.parameters())
        if decay:
            check_ema_buffers(self.model)
        self.average = WeightEMA(self.model, decay) if decay else None

        self.epoch = self.current = 0
        self.finished = self._stopping = False
        self.selection, self.seconds = Selection(), 0.0
        self.best: dict[str, Tensor] = {}
        self.right: list[Tensor] = []  # of every evaluation since the start or the resumption
        self.folder: Path | None = None
        self._lock = ExitStack()  # a run is its folder's only writer, from here to the end of fit
        self.callbacks = list(callbacks)
        if config.train.tensorboard and run_folder is not None:
            self.callbacks.append(TensorBoard())
        if run_folder is not None:
            self._open(run_folder, resume=resume)
        plain = all(given is None for given in (loss, optimizer, task))  # as a trial has them
        self._told = self._taken_over(trial if plain else None)
        if ranks.size > 1:
            keeping.share(self)

    def _open(self, run_folder: str | Path, *, resume: bool) -> None:
        """Take the folder, and go on with the run in it if that is asked."""
        self._lock.enter_context(folder_lock(folder.checked(run_folder)))
        try:
            self.folder = folder.claim(run_folder, self.config, resume=resume)
            if resume:
                keeping.restore(self, self.folder)
        except BaseException:
            self._lock.close()
            raise

    def _taken_over(self, trial: Trainer | None) -> list[dict[str, Any]]:
        """Go on from a trial that has begun this run; the lines of the epochs that it trained."""
        content = all(callback.reads_lines_only for callback in self.callbacks)
        if trial is None or not content or not keeping.goes_on_from(self.config, trial):
            return []
        keeping.adopt(self, trial)
        return trial.journal.lines

    @property
    def inputs(self) -> Data:
        """The graph with features as the network reads them."""
        return self.engine.defaults.inputs(self.data)

    def _built(self) -> nn.Module:
        """The network that the settings describe."""
        settings = self.config.model
        edges = self.dataset.graph.num_edges if find(settings.method).local else 0
        outputs = self.task.width(self.data, self.dataset.num_classes, settings.hidden)
        sizes = int(self.data.x.shape[1]), outputs, edges
        network: nn.Module = Blueprint(settings, *sizes).build(self.config.seed)
        return network

    def _prediction_defaults(self, *, raw: bool) -> PredictionDefaults:
        """What the settings and the training nodes say about prediction.

        With a loss of the user's own numbers are trained on as they are: they are raw.
        """
        labels = self.targets[self.rows["train"]]
        defaults = PredictionDefaults.of(self.config).fitted(self.data.x, self.rows["train"])
        if not raw:
            defaults = replace(defaults, target_moments=self.task.moments(labels))
        if self.task.output != "classes" or not self.task.of_nodes:
            return defaults
        counts = labels.bincount(minlength=self.dataset.num_classes).tolist()
        return replace(defaults, class_counts=counts)

    def _asked_estimator(self, *, own: bool) -> Estimator | None:
        """The estimator that the settings name; a user's own model may have any rates."""
        name, settings = self.config.train.estimator, self.config.model
        return named_estimator(name, settings.temperature) if own else estimator(settings, name)

    def fit(self) -> Result:
        """Train to the end, then score the selected state on validation and test nodes."""
        result = None
        try:
            for callback in self.callbacks:
                callback.on_start(self)
            self._train()
            with on_cpu(self):
                result = self._conclude() if self.ranks.first else None
        finally:
            self._close()
            for callback in self.callbacks:
                callback.on_end(self, result)
        told = self.ranks.tell(result)
        assert told is not None  # noqa: S101 - the first rank has it
        return told

    def select(self) -> Selection:
        """Train to the end and return the selected evaluation; test nodes are not scored."""
        try:
            self._train()
        finally:
            self._close()
        return self.selection

    def _train(self) -> None:
        """Train the remaining epochs."""
        self.journal = Journal(self.folder, self.epoch)
        self._tell()
        check_memory(self)
        self._kept = time.monotonic()
        self._started = self._kept - self.seconds
        self.progress.start(self.config.train.epochs, self.epoch)
        while not self.finished:
            self._train_epoch()

    def _tell(self) -> None:
        """Write the lines of epochs that a trial has trained, and a checkpoint after them."""
        for line in self._told:
            self.journal.write(line)
            for callback in self.callbacks:
                callback.on_epoch(self, line)
        if self._told and self.folder is not None:
            keeping.keep(self, self.folder, self.seconds)
        self._told = []

    def _close(self) -> None:
        self.progress.stop()
        if hasattr(self, "journal"):  # else a callback failed before the first epoch
            self.journal.close()
        self._lock.close()

    def stop(self) -> None:
        """Stop after the current epoch: its state is saved, and `fit` raises `StoppedError`.

        It may be called from a signal handler or from another thread.
        """
        self._stopping = True

    def _train_epoch(self) -> None:
        settings = self.config.train
        self.current = self.epoch + 1
        if settings.optimizer == "lbfgs":
            terms = self._linear.solve(self.config.objective.l2 * 0.1**self.epoch)
        else:
            terms = self._step(None, self.current) if self.batches is None else self._steps()
        line: dict[str, Any] = {"epoch": self.current, **terms}
        self.epoch = self.current
        if self.epoch % settings.evaluate_every == 0 or self.epoch == settings.epochs:
            with self.average.in_place() if self.average is not None else nullcontext():
                found = self._evaluate() if self.ranks.first else {}
                for callback in self.callbacks:
                    callback.on_evaluation(self)
            found, self.selection = self.ranks.tell((found, self.selection))
            line |= found
            self.finished = self.selection.exhausted(self.epoch, settings)
        self.finished |= self.epoch == settings.epochs
        line["seconds"] = round(time.monotonic() - self._started, 3)
        self.journal.write(line)
        self.progress.update(line, self.selection)
        for callback in self.callbacks:
            callback.on_epoch(self, line)
        self._stopping = self.ranks.any(self._stopping)
        due = time.monotonic() - self._kept >= settings.checkpoint_seconds
        if self.folder is not None and (due or self.finished or self._stopping):
            keeping.keep(self, self.folder, round(time.monotonic() - self._started, 3))
            self._kept = time.monotonic()
        if self._stopping and not self.finished:
            raise StoppedError(f"stopped after epoch {self.epoch}, as it was asked to")

    @cached_property
    def _linear(self) -> baselines.LinearProblem:
        return baselines.LinearProblem(self)

    def _steps(self) -> dict[str, float]:
        """One epoch of mini-batches; the means of the terms of the loss by name."""
        assert self.batches is not None  # noqa: S101
        count, totals = self.batches.steps, dict[str, float]()
        for number, step in enumerate(self.batches.epoch(self.epoch), 1):
            for name, value in self._step(step, self.epoch * count + number).items():
                totals[name] = totals.get(name, 0.0) + value / count
            self.progress.batch(self.current, number, count)
        self.ranks.average_buffers(self.model)
        return dict(zip(totals, self.ranks.sum(totals.values()), strict=True))

    def _step(self, step: Step | None, number: int) -> dict[str, float]:
        """One step of Adam, full batch or on a mini-batch; the terms of its loss by name."""
        self.model.train()
        with watched(self):
            found, agree = step_loss(self, step)
            terms = self.objective(found.loss, found.tape, self.epoch)
            if self.ranks.size > 1:  # of terms that all ranks have, each takes its part
                terms |= {name: terms[name] / self.ranks.size for name in ("kl", "l2")}
            terms |= agree
        stacked = torch.stack(list(terms.values()))
        loss = stacked.sum()
        # all at once: reading a number waits for the device
        values = dict(zip(terms, stacked.detach().tolist(), strict=True))
        check_terms(self, values)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.ranks.sum_gradients(self.model.parameters())
        check_gradients(self)
        self.optimizer.step()
        if self.average is not None:
            self.average.take(number)
        return {"loss": float(loss.detach()), **values}

    def predict(
        self,
        rows: Tensor,
        samples: int | None = None,
        calibrator: Calibrator | Literal["model"] | None = "model",
    ) -> Any:
        """Predict some nodes, or some of the task's links, with the current state."""
        if not isinstance(rows, Tensor):
            raise TypeError(
                f"rows is a {type(rows).__name__}: Trainer.predict takes a tensor of rows of the "
                "training graph; for a graph give graphdrop.predict(trainer.model, data)"
            )
        return predicting.predict_rows(self, rows, samples, calibrator)

    @cached_property
    def layerwise(self) -> bool:
        """Whether predictions are computed layer by layer, as they are with mini-batches."""
        return predicting.is_layerwise(self)

    def _evaluate(self) -> dict[str, Any]:
        """Score the current state on the validation nodes, and keep it if it is the best."""
        check_tensors(self, self.model.state_dict())
        rows, settings = self.rows["validation"], self.config.train
        targets = self.targets[rows]
        targets = targets if has_float64(targets.device) else targets.cpu()
        with watched(self):
            prediction = self.predict(rows, settings.samples)
            quality, nll = self.task.quality(prediction, targets)
        if isinstance(prediction, Predictive):
            self.right.append(prediction.predicted == targets)
        by_nll = nll
        if settings.select == "calibrated-nll" and isinstance(prediction, Predictive):
            by_nll = tempered_nll(prediction.probabilities, targets)
        if self.selection.offer(self.epoch, quality, by_nll, settings):
            self.best = {n: t.detach().clone() for n, t in self.model.state_dict().items()}
        return {
            "validation": {"accuracy": quality, "nll": nll},
            "drop_rates": self._drop_rates(),
        }

    def _drop_rates(self) -> list[float | None]:
        return list(self.engine.drop_rates().values())

    def _conclude(self) -> Result:
        checkpoint.load_state(self.model, self.best)
        self.model.eval()
        defaults = self.engine.defaults
        self.engine.defaults = replace(defaults, trained_on=digests(defaults, self.data))
        with watched(self):
            drawn = draw_samples(self)
            answers = {name: drawn.predict(self.rows[name]) for name in SCORED}
            raw = {name: self.scores(name, answer) for name, answer in answers.items()}
        calibrates = self.config.predict.calibration != "none"
        found = score_calibrated(self, drawn, raw) if calibrates else {}
        keep_set_nodes(self, drawn)
        self.seconds = round(time.monotonic() - self._started, 3)
        simple, notes = dict[str, Any](), list[str]()
        if self.config.train.baselines:
            simple, notes = baselines.fit_baselines(self, drawn)
        result = Result(
            **{name: found.get(name, raw[name]) for name in SCORED},
            drop_rates=self._drop_rates(),
            selected_epoch=self.selection.epoch,
            epochs=self.epoch,
            seconds=self.seconds,
            uncalibrated=raw if found else {},
            calibration=found.get("calibration", {}),
            baselines=simple,
            always_the_mean=self._mean_error(),
            warnings=found.get("warnings", []) + notes,
            rare=self._rare(answers | found.get("answers", {})),
        )
        for warning in result.warnings:
            self.progress.say(f"Note: {warning}.")
        if self.folder is not None:
            keeping.conclude(self, self.folder, result)
        return result

    def _rare(self, answers: dict[str, Any]) -> list[dict[str, Any]]:
        """How well each rare class is found on validation and test nodes, as plain values."""
        first = answers["test"]
        if not isinstance(first, Predictive):
            return []
        found = {
            part: registry.rare_classes_found(answer, self.targets[self.rows[part]], self.config)
            for part, answer in answers.items()
        }
        counts, names = first.origin.class_counts, Names.of(self.dataset.data)
        return [
            {
                "label": label,
                "name": names.label(label),
                "share": counts[label] / sum(counts),
                **{part: by[label]._asdict() for part, by in found.items() if label in by},
            }
            for label in first.rare_classes
        ]

    def _mean_error(self) -> dict[str, float]:
        """The test RMSE of always answering the training nodes' mean; empty unless numbers."""
        if self.task.output != "gaussian":
            return {}
        mean = as_columns(self.targets[self.rows["train"]]).double().mean(0).tolist()
        return {"rmse": mean_error(self.targets[self.rows["test"]], mean)}

    def scores(self, name: str, answer: Any) -> Any:
        """The scores of a prediction of one part of the split."""
        return self.task.scores(answer, self.targets[self.rows[name]], self.config)
