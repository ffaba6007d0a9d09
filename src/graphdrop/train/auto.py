"""The recipe ``auto``: complete settings from the given ones and from the graph."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

import torch

from graphdrop.config import Config
from graphdrop.config.auto import (
    BASELINES,
    DESCRIPTIONS,
    GraphTraits,
    Way,
    choose,
    explain,
    of_batches,
    ways,
)
from graphdrop.config.recipes import Settings, merged
from graphdrop.config.settings import TABLE_SETTINGS
from graphdrop.data import Dataset
from graphdrop.data.traits import traits_of
from graphdrop.train.inputs import check_edges_are_read
from graphdrop.train.progress import Mute, Progress
from graphdrop.train.result import DivergedError
from graphdrop.train.tasks import task_for

if TYPE_CHECKING:
    from graphdrop.train.trainer import Trainer

TRIAL_EPOCHS = 400
"""The epochs of each trial, if the labels of a graph do not decide between settings."""

OTHER_TARGETS: Settings = {
    "model": {"norm": "sym", "init": "glorot"},
    "objective": {"l2": 2.5e-5, "l2_factor": "one", "l2_biases": False, "warmup": 0},
    "train": {"select": "nll", "learning_rate": 0.01, "epochs": 1000, "patience": 200},
    "predict": {"samples": 100, "standard_error": 0.02},
}
"""The settings for labels and links."""

NUMBERS: Settings = {
    "train": {"select": "nll"},
}
"""What numbers change in the settings of graphs whose neighbours may differ (`skip`)."""


def chosen(
    config: Config,
    dataset: Dataset,
    stored: Config | None,
    progress: Progress,
    *,
    own: bool = False,
    device: str | torch.device | None = None,
) -> Config:
    """Complete settings: the given ones, and the others chosen for the graph.

    Args:
        config: with ``recipe = "auto"``; any other is returned as it is.
        dataset: the graph and its split. Labels of test nodes are not read.
        stored: the settings of the run that is to go on, which has chosen already.
        progress: shows trials, where validation nodes decide, and two lines on what was chosen.
        own: whether the model is the user's; settings of a model and the features it takes are
            then left alone, and nothing is tried.
        device: where trials are trained, as `Trainer` takes it.
    """
    return decided(config, dataset, stored, progress, own=own, device=device)[0]


def decided(
    config: Config,
    dataset: Dataset,
    stored: Config | None,
    progress: Progress,
    *,
    own: bool = False,
    device: str | torch.device | None = None,
) -> tuple[Config, Trainer | None]:
    """What `chosen` returns, and the trained trial of these settings if there was one."""
    if not own:
        check_edges_are_read(dataset.data, config.model.architecture)
    if not is_complete(config):
        for line in dataset.notes:
            progress.note(line)
        changes = dataset.changes
        if changes is not None and changes.duplicates + changes.self_loops:
            progress.note(f"Stored edges: {changes}.")
    if config.recipe == "paper" or is_complete(config):
        return config, None
    asked = config.asked() | {"recipe": config.recipe}
    if stored is not None:
        return Config(**merged(stored.model_dump(mode="json"), asked)), None
    if config.recipe == "baseline":
        return _chosen_baseline(config, dataset, progress, device)
    if dataset.num_classes < 2:  # traits do not cover labels and links
        others = _of_other_targets(config, dataset, progress, own=own)
        return complete(Config(**merged(others, asked))), None
    traits = traits_of(dataset)
    candidates = ways(traits)[:1] if own else ways(traits)
    settings = {
        way: Config(**merged(_fitting(config, traits, way, own=own), asked)) for way in candidates
    }
    tried = len(settings) > 1
    best, lowest, trained = candidates[0], float("inf"), None
    for number, way in enumerate(settings if tried else (), 1):
        progress.note(f"Trial {number} of {len(settings)}: {DESCRIPTIONS[way]} ...")
        score, trainer = trial(settings[way], dataset, progress, device)
        if score < lowest:
            best, lowest, trained = way, score, trainer
    for line in explain(traits, best, tried=tried).splitlines():
        progress.note(line)
    return complete(settings[best]), trained


def _chosen_baseline(
    config: Config, dataset: Dataset, progress: Progress, device: str | torch.device | None
) -> tuple[Config, Trainer | None]:
    """The settings of the logistic or ridge regression that is better on validation nodes."""
    from graphdrop.train.baselines import DESCRIPTIONS as NAMES  # noqa: PLC0415 - it calls Trainer
    from graphdrop.train.baselines import baseline_config  # noqa: PLC0415

    best, lowest = "", float("inf")
    output = task_for(dataset, config).output
    found = BASELINES["gaussian" if output == "gaussian" else "classes"]
    given = config.asked()
    settings = {name: baseline_config(given, dataset, orders) for name, orders in found.items()}
    trained = None
    for name, one in settings.items():
        score, trainer = trial(one, dataset, Mute(), device)
        if score < lowest or not best:
            best, lowest, trained = name, score, trainer
    progress.note(f"Recipe baseline: {NAMES[best]}, decided on validation nodes.")
    return settings[best], trained


def trial(
    config: Config,
    dataset: Dataset,
    progress: Progress,
    device: str | torch.device | None = None,
) -> tuple[float, Trainer | None]:
    """The validation NLL of a trained network, at the best temperature; infinite if it diverges."""
    from graphdrop.train.trainer import Trainer  # noqa: PLC0415 - which calls this module

    epochs = min(TRIAL_EPOCHS, config.train.epochs)
    select = "calibrated-nll" if dataset.num_classes > 1 else "nll"
    train = config.train.model_copy(update={"epochs": epochs, "select": select})
    settings = complete(config.model_copy(update={"train": train}))
    try:
        trainer = Trainer(settings, dataset, progress=progress, device=device)
        return trainer.select().nll, trainer
    except DivergedError:
        return float("inf"), None


def is_complete(config: Config) -> bool:
    """Whether every setting was given, as in the file of a run; earlier files have no tables."""
    return all(
        section.model_fields_set | set(TABLE_SETTINGS) >= set(type(section).model_fields)
        for section in (config.data, config.model, config.objective, config.train, config.predict)
    )


def complete(config: Config) -> Config:
    """The same settings, all marked as given."""
    return Config(**config.model_dump(mode="json"))


def _of_other_targets(
    config: Config, dataset: Dataset, progress: Progress, *, own: bool
) -> Settings:
    """Settings for targets that are not classes, with two lines on what was chosen for numbers."""
    y = dataset.data.get("y")
    if y is None or not y.is_floating_point() or task_for(dataset, config).output != "gaussian":
        return OTHER_TARGETS
    # the settings of graphs whose neighbours may differ: every layer can do without them
    traits = replace(traits_of(dataset), homophily=0.0)
    if not own:
        progress.note(explain(traits, "skip", tried=False).splitlines()[0])
        progress.note(f"Targets are numbers: {DESCRIPTIONS['skip']}.")
    return merged(_fitting(config, traits, "skip", own=own), NUMBERS)


def _fitting(config: Config, traits: GraphTraits, way: Way, *, own: bool) -> Settings:
    settings = choose(config.model.method, config.model.architecture, traits, way)
    # No more blocks than features; the messages of PyG's last layer have one per class.
    own_width = "hidden" in config.model.model_fields_set
    width = config.model.hidden if own_width else settings["model"]["hidden"]
    outputs = traits.classes or 2  # a mean and a variance
    limit = width if config.model.architecture == "gcn" else min(width, outputs)
    settings["model"]["blocks"] = min(settings["model"]["blocks"], limit)
    if config.train.batch_size:
        steps = ceil(traits.train_nodes / config.train.batch_size)
        settings["train"] |= of_batches(settings["train"], max(1, steps))
        if own or config.model.norm_layer == "batch":  # whose statistics are not averaged
            del settings["train"]["average"]
    return {n: part for n, part in settings.items() if not (own and n in ("model", "data"))}
