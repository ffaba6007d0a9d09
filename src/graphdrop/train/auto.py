"""The recipe ``auto``: complete settings from the given ones and from the graph.

``choose_settings`` ends before a run begins. Where several settings fit the graph, it trains each
for some epochs and takes the best on validation nodes; the run begins anew with these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import NamedTuple

import torch

from graphdrop.config import Config
from graphdrop.config.auto import (
    BASELINES,
    DESCRIPTIONS,
    FITTED,
    FITTED_METHODS,
    LABELLED_EDGES,
    PER_EDGE,
    GraphTraits,
    Way,
    choose,
    explain,
    of_batches,
    ways,
)
from graphdrop.config.recipes import Settings, merge_settings
from graphdrop.data import Dataset
from graphdrop.data.edges import adjusted_homophily
from graphdrop.data.names import Names
from graphdrop.data.traits import traits_of
from graphdrop.sampling import RankedEdges
from graphdrop.train.baselines import DESCRIPTIONS as BASELINE_DESCRIPTIONS
from graphdrop.train.baselines import baseline_config
from graphdrop.train.loop import train
from graphdrop.train.objective import DivergedError
from graphdrop.train.progress import Mute, Progress
from graphdrop.train.run import fit_edges, prepare_run
from graphdrop.train.run_dataset import check_edges_are_read
from graphdrop.train.tasks import choose_task

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


class Candidate(NamedTuple):
    """Complete settings that may fit the graph."""

    config: Config
    description: str
    way: Way = "skip"
    """How neighbours are used."""
    per_edge: bool = False
    """Whether every edge has a rate of its own."""


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
    if has_every_setting(config):
        return config
    for line in dataset.notes:
        progress.note(line)
    changes = dataset.changes
    if changes is not None and changes.duplicates + changes.self_loops:
        progress.note(f"Stored edges: {changes}.")
    if config.recipe == "paper":
        return config
    asked = config.asked() | {"recipe": config.recipe}
    if stored is not None:
        return Config(**merge_settings(stored.model_dump(mode="json"), asked))

    y = dataset.data.get("y")
    floating = y is not None and y.is_floating_point()
    output = choose_task(dataset, config).output if floating else "classes"
    if config.recipe == "baseline":
        orders = BASELINES["gaussian" if output == "gaussian" else "classes"]
        given = config.asked()
        regressions = [
            Candidate(baseline_config(given, dataset, hops), name) for name, hops in orders.items()
        ]
        best = find_best(regressions, dataset, Mute(), device)
        name = BASELINE_DESCRIPTIONS[best.description]
        progress.note(f"Recipe baseline: {name}, decided on validation nodes.")
        return best.config
    if dataset.num_classes < 2 and output != "gaussian":
        return mark_every_setting(Config(**merge_settings(OTHER_TARGETS, asked)))
    return _choose_by_traits(config, dataset, progress, own=own, device=device)


def _choose_by_traits(
    config: Config,
    dataset: Dataset,
    progress: Progress,
    *,
    own: bool,
    device: str | torch.device | None,
) -> Config:
    """Settings for classes or numbers that fit the graph's features, labels and edges."""
    traits, numbers = traits_of(dataset), dataset.num_classes < 2
    if numbers:  # as on graphs whose neighbours may differ: every layer can do without them
        traits = replace(traits, homophily=0.0)
    possible: tuple[Way, ...] = ("skip",) if numbers else ways(traits)
    possible = possible[:1] if own else (*possible, *_list_ways_with_means(config, traits))
    changed: Settings = {"train": {"select": "nll"}} if numbers else {}
    candidates = [
        Candidate(
            _complete(config, dataset, traits, way, own=own, changed=changed),
            DESCRIPTIONS[way],
            way,
        )
        for way in possible
    ]
    kept_traits, fit, confirmed = traits, None, False
    if not (own or numbers) and _asks_for_fitted_rates(config):
        fit = fit_edges(candidates[0].config, dataset)
        progress.note(fit.summary())
        insists = config.model.edges == "fitted"
        if insists or fit.test.differs:
            kept_traits = traits_of_kept_edges(traits, dataset, fit.keep)
            fitted = [
                Candidate(
                    _complete(config, dataset, kept_traits, way, changed=FITTED),
                    f"{DESCRIPTIONS[way]}, rates per edge",
                    way,
                    per_edge=True,
                )
                for way in ways(kept_traits)
            ]
            if insists:
                candidates = fitted
            elif not kept_traits.homophilous:
                candidates = [*fitted, *candidates]
            else:  # neighbours by kept edges are averaged: only the rates are called into question
                alike = [
                    Candidate(
                        _complete(config, dataset, kept_traits, c.way, changed={}),
                        DESCRIPTIONS[c.way],
                    )
                    for c in fitted
                ]
                best = find_best([*fitted, *alike], dataset, progress, device)
                candidates = [best] if best.per_edge else candidates
                confirmed = best.per_edge

    tried, best = len(candidates) > 1, candidates[0]
    if tried:
        best = find_best(candidates, dataset, progress, device)
    if fit is not None and fit.test.differs and not best.per_edge:
        progress.note("One rate per layer is better on validation nodes than rates per edge.")
    tried |= confirmed
    described = kept_traits if best.per_edge else traits
    lines = explain(described, best.way, tried=tried).splitlines()
    if numbers:
        decided_on = ", decided on validation nodes" if tried else ""
        lines[1:] = [f"Targets are numbers: {DESCRIPTIONS[best.way]}{decided_on}."]
    if best.per_edge and Names.of(dataset.data).ids is not None:
        ranked = RankedEdges.from_fit(fit_edges(best.config, dataset), dataset.data)
        lines.append(f"Look at these edges first: {ranked.describe(NAMED_EDGES)}.")
    for line in () if own and numbers else lines:
        progress.note(line)
    return mark_every_setting(best.config)


def find_best(
    candidates: Sequence[Candidate],
    dataset: Dataset,
    progress: Progress,
    device: str | torch.device | None,
) -> Candidate:
    """The candidate that is best on validation nodes after some epochs; of equal ones the first."""
    best, lowest = candidates[0], float("inf")
    for i, candidate in enumerate(candidates, 1):
        progress.note(f"Trial {i} of {len(candidates)}: {candidate.description} ...")
        epochs = min(TRIAL_EPOCHS, candidate.config.train.epochs)
        nll = trial_nll(candidate.config, dataset, progress, device, epochs)
        if nll < lowest:
            best, lowest = candidate, nll
    return best


def trial_nll(
    config: Config,
    dataset: Dataset,
    progress: Progress,
    device: str | torch.device | None,
    epochs: int,
) -> float:
    """The validation NLL of a trained network, at the best temperature; infinite if it diverges."""
    changed = {"epochs": epochs, "select": "calibrated-nll"}
    section = config.train.model_copy(update=changed)
    settings = config.model_copy(update={"train": section})
    try:
        return train(prepare_run(settings, dataset, device=device), progress).selection.nll
    except DivergedError:
        return float("inf")


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


def _asks_for_fitted_rates(config: Config) -> bool:
    """Whether the recipe fits rates per edge, and then tests whether edges differ."""
    model = config.model
    asked = model.edges if "edges" in model.model_fields_set else "auto"
    if asked != "auto":
        return asked == "fitted"
    return model.method in FITTED_METHODS and model.architecture == "gcn"


def traits_of_kept_edges(traits: GraphTraits, dataset: Dataset, keep: torch.Tensor) -> GraphTraits:
    """The properties of a graph with the homophily of the edges that are mostly kept."""
    data, split = dataset.data, dataset.split
    known = torch.where(split.train | split.val, data.y, -1).cpu()
    edges = data.edge_index.cpu()[:, keep >= 0.5]
    homophily, labelled = adjusted_homophily(edges, known, dataset.num_classes)
    few = labelled < LABELLED_EDGES
    return replace(traits, homophily=None if few else homophily, labelled_edges=labelled)


def _complete(
    config: Config,
    dataset: Dataset,
    traits: GraphTraits,
    way: Way,
    *,
    own: bool = False,
    changed: Settings,
) -> Config:
    """What was asked for, and settings that fit the graph in one way of using neighbours."""
    asked = merge_settings(config.asked(), {"recipe": "auto"})
    asked.get("model", {}).pop("edges", None)
    if way == "linear":
        return baseline_config(
            merge_settings({"train": {"baselines": True}}, asked), dataset, orders=2
        )
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
    if own:
        settings = {n: part for n, part in settings.items() if n not in ("model", "data")}
    return Config(**merge_settings(settings, changed, asked))


def has_every_setting(config: Config) -> bool:
    """Whether every setting was given, as in the file of a run."""
    return all(
        section.model_fields_set >= set(type(section).model_fields)
        for section in (config.data, config.model, config.objective, config.train, config.predict)
    )


def mark_every_setting(config: Config) -> Config:
    """The same settings, all marked as given."""
    return Config(**config.model_dump(mode="json"))
