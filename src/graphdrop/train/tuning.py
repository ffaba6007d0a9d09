"""``tune``: a random search around the recipe's settings, scored on the validation nodes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from graphdrop.config import Config
from graphdrop.config.recipes import merged
from graphdrop.data import Dataset
from graphdrop.executors import Executor, Job
from graphdrop.io.files import check_regular, replace_file
from graphdrop.train.auto import choose_settings
from graphdrop.train.divergence import DivergedError
from graphdrop.train.loop import train
from graphdrop.train.many import load_same_dataset, trainer_device
from graphdrop.train.progress import Silent
from graphdrop.train.provenance import fingerprint
from graphdrop.train.run import prepare_run

FACTORS: Mapping[str, tuple[float, ...]] = {
    "train.learning_rate": (0.3, 1.0, 3.0),
    "objective.l2": (0.1, 0.3, 1.0, 3.0, 10.0),
}
"""Settings that are multiplied by one of these."""
CHOICES: Mapping[str, tuple[Any, ...]] = {
    "model.hidden": (32, 64, 128),
    "model.dropout": (0.2, 0.5, 0.65, 0.8),
    "model.prior_alpha": (2.0, 8.0, 32.0),
    "model.drop": (0.1, 0.2, 0.5),
    "model.norm_layer": ("none", "layer"),
    "model.residual": (False, "linear"),
    "objective.agree": (0.0, 1.0),
}
"""Settings that take one of these."""


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
    asked = config.asked()
    base = choose_settings(config, dataset, Silent(), device=trainer_device(device))
    generator = random.Random(config.seed)  # noqa: S311 - which settings are tried is no secret
    known = read_trials(log)
    settings = [base] + [
        _draw_settings(base, asked, generator, classes=dataset.num_classes > 0)
        for _ in range(1, trials)
    ]
    best, least = base, (float("inf"), trials)
    for number, score in _score_trials(settings, dataset, known, executor, device):
        _write_trials(log, known)
        if (score, number) < least and score < float("inf"):
            best, least = settings[number], (score, number)
        say(f"Trial {number + 1} of {trials}: NLL {score:.4f}, best {least[0]:.4f}.")
    return best


def _score_trials(
    settings: Sequence[Config],
    dataset: Dataset,
    known: dict[str, float],
    executor: Executor | None,
    device: str,
) -> Iterator[tuple[int, float]]:
    """The number and score of every trial as they come; new scores are added to the known."""
    data = fingerprint(dataset.data)
    names = [_make_key(one.model_dump(mode="json"), data) for one in settings]
    if executor is not None:
        yield from _score_by_executor(executor, settings, data, known, names, device=device)
    else:
        for number, name in enumerate(names):
            if name not in known:
                known[name] = _score_trial(settings[number], dataset, device)
            yield number, known[name]


def _score_by_executor(
    executor: Executor,
    settings: Sequence[Config],
    data: str,
    known: dict[str, float],
    names: Sequence[str],
    *,
    device: str,
) -> Iterator[tuple[int, float]]:
    alike: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        if name in known:
            yield number, known[name]
        else:
            alike.setdefault(name, []).append(number)
    jobs = [
        Job(str(first), f"trial {first + 1}", trial_score, (settings[first], data, device))
        for first, *_ in alike.values()
    ]
    for key, score in executor.run(jobs):
        name = names[int(key)]
        known[name] = score
        yield from ((number, score) for number in alike[name])


def trial_score(config: Config, data: str, device: str) -> float:
    """The score of a trial, whose data must have this fingerprint; a job."""
    return _score_trial(config, load_same_dataset(config.data, data), device)


def _draw_settings(
    base: Config, asked: Mapping[str, Any], generator: random.Random, *, classes: bool
) -> Config:
    """The recipe's settings with some of them drawn anew; given ones never are."""
    over: dict[str, dict[str, Any]] = {}
    values = base.model_dump(mode="json")
    for key, options in (*FACTORS.items(), *CHOICES.items()):
        section, name = key.split(".")
        drawn = generator.choice(options)
        if name in asked.get(section, {}) or not _has_effect(base, key, classes=classes):
            continue
        value = values[section][name] * drawn if key in FACTORS else drawn
        over.setdefault(section, {})[name] = value
    return Config(**merged(values, over))


def _has_effect(base: Config, key: str, *, classes: bool) -> bool:
    """Whether a setting changes anything for this method; DropOut stays where it is none.

    The consistency loss compares probabilities of classes.
    """
    if key == "objective.agree" and not classes:
        return False
    return key != "model.dropout" or base.model.dropout > 0.0


def _score_trial(config: Config, dataset: Dataset, device: str) -> float:
    changed = config.train.model_copy(update={"select": "calibrated-nll"})
    trial = config.model_copy(update={"train": changed})
    try:
        run = prepare_run(trial, dataset, device=trainer_device(device))
        return train(run, Silent()).selection.nll
    except DivergedError:
        return float("inf")


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
        json.dumps({"nll": score if isfinite(score) else None, **json.loads(name)})
        for name, score in known.items()
    ]
    replace_file(log, ("\n".join(lines) + "\n").encode())
