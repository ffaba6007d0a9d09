"""Properties of a graph for the recipe ``auto``, without test labels and names."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import remove_self_loops

from graphdrop.config.auto import LABELLED_EDGES, FeatureKind, GraphTraits
from graphdrop.data.dataset import Dataset
from graphdrop.data.edges import adjusted_homophily

SPARSE = 0.5
"""Features that are not negative and have a smaller share of nonzeros are bags of words."""
SPREAD = 10.0
"""Dense columns whose standard deviations differ by more than this factor are unscaled."""
SCALE = 5.0
"""So are dense features whose largest standard deviation is above this, or below its inverse."""


def traits_of(dataset: Dataset) -> GraphTraits:
    """Measure a graph with its split."""
    data, split = dataset.data, dataset.split
    homophily, labelled, majority = None, 0, 0.0
    if dataset.num_classes:
        known = torch.where(split.train | split.val, data.y, -1)
        homophily, labelled = adjusted_homophily(data.edge_index, known, dataset.num_classes)
        classes = data.y[split.train].bincount(minlength=dataset.num_classes)
        majority = float(classes.max() / classes.sum())
    edges, _ = remove_self_loops(data.edge_index)
    sizes = split.sizes
    return GraphTraits(
        nodes=int(data.x.shape[0]),
        edges=int(edges.shape[1]),
        features=int(data.x.shape[1]),
        feature_kind=feature_kind_of(dataset),
        classes=dataset.num_classes,
        train_nodes=sizes[0],
        validation_nodes=sizes[1],
        majority=majority,
        homophily=homophily if labelled >= LABELLED_EDGES else None,
        labelled_edges=labelled,
    )


def feature_kind_of(dataset: Dataset) -> FeatureKind:
    """The kind of the features of a dataset."""
    # columns of tables are scaled as they are read, and one-hot ones need no scale
    return "dense" if dataset.schema else feature_kind(dataset.data.x, dataset.split.train)


def feature_kind(x: Tensor, train: Tensor) -> FeatureKind:
    """Bags of words, dense features, or dense features whose columns differ in scale."""
    if x.layout is not torch.strided:
        return "words"
    negative = bool((x < 0).any())
    if not negative and float((x != 0).double().mean()) < SPARSE:
        return "words"
    deviation = x[train].double().std(0, correction=0)
    deviation = deviation[deviation > 0]
    if not len(deviation):
        return "dense"
    largest, smallest = float(deviation.max()), float(deviation.min())
    unscaled = largest > SPREAD * smallest or largest > SCALE or largest < 1.0 / SCALE
    return "unscaled" if unscaled else "dense"
