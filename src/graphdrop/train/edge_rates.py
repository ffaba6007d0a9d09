"""Rates per edge in a run: the prior of its edges, and whether the recipe uses it."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from graphdrop.config import Config
from graphdrop.config.auto import FITTED_METHODS, LABELLED_EDGES, GraphTraits
from graphdrop.data import Dataset
from graphdrop.data.edges import adjusted_homophily
from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.sampling import EdgeFit, fit_edge_prior
from graphdrop.train.run_dataset import reserve_calibration_nodes
from graphdrop.train.tasks import choose_task


def fit_edges(config: Config, dataset: Dataset) -> EdgeFit:
    """Fit the prior of the edges: labels of training nodes answer, validation nodes score.

    Trials and the run itself share the fit, which belongs to the dataset and the features.
    """
    parts = reserve_calibration_nodes(choose_task(dataset, config).parts(dataset.split), config)
    train, validation = (parts[name].nonzero().flatten() for name in ("train", "validation"))
    features, level, share = config.data.features, config.model.edge_level, config.data.calibration
    known, key = dataset.derived, ("edge fit", features, level, share)
    if key not in known:
        defaults = PredictionDefaults.of(config).fit_moments(dataset.data.x, train)
        known[key] = fit_edge_prior(
            defaults.inputs(dataset.data), conditioned=train, scored=validation, level=level
        )
    fit: EdgeFit = known[key]
    return fit


def asks_for_fitted_rates(config: Config) -> bool:
    """Whether the recipe fits rates per edge, and then tests whether edges differ."""
    model = config.model
    if model.edges == "fitted":
        return True
    asked = "edges" in model.model_fields_set and model.edges == "one-rate"
    return not asked and model.method in FITTED_METHODS and model.architecture == "gcn"


def kept_traits(traits: GraphTraits, dataset: Dataset, fit: EdgeFit) -> GraphTraits:
    """The properties of a graph with the homophily of the edges that are mostly kept."""
    data, split = dataset.data, dataset.split
    known = torch.where(split.train | split.val, data.y, -1).cpu()
    edges = data.edge_index.cpu()[:, fit.keep >= 0.5]
    homophily, labelled = adjusted_homophily(edges, known, dataset.num_classes)
    few = labelled < LABELLED_EDGES
    return replace(traits, homophily=None if few else homophily, labelled_edges=labelled)


def teacher_of(fit: EdgeFit, num_classes: int) -> Tensor:
    """The answers of the closed-form model for all nodes, ``[nodes, classes]``."""
    missing = num_classes - fit.answers.shape[1]
    return torch.nn.functional.pad(fit.answers, (0, missing))
