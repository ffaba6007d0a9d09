"""One run, from its settings to its record."""

from __future__ import annotations

import ctypes
import gc
import itertools
import math
import platform
import resource
import statistics
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from experiments.calibrators import Divided, calibrator_scores
from experiments.controlled import Controlled, controlled_scores
from experiments.edge_rates import edge_rates
from experiments.keys import run_key, settled
from experiments.left_out_class import LeftOut, detection, without_class
from experiments.measures import (
    BY_HALVES,
    accuracy_by_halves,
    compact,
    measures,
    part_scores,
    thinned,
)
from experiments.ood_scores import Unfamiliar, unfamiliar_scores
from experiments.set_coverage import Covered, set_scores
from experiments.store import Record
from experiments.trust import calibration_record
from graphdrop.config import Config, DataSettings
from graphdrop.data import Dataset
from graphdrop.inference import Predictive
from graphdrop.inference.predictive import PREDICTION_STEP
from graphdrop.metrics import adjacency, spectral_radius, total_variation
from graphdrop.nn.sampled import layer_inputs
from graphdrop.sampling.samplers import Draw
from graphdrop.train import DivergedError, Trainer
from graphdrop.train.progress import Silent
from graphdrop.train.records import versions
from graphdrop.train.result import Result
from graphdrop.train.run_dataset import fingerprint, load_named_dataset
from graphdrop.train.trainer import Callback

POINTS = 40
"""The approximate number of epochs that a curve over epochs keeps."""
STRETCH = 10


def run_config(
    config: Config,
    *,
    watch: bool = False,
    blind: bool = False,
    device: str = "cpu",
) -> Record:
    """Train, score and return the record; a diverged run has a record with an error.

    Args:
        config: all settings of the run.
        watch: record the total variation of every hidden layer during training.
        blind: keep only the scores on the validation nodes.
        device: where to train, as `Trainer` takes it; measures are taken on the CPU.
    """
    start, cpu_start = time.monotonic(), time.process_time()
    _forget_peak()
    divided = {"split_seed": 0} if isinstance(config, Divided) else {}
    dataset = _dataset(config.data.model_copy(update={"features": "stored", **divided}))
    record: Record = {
        "key": run_key(config, watch=watch),
        "seed": config.seed,
        "config": settled(config),
        "data": fingerprint(dataset.data),
        "versions": versions(),
    }
    if device != "cpu":
        record["device"] = device
    follower = _Follower(device, watch=watch)
    try:
        if isinstance(config, LeftOut):
            found = _left_out(config, dataset, follower)
        elif isinstance(config, Divided):
            found = _divided(config, dataset, follower)
        elif isinstance(config, Covered):
            found = _covered(config, dataset, follower)
        elif isinstance(config, Controlled):
            found = _controlled(config, dataset, follower)
        else:
            found = _whole(config, dataset, follower, blind=blind)
    except DivergedError as error:
        found = {"error": str(error)}
    found.setdefault("cpu_seconds", round(time.process_time() - cpu_start, 3))
    found |= {"peak_megabytes": _peak_megabytes(), "seconds": round(time.monotonic() - start, 3)}
    return record | dict(compact(found))


def checked_run(config: Config, options: Mapping[str, Any], key: str, data: str | None) -> Record:
    """`run_config` as a job that may be done on another machine: its data must be the same.

    Args:
        config: all settings of the run.
        options: `watch`, `blind` and `device` of `run_config`.
        key: the key of the run where it was asked for.
        data: the fingerprint of its data there; None if it is the same machine.
    """
    found = data and (data_fingerprint(config), run_key(config, watch=options["watch"]))
    if found and found != (data, key):
        raise ValueError(
            f"{config.data.dataset} is not the same on {platform.node()} as where the run was "
            "asked for: give every node the same files, in a folder that all of them see"
        )
    return run_config(config, **options)


def data_fingerprint(config: Config) -> str:
    """The sha256 of the features, edges, labels and split of a run's data."""
    return _fingerprint(config.data.model_copy(update={"features": "stored"}))


@lru_cache(maxsize=64)
def _fingerprint(settings: DataSettings) -> str:
    return fingerprint(_dataset(settings).data)


def _whole(config: Config, dataset: Dataset, follower: _Follower, *, blind: bool) -> dict[str, Any]:
    trainer = follower.trainer(config, dataset)
    found = _fitted(trainer)
    if config.recipe == "auto":
        found["config"] = settled(trainer.config)  # with what was chosen for the graph
    if blind:
        scored = part_scores(trainer, config, "validation")
        if len(trainer.rows["validation"]) > 1:
            scored["validation"][BY_HALVES] = accuracy_by_halves(follower.right)
        return found | scored
    found |= measures(trainer) | {"kl": kl_course(trainer)}
    if (rates := edge_rates(trainer)) is not None:
        found["edge_rates"] = rates
    if follower.smoothing is not None:
        found["total_variation"] = follower.smoothing.course()
    return found


def _left_out(config: LeftOut, dataset: Dataset, follower: _Follower) -> dict[str, Any]:
    known, outside = without_class(dataset, config.left_out)
    trainers = [follower.trainer(one, known) for one in config.member_configs()]
    first, *_ = [_fitted(trainer) for trainer in trainers]
    if isinstance(config, Unfamiliar):
        return first | unfamiliar_scores(trainers, known, outside, config)
    return first | detection(trainers, config, outside)


def _divided(config: Divided, dataset: Dataset, follower: _Follower) -> dict[str, Any]:
    trainer = follower.trainer(config, config.divided(dataset))
    return _fitted(trainer) | calibrator_scores(trainer)


def _covered(config: Covered, dataset: Dataset, follower: _Follower) -> dict[str, Any]:
    trainer = follower.trainer(config, dataset)
    found = _fitted(trainer)
    scored = part_scores(trainer, config, "test") | set_scores(trainer, config.divisions)
    return {name: found[name] for name in ("epochs", "selected_epoch", "drop_rates")} | scored


def _controlled(config: Controlled, dataset: Dataset, follower: _Follower) -> dict[str, Any]:
    start = time.process_time()
    trainers = [follower.trainer(one, dataset) for one in config.member_configs()]
    first, *_ = [_trained(trainer, _fit(trainer)) for trainer in trainers]
    kept = {name: getattr(config, name) for name in ("views", "members", "nodes", "certainty")}
    found = first | controlled_scores(trainers, config)
    return found | {
        "config": settled(trainers[0].config) | kept,  # with what was chosen for the graph
        "cpu_seconds": round(time.process_time() - start, 3),
    }


def _fit(trainer: Trainer) -> Result:
    """Train, and leave the selected network on the CPU to be measured."""
    result = trainer.fit()
    trainer.run = trainer.run.on_cpu()
    return result


def _fitted(trainer: Trainer) -> dict[str, Any]:
    result = _fit(trainer)
    calibrated = calibration_record(trainer, result) if result.calibration else {}
    return calibrated | _trained(trainer, result)


def _trained(trainer: Trainer, result: Result) -> dict[str, Any]:
    return {
        "epochs": result.epochs,
        "selected_epoch": result.selected_epoch,
        "drop_rates": result.drop_rates,
        "seconds_per_epoch": seconds_per_epoch(trainer.journal.lines),
    }


@lru_cache(maxsize=1)
def _dataset(settings: DataSettings) -> Dataset:
    return load_named_dataset(settings)


class _Follower(Callback):
    """Callback: measures layers at evaluations if `watch` is set."""

    smoothing: Smoothing | None = None

    def __init__(self, device: str, *, watch: bool) -> None:
        self._device, self._watch = device, watch
        self.right: list[Tensor] = []  # of the validation nodes, at every evaluation

    def trainer(self, config: Config, dataset: Dataset) -> Trainer:
        """A trainer that this follows; its runs are compared with one another, not with others."""
        train = config.train.model_copy(update={"baselines": False})
        config = config.model_copy(update={"train": train})
        return Trainer(config, dataset, progress=Silent(), callbacks=[self], device=self._device)

    def on_start(self, trainer: Trainer) -> None:
        """Start to measure the layers of this run."""
        if self._watch:
            self.smoothing = Smoothing(trainer)

    def on_evaluation(self, trainer: Trainer, answer: Any) -> None:
        """Note which validation nodes are right, and look at the layers as they are evaluated."""
        rows = trainer.rows["validation"]
        if isinstance(answer, Predictive):
            self.right.append((answer.predicted == trainer.run.targets[rows]).cpu())
        if self.smoothing is not None:
            self.smoothing.look(trainer.epoch)


class Smoothing:
    """The total variation of every hidden layer's output, in sampled passes during training."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        data = trainer.data
        self._radius = spectral_radius(adjacency(data.edge_index, len(data.y)))
        self._epochs: list[int] = []
        self._values: list[list[float]] = []

    @torch.no_grad()
    def look(self, epoch: int) -> None:
        """Measure the current state; the random numbers of training are not affected."""
        trainer = self._trainer
        estimator = trainer.run.engine.estimator
        temperature = None if estimator is None else estimator.temperature
        draw = Draw(trainer.config.seed, PREDICTION_STEP + epoch, temperature=temperature)
        with layer_inputs(trainer.run.engine) as outputs:
            list(trainer.run.engine.samples(trainer.run.inputs, [draw]))
        self._epochs.append(epoch)
        edges, radius = trainer.data.edge_index, self._radius
        self._values.append([float(total_variation(x, edges, radius=radius)) for x in outputs])

    def course(self) -> dict[str, Any]:
        """Total variation over the epochs, one list per hidden layer."""
        kept = thinned(len(self._epochs), 2 * POINTS)
        layers = zip(*(self._values[k] for k in kept), strict=True)
        return {"epochs": [self._epochs[k] for k in kept], "layers": [list(one) for one in layers]}


def kl_course(trainer: Trainer) -> dict[str, Any] | None:
    """The KL of a rate, summed over layers, over the epochs; None where no rate has one."""
    lines, objective = trainer.journal.lines, trainer.run.objective
    samplers = [layer.sampler for layer in objective.layers if layer.sampler is not None]
    if objective.kl_weight == 0.0 or not any(line["kl"] for line in lines):
        return None
    summed = objective.settings.kl_reduction == "sum"
    entries = samplers[0].rate.entries.numel() if summed else 1
    kept = thinned(len(lines), POINTS)
    values = [
        lines[k]["kl"] / (objective.kl_weight * objective.warmup(lines[k]["epoch"] - 1) * entries)
        for k in kept
    ]
    return {"epochs": [lines[k]["epoch"] for k in kept], "values": values}


def seconds_per_epoch(lines: list[dict[str, Any]]) -> float:
    """Time of an epoch without its evaluation: the median over stretches of several epochs.

    The median excludes compilation in the first epochs and times when the machine was busy. Times
    are known to milliseconds, hence stretches of several epochs.
    """
    pairs = itertools.pairwise(lines)
    times = [b["seconds"] - a["seconds"] for a, b in pairs if "validation" not in b]
    stretches = [times[k : k + STRETCH] for k in range(0, len(times), STRETCH)]
    return statistics.median(map(statistics.fmean, stretches)) if times else math.nan


_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _forget_peak() -> None:
    """Give free memory back and, where the system can, measure the peak anew from here."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        _CLEAR.write_text("5")
    except (OSError, AttributeError):
        return


def _peak_megabytes() -> float:
    """The most memory that this process held since `_forget_peak`, or where unknown ever."""
    try:
        fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
        kilobytes = float(fields["VmHWM"].split()[0])
    except (OSError, KeyError):
        kilobytes = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return kilobytes / 1024
