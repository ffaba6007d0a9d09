"""`Trainer`: fit a method to a dataset, from the first weights to the scores on the test nodes.

    graphdrop train --dataset cora --method GCN-BBGDC --layers 4 --out runs/a

    Trainer(Config(model={"method": "GCN-BBGDC"}), load_dataset("cora"), "runs/a").fit()

Full batch: every epoch is one step of Adam on all training nodes, computed from just the part of
the graph that they read. Nothing here draws from torch's generator: the first weights come from
the seed, and every mask from the seed and the number of the step. So a run that goes on from a
checkpoint ends as it would have ended.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm
from torch_geometric.data import Data

from graphdrop.config import Config
from graphdrop.data import Dataset
from graphdrop.estimators import Estimator
from graphdrop.inference import Predictive, predict
from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.nn.methods import Blueprint, estimator, find, named_estimator
from graphdrop.nn.sampled import Estimate, SampledModel, sampled
from graphdrop.samplers import Draw
from graphdrop.train import checkpoint, folder, inputs, provenance
from graphdrop.train.callbacks import Callback, TensorBoard
from graphdrop.train.consistency_loss import consistency_loss
from graphdrop.train.journal import Journal
from graphdrop.train.objective import Objective
from graphdrop.train.post_hoc_calibration import score_calibrated
from graphdrop.train.progress import Progress
from graphdrop.train.records import TrainingNote, header_note
from graphdrop.train.result import DivergedError, Result, StoppedError
from graphdrop.train.selection import Selection
from graphdrop.train.tasks import Task, task_of
from graphdrop.train.weight_ema import WeightEMA, check_ema_buffers
from graphdrop.util.locks import folder_lock

Loss = Callable[[Tensor, Tensor], Tensor]

SCORED = ("validation", "test")
WHAT_TO_TRY = {
    "nll": "lower train.learning_rate, or divide the features by their sum (data.features = row)",
    "kl": "lower train.learning_rate or objective.kl_weight, or raise objective.warmup",
    "l2": "lower train.learning_rate or objective.l2",
    "agree": "lower train.learning_rate or objective.agree",
}


class Trainer:
    """Trains a method as its settings say.

    Args:
        config: all settings of the run.
        data: a PyG `Data` as it is, or what `load_dataset` returned; by default the dataset that
            `config.data` names is loaded.
        run_folder: where settings, metrics, checkpoints and the result go; `None` keeps all in
            memory.
        resume: go on with the run in the folder, if there is one.
        progress: how the run is shown; by default a bar on a terminal.
        model: a model of your own, with a sampler attached or with sampled layers in it, to be
            trained in place of the one that `config.model` describes, with its own estimator
            unless `config.train.estimator` names one.
        task: what is predicted, such as `tasks.Links(...)`; by default what the type and shape of
            `data.y` say: classes, labels or numbers.
        loss: a loss of your own of a pass's outputs and targets, in place of the task's.
        optimizer: makes the optimizer from the parameters; by default Adam at
            `config.train.learning_rate`.
        device: where model and data go; by default where they are.
        callbacks: hear of the run while it goes on.
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
        config, dataset = inputs.dataset_for(config, data)
        self.config, self.dataset = config, dataset
        self.progress = progress or Progress()
        self.fingerprint = provenance.fingerprint(dataset.data)
        self.data = dataset.data if device is None else dataset.data.to(device)
        self.task = task or task_of(self.data.y)
        self._loss = loss or self.task.loss
        self.targets = self.task.targets(self.data).to(self.data.x.device)
        parts = self.task.parts(dataset.split)
        # The same tensors in every call: what was worked out for them is then found again.
        self.rows = {n: mask.nonzero().flatten().to(device) for n, mask in parts.items()}
        for name, rows in self.rows.items():
            if not len(rows):
                raise ValueError(f"the split of {dataset.name} has no {name} nodes: give another")
        self.labels = self.targets[self.rows["train"]]

        self.model: Any = self._built() if model is None else model
        self.model.to(device)
        self.engine: SampledModel = sampled(self.model)
        self.engine.defaults = PredictionDefaults.of(config)
        if config.train.estimator != "method":
            self.engine.estimator = self._asked_estimator(own=model is not None)
        self.inputs = self.engine.defaults.inputs(self.data)
        self.objective = Objective(config.objective, self.engine, len(self.labels))
        rate, decay = config.train.learning_rate, config.train.average
        make = optimizer or (lambda parameters: torch.optim.Adam(parameters, rate, fused=True))
        self.optimizer = make(self.model.parameters())
        if decay:
            check_ema_buffers(self.model)
        self.average = WeightEMA(self.model, decay) if decay else None

        self.epoch = self.current = 0
        self.finished = self._stopping = False
        self.selection = Selection()
        self.best: dict[str, Tensor] = {}
        self.right: list[Tensor] = []  # of every evaluation since the start or the resumption
        self.seconds = 0.0
        self.folder = None
        self._lock = ExitStack()  # a run is its folder's only writer, from here to the end of fit
        self.callbacks = list(callbacks)
        if config.train.tensorboard and run_folder is not None:
            self.callbacks.append(TensorBoard())
        if run_folder is not None:
            self._lock.enter_context(folder_lock(folder.checked(run_folder)))
            try:
                self.folder = folder.claim(run_folder, config, resume=resume)
                if resume:
                    self._restore(self.folder)
            except BaseException:
                self._lock.close()
                raise

    def _built(self) -> nn.Module:
        """The network that the settings describe."""
        settings = self.config.model
        edges = self.dataset.graph.num_edges if find(settings.method).local else 0
        outputs = self.task.width(self.data, self.dataset.num_classes, settings.hidden)
        sizes = int(self.data.x.shape[1]), outputs, edges
        network: nn.Module = Blueprint(settings, *sizes).build(self.config.seed)
        return network

    def _asked_estimator(self, *, own: bool) -> Estimator | None:
        """The estimator that the settings name; one's own model may have any rates."""
        name, settings = self.config.train.estimator, self.config.model
        return named_estimator(name, settings.temperature) if own else estimator(settings, name)

    def fit(self) -> Result:
        """Train to the end, then score the selected state on validation and test nodes."""
        settings = self.config.train
        self.journal = Journal(self.folder, self.epoch)
        self._kept = time.monotonic()
        self._started = self._kept - self.seconds
        self.progress.start(settings.epochs, self.epoch)
        result = None
        try:
            for callback in self.callbacks:
                callback.on_start(self)
            while not self.finished:
                self._train_epoch()
            result = self._conclude()
        finally:
            self.progress.stop()
            self.journal.close()
            for callback in self.callbacks:
                callback.on_end(self, result)
            self._lock.close()
        return result

    def stop(self) -> None:
        """Stop after the present epoch: its state is kept in the folder, and `fit` raises.

        It may be called from a signal handler or from another thread.
        """
        self._stopping = True

    def _train_epoch(self) -> None:
        settings = self.config.train
        self.current = self.epoch + 1
        line: dict[str, Any] = {"epoch": self.current, **self._step()}
        self.epoch = self.current
        if self.epoch % settings.evaluate_every == 0 or self.epoch == settings.epochs:
            with self.average.in_place() if self.average is not None else nullcontext():
                line |= self._evaluate()
                for callback in self.callbacks:
                    callback.on_evaluation(self)
            self.finished = self.selection.exhausted(self.epoch, settings)
        self.finished |= self.epoch == settings.epochs
        line["seconds"] = round(time.monotonic() - self._started, 3)
        self.journal.write(line)
        self.progress.update(line, self.selection)
        for callback in self.callbacks:
            callback.on_epoch(self, line)
        due = time.monotonic() - self._kept >= settings.checkpoint_seconds
        if self.folder is not None and (due or self.finished or self._stopping):
            self._keep(self.folder)
        if self._stopping and not self.finished:
            raise StoppedError(f"stopped after epoch {self.epoch}, as it was asked to")

    def _step(self) -> dict[str, float]:
        """One step of Adam; the terms of its loss by name."""
        self.model.train()
        with self._working():
            found, agree = self._pass()
            terms = self.objective(found.loss, found.tape, self.epoch) | agree
        loss = torch.stack(list(terms.values())).sum()
        values = {name: float(term.detach()) for name, term in terms.items()}
        for name, value in values.items():
            if not math.isfinite(value):
                raise self._diverged(f"the term {name} is {value}", WHAT_TO_TRY[name])
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        gradients = {n: p.grad for n, p in self.model.named_parameters() if p.grad is not None}
        if not torch.isfinite(get_total_norm(list(gradients.values()))):
            self._check_finite("the gradient of", gradients)
            raise self._diverged("the gradient overflows", "lower train.learning_rate")
        self.optimizer.step()
        if self.average is not None:
            self.average.take(self.current)
        return {"loss": float(loss.detach()), **values}

    def _pass(self) -> tuple[Estimate, dict[str, Tensor]]:
        """The NLL of the training nodes with what the first pass drew, and the agreement term.

        The NLL carries the gradients of both, since an estimator weighs them together.
        """
        settings, train = self.config.objective, self.rows["train"]
        agreed = list[Tensor]()

        def compute(draws: Sequence[Draw]) -> Tensor:
            whole = bool(settings.agree) or not self.task.of_nodes
            rows = None if whole else train
            logits = list(self.engine.samples(self.inputs, draws, rows, training=True))
            labelled = [one[train] if settings.agree else one for one in logits]
            labelled = [self.task.decode(one, train) for one in labelled]
            loss = torch.stack([self._loss(one, self.labels) for one in labelled]).mean()
            if settings.agree:
                agreed.append(settings.agree * consistency_loss(logits, settings.sharpen))
                loss = loss + agreed[-1]
            return loss

        passes = max(self.config.train.passes, 2 if settings.agree else 1)
        loss, tape = self.engine.estimate(compute, passes)
        if not agreed:
            return Estimate(loss, tape), {}
        agree = agreed[0].detach()
        return Estimate(loss - agree, tape), {"agree": agree}

    def predict(self, rows: Tensor, samples: int | None = None) -> Any:
        """What the present state predicts for some nodes, or for some of the task's links."""
        task = self.task
        return predict(
            self.model,
            self.data,
            samples,
            output=task.output,
            rows=rows if task.of_nodes else None,
            decode=None if task.of_nodes else lambda outputs: task.decode(outputs, rows),
        )

    def _evaluate(self) -> dict[str, Any]:
        """Score the present state on the validation nodes, and keep it if it is the best."""
        self._check_finite("", self.model.state_dict())
        rows, settings = self.rows["validation"], self.config.train
        targets = self.targets[rows]
        with self._working():
            prediction = self.predict(rows, settings.samples)
            quality, nll = self.task.quality(prediction, targets)
        if isinstance(prediction, Predictive):
            self.right.append(prediction.predicted == targets)
        if self.selection.offer(self.epoch, quality, nll, settings):
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
        raw = {name: self.figures(name, self.predict(self.rows[name])) for name in SCORED}
        calibrates = self.config.predict.calibration != "none"
        found = score_calibrated(self, raw) if calibrates else {}
        self.seconds = round(time.monotonic() - self._started, 3)
        result = Result(
            **{name: found.get(name, raw[name]) for name in SCORED},
            drop_rates=self._drop_rates(),
            selected_epoch=self.selection.epoch,
            epochs=self.epoch,
            seconds=self.seconds,
            uncalibrated=raw if found else {},
            calibration=found.get("calibration", {}),
            warnings=found.get("warnings", []),
        )
        for warning in result.warnings:
            self.progress.say(f"Note: {warning}.")
        if self.folder is not None:
            about = self._provenance()
            about["data"] |= {"name": self.dataset.name, "files": dict(self.dataset.checksums)}
            seed = self.config.seed
            folder.write_result(self.folder, {**result.as_json(), "seed": seed, **about})
            selected = {"epoch": self.selection.epoch, **self._provenance()}
            checkpoint.write_model(
                self.folder / checkpoint.BEST, self.model, self.model.state_dict(), selected
            )
        return result

    def figures(self, name: str, answer: Any) -> Any:
        """The task's figures of a prediction of one part of the split."""
        return self.task.figures(answer, self.targets[self.rows[name]], self.config)

    def _provenance(self) -> dict[str, Any]:
        return {
            "data": {"sha256": self.fingerprint},
            "versions": provenance.versions(),
            "config": self.config.model_dump(mode="json"),
        }

    def _keep(self, path: Path) -> None:
        """Write a checkpoint from which the run goes on as if it had never stopped."""
        state = self.model.state_dict()
        self._check_finite("", state)
        self.journal.flush()
        about = self._provenance()
        if self.best:
            selected = {"epoch": self.selection.epoch, **about}
            checkpoint.write_model(path / checkpoint.BEST, self.model, self.best, selected)
        states = {
            "model": state,
            "best": self.best,
            "optimizer": checkpoint.optimizer_state(self.optimizer),
            "average": self.average.state_dict() if self.average is not None else {},
        }
        header = {
            "kind": "training",
            "epoch": self.epoch,
            "finished": self.finished,
            "selection": asdict(self.selection),
            "seconds": round(time.monotonic() - self._started, 3),
            **about,
        }
        checkpoint.keep(path, checkpoint.joined(states), header)
        self._kept = time.monotonic()

    def _restore(self, path: Path) -> None:
        contents = checkpoint.newest(path, self.progress.say)
        if contents is None:
            return
        tensors, header = contents
        note = header_note(TrainingNote, header, path / checkpoint.LAST)
        if note.data.sha256 != self.fingerprint:
            raise ValueError(
                f"{path} was trained on other data than {self.dataset.name} is now: its features, "
                "edges, labels or split have changed; give the same data, or another folder"
            )
        for package, version in provenance.versions().items():
            if version != (then := note.versions.get(package)):
                self.progress.say(f"{package} was {then} and is {version}: bits may differ")
        states = checkpoint.parted(tensors)
        checkpoint.load_state(self.model, states.get("model", {}), states.get("estimator"))
        self.best = states.get("best", {})
        moments = states.get("optimizer") or states.get("optimiser", {})  # so called before 0.2
        checkpoint.restore_optimizer(self.optimizer, moments)
        if self.average is not None:
            self.average.load_state_dict(states.get("average", {}))
        self.epoch, self.finished, self.seconds = note.epoch, note.finished, note.seconds
        self.selection = Selection(**dict(note.selection))

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Once a step was made, a pass that fails means that the parameters went astray."""
        try:
            yield
        except (ArithmeticError, ValueError) as error:
            if self.epoch == 0:
                raise
            raise self._diverged(f"a pass failed ({error})", WHAT_TO_TRY["nll"]) from error

    def _check_finite(self, what: str, tensors: Mapping[str, Tensor]) -> None:
        for name, tensor in tensors.items():
            if not bool(torch.isfinite(tensor).all()):
                problem = f"{what} {name} is not finite".strip()
                raise self._diverged(problem, "lower train.learning_rate")

    def _diverged(self, problem: str, advice: str) -> DivergedError:
        left = ""
        if self.folder is not None and (self.folder / checkpoint.LAST).exists():
            left = f"; the last good checkpoint is {self.folder / checkpoint.LAST}"
        return DivergedError(
            f"training diverged in epoch {self.current}: {problem}. What to try: {advice}{left}"
        )
