"""Post-hoc calibration of a trained network: fits without bias in the scores, and what they change.

A network is calibrated on its validation nodes. So that these can also be scored, each half of them
is calibrated by the fit on the other half. A calibrator that raises the NLL of nodes that it was
not fitted on is not applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from graphdrop.inference.calibrator import Calibrator, Samples, Surroundings
from graphdrop.inference.classes import Predictive
from graphdrop.inference.origin import Origin
from graphdrop.metrics.calibration import calibration_error
from graphdrop.metrics.registry import error_auroc
from graphdrop.metrics.scoring import as_columns, gaussian_nll
from graphdrop.nn.defaults import SetNodes

CLEARLY = 3.0
"""A calibrator that raises the NLL of nodes that it was not fitted on by more standard errors than
this is not applied. Nodes that are neighbors are not independent, so that two would be too few."""
RESAMPLES, NODES, CHANCE = 200, 5000, 0.025
"""A calibration error is higher if it is in all but this share of resamples of the nodes."""
UNCERTAINTIES = ("least_confidence", "entropy", "epistemic")
"""Uncertainties of which the one that finds errors best decides what is rejected."""
FEWEST_ERRORS = 10
"""An AUROC for errors is noise where fewer answers than this are wrong, or right."""
MOST_SET_NODES = 2000
"""A model carries at most so many nodes for its prediction sets, chosen at random."""


class Answers(Protocol):
    """The answers of a network for any rows, with any calibrator."""

    def predict(self, rows: Tensor, calibrator: Calibrator | None = ...) -> Any:
        """The prediction for some rows."""


class Halves(NamedTuple):
    """The calibration nodes in two halves, and a calibrator fitted on each."""

    rows: tuple[Tensor, Tensor]
    calibrators: tuple[Calibrator, Calibrator]


@dataclass(frozen=True, eq=False)
class CalibrationNodes:
    """The nodes on which calibrators are fitted, with the outputs of the network for them."""

    rows: Tensor
    """Their numbers in the graph, ``[m]``."""
    samples: Samples
    """Makes the outputs of every sample, ``[m, ...]`` each."""
    targets: Tensor
    """Their targets as the network learns them, ``[m, ...]``."""
    surroundings: Surroundings | None = None
    """The graph, for calibrators that read it."""

    def fit(self, kind: type[Calibrator], chosen: Tensor | None = None) -> Calibrator:
        """Fit a calibrator on these nodes, or on those of some places among them."""
        rows, targets, samples, around = self.rows, self.targets, self.samples, self.surroundings
        if chosen is not None:
            rows, targets = rows[chosen], targets[chosen]
            samples = lambda: (outputs[chosen] for outputs in self.samples())  # noqa: E731
        return kind.fit(samples, targets, None if around is None else replace(around, rows=rows))

    def fit_halves(self, kind: type[Calibrator]) -> Halves | None:
        """Fit a calibrator on each of two random halves; ``None`` for fewer than four nodes."""
        if len(self.rows) < 4:
            return None
        first = torch.zeros(len(self.rows), dtype=torch.bool)
        first[torch.randperm(len(first), generator=torch.Generator().manual_seed(0))[::2]] = True
        return Halves(
            (self.rows[first], self.rows[~first]), (self.fit(kind, first), self.fit(kind, ~first))
        )


def predict_out_of_fold(answers: Answers, halves: Halves, rows: Tensor) -> Predictive:
    """The prediction of the calibration nodes, each half calibrated by the other half's fit."""
    pairs = zip(halves.rows, reversed(halves.calibrators), strict=True)
    parts: list[Predictive] = [answers.predict(half, other) for half, other in pairs]
    order = torch.argsort(torch.cat(halves.rows))[torch.argsort(torch.argsort(rows))]
    names = ("probabilities", "votes", "expected_entropy", "deviation")
    joined: dict[str, Any] = {
        name: torch.cat([getattr(part, name) for part in parts])[order] for name in names
    }
    # the graph and the raw outputs of one half would be wrong for both
    return replace(parts[0], origin=Origin(class_counts=parts[0].origin.class_counts), **joined)


class HeldOutChange(NamedTuple):
    """Measure what a calibrator changes on nodes that it was not fitted on."""

    nodes: str
    """The nodes in words."""
    nll: tuple[float, float]
    """Mean without and with the calibrator."""
    error: float
    """The standard error of the difference."""
    ece: tuple[float, float] | None = None
    """Without and with the calibrator, where it is higher with it beyond chance; else ``None``."""

    @property
    def is_worse(self) -> bool:
        """Whether the calibrator raises the NLL clearly."""
        return self.nll[1] - self.nll[0] > CLEARLY * self.error

    def note(self, name: str) -> str | None:
        """A note on a calibrator that does harm here, if it does."""
        says = f'the calibrator "{name}" raises the {{}} on {self.nodes} from {{:.3f}} to {{:.3f}}'
        if self.is_worse:
            return says.format("NLL", *self.nll) + ", more than chance explains: it is not applied"
        if self.ece is not None:
            return (
                says.format("calibration error", *self.ece)
                + ", more than chance explains, and does not raise the NLL clearly: it is applied; "
                'predict.calibration = "none" leaves it out'
            )
        return None


def measure_change(
    answers: Answers, fits: Sequence[tuple[Tensor, Calibrator]], targets: Tensor, nodes: str
) -> HeldOutChange:
    """Compare the answers for some nodes without and with calibrators that were fitted elsewhere.

    Args:
        answers: what the network answers.
        fits: parts of the nodes, each with a calibrator that was fitted on others.
        targets: of all nodes of the graph.
        nodes: these nodes in words.
    """
    rows = torch.cat([part for part, _ in fits])
    labels = targets[rows]
    before = [answers.predict(part, None) for part, _ in fits]
    after = [answers.predict(part, calibrator) for part, calibrator in fits]
    is_of_classes = isinstance(before[0], Predictive)
    losses, shown = [], []
    for parts in (before, after):
        if is_of_classes:
            shown.append(torch.cat([answer.probabilities for answer in parts]))
            own = shown[-1].double().gather(1, labels[:, None])[:, 0]
            losses.append(-own.clamp_min(1e-38).log())
        else:
            mean, variance = (
                torch.cat([getattr(answer, name) for answer in parts])
                for name in ("mean", "variance")
            )
            losses.append(gaussian_nll(mean, variance.log(), as_columns(labels)).double().mean(1))
    gain = losses[1] - losses[0]
    nll = float(losses[0].mean()), float(losses[1].mean())
    change = HeldOutChange(nodes, nll, float(gain.std() / len(gain) ** 0.5))
    if not is_of_classes:
        return change
    ece = float(calibration_error(shown[0], labels)), float(calibration_error(shown[1], labels))
    if ece[1] <= ece[0]:
        return change
    generator = torch.Generator().manual_seed(0)
    few = torch.randperm(len(rows), generator=generator)[:NODES]
    rises = torch.empty(RESAMPLES)
    for i in range(RESAMPLES):
        part = few[torch.randint(len(few), (len(few),), generator=generator)].to(rows.device)
        errors = [calibration_error(p[part], labels[part]) for p in shown]
        rises[i] = errors[1] - errors[0]
    return change._replace(ece=ece) if float(rises.quantile(CHANCE)) > 0.0 else change


def find_best_uncertainty(answer: Predictive, labels: Tensor) -> str | None:
    """The uncertainty with the highest AUROC for errors; ``None`` where too few nodes tell."""
    right = int((answer.predicted == labels).sum())
    if min(right, len(labels) - right) < FEWEST_ERRORS:
        return None
    found = {name: error_auroc(answer, labels, name) or 0.0 for name in UNCERTAINTIES}
    return max(found, key=lambda name: found[name])


def choose_set_nodes(
    answers: Answers, rows: Tensor, targets: Tensor, *, held_out: bool
) -> SetNodes:
    """Choose the nodes by which the prediction sets of a model are calibrated.

    Args:
        answers: what the network answers.
        rows: the labelled nodes that there are for it.
        targets: of all nodes of the graph.
        held_out: whether the nodes were used for nothing else.
    """
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:MOST_SET_NODES]
    rows = rows[order.sort().values.to(rows.device)]
    answer = answers.predict(rows)
    calibrated = answer.calibrated is not None
    return SetNodes(rows, targets[rows], answer.probabilities, held_out, calibrated)
