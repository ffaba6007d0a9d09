"""The recipe ``auto``: complete settings from the given ones and from the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import Literal

import torch

from graphdrop.config import Config
from graphdrop.config.auto import (
    BASELINES,
    DESCRIPTIONS,
    FITTED,
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
from graphdrop.data.names import Names
from graphdrop.data.traits import traits_of
from graphdrop.sampling import RankedEdges
from graphdrop.train.baselines import DESCRIPTIONS as BASELINE_DESCRIPTIONS
from graphdrop.train.baselines import baseline_config
from graphdrop.train.divergence import DivergedError
from graphdrop.train.edge_rates import asks_for_fitted_rates, fit_edges, kept_traits
from graphdrop.train.loop import train
from graphdrop.train.progress import Mute, Progress
from graphdrop.train.run import prepare_run
from graphdrop.train.run_dataset import check_edges_are_read
from graphdrop.train.tasks import choose_task

Candidate = tuple[Way, Literal["one-rate", "fitted"]]
"""How neighbours are used, and whether every edge has a rate of its own."""

TRIAL_EPOCHS = 400
"""The epochs of each trial, if the labels of a graph do not decide between settings."""

NAMED_EDGES = 3
"""The number of doubtful edges that are named where nodes have ids."""

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


def choose_settings(
    config: Config,
    dataset: Dataset,
    progress: Progress,
    *,
    stored: Config | None = None,
    own: bool = False,
    device: str | torch.device | None = None,
) -> Config:
    """Complete settings: the given ones, and the others chosen for the graph.

    Where validation nodes have to decide between settings, each is trained for some epochs. These
    trials end here: the run with the settings that were chosen begins from its first epoch.

    Args:
        config: with ``recipe = "auto"`` or ``"baseline"``; any other is returned as it is.
        dataset: the graph and its split. Labels of test nodes are not read.
        progress: shows trials, and two lines on what was chosen.
        stored: the settings of the run that is to be resumed, which has chosen already.
        own: whether the model is the user's; settings of a model and the features it takes are
            then left alone, and nothing is tried.
        device: where trials are trained, as `Trainer` takes it.
    """
    if not own:
        check_edges_are_read(dataset.data, config.model.architecture)
    if not has_every_setting(config):
        for line in dataset.notes:
            progress.note(line)
        changes = dataset.changes
        if changes is not None and changes.duplicates + changes.self_loops:
            progress.note(f"Stored edges: {changes}.")
    if config.recipe == "paper" or has_every_setting(config):
        return config
    asked = config.asked() | {"recipe": config.recipe}
    if stored is not None:
        return Config(**merged(stored.model_dump(mode="json"), asked))
    if config.recipe == "baseline":
        return _choose_baseline(config, dataset, progress, device)
    y = dataset.data.get("y")
    numbers = dataset.num_classes < 2
    if numbers and (
        y is None or not y.is_floating_point() or choose_task(dataset, config).output != "gaussian"
    ):
        return mark_every_setting(Config(**merged(OTHER_TARGETS, asked)))
    traits = traits_of(dataset)
    if numbers:  # as on graphs whose neighbours may differ: every layer can do without them
        traits = replace(traits, homophily=0.0)
    candidates: tuple[Way, ...] = ("skip",) if numbers else ways(traits)
    candidates = candidates[:1] if own else (*candidates, *_list_ways_with_means(config, traits))
    settings: dict[Candidate, Config] = {
        (way, "one-rate"): _settle_way(config, dataset, traits, way, own=own, numbers=numbers)
        for way in candidates
    }
    described = traits
    if not (own or numbers) and asks_for_fitted_rates(config):
        settings, described = _with_fitted_rates(settings, config, dataset, traits, progress)
    tried = len(settings) > 1
    chosen = _try_ways(settings, dataset, progress, device) if tried else next(iter(settings))
    best, rates = chosen
    lines = explain(described if rates == "fitted" else traits, best, tried=tried).splitlines()
    if numbers:
        decided_on = ", decided on validation nodes" if tried else ""
        lines = [lines[0], f"Targets are numbers: {DESCRIPTIONS[best]}{decided_on}."]
    lines += _list_doubtful_edges(settings[chosen], dataset) if rates == "fitted" else []
    for line in () if own and numbers else lines:
        progress.note(line)
    return mark_every_setting(settings[chosen])


def _with_fitted_rates(
    settings: Mapping[Candidate, Config],
    config: Config,
    dataset: Dataset,
    traits: GraphTraits,
    progress: Progress,
) -> tuple[dict[Candidate, Config], GraphTraits]:
    """The candidates with those of fitted rates before them, if edges differ or it is asked for.

    Also returns the properties of the graph of the edges that are mostly kept.
    """
    fit = fit_edges(next(iter(settings.values())), dataset)
    progress.note(fit.summary())
    asked = config.model.edges == "fitted"
    if not (asked or fit.test.differs):
        return dict(settings), traits
    kept = kept_traits(traits, dataset, fit)
    fitted: dict[Candidate, Config] = {
        (way, "fitted"): _settle_way(config, dataset, kept, way, fitted=True) for way in ways(kept)
    }
    return (fitted if asked else {**fitted, **settings}), kept


def _list_doubtful_edges(config: Config, dataset: Dataset) -> list[str]:
    """A line that names the least trusted edges of a graph whose nodes have ids."""
    if Names.of(dataset.data).ids is None:
        return []
    ranked = RankedEdges.from_fit(fit_edges(config, dataset), dataset.data)
    return [f"Look at these edges first: {ranked.describe(NAMED_EDGES)}."]


def _try_ways(
    settings: Mapping[Candidate, Config],
    dataset: Dataset,
    progress: Progress,
    device: str | torch.device | None,
) -> Candidate:
    """The way that is best on validation nodes; of equal ones the first."""
    best, lowest = next(iter(settings)), float("inf")
    for i, candidate in enumerate(settings, 1):
        way, rates = candidate
        per_edge = ", rates per edge" if rates == "fitted" else ""
        progress.note(f"Trial {i} of {len(settings)}: {DESCRIPTIONS[way]}{per_edge} ...")
        nll = trial_nll(settings[candidate], dataset, progress, device)
        if nll < lowest:
            best, lowest = candidate, nll
    if best[1] == "one-rate" and next(iter(settings))[1] == "fitted":
        progress.note("One rate per layer is better on validation nodes than rates per edge.")
    return best


def _list_ways_with_means(config: Config, traits: GraphTraits) -> tuple[Way, ...]:
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
    asked = model.model_fields_set - {"edges", "edge_level"} | config.objective.model_fields_set
    asked |= train.model_fields_set - {"baselines", "checkpoint_seconds", "tensorboard", "samples"}
    if traits.homophilous:
        return () if asked else ("linear",)
    return ("wide",) if asked else ("wide", "linear")


def _settle_way(
    config: Config,
    dataset: Dataset,
    traits: GraphTraits,
    way: Way,
    *,
    own: bool = False,
    numbers: bool = False,
    fitted: bool = False,
) -> Config:
    """What was asked for, and settings that fit the graph in one way."""
    asked = merged(config.asked(), {"recipe": "auto"})
    asked.get("model", {}).pop("edges", None)
    if way == "linear":
        return baseline_config(merged({"train": {"baselines": True}}, asked), dataset, orders=2)
    others = NUMBERS if numbers else FITTED if fitted else {}
    return Config(**merged(_fit_settings(config, traits, way, own=own), others, asked))


def _choose_baseline(
    config: Config, dataset: Dataset, progress: Progress, device: str | torch.device | None
) -> Config:
    """The settings of the logistic or ridge regression that is better on validation nodes."""
    best, lowest = "", float("inf")
    output = choose_task(dataset, config).output
    orders = BASELINES["gaussian" if output == "gaussian" else "classes"]
    given = config.asked()
    settings = {name: baseline_config(given, dataset, hops) for name, hops in orders.items()}
    for name, regression in settings.items():
        nll = trial_nll(regression, dataset, Mute(), device)
        if nll < lowest or not best:
            best, lowest = name, nll
    progress.note(f"Recipe baseline: {BASELINE_DESCRIPTIONS[best]}, decided on validation nodes.")
    return settings[best]


def trial_nll(
    config: Config,
    dataset: Dataset,
    progress: Progress,
    device: str | torch.device | None = None,
) -> float:
    """The validation NLL of a trained network, at the best temperature; infinite if it diverges."""
    epochs = min(TRIAL_EPOCHS, config.train.epochs)
    select = "calibrated-nll" if dataset.num_classes > 1 else "nll"
    changed = config.train.model_copy(update={"epochs": epochs, "select": select})
    settings = mark_every_setting(config.model_copy(update={"train": changed}))
    try:
        return train(prepare_run(settings, dataset, device=device), progress).selection.nll
    except DivergedError:
        return float("inf")


def has_every_setting(config: Config) -> bool:
    """Whether every setting was given, as in the file of a run."""
    return all(
        section.model_fields_set >= set(type(section).model_fields)
        for section in (config.data, config.model, config.objective, config.train, config.predict)
    )


def mark_every_setting(config: Config) -> Config:
    """The same settings, all marked as given."""
    return Config(**config.model_dump(mode="json"))


def _fit_settings(config: Config, traits: GraphTraits, way: Way, *, own: bool) -> Settings:
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
