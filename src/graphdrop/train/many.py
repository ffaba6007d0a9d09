"""Many trainings: runs in their folders as jobs of an executor, and ``tune``, a random search."""

from __future__ import annotations

import json
import platform
import random
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from graphdrop.config import Config, DataSettings
from graphdrop.config.recipes import merge_settings
from graphdrop.data import Dataset
from graphdrop.executors import Executor, Job
from graphdrop.io.files import check_regular, replace_file
from graphdrop.train.auto import choose_settings, trial_nll
from graphdrop.train.progress import Silent
from graphdrop.train.result import Result
from graphdrop.train.run_dataset import fingerprint, load_named_dataset
from graphdrop.train.trainer import Trainer

FACTORS: Mapping[str, tuple[float, ...]] = {
    "train.learning_rate": (0.3, 1.0, 3.0),
    "objective.l2": (0.1, 0.3, 1.0, 3.0, 10.0),
}
"""Settings that ``tune`` multiplies by one of these."""
CHOICES: Mapping[str, tuple[Any, ...]] = {
    "model.hidden": (32, 64, 128),
    "model.dropout": (0.2, 0.5, 0.65, 0.8),
    "model.prior_alpha": (2.0, 8.0, 32.0),
    "model.drop": (0.1, 0.2, 0.5),
    "model.norm_layer": ("none", "layer"),
    "model.residual": (False, "linear"),
    "objective.agree": (0.0, 1.0),
}
"""Settings for which ``tune`` takes one of these."""


def train_in_folder(config: Config, folder: str, data: str | None, device: str = "cpu") -> Result:
    """Train in a folder, or go on with what is there; a job.

    Args:
        config: all settings of the run.
        folder: the run's folder.
        data: the fingerprint that its data must have, if known.
        device: where to compute, as `Trainer` takes it.
    """
    if data is not None:
        load_same_dataset(config.data, data)
    progress = Silent()
    return Trainer(config, None, folder, resume=True, progress=progress, device=device).fit()


def load_same_dataset(settings: DataSettings, data: str) -> Dataset:
    """The dataset that the settings name, which must have this fingerprint."""
    dataset, found = _load_with_fingerprint(settings)
    if data != found:
        raise ValueError(
            f"{settings.dataset} is not the same on {platform.node()} as where the run was asked "
            "for: give every node the same files, in a folder that all of them see"
        )
    return dataset


@lru_cache(maxsize=1)
def _load_with_fingerprint(settings: DataSettings) -> tuple[Dataset, str]:
    dataset = load_named_dataset(settings)
    return dataset, fingerprint(dataset.data)


def tune(
    config: Config,
    dataset: Dataset,
    trials: int,
    *,
    log: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
    executor: Executor | None = None,
    device: str = "cpu",
) -> Config:
    """The best of some settings near those of the recipe, by validation NLL at its temperature.

    The first trial is the recipe itself, so that the search never ends below it on validation
    nodes. What the user gave stays as it is. No test node is looked at.

    Args:
        config: what was asked for; with ``recipe = "auto"`` the rest is chosen for the graph first.
        dataset: the graph and its split.
        trials: how many settings are trained.
        log: a file of JSON lines that keeps finished trials; on the same data they are not trained
            again.
        say: takes a line after every trial.
        executor: where trials are trained; by default one after the other in this process. Its
            workers load the dataset that the settings name.
        device: where each trial is computed, as `Trainer` takes it.
    """
    if trials < 1:
        raise ValueError(f"trials is {trials}: give 1 or more")
    asked, data = config.asked(), fingerprint(dataset.data)
    base = choose_settings(config, dataset, Silent(), device=device)
    generator = random.Random(config.seed)  # noqa: S311 - which settings are tried is no secret
    classes = dataset.num_classes > 0
    drawn = (_draw_settings(base, asked, generator, classes=classes) for _ in range(1, trials))
    settings = [base, *drawn]
    known = read_trials(log)
    alike: dict[str, list[int]] = {}  # the trials of the same settings, which are trained once
    for i, trial in enumerate(settings):
        alike.setdefault(_make_key(trial.model_dump(mode="json"), data), []).append(i)

    def score_all() -> Iterable[tuple[str, float]]:
        """Score every settings once, the known ones first."""
        new = {key: settings[same[0]] for key, same in alike.items() if key not in known}
        yield from [(key, known[key]) for key in alike if key in known]
        if executor is None:
            for key, trial in new.items():
                yield key, trial_nll(trial, dataset, Silent(), device, trial.train.epochs)
        else:
            yield from executor.run(
                Job(key, f"trial {alike[key][0] + 1}", score_trial, (trial, data, device))
                for key, trial in new.items()
            )

    best, lowest = base, (float("inf"), trials)
    for key, nll in score_all():
        known[key] = nll
        _write_trials(log, known)
        for i in alike[key]:
            if (nll, i) < lowest and nll < float("inf"):
                best, lowest = settings[i], (nll, i)
            say(f"Trial {i + 1} of {trials}: NLL {nll:.4f}, best {lowest[0]:.4f}.")
    return best


def score_trial(config: Config, data: str, device: str) -> float:
    """The validation NLL of a trial, whose data must have this fingerprint; a job."""
    dataset = load_same_dataset(config.data, data)
    return trial_nll(config, dataset, Silent(), device, config.train.epochs)


def _draw_settings(
    base: Config, asked: Mapping[str, Any], generator: random.Random, *, classes: bool
) -> Config:
    """The recipe's settings with some of them drawn anew; given ones never are."""
    over: dict[str, dict[str, Any]] = {}
    values = base.model_dump(mode="json")
    for key, options in (*FACTORS.items(), *CHOICES.items()):
        section, name = key.split(".")
        drawn = generator.choice(options)
        # DropOut stays where there is none; the consistency loss compares probabilities of classes
        idle = base.model.dropout == 0.0 if key == "model.dropout" else not classes
        idle &= key in ("model.dropout", "objective.agree")
        if not idle and name not in asked.get(section, {}):
            value = values[section][name] * drawn if key in FACTORS else drawn
            over.setdefault(section, {})[name] = value
    return Config(**merge_settings(values, over))


class TrialLine(BaseModel):
    """The types of a line that keeps a trial."""

    model_config = ConfigDict(strict=True)

    nll: Annotated[float, Field(allow_inf_nan=False)] | None
    """``None`` for a trial that diverged."""
    config: dict[str, Any]
    data: str
    """The fingerprint of the data."""


def _make_key(config: Mapping[str, Any], data: str) -> str:
    """What a trial is known by: its settings and its data."""
    return json.dumps({"config": config, "data": data}, sort_keys=True)


def read_trials(log: Path | None) -> dict[str, float]:
    """The scores of the trials in a file of JSON lines, by settings and data."""
    if log is None or not log.exists():
        return {}
    found = {}
    for number, text in enumerate(check_regular(log).read_bytes().splitlines(keepends=True), 1):
        if not text.endswith(b"\n"):
            break  # its writer was killed
        try:
            line = TrialLine.model_validate(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{log} has a line that is not a trial, line {number}: take that line out, and its "
                "trial is made again"
            ) from error
        found[_make_key(line.config, line.data)] = float("inf") if line.nll is None else line.nll
    return found


def _write_trials(log: Path | None, known: Mapping[str, float]) -> None:
    if log is None:
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"nll": nll if isfinite(nll) else None, **json.loads(key)})
        for key, nll in known.items()
    ]
    replace_file(log, ("\n".join(lines) + "\n").encode())
