"""Over-smoothing: total variation, Dirichlet energy, mean average distance.

Low values mean that the features of neighbours are nearly equal. The metrics have no gradients;
they are computed in float64, with the same bits on any number of threads.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torchmetrics import Metric

from graphdrop.io.devices import wide
from graphdrop.metrics.spectrum import adjacency, spectral_radius

_COLUMNS_AT_A_TIME = 64
_NUMBERS_AT_A_TIME = 2**21


def total_variation(signal: Tensor, edge_index: Tensor, *, radius: float | None = None) -> Tensor:
    """Total variation of features on a graph, `||X - A X / |lambda_max| ||_F^2 / ||X||_F^2`.

    The paper's figure 2 shows it: a low value means over-smoothed features. `A[v, u]` is the
    adjacency matrix without normalization. NaN if the signal is zero everywhere.

    Args:
        signal: a layer's output `(n, features)`, after its activation.
        edge_index: sources and destinations `(2, edges)`. Every edge counts, self-loops too: leave
            out those that were only added for a convolution.
        radius: `|lambda_max|` if it is known already, from `spectral_radius`.

    Returns:
        A scalar.

    Example:
        >>> edge_index = torch.tensor([[0, 1], [1, 0]])
        >>> total_variation(torch.tensor([[1.0], [1.0]]), edge_index).item()  # equal neighbours
        0.0
    """
    matrix = adjacency(edge_index, _nodes(signal))
    return _tensor(_total_variation(signal, matrix, _radius(matrix, radius)))


def dirichlet_energy(signal: Tensor, edge_index: Tensor) -> Tensor:
    """`1/2 sum_(u,v) || x_v / sqrt(1 + d_v) - x_u / sqrt(1 + d_u) ||^2` over directed edges.

    `d` counts incoming edges; self-loops are left out of both. When every edge is stored in both
    directions it is `trace(X^T L X)` with `L = I - (D+I)^-1/2 (A+I) (D+I)^-1/2`. It is 0 when the
    rows are proportional to `sqrt(1 + d)`, and grows with the square of the signal. The arguments
    are those of `total_variation`.
    """
    return _tensor(_dirichlet_energy(signal, adjacency(edge_index, _nodes(signal))))


def mean_average_distance(signal: Tensor, edge_index: Tensor) -> Tensor:
    """MAD: the mean over nodes of the mean of `1 - cos(x_v, x_u)` over the node's neighbours u.

    Neighbours are the sources of incoming edges, self-loops left out; nodes without any do not
    count. A zero row is at distance 0 from another and 1 from any other row, so that a layer whose
    units all died counts as smooth. From 0 to 2. The arguments are those of `total_variation`.
    """
    return _tensor(_mean_average_distance(signal, adjacency(edge_index, _nodes(signal))))


class _LayerMetric(Metric):
    full_state_update = False
    total: Tensor
    passes: Tensor

    def __init__(self, edge_index: Tensor, num_nodes: int, layers: int, **options: Any) -> None:
        super().__init__(**options)
        if layers < 1:
            raise ValueError(f"layers is {layers}, but at least one layer is needed")
        self.matrix = adjacency(edge_index, num_nodes)
        self.layers = layers
        self.add_state("total", torch.zeros(layers, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("passes", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, signals: Sequence[Tensor]) -> None:
        """Add one forward pass: the output `(n, features)` of each layer."""
        if len(signals) != self.layers:
            raise ValueError(
                f"signals holds {len(signals)} layers, but this metric was made for {self.layers}: "
                "pass the output of each layer, in order"
            )
        values = [self.measure(signal) for signal in signals]
        self.total += torch.tensor(values, dtype=torch.float64, device=self.total.device)
        self.passes += 1

    @abstractmethod
    def measure(self, signal: Tensor) -> float:
        """The functional twin, on the graph of this metric."""

    def compute(self) -> tuple[Tensor, ...]:
        """The mean over forward passes, one number per layer."""
        return tuple(self.total / self.passes)


class TotalVariation(_LayerMetric):
    """`total_variation` of each layer, averaged over forward passes; one eigenvalue for all."""

    def __init__(self, edge_index: Tensor, num_nodes: int, layers: int, **options: Any) -> None:
        super().__init__(edge_index, num_nodes, layers, **options)
        self.radius = _radius(self.matrix, None)

    def measure(self, signal: Tensor) -> float:
        """Total variation on the graph of this metric."""
        return _total_variation(signal, self.matrix, self.radius)


class DirichletEnergy(_LayerMetric):
    """`dirichlet_energy` of each layer, averaged over forward passes."""

    def measure(self, signal: Tensor) -> float:
        """Dirichlet energy on the graph of this metric."""
        return _dirichlet_energy(signal, self.matrix)


class MeanAverageDistance(_LayerMetric):
    """`mean_average_distance` of each layer, averaged over forward passes."""

    def measure(self, signal: Tensor) -> float:
        """Mean average distance on the graph of this metric."""
        return _mean_average_distance(signal, self.matrix)


def _total_variation(signal: Tensor, matrix: sparse.csr_array, radius: float) -> float:
    _check_signal(signal, matrix.shape[0])
    variation = norm = 0.0
    for columns in torch.split(signal, _COLUMNS_AT_A_TIME, dim=1):
        x = wide(columns).numpy(force=True)
        variation += float(np.square(x - matrix @ x / radius).sum())
        norm += float(np.square(x).sum())
    return variation / norm if norm > 0 else float("nan")


def _dirichlet_energy(signal: Tensor, matrix: sparse.csr_array) -> float:
    _check_signal(signal, matrix.shape[0])
    destination, source, count = _links(matrix)
    degree = np.bincount(destination, weights=count, minlength=matrix.shape[0])
    scaled = wide(signal).numpy(force=True) / np.sqrt(1 + degree)[:, None]
    return float((count * _squared_distances(scaled, destination, source)).sum() / 2)


def _mean_average_distance(signal: Tensor, matrix: sparse.csr_array) -> float:
    nodes = matrix.shape[0]
    _check_signal(signal, nodes)
    destination, source, count = _links(matrix)
    if not count.size:
        raise ValueError(
            "edge_index has no edge between two different nodes, but the distance between "
            "neighbours needs at least one"
        )
    x = wide(signal).numpy(force=True)
    # Scaled by the largest entry first: the squares of tiny features underflow.
    x = x / np.where(largest := np.abs(x).max(1, keepdims=True), largest, 1)
    x /= np.where(length := np.linalg.norm(x, axis=1, keepdims=True), length, 1)
    # Half of the squared distance of unit vectors is 1 - cos, without its cancellation near 0.
    distance = _squared_distances(x, destination, source) / 2
    zero = (x == 0).all(axis=1)
    distance[zero[destination] != zero[source]] = 1.0
    neighbours = np.bincount(destination, weights=count, minlength=nodes)
    summed = np.bincount(destination, weights=count * distance, minlength=nodes)
    return float((summed[neighbours > 0] / neighbours[neighbours > 0]).mean())


def _links(matrix: sparse.csr_array) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Destination, source and number of the edges between different nodes."""
    entries = matrix.tocoo()
    destination, source = entries.coords
    different = destination != source
    return destination[different], source[different], entries.data[different]


def _squared_distances(
    x: NDArray[np.float64], destination: NDArray[Any], source: NDArray[Any]
) -> NDArray[np.float64]:
    """`||x_v - x_u||^2` of each edge, a bounded number of edges at a time."""
    distances = np.empty(destination.size)
    step = max(1, _NUMBERS_AT_A_TIME // x.shape[1])
    for start in range(0, destination.size, step):
        part = slice(start, start + step)
        distances[part] = np.square(x[destination[part]] - x[source[part]]).sum(1)
    return distances


def _radius(matrix: sparse.csr_array, radius: float | None) -> float:
    if radius is None:
        radius = spectral_radius(matrix)
        if radius == 0:
            raise ValueError(
                "edge_index has no cycle, so its largest eigenvalue is 0 and the total variation "
                "is undefined: store each undirected edge in both directions"
            )
    if not 0 < radius < float("inf"):
        raise ValueError(f"radius is {radius}; it takes a finite number above 0")
    return float(radius)


def _nodes(signal: Tensor) -> int:
    _check_signal(signal, None)
    return signal.size(0)


def _check_signal(signal: Tensor, nodes: int | None) -> None:
    if not isinstance(signal, Tensor) or signal.ndim != 2 or signal.numel() == 0:
        shape = tuple(getattr(signal, "shape", ()))
        raise ValueError(f"signal has shape {shape}; it takes (n, features), neither of them 0")
    if nodes is not None and signal.size(0) != nodes:
        raise ValueError(
            f"signal has {signal.size(0)} rows, but the graph has {nodes} nodes: pass one row per "
            "node"
        )
    if signal.is_complex() or not signal.isfinite().all():
        raise ValueError("signal holds NaN or infinity, or is complex: pass finite real features")


def _tensor(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)
