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
    PER_EDGE,
    GraphTraits,
    Way,
    choose,
    explain,
    of_batches,
    ways,
)
from graphdrop.config.recipes import Settings, merged
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
    y = dataset.data.get("y")
    numbers = dataset.num_classes < 2
    if numbers and (
        y is None or not y.is_floating_point() or task_for(dataset, config).output != "gaussian"
    ):
        return complete(Config(**merged(OTHER_TARGETS, asked))), None
    traits = traits_of(dataset)
    if numbers:  # as on graphs whose neighbours may differ: every layer can do without them
        traits = replace(traits, homophily=0.0)
    candidates: tuple[Way, ...] = ("skip",) if numbers else ways(traits)
    candidates = candidates[:1] if own else (*candidates, *_with_means(config, traits))
    settings = {
        way: _in_way(config, dataset, traits, way, own=own, numbers=numbers) for way in candidates
    }
    tried = len(settings) > 1
    best, trained = candidates[0], None
    if tried:
        best, trained = _tried(settings, dataset, progress, device)
    lines = explain(traits, best, tried=tried).splitlines()
    if numbers:
        decided_on = ", decided on validation nodes" if tried else ""
        lines = [lines[0], f"Targets are numbers: {DESCRIPTIONS[best]}{decided_on}."]
    for line in () if own and numbers else lines:
        progress.note(line)
    return complete(settings[best]), trained


def _tried(
    settings: dict[Way, Config],
    dataset: Dataset,
    progress: Progress,
    device: str | torch.device | None,
) -> tuple[Way, Trainer | None]:
    """The way that is best on validation nodes, and its trained trial."""
    best, lowest, trained = next(iter(settings)), float("inf"), None
    for number, way in enumerate(settings, 1):
        progress.note(f"Trial {number} of {len(settings)}: {DESCRIPTIONS[way]} ...")
        score, trainer = trial(settings[way], dataset, progress, device)
        if score < lowest:
            best, lowest, trained = way, score, trainer
    return best, trained


def _with_means(config: Config, traits: GraphTraits) -> tuple[Way, ...]:
    """Ways to read features beside their means over neighbours, if nothing asked for rules it out.

    Where neighbours mostly share their class and few labels are known, averaging them is not called
    into question. With many labels a linear model may be better, and takes seconds.
    """
    model, train = config.model, config.train
    if train.batch_size or "architecture" in model.model_fields_set:
        return ()
    if traits.homophilous and not traits.many_labels:
        return ()
    if model.method in PER_EDGE or model.residual not in (False, "linear"):
        return ()
    if model.blocks == "pair" or train.optimizer != "adam":
        return ()
    asked = model.model_fields_set | config.objective.model_fields_set
    asked |= train.model_fields_set - {"baselines", "checkpoint_seconds", "tensorboard", "samples"}
    if traits.homophilous:
        return () if asked else ("linear",)
    return ("wide",) if asked else ("wide", "linear")


def _in_way(
    config: Config, dataset: Dataset, traits: GraphTraits, way: Way, *, own: bool, numbers: bool
) -> Config:
    """What was asked for, and settings that fit the graph in one way."""
    asked = config.asked() | {"recipe": "auto"}
    if way == "linear":
        from graphdrop.train.baselines import baseline_config  # noqa: PLC0415 - it calls Trainer

        return baseline_config(merged({"train": {"baselines": True}}, asked), dataset, orders=2)
    others = NUMBERS if numbers else {}
    return Config(**merged(_fitting(config, traits, way, own=own), others, asked))


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
    """Whether every setting was given, as in the file of a run."""
    return all(
        section.model_fields_set >= set(type(section).model_fields)
        for section in (config.data, config.model, config.objective, config.train, config.predict)
    )


def complete(config: Config) -> Config:
    """The same settings, all marked as given."""
    return Config(**config.model_dump(mode="json"))


def _fitting(config: Config, traits: GraphTraits, way: Way, *, own: bool) -> Settings:
    settings = choose(config.model.method, config.model.architecture, traits, way)
    # No more blocks than features; the messages of PyG's last layer have one per class.
    own_width = "hidden" in config.model.model_fields_set
    width = config.model.hidden if own_width else settings["model"]["hidden"]
    outputs = traits.classes or 2  # a mean and a variance
    sampled = way == "wide" or config.model.architecture == "gcn"  # of hidden width
    limit = width if sampled else min(width, outputs)
    settings["model"]["blocks"] = min(settings["model"]["blocks"], limit)
    if config.train.batch_size:
        steps = ceil(traits.train_nodes / config.train.batch_size)
        settings["train"] |= of_batches(settings["train"], max(1, steps))
        if own or config.model.norm_layer == "batch":  # whose statistics are not averaged
            del settings["train"]["average"]
    return {n: part for n, part in settings.items() if not (own and n in ("model", "data"))}
