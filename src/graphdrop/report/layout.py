"""Force-directed layout of a graph, with far forces computed on a grid.

A node is drawn to the mean of its neighbours, pushed away from every other node with
`mass / distance`, and held by a weak pull to the middle. The push of all pairs is a convolution of
the nodes' mass with one kernel, so a step costs a few Fourier transforms and sums over nodes and
edges, whatever the number of pairs. The same graph gives the same drawing.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import fft, sparse

Positions = NDArray[np.float32]

STEPS = 250
REPULSION = 0.06
GRAVITY = 0.08
SMOOTHING_STEPS = 60


def layout(edges: NDArray[np.integer], nodes: int) -> Positions:
    """Positions `[nodes, 2]` within the square from -1 to 1.

    Args:
        edges: every edge between two different nodes once, `[2, E]`.
        nodes: their number.
    """
    if nodes == 0:
        return np.zeros((0, 2), np.float32)
    once = sparse.coo_array((np.ones(edges.shape[1], np.float32), tuple(edges)), (nodes, nodes))
    adjacency = (once + once.T).tocsr()
    degree = np.diff(adjacency.indptr).astype(np.float32)
    position = _first_guess(adjacency, degree)
    cells = 64 if nodes < 500 else 128 if nodes < 8000 else 256
    mass = (degree + 1.0) / (degree + 1.0).sum()
    for step in range(STEPS):
        mean = (adjacency @ position + position) / (degree + 1.0)[:, None]
        move = mean - (1.0 + GRAVITY) * position + REPULSION * _repulsion(position, mass, cells)
        # Less and less far, so that it settles.
        length = np.sqrt((move**2).sum(1, keepdims=True)) + 1e-9
        position += move * np.minimum(0.6, 0.2 * (1.0 - step / STEPS) ** 1.5 / length)
    low, high = position.min(0), position.max(0)
    half = float((high - low).max()) / 2
    fitted: Positions = ((position - (low + high) / 2) / (half or 1.0)).astype(np.float32)
    return fitted


def _first_guess(adjacency: sparse.csr_array, degree: NDArray[np.float32]) -> Positions:
    """Two smooth signals on the graph: nearly its slowest eigenvectors, spread evenly."""
    nodes = len(degree)
    start = np.random.default_rng(0).standard_normal((nodes, 2)).astype(np.float32)
    signal = start.copy()
    weight = (degree + 1.0)[:, None]
    for _ in range(SMOOTHING_STEPS):
        signal = (adjacency @ signal + signal) / weight
        signal -= (signal * weight).sum(0) / weight.sum()
        signal[:, 1] -= (
            signal[:, 0]
            * (weight[:, 0] * signal[:, 0] * signal[:, 1]).sum()
            / ((weight[:, 0] * signal[:, 0] ** 2).sum() + 1e-20)
        )
        signal /= np.sqrt((signal**2).mean(0)) + 1e-20
    rank = signal.argsort(0, kind="stable").argsort(0, kind="stable") / max(nodes - 1, 1)
    even = (rank - 0.5).astype(np.float32)
    return even + 0.02 * start


def _repulsion(position: Positions, mass: NDArray[np.float32], cells: int) -> Positions:
    """`sum_j mass_j (x - x_j) / |x - x_j|^2` at every node, up to the size of a cell."""
    low = position.min(0)
    size = float((position.max(0) - low).max()) / (cells - 2) + 1e-6
    place = (position - low) / size
    corner = place.astype(np.int64)
    part = (place - corner).astype(np.float32)
    flat = corner[:, 0] * cells + corner[:, 1]
    corners = []
    grid = np.zeros(cells * cells)
    for dx, dy in product((0, 1), repeat=2):
        share = np.abs(1 - dx - part[:, 0]) * np.abs(1 - dy - part[:, 1])
        corners.append((flat + dx * cells + dy, share))
        grid += np.bincount(corners[-1][0], share * mass, cells * cells)
    spectrum = fft.rfft2(grid.reshape(cells, cells).astype(np.float32), (2 * cells, 2 * cells))
    result = np.zeros_like(position)
    for axis, kernel in enumerate(_kernels(cells)):
        field = fft.irfft2(spectrum * kernel, (2 * cells, 2 * cells))[:cells, :cells].ravel()
        result[:, axis] = sum(share * field[index] for index, share in corners)
    return result / size


@cache
def _kernels(cells: int) -> list[NDArray[np.complex64]]:
    """The transform of `r / (|r|^2 + 1)`, in cells, along both axes."""
    offset = fft.fftfreq(2 * cells, 1 / (2 * cells)).astype(np.float32)
    x, y = np.meshgrid(offset, offset, indexing="ij")
    return [fft.rfft2(along / (x**2 + y**2 + 1.0)) for along in (x, y)]
