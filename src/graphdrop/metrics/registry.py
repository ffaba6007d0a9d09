"""The metrics of a prediction: a registry with one entry per metric, and `score`.

Results, records of runs, tables in the terminal and the report read the registry. To add a metric,
write its function and add one entry here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from torch import Tensor

from graphdrop.config import Config
from graphdrop.metrics.calibration import calibration_error
from graphdrop.metrics.pavpu import pavpu
from graphdrop.metrics.ranking import RareFigures, ood_auroc, rare_figures
from graphdrop.metrics.scoring import (
    accuracy,
    as_columns,
    brier_score,
    gaussian_nll,
    interval_coverage,
    interval_width,
    label_accuracy,
    label_nll,
    macro_f1,
    micro_f1,
    nll,
    per_class_recall,
    r_squared,
    root_mean_square_error,
)
from graphdrop.metrics.selective import aurc

Output = Literal["classes", "labels", "gaussian"]
"""How ``predict`` reads the outputs of a network."""

PAVPU_THRESHOLD = 0.5
"""A prediction counts as certain up to this fraction of the largest entropy."""


@dataclass(frozen=True)
class ScoreMetric:
    """One metric of a prediction: how it is computed, stored and shown.

    Args:
        name: the key in `result.json` and in records of runs.
        title: the heading of its column in tables.
        compute: takes a prediction, the targets of its rows and the settings; returns a number, or
            ``None`` where the metric is undefined, which leaves it out.
        higher_is_better: which of two runs is better; decides the mark in the report.
        percent: whether tables may show it in percent.
        digits: decimals in tables.
        shown: whether it has a column in the tables of `train`, `evaluate` and `demo` and in the
            report; it is stored in any case.
        help: one sentence for readers of the report: what it is; and which values are good.

    Example:
        >>> wrong = lambda p, y, config: float((p.predicted != y).double().mean())
        >>> ScoreMetric("error", "error rate", wrong, percent=True).label
        'error rate (%)'
    """

    name: str
    title: str
    compute: Callable[[Any, Tensor, Config], float | None]
    higher_is_better: bool = False
    percent: bool = False
    digits: int = 3
    shown: bool = True
    help: str = ""

    @property
    def label(self) -> str:
        """The heading of a column in percent, if the metric is shown in percent."""
        return f"{self.title} (%)" if self.percent else self.title


class Scores(dict[str, float]):
    """The metrics of one prediction by name, also as attributes: `scores["nll"]`, `scores.nll`."""

    def __getattr__(self, name: str) -> float:
        if name in self:
            return self[name]
        raise AttributeError(f"{name!r} is not a score; these are: {', '.join(self)}")

    def shown(self) -> dict[str, float]:
        """The values that tables show, by the heading of their column, in the registry's order."""
        known = metrics_by_name()
        return {
            known[name].title: value
            for name, value in self.items()
            if name in known and known[name].shown
        }


def error_auroc(prediction: Any, labels: Tensor, by: str) -> float | None:
    """How well an uncertainty finds the errors: its AUROC; `None` where all or none are right.

    The chance that of a wrong and a right prediction the wrong one is the more uncertain.
    """
    wrong = prediction.predicted != labels
    if bool(wrong.all()) or not bool(wrong.any()):
        return None
    return float(ood_auroc(getattr(prediction, by), wrong))


def _binary_auroc(prediction: Any, labels: Tensor, _: Config) -> float | None:
    """Area under the ROC curve of two classes, the second one as the positive."""
    positive = labels == 1
    if prediction.probabilities.shape[1] != 2 or bool(positive.all()) or not bool(positive.any()):
        return None
    return float(ood_auroc(prediction.probabilities[:, 1], positive))


def find_rare_classes(prediction: Any, labels: Tensor, config: Config) -> dict[int, RareFigures]:
    """How well each rare class is found, by class; without those that no node here is of."""
    settings = config.predict
    found = {
        label: rare_figures(
            prediction.probabilities[:, label],
            labels == label,
            settings.budget,
            settings.cost_ratio,
        )
        for label in prediction.rare_classes
    }
    return {label: figures for label, figures in found.items() if figures is not None}


def _rare_mean(field: str) -> Callable[[Any, Tensor, Config], float | None]:
    """A metric that is the mean of a figure over the rare classes; ``None`` without one."""

    def compute(prediction: Any, labels: Tensor, config: Config) -> float | None:
        found = find_rare_classes(prediction, labels, config).values()
        return fmean(getattr(figures, field) for figures in found) if found else None

    return compute


def _pavpu(prediction: Any, labels: Tensor, config: Config) -> float:  # noqa: ARG001
    certain = pavpu(
        prediction.probabilities, labels, PAVPU_THRESHOLD, predictions=prediction.predicted
    )
    return float(certain.pavpu)


def _aurc(prediction: Any, labels: Tensor, _: Config) -> float:
    return float(aurc(prediction.probabilities, labels, predictions=prediction.predicted))


def _share(
    name: str,
    title: str,
    compute: Callable[[Any, Tensor, Config], float | None],
    *,
    shown: bool = True,
    help: str = "",  # noqa: A002 - the field's name
) -> ScoreMetric:
    """A metric that is a share of nodes: higher is better, and tables show it in percent."""
    return ScoreMetric(
        name, title, compute, higher_is_better=True, percent=True, digits=2, shown=shown, help=help
    )


METRICS: dict[Output, list[ScoreMetric]] = {
    "classes": [
        # The accuracy of the decision that the settings name: the majority vote or the mean.
        _share(
            "accuracy",
            "accuracy",
            lambda p, y, _: accuracy(p.predicted, y),
            help="The share of nodes whose class is right; good is far above what naming the most "
            "frequent class every time would reach.",
        ),
        _share(
            "accuracy_vote", "accuracy by vote", lambda p, y, _: accuracy(p.vote, y), shown=False
        ),
        _share(
            "accuracy_mean", "accuracy by mean", lambda p, y, _: accuracy(p.classes, y), shown=False
        ),
        ScoreMetric(
            "nll",
            "NLL",
            lambda p, y, _: float(nll(p.probabilities, y)),
            help="Negative log-likelihood: minus the mean logarithm of the probability of the true "
            "class; good is low, and a blind guess has log(number of classes).",
        ),
        ScoreMetric(
            "ece",
            "ECE",
            lambda p, y, _: float(calibration_error(p.probabilities, y)),
            percent=True,
            digits=2,
            help="Expected calibration error: how far confidence and accuracy are apart, averaged "
            "over bins of confidence; good is no more than chance alone gives on these nodes.",
        ),
        _share(
            "pavpu",
            "PAvPU",
            _pavpu,
            help="Patch accuracy versus patch uncertainty: the share of nodes that are right and "
            "certain, or wrong and uncertain; good is near 100 % and above the accuracy, which it "
            "is where all nodes count as certain.",
        ),
        ScoreMetric(
            "brier",
            "Brier score",
            lambda p, y, _: float(brier_score(p.probabilities, y)),
            shown=False,
        ),
        ScoreMetric(
            "aurc",
            "AURC",
            _aurc,
            digits=4,
            help="Area under the risk-coverage curve: the error rate of the most certain nodes, "
            "averaged over how many are answered; good is near 0, and an uncertainty that says "
            "nothing gives the error rate of all nodes.",
        ),
        _share(
            "balanced_accuracy",
            "balanced accuracy",
            lambda p, y, _: float(per_class_recall(p.predicted, y).mean()),
            help="The accuracy within each class, averaged over the classes, so that rare ones "
            "count as much; good is close to the accuracy or above it.",
        ),
        ScoreMetric(
            "macro_f1",
            "macro F1",
            lambda p, y, _: macro_f1(p.predicted, y),
            higher_is_better=True,
            help="The harmonic mean of precision and recall of each class, averaged over the "
            "classes; good is near 1, and far below the accuracy means that rare classes are "
            "missed.",
        ),
        ScoreMetric(
            "auroc",
            "AUROC",
            _binary_auroc,
            higher_is_better=True,
            help="The chance that of a node of each class the one of the second class is the more "
            "likely to be called so; good is near 1, and guessing gives 0.5.",
        ),
        ScoreMetric(
            "average_precision",
            "average precision",
            _rare_mean("average_precision"),
            higher_is_better=True,
            help="Of a class with less than 10 % of the training nodes: the mean precision over "
            "the recalls when nodes are looked at in the order of its probability, averaged over "
            "such classes; good is far above the share of the class, which chance gives.",
        ),
        _share(
            "recall_at_budget",
            "recall at budget",
            _rare_mean("recall"),
            help="Of a class with less than 10 % of the training nodes: the share of its nodes "
            "among those that a budget allows to look at (predict.budget, 1 % unless set), the "
            "likeliest first, averaged over such classes; good is far above the budget's share of "
            "all nodes, which chance gives.",
        ),
        ScoreMetric(
            "error_auroc_entropy",
            "AUROC of entropy for errors",
            lambda p, y, _: error_auroc(p, y, "entropy"),
            higher_is_better=True,
            shown=False,
        ),
        ScoreMetric(
            "error_auroc_mutual_information",
            "AUROC of mutual information for errors",
            lambda p, y, _: error_auroc(p, y, "epistemic"),
            higher_is_better=True,
            shown=False,
        ),
    ],
    "labels": [
        _share("accuracy", "accuracy", lambda p, y, _: label_accuracy(p.probabilities, y)),
        ScoreMetric(
            "f1", "F1", lambda p, y, _: micro_f1(p.probabilities, y), higher_is_better=True
        ),
        ScoreMetric("nll", "NLL", lambda p, y, _: label_nll(p.probabilities, y)),
    ],
    "gaussian": [
        ScoreMetric(
            "rmse",
            "RMSE",
            lambda p, y, _: root_mean_square_error(p.mean, y),
            help="Root mean square error, in the unit of the target; good is far below what always "
            "answering the mean of the training nodes would give.",
        ),
        ScoreMetric(
            "mae",
            "MAE",
            lambda p, y, _: float((p.mean - as_columns(y)).double().abs().mean()),
            help="Mean absolute error, in the unit of the target; large errors count less than in "
            "the RMSE.",
        ),
        ScoreMetric(
            "r2",
            "R2",
            lambda p, y, _: r_squared(p.mean, y),
            higher_is_better=True,
            help="The share of the variance of the target that the prediction explains; good is "
            "near 1, and always answering the mean gives 0.",
        ),
        ScoreMetric(
            "nll",
            "NLL",
            lambda p, y, _: float(
                gaussian_nll(p.mean, p.variance.log(), as_columns(y)).double().mean()
            ),
            help="Negative log-likelihood of a Gaussian with the predicted mean and variance; "
            "lower is better, and the unit of the target shifts it.",
        ),
        _share(
            "coverage",
            "coverage of 90 %",
            lambda p, y, _: interval_coverage(p.intervals(0.9), y),
            help="The share of nodes whose number lies in the 90 % interval; good is near 90 %.",
        ),
        ScoreMetric(
            "width",
            "width of 90 %",
            lambda p, _y, _: interval_width(p.intervals(0.9)),
            help="The mean width of the 90 % interval, in the unit of the target; of two runs that "
            "cover alike the narrower is better.",
        ),
    ],
}
"""All metrics, by the kind of output that they score; tables show them in this order."""


def metrics_by_name() -> dict[str, ScoreMetric]:
    """Every metric by its name. A name that several outputs share has the same title in all."""
    return {metric.name: metric for metrics in METRICS.values() for metric in metrics}


def score(
    prediction: Any,
    targets: Tensor,
    config: Config,
    output: Output = "classes",
) -> Scores:
    """Compute every metric of a prediction; `targets` has one row per row of the prediction."""
    found = {m.name: m.compute(prediction, targets, config) for m in METRICS[output]}
    return Scores({name: value for name, value in found.items() if value is not None})
