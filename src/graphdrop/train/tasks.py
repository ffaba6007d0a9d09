"""Tasks: classes, labels, numbers or links, with their likelihood and scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch_geometric.data import Data

from graphdrop.config import Config
from graphdrop.data import Dataset
from graphdrop.data.splits import Split
from graphdrop.inference import GaussianPredictive, LabelPredictive, Predictive
from graphdrop.metrics import nll, registry
from graphdrop.metrics.registry import Output, Scores
from graphdrop.metrics.scoring import (
    accuracy,
    as_columns,
    gaussian_nll,
    label_accuracy,
    label_nll,
    root_mean_square_error,
)

Moments = tuple[Sequence[float], Sequence[float]]
"""The mean and the standard deviation of every target."""


class Task(ABC):
    """What a network predicts: the likelihood of its outputs, and the scores of a prediction."""

    output: Output
    """The kind of outputs, as in ``predict(output=...)``."""
    of_nodes = True
    """Whether the parts of the split are nodes; otherwise they are what ``decode`` returns."""

    def targets(self, data: Data) -> Tensor:
        """The targets, one row per node."""
        targets: Tensor = data.y
        return targets

    def parts(self, split: Split) -> dict[str, Tensor]:
        """The bool masks of train, validation and test over the targets."""
        return {"train": split.train, "validation": split.val, "test": split.test}

    def width(self, data: Data, num_classes: int, hidden: int) -> int:  # noqa: ARG002
        """The number of output columns of a network for this task."""
        return num_classes

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean negative log-likelihood of one pass."""

    def scores(self, answer: Any, targets: Tensor, config: Config) -> Scores:
        """Every metric of a prediction that `METRICS` lists for this kind of output."""
        return registry.score(answer, targets, config, self.output)

    @abstractmethod
    def quality(self, answer: Any, targets: Tensor) -> tuple[float, float]:
        """A score, higher is better, and the negative log-likelihood, for model selection."""

    def balance(self, targets: Tensor) -> Task:  # noqa: ARG002
        """The same task with weights for classes; only `Classes` supports it."""
        raise ValueError(
            f'objective.class_weights is "balanced", but the targets are {self.output}, not '
            'classes: set it to "none"'
        )

    def total_weight(self, targets: Tensor) -> float:
        """The sum of the weights of these targets, by which `loss` divides."""
        return float(len(targets))

    def moments(self, targets: Tensor) -> Moments | None:  # noqa: ARG002
        """By what training targets are standardized: nothing, unless they are numbers."""
        return None

    def decode(self, outputs: Tensor, rows: Tensor | None) -> Tensor:  # noqa: ARG002
        """Outputs of nodes to outputs of targets; ``rows`` selects the targets of one part."""
        return outputs


class Classes(Task):
    """One class out of several for every node: logits ``[nodes, classes]``.

    A network that is trained with weights `w` learns `p(class | node) w(class)`, normalized. The
    loss therefore adds `log w` to the logits before it weights them: the logits themselves, and
    all that is made of them, keep the classes as frequent as they are.

    Args:
        weight: weights of the classes in the cross-entropy, ``[classes]``; equal by default.
    """

    output: Output = "classes"

    def __init__(self, weight: Tensor | None = None) -> None:
        self.weight = weight

    def balance(self, targets: Tensor) -> Task:
        """Classes weighted by the inverse of their number of training nodes."""
        count = targets.bincount().clamp_min(1).float()
        weight = count.sum() / (len(count) * count)
        return Classes(weight)

    def total_weight(self, targets: Tensor) -> float:
        """The number of targets, or the sum of the weights of their classes."""
        if self.weight is None:
            return float(len(targets))
        return float(self.weight.double()[targets.cpu()].sum())

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy; with weights, of the logits plus the logarithms of the weights."""
        if self.weight is None:
            return cross_entropy(outputs, targets)
        rest = outputs.shape[1] - len(self.weight)
        weight = torch.nn.functional.pad(self.weight, (0, rest), value=1.0).to(outputs)
        return cross_entropy(outputs + weight.log(), targets, weight)

    def quality(self, answer: Predictive, targets: Tensor) -> tuple[float, float]:
        """Accuracy and NLL."""
        return accuracy(answer.predicted, targets), float(nll(answer.probabilities, targets))


class Labels(Task):
    """Multi-label classification: several yes-or-no labels per node, logits ``[nodes, labels]``."""

    output: Output = "labels"

    def width(self, data: Data, num_classes: int, hidden: int) -> int:  # noqa: ARG002
        """The number of labels."""
        return int(data.y.shape[1])

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Binary cross-entropy, over all entries."""
        return binary_cross_entropy_with_logits(outputs, targets.to(outputs.dtype))

    def quality(self, answer: LabelPredictive, targets: Tensor) -> tuple[float, float]:
        """Accuracy over all entries and NLL."""
        chance = answer.probabilities
        return label_accuracy(chance, targets), label_nll(chance, targets)


LEAST_LOG_VARIANCE = -14.0
"""The likelihood of numbers rewards no smaller variance, in units of the targets' own: targets that
a network fits exactly would otherwise drive it to zero, and the gradients to infinity."""


class Gaussian(Task):
    """Regression with Gaussian noise: means, then log variances, ``[nodes, 2 * targets]``.

    `Trainer` standardizes the targets by the training nodes, so that the outputs of the network are
    of unit scale; `predict` and all scores are in the unit of the data.
    """

    output: Output = "gaussian"

    def width(self, data: Data, num_classes: int, hidden: int) -> int:  # noqa: ARG002
        """Twice the number of targets."""
        return 2 * as_columns(data.y).shape[1]

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean negative log-likelihood of a Gaussian, the constant included."""
        mean, log_variance = outputs.chunk(2, 1)
        log_variance = log_variance.clamp_min(LEAST_LOG_VARIANCE)
        return gaussian_nll(mean, log_variance, as_columns(targets)).mean()

    def moments(self, targets: Tensor) -> Moments:
        """Mean and standard deviation of every target over the training nodes."""
        columns = as_columns(targets).cpu().double()
        mean, deviation = columns.mean(0), columns.std(0, correction=0)
        constant = deviation <= 1e-7 * columns.abs().amax(0)
        if bool(constant.any()):
            target = int(constant.nonzero()[0])
            which = f"data.y[:, {target}]" if targets.dim() > 1 else "data.y"
            raise ValueError(
                f"{which} is {float(columns[0, target]):g} for all {len(columns)} training nodes: "
                "there is nothing to learn; give a target that differs between nodes"
            )
        return tuple(mean.tolist()), tuple(deviation.tolist())

    def quality(self, answer: GaussianPredictive, targets: Tensor) -> tuple[float, float]:
        """The negative root mean square error, and NLL."""
        nll_of_nodes = gaussian_nll(answer.mean, answer.variance.log(), as_columns(targets))
        return -root_mean_square_error(answer.mean, targets), float(nll_of_nodes.double().mean())


class Links(Labels):
    """Link prediction: the logit of a pair is the inner product of its nodes' embeddings.

    Args:
        pairs: ``[2, links]``, the ends of every pair that has a target.
        exist: ``[links]``, 1 where there is a link and 0 where there is none.
        split: the pairs of training, validation and test, by their numbers.
    """

    of_nodes = False

    def __init__(self, pairs: Tensor, exist: Tensor, split: Split) -> None:
        if pairs.dim() != 2 or pairs.shape[0] != 2 or exist.shape != pairs.shape[1:]:
            raise ValueError(
                f"pairs has shape {tuple(pairs.shape)} and exist {tuple(exist.shape)}; they take "
                "[2, links] and [links]."
            )
        self.pairs, self.exist, self.split = pairs, exist, split

    def targets(self, data: Data) -> Tensor:  # noqa: ARG002
        """Whether each pair is a link."""
        return self.exist

    def parts(self, split: Split) -> dict[str, Tensor]:  # noqa: ARG002
        """The parts of the pairs; the split of nodes is not used."""
        return super().parts(self.split)

    def width(self, data: Data, num_classes: int, hidden: int) -> int:  # noqa: ARG002
        """Embeddings are as wide as hidden layers."""
        return hidden

    def decode(self, outputs: Tensor, rows: Tensor | None) -> Tensor:
        """Embeddings ``[nodes, features]`` to logits ``[links]`` of the pairs of one part."""
        source, destination = self.pairs if rows is None else self.pairs[:, rows]
        return (outputs[source] * outputs[destination]).sum(-1)


def choose_task(dataset: Dataset, config: Config) -> Task:
    """The task of a run for which none was given."""
    return infer_task(dataset.data.y[dataset.split.used], config.data.task)


def infer_task(targets: Tensor, asked: str = "auto") -> Task:
    """The task for these targets, by their type and shape; targets of no part are left out.

    Args:
        targets: of the nodes in some part of the split.
        asked: ``data.task``, which tells numbers that are all 0 or 1 from labels.
    """
    if asked == "numbers":
        return Gaussian()
    check_column(targets)
    if not targets.is_floating_point() and targets.dim() == 1:
        return Classes()
    other = (targets != 0) & (targets != 1)
    if targets.dim() == 2 and not bool(other.any()):
        return Labels()
    if not targets.is_floating_point():
        found = f" and the value {int(targets[other][0])}" if bool(other.any()) else ""
        raise ValueError(
            f"data.y has type {targets.dtype}, {targets.dim()} dimensions{found}: give a class for "
            "each node, [n], or 0 or 1 for each label, [n, labels]; or for numbers data.task = "
            '"numbers", as in Config(data={"task": "numbers"})'
        )
    return Gaussian()


def check_column(targets: Tensor) -> None:
    """Refuse integers in one column, as OGB has them, which may be classes or labels."""
    integer = not targets.is_floating_point() and targets.dtype != torch.bool
    if integer and targets.dim() == 2 and targets.shape[1] == 1:
        raise ValueError(
            f"data.y has shape {tuple(targets.shape)} and type {targets.dtype}: give y.squeeze(1) "
            'for classes, y.bool() for one yes-or-no label, or data.task = "numbers" for numbers'
        )
