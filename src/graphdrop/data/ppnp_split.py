"""The splits of PPNP (Gasteiger et al., 2019): one set of test nodes, twenty ways to train.

1500 nodes of the largest component are set apart for development, always the same; all others are
test nodes. A split draws 20 development nodes of every class to train on and 500 of the rest to
stop on. The draws are those of numpy's legacy generator with the published seeds, whose stream
numpy keeps fixed.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph
from torch import Tensor

from graphdrop.data.splits import Split

NAME = "ppnp"
DEVELOPMENT, PER_CLASS, STOPPING = 1500, 20, 500
DEVELOPMENT_SEED = 4143496719
SEEDS = (
    2144199730, 794209841, 2985733717, 2282690970, 1901557222, 2009332812, 2266730407,
    635625077, 3538425002, 960893189, 497096336, 3940842554, 3594628340, 948012117,
    3305901371, 3644534211, 2297033685, 4092258879, 2590091101, 1694925034,
)  # fmt: skip
"""The seeds of the published test runs, one for every split."""


def ppnp_split(labels: Tensor, edge_index: Tensor, number: int = 0) -> Split:
    """One of the twenty splits; nodes outside the largest component are in no part.

    Args:
        labels: classes ``[n]``, at least 0.
        edge_index: ``[2, E]``, in either or both directions.
        number: 0 to 19.
    """
    if not 0 <= number < len(SEEDS):
        raise ValueError(f"seed is {number}; split='ppnp' takes 0 to {len(SEEDS) - 1}.")
    component = largest_component(edge_index, len(labels))
    if len(component) <= DEVELOPMENT:
        raise ValueError(
            f"the largest component has {len(component)} nodes; split='ppnp' takes a graph with "
            f"more than {DEVELOPMENT}. Give split='random-per-class' or 'random-fractions'."
        )
    classes = labels.numpy()
    first = np.random.RandomState(DEVELOPMENT_SEED)
    development = component[first.choice(len(component), DEVELOPMENT, replace=False)]
    draw = np.random.RandomState(SEEDS[number])
    train = np.concatenate(
        [_drawn(draw, development, classes == label) for label in range(int(classes.max()) + 1)]
    )
    left = development[~np.isin(development, train)]
    stopping = draw.choice(left, STOPPING, replace=False)
    test = np.setdiff1d(component, development)
    parts = (_mask(nodes, len(labels)) for nodes in (train, stopping, test))
    train_mask, stopping_mask, test_mask = parts
    return Split(train_mask, stopping_mask, test_mask, NAME, number)


def _drawn(
    draw: np.random.RandomState, development: NDArray[np.int64], of_class: NDArray[np.bool_]
) -> NDArray[np.int64]:
    members = development[of_class[development]]
    if len(members) < PER_CLASS:
        raise ValueError(
            f"a class has {len(members)} development nodes; split='ppnp' takes at least "
            f"{PER_CLASS} of every class. Give split='random-fractions'."
        )
    return draw.choice(members, PER_CLASS, replace=False)


def largest_component(edge_index: Tensor, nodes: int) -> NDArray[np.int64]:
    """The nodes of the largest connected component, in order."""
    row, column = edge_index.numpy()
    matrix = sparse.coo_array((np.ones(len(row), dtype=np.int8), (row, column)), (nodes, nodes))
    _, label = csgraph.connected_components(matrix, directed=False)
    return np.flatnonzero(label == np.bincount(label).argmax())


def _mask(nodes: NDArray[np.int64], count: int) -> Tensor:
    mask = torch.zeros(count, dtype=torch.bool)
    mask[torch.from_numpy(nodes)] = True
    return mask
