"""`Predictive`: the predictive distribution over classes, and its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from graphdrop.inference import energies
from graphdrop.inference.calibrator import Calibrator, Surroundings
from graphdrop.inference.origin import Origin, RawOutputs
from graphdrop.inference.running_sums import Histogram, Moments, error_divisor
from graphdrop.inference.sets import PredictionSets, prediction_sets
from graphdrop.inference.uncertainty import Uncertainty
from graphdrop.metrics.ranking import rare_classes

if TYPE_CHECKING:
    import pandas
    from torch_geometric.data import Data

    from graphdrop.sampling import RankedEdges


SHOWN = 5
"""The number of nodes in a notebook table."""


@dataclass(frozen=True, eq=False, repr=False)
class Predictive(Uncertainty):
    """Predictive distribution over classes for every node, estimated by Monte Carlo samples.

    ``graphdrop.predict`` returns it. ``entropy`` is the total uncertainty; ``expected_entropy`` its
    aleatoric part and ``epistemic``, the mutual information, the remainder.

    Example:
        >>> probabilities = torch.tensor([[0.75, 0.25], [0.5, 0.5]])
        >>> votes = torch.tensor([[3, 1], [2, 2]])
        >>> answer = Predictive(probabilities, votes, torch.zeros(2), torch.zeros(2, 2), samples=4)
        >>> answer.predicted.tolist(), answer.most_uncertain(1).tolist()
        ([0, 0], [1])
    """

    probabilities: Tensor
    """Mean of the samples' softmax, ``[nodes, classes]``."""
    votes: Tensor
    """How many samples chose each class, ``[nodes, classes]``."""
    expected_entropy: Tensor
    """Mean entropy of a sample, in nats, ``[nodes]``: the aleatoric part."""
    deviation: Tensor
    """Standard deviation of a class's probability between samples, ``[nodes, classes]``."""
    samples: int
    _histogram: Tensor | None = None
    decision: Literal["vote", "mean"] = "mean"
    """Whether ``predicted`` is the majority vote of the samples or the highest mean probability."""
    calibrated: Literal["samples", "mean"] | None = None
    """Whether the samples were calibrated, or only their mean; ``None`` if neither was."""
    spread: float = 1.0
    """The factor by which the calibrator moved samples from their mean: ``deviation``
    is that of the moved samples, and the error of their mean stays what it was."""
    reject_by: str | None = None
    """The uncertainty by which ``reject`` decides unless told otherwise."""
    origin: Origin = field(default_factory=Origin)
    """The graph, raw outputs and calibration nodes, as far as they are known."""

    @staticmethod
    @torch.no_grad()
    def from_logits(
        logits: Tensor, data: Data | None = None, calibrator: Calibrator | None = None
    ) -> Predictive:
        """The prediction that logits of any model make, calibrated if you like.

        Args:
            logits: ``[nodes, classes]``, or of several samples ``[samples, nodes, classes]``, of
                all nodes of the graph.
            data: the graph, for calibrators, sets and energies that read it.
            calibrator: what ``calibrate`` fitted; it corrects every sample.

        Example:
            >>> answer = Predictive.from_logits(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
            >>> answer.predicted.tolist()
            [0, 1]
        """
        outputs = logits.detach() if logits.dim() == 3 else logits.detach()[None]
        raw, origin = RawOutputs(), Origin() if data is None else Origin.of(data)
        corrected = list(raw.record(iter(outputs)))
        if calibrator is not None:
            reads_graph = calibrator.reads_graph
            graph = Surroundings.of(data, outputs.double().mean(0)) if reads_graph else None
            correct = calibrator.corrector(lambda: iter(outputs), graph)
            corrected = [correct(sample) for sample in outputs]
        summary = ClassSummary(corrected[0], intervals=False)
        summary.add(corrected)
        made: Literal["samples"] | None = None if calibrator is None else "samples"
        spread = 1.0 if calibrator is None else calibrator.spread
        return replace(summary.finish(), calibrated=made, spread=spread, origin=raw.add_to(origin))

    @property
    def predicted(self) -> Tensor:
        """The predicted class by ``decision``, ``[nodes]``."""
        return self.vote if self.decision == "vote" else self.classes

    @property
    def is_finite(self) -> bool:
        """Whether every probability is a number."""
        return bool(torch.isfinite(self.probabilities).all())

    @property
    def classes(self) -> Tensor:
        """The class of highest mean probability, ``[nodes]``."""
        return self.probabilities.argmax(1)

    @property
    def vote(self) -> Tensor:
        """The class that most samples chose; ties go to the higher mean probability."""
        return (self.votes.double() + 0.5 * self.probabilities.double()).argmax(1)

    @property
    def rare_classes(self) -> tuple[int, ...]:
        """The classes that are rare among the labelled training nodes, where these are known.

        Such a class has less than 10 % of them, and less than half of an equal share.
        """
        return rare_classes(self.origin.class_counts)

    @property
    def standard_error(self) -> Tensor:
        """Monte Carlo standard error of each probability, ``[nodes, classes]``.

        It is how far ``probabilities`` would differ with other samples of the same network: the
        deviation between samples over the square root of their number; to first order where the
        calibrator reads the mean of the samples. ``nan`` where it is unknown: of one pass, and of
        a mean that was calibrated after averaging.

        Example:
            >>> answer = Predictive.from_logits(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]))
            >>> [round(error, 3) for error in answer.standard_error[0].tolist()]
            [0.231, 0.231]
        """
        return self.deviation / self.spread / error_divisor(self.samples)

    @property
    def near_another_class(self) -> Tensor:
        """Whether other samples could well give a node another class, as bools ``[nodes]``.

        They could if another class is as likely as the predicted one once both probabilities are
        changed by two standard errors.
        """
        reach, chosen = 2.0 * self.standard_error, self.predicted[:, None]
        lowest = (self.probabilities - reach).gather(1, chosen)
        return (self.probabilities + reach > lowest).scatter(1, chosen, value=False).any(1)

    @property
    def entropy(self) -> Tensor:
        """Entropy of the mean distribution, in nats, ``[nodes]``: the whole uncertainty."""
        entropy: Tensor = torch.special.entr(self.probabilities).sum(1)
        return entropy

    @property
    def least_confidence(self) -> Tensor:
        """One minus the highest mean probability, ``[nodes]``."""
        return 1.0 - self.probabilities.amax(1)

    @property
    def energy(self) -> Tensor:
        """The energy score over the graph, ``[nodes]``: higher is more out of distribution.

        ``graphdrop.energy`` has its parts, and the energy of a prediction of some rows only.
        """
        return energies.energy(self)

    @property
    def vacuity(self) -> Tensor:
        """The lack of Dirichlet evidence, ``[nodes]``: higher is more out of distribution."""
        return energies.vacuity(self)

    def sets(
        self,
        coverage: float = 0.9,
        method: str | None = None,
        *,
        calibration: tuple[Tensor, Tensor] | None = None,
        by_class: bool | None = None,
        seed: int = 0,
    ) -> PredictionSets:
        r"""Conformal prediction: for every node a set of classes that holds the true one.

        A class is in the set of a node if its score is at most the
        :math:`\lceil (m + 1) \cdot coverage \rceil`-th smallest score of the true classes of the
        :math:`m` calibration nodes. If these are exchangeable with the others and were used for
        nothing else, sets hold the true class with at least this probability, whatever the model.
        Where no class is in the set of a node, the predicted class stands in.

        Args:
            coverage: how often a set should hold the true class.
            method: ``"lac"``, ``"aps"`` (randomized), ``"daps"`` (APS, half of it averaged over
                neighbors) or ``"snaps"`` (also over the 20 nodes of most similar features, a third
                each). The last two take a prediction of all nodes. By default ``"lac"`` by class,
                whose sets are then the smaller ones, and ``"aps"`` otherwise.
            calibration: the calibration nodes, by number or as a bool mask, and their labels. By
                default those that the model carries: set aside by ``data.calibration``, or else the
                validation nodes, with sets marked ``approximate``.
            by_class: class-conditional (Mondrian) coverage: of the nodes of every class by itself.
                A class with too few calibration nodes is then in every set (``always``). By default
                where a class is rare (``rare_classes``), which sets over all nodes may leave out.
            seed: of the random part of APS; the same seed gives the same sets.

        Example:
            >>> answer = Predictive.from_logits(torch.tensor([[4.0, 0.0]]).repeat(20, 1))
            >>> rows, labels = torch.arange(19), torch.zeros(19, dtype=torch.long)
            >>> answer.sets(0.9, "lac", calibration=(rows, labels)).classes(19)
            [0]
        """
        return prediction_sets(
            self.probabilities,
            self.predicted,
            self.origin,
            coverage,
            method,
            calibration=calibration,
            by_class=bool(self.rare_classes) if by_class is None else by_class,
            calibrated=self.calibrated is not None,
            seed=seed,
        )

    def most_uncertain(self, k: int = 10, by: str = "entropy") -> Tensor:
        """The ``k`` nodes whose prediction is the least certain, the least certain first."""
        if k < 0:
            raise ValueError(f"k is {k}; it takes a number of nodes, 0 or more")
        uncertainty: Tensor = getattr(self, by)
        return uncertainty.argsort(descending=True, stable=True)[:k]

    @property
    def edges(self) -> RankedEdges:
        """The edges of the graph, the least trusted first, of a model with fitted rates per edge.

        They are computed when they are asked for.
        """
        if self.origin.rank_edges is None:
            raise ValueError(
                "edges are ranked for a model with fitted rates per edge and for one whole graph: "
                'train with Config(model={"edges": "fitted"}), and call predict(model, data)'
            )
        return self.origin.rank_edges()

    def to_pandas(self) -> pandas.DataFrame:
        """A table with a row for every node: class, probabilities, entropy and its parts.

        Nodes and classes have their names where the data carries them (``data.names``). A
        prediction of all nodes of a table has the order of its rows; one of some ``rows`` theirs.
        """
        import pandas  # noqa: PLC0415 - it takes half a second

        origin, names = self.origin, self.origin.names
        chosen, labels = self.predicted.tolist(), range(self.probabilities.shape[1])
        columns = {
            "predicted": list(map(names.label, chosen)) if names.classes else self.predicted,
            **{f"probability_{names.label(c)}": self.probabilities[:, c] for c in labels},
            **{f"standard_error_{names.label(c)}": self.standard_error[:, c] for c in labels},
            "entropy": self.entropy,
            "expected_entropy": self.expected_entropy,
            "mutual_information": self.epistemic,
        }
        ids = [origin.node(row) for row in range(len(chosen))] if names.ids else None
        made = pandas.DataFrame(
            {name: c.cpu().numpy() if isinstance(c, Tensor) else c for name, c in columns.items()},
            index=None if ids is None else pandas.Index(ids, name="id"),
        )
        if origin.rows is not None or names.order is None:
            return made
        ordered = made.iloc[names.order.tolist()]
        return ordered if names.ids else ordered.reset_index(drop=True)

    def __repr__(self) -> str:
        nodes, classes = self.probabilities.shape
        error = self.largest_error
        return (
            f"Predictive({nodes} nodes, {classes} classes, samples={self.samples}, "
            f"{'' if math.isnan(error) else f'largest standard error {error:.3f}, '}"
            f"{'calibrated' if self.calibrated else 'not calibrated'}, "
            f"mean confidence {float(self.probabilities.amax(1).mean()):.3f}, "
            f"mean entropy {float(self.entropy.mean()):.3f} nats)"
        )

    def _repr_html_(self) -> str:
        """The predictions of the least certain nodes as a table, for a notebook."""
        origin, highest = self.origin, self.probabilities.amax(1)
        rows = "".join(
            f"<tr><td>{escape(origin.node(node))}</td>"
            f"<td>{escape(origin.names.label(int(self.predicted[node])))}</td>"
            f"<td>{float(highest[node]):.3f}</td><td>{float(self.entropy[node]):.3f}</td></tr>"
            for node in self.most_uncertain(SHOWN).tolist()
        )
        return (
            f"<p><code>{escape(repr(self))}</code></p><p>The least certain nodes:</p>"
            "<table><thead><tr><th>node</th><th>class</th><th>probability</th><th>entropy</th></tr>"
            f"</thead><tbody>{rows}</tbody></table>"
        )


class ClassSummary:
    """Running sums of the samples' softmax, with classes in the first dimension."""

    def __init__(self, first: Tensor, intervals: bool) -> None:
        """Start with the shape of the logits ``[nodes, classes]`` of the first sample."""
        if first.dim() != 2 or first.shape[1] < 2:
            raise ValueError(
                f"the output has shape {tuple(first.shape)}, but output='classes' takes "
                "[nodes, classes] with two classes or more: say output='labels' for a yes or no "
                "in every entry, output='gaussian' for numbers"
            )
        self.moments = Moments(torch.softmax(first.t().contiguous().double(), 0))
        self.entropy = torch.zeros_like(self.moments.origin[0])
        self.votes = torch.zeros_like(self.moments.origin, dtype=torch.int32)
        self.histogram = Histogram(self.votes) if intervals else None

    def add(self, outputs: Sequence[Tensor]) -> None:
        """Add the logits ``[nodes, classes]`` of several samples."""
        logits = torch.stack([sample.t() for sample in outputs])
        log_probabilities = torch.log_softmax(logits.double(), 1)
        probabilities = log_probabilities.exp()
        self.entropy -= (probabilities * log_probabilities).sum((0, 1))
        if self.histogram is not None:
            self.histogram.add(probabilities)
        chosen = logits == logits.amax(1, keepdim=True)
        if int(chosen.sum()) > logits[:, 0].numel():  # a tie: the first class
            chosen &= chosen.cumsum(1) == 1
        self.votes += chosen.sum(0, dtype=torch.int32)
        self.moments.add(probabilities)

    def finish(self) -> Predictive:
        """The prediction from all samples."""
        count = self.moments.count
        return Predictive(
            self.moments.mean.float().t().contiguous(),
            self.votes.t().contiguous(),
            (self.entropy / count).float(),
            self.moments.deviation.float().t().contiguous(),
            count,
            None if self.histogram is None else self.histogram.counts.transpose(0, 1),
        )
