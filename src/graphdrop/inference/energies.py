"""``energy``: how far a node is from what a model knows, at three scales of the graph."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphdrop.inference.origin import Origin
from graphdrop.inference.propagation import Propagation
from graphdrop.metrics.inputs import choose

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from graphdrop.inference.classes import Predictive

STEPS = 10
"""The steps of a diffusion; the part of the values that it has not reached is below 0.001 and 0.35
for the two restarts."""
NEIGHBORHOOD_RESTART, CLUSTER_RESTART = 0.5, 0.1
"""How much of a node's own value each step of a diffusion puts back."""
LARGEST_LOGIT = 10.0
"""Evidence is the exponential of a logit that is no larger than this."""


class EnergyScale(StrEnum):
    """How far around a node an energy looks."""

    NODE = "node"
    """The node alone."""
    NEIGHBORHOOD = "neighborhood"
    """The energies of a node and of those within about two steps, averaged."""
    CLUSTER = "cluster"
    """The energy of the logits averaged over a wide neighborhood: high where classes disagree."""
    ALL = "all"
    """The mean of the three."""


@torch.no_grad()
def energy(
    answer: Predictive | Tensor, data: Data | None = None, scale: EnergyScale | str = "all"
) -> Tensor:
    r"""The energy score over the graph: higher for nodes that are out of distribution.

    .. math:: E_i = -\log \sum_c e^{f_{i,c}}, \quad
        E^{nb} = \Pi_{1/2} E, \quad E^{cl}_i = -\log \sum_c e^{(\Pi_{1/10} f)_{i,c}}

    with :math:`\Pi_r` the diffusion :math:`v \leftarrow r v_0 + (1 - r) D^{-1}(A + I) v`, ten
    steps. It takes uncalibrated logits, whose size is what it measures; of samples it is the mean
    of their energies. The idea is that of GEBM (Fuchsgruber et al., 2024); its density of features
    is left out.

    Args:
        answer: what ``predict`` or ``Predictive.from_logits`` returned, or the logits of any model,
            ``[n, classes]`` or ``[samples, n, classes]``; of all nodes but for ``"node"``.
        data: the graph, with ``edge_index [2, E]``; a prediction knows its own.
        scale: ``"node"``, ``"neighborhood"``, ``"cluster"``, or ``"all"`` for the mean of the
            three.

    Returns:
        Scores ``[n]``.

    Example:
        >>> from torch_geometric.data import Data
        >>> logits, edges = torch.tensor([[9.0, 0.0], [9.0, 0.0], [1.0, 0.0]]), [[0, 1], [1, 0]]
        >>> scores = energy(logits, Data(edge_index=torch.tensor(edges)))
        >>> int(scores.argmax())
        2
    """
    scale = choose(EnergyScale, scale, "scale")
    logits, own = _read_outputs(answer)
    if scale is EnergyScale.NODE:
        return own
    origin = Origin() if isinstance(answer, Tensor) else answer.origin
    edge_index = origin.edge_index if data is None else data.edge_index
    if edge_index is None:
        raise ValueError(
            f"data is None; the energy at the scale {scale.value!r} takes a graph. Pass data, or "
            'scale="node".'
        )
    covered = origin.rows is None and (origin.nodes is None or origin.nodes == len(own))
    if not covered or (edge_index.numel() and int(edge_index.max()) >= len(own)):
        raise ValueError(
            f"answer has {len(own)} nodes; the energy at the scale {scale.value!r} takes all nodes "
            'of the graph. Predict without rows, or give scale="node".'
        )
    mean = Propagation(edge_index, len(own), self_loops=True)
    scales: dict[EnergyScale, Tensor] = {EnergyScale.NODE: own}
    if scale is not EnergyScale.CLUSTER:
        around = mean.diffuse(own.double(), NEIGHBORHOOD_RESTART, STEPS)
        scales[EnergyScale.NEIGHBORHOOD] = around.float()
    if scale is not EnergyScale.NEIGHBORHOOD:
        wide = mean.diffuse(logits.double(), CLUSTER_RESTART, STEPS)
        scales[EnergyScale.CLUSTER] = -wide.logsumexp(1).float()
    if scale is EnergyScale.ALL:
        return torch.stack(list(scales.values())).mean(0)
    return scales[scale]


@torch.no_grad()
def vacuity(answer: Predictive | Tensor) -> Tensor:
    r"""The vacuity of a Dirichlet distribution whose evidence is the exponential of the logits.

    .. math:: u_i = \frac{C}{\sum_c (1 + e^{\min(f_{i,c}, 10)})}

    It is 1 without any evidence and falls to 0; higher is more out of distribution. Of samples the
    mean logits count.

    Args:
        answer: as for ``energy``; no graph is needed.

    Returns:
        Scores ``[n]`` in (0, 1).

    Example:
        >>> vacuity(torch.tensor([[5.0, 0.0], [-5.0, -5.0]])).round(decimals=2).tolist()
        [0.009999999776482582, 0.9900000095367432]
    """
    logits, _ = _read_outputs(answer)
    evidence = logits.double().clamp_max(LARGEST_LOGIT).exp()
    return (evidence.shape[1] / (1.0 + evidence).sum(1)).float()


def _read_outputs(answer: Predictive | Tensor) -> tuple[Tensor, Tensor]:
    """Mean logits ``[n, classes]`` and mean energies ``[n]``."""
    if isinstance(answer, Tensor):
        samples = answer if answer.dim() == 3 else answer[None]
        return samples.mean(0), -samples.double().logsumexp(2).mean(0).float()
    if answer.origin.logits is None or answer.origin.energy is None:
        raise ValueError(
            "answer has no logits; energies need them. Take the answer of predict or of "
            "Predictive.from_logits, or pass the logits themselves."
        )
    return answer.origin.logits, answer.origin.energy
