"""What the figures of a report say, in words: a sentence for each section and run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor
from torch_geometric.data import Data

from graphdrop.data.edges import adjusted_homophily
from graphdrop.data.names import Names
from graphdrop.metrics.registry import metrics_by_name
from graphdrop.report.answered import rare_views, refusal, set_figures
from graphdrop.report.collect import COVERAGE, Evidence, Numbers, RunEvidence

CLEAR = 2.0
"""A difference of so many standard errors is not put down to chance."""
HINT, GOOD_HINT = 0.1, 0.4
"""Adjusted homophily from which on labels of neighbours tell something, and much."""
TIE = 0.01
"""Simple models whose scores are closer than this are called alike."""
MEET = 0.1
"""Wrong nodes whose neighbours share their label so much less often lie where classes meet."""
COLLAPSED = 0.1
"""Where so little of the first hidden layer's distance is left, nodes have become alike."""


def conclusions(
    runs: Sequence[RunEvidence], names: Sequence[str], data: Data
) -> dict[str, list[str]]:
    """The sentences of every section of the page, by the section's name.

    Args:
        runs: the results of `collect`.
        names: what the page calls them.
        data: their graph.
    """
    pairs = list(zip(names, runs, strict=True))
    groups = _by_baselines(pairs)
    found = {
        "summary": [compare_features(pairs), _summary(pairs, data)],
        "baselines": [_baselines(group) for group in groups],
        "graph": [
            _edges(data),
            *(_neighbours_means(group, alone=len(groups) == 1) for group in groups),
            *(_neighbours(name, run, data) for name, run in pairs),
        ],
        "edges": [f"{name}: {run.edges.summary()}" for name, run in pairs if run.edges is not None],
        "selective": [_refusal(name, run, data) for name, run in pairs],
        "sets": [_sets(name, run, data) for name, run in pairs],
        "ranking": [text for name, run in pairs for text in _rare(name, run, data)],
        "calibration": [_calibration(name, run, data) for name, run in pairs],
        "training": [_training(name, run) for name, run in pairs],
        "smoothing": [_smoothing(name, run) for name, run in pairs],
    }
    return {section: [text for text in texts if text] for section, texts in found.items()}


def compare_features(pairs: Sequence[tuple[str, Evidence]]) -> str:
    """Say that runs were given other features, where they were."""
    if len({run.data_sha256 for _, run in pairs}) == 1:
        return ""
    listed = ", ".join(f"{name} {run.num_features:,}" for name, run in pairs)
    return (
        "The runs have the same nodes, edges, labels and split, but not the same features: their "
        f"numbers of features are {listed}."
    )


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _summary(pairs: Sequence[tuple[str, RunEvidence]], data: Data) -> str:
    test = data.test_mask
    labels = data.y[test]
    count = len(labels)
    order = sorted(pairs, key=lambda pair: -pair[1].scores["accuracy"])
    name, best = order[0]
    accuracy = best.scores["accuracy"]
    if len(order) == 1:
        known = data.y[data.train_mask]
        most = int(known[known >= 0].bincount().argmax()) if bool((known >= 0).any()) else 0
        share = float((labels == most).double().mean())
        return (
            f"{name} classifies {_share(accuracy)} of the {count:,} test nodes correctly; always "
            f"naming the most frequent class of the training nodes would reach {_share(share)}."
        )
    other, second = order[1]
    if bool((best.decided == data.y)[test].sum() == (second.decided == data.y)[test].sum()):
        return (
            f"{name} and {other} are equally accurate: both classify {_share(accuracy)} of the "
            f"{count:,} test nodes correctly."
        )
    better, worse = ((run.decided == data.y)[test].double() for run in (best, second))
    difference = float((better - worse).mean())
    error = float((better - worse).var(correction=0).sqrt()) / math.sqrt(count)
    if abs(difference) <= CLEAR * error:
        verdict = "a difference that chance explains"
    else:
        verdict = "more than the chance of which nodes are tested explains"
    return (
        f"{name} is the most accurate, with {_share(accuracy)} of the {count:,} test nodes right, "
        f"{100 * difference:.1f} points (standard error {100 * error:.1f}) above {other}, "
        f"{verdict}."
    )


def _by_baselines(
    pairs: Sequence[tuple[str, RunEvidence]],
) -> list[list[tuple[str, RunEvidence]]]:
    """The runs with simple models, in groups whose simple models have the same scores."""
    groups: dict[str, list[tuple[str, RunEvidence]]] = {}
    for name, run in pairs:
        if run.baselines:
            metric = _compared(run)
            scores = {kind: found["test"].get(metric) for kind, found in run.baselines.items()}
            shown = {kind: score and f"{score:.3f}" for kind, score in scores.items()}
            groups.setdefault(repr(shown), []).append((name, run))
    return list(groups.values())


def _compared(run: RunEvidence) -> str:
    """The name of the metric by which simple models are compared with a run."""
    return "auroc" if "auroc" in run.scores else "accuracy"


def _baselines(group: Sequence[tuple[str, RunEvidence]]) -> str:
    """How simple models do on the same test nodes as runs."""
    (_, first), *_ = group
    metric = _compared(first)
    title = metrics_by_name()[metric].title
    others = {
        name: parts["test"][metric]
        for name, parts in first.baselines.items()
        if metric in parts["test"]
    }
    if not others:
        return ""
    listed = "; ".join(f"{n} {value:.3f}" for n, value in others.items())
    reached = ", ".join(f"{name} reaches {run.scores[metric]:.3f}" for name, run in group)
    return f"Simple models on the same split, by test {title}: {listed}. {reached}."


def _same_label(data: Data) -> tuple[Tensor, Tensor]:
    """Ends of edges between labelled nodes, and whether both have the same label."""
    source, destination = data.edge_index
    known = (data.y[source] >= 0) & (data.y[destination] >= 0) & (source != destination)
    ends = destination[known]
    return ends, data.y[source[known]] == data.y[ends]


def _edges(data: Data) -> str:
    _, same = _same_label(data)
    adjusted, _ = adjusted_homophily(data.edge_index, data.y, int(data.y.max()) + 1)
    if adjusted is None:
        return "No edges join labelled nodes of several classes: their labels tell nothing here."
    if adjusted >= GOOD_HINT:
        what = "the labels of neighbours are a good hint"
    elif adjusted >= HINT:
        what = "the labels of neighbours are a hint"
    elif adjusted <= -HINT:
        what = "neighbours tend to have other labels"
    else:
        what = "the labels of neighbours tell little, though their features may help"
    return (
        f"{_share(float(same.double().mean()))} of the edges join two nodes of one label. The "
        f"homophily, adjusted for the sizes of the classes, is {adjusted:.2f} (0: as by chance, "
        f"1: all edges inside classes): {what}."
    )


def _neighbours_means(group: Sequence[tuple[str, RunEvidence]], *, alone: bool) -> str:
    """Whether neighbours' features help the simple models of runs; empty where none was fitted.

    The runs are named unless they are `alone`, which is to say that others have the same features.
    """
    (_, run), *_ = group
    metric = _compared(run)
    own, around = (
        run.baselines.get(f"logistic regression{which}", {}).get("test", {}).get(metric)
        for which in ("", ", neighbours")
    )
    if own is None or around is None:
        return ""
    if abs(around - own) < TIE:
        verdict = "the features of neighbours make little difference"
    else:
        verdict = f"the features of neighbours {'help' if around > own else 'do not help'}"
    whose = "A" if alone else f"With the features of {', '.join(name for name, _ in group)} a"
    return (
        f"{whose} logistic regression reaches a test {metrics_by_name()[metric].title} of "
        f"{own:.3f} on a node's own features and {around:.3f} with the means of its neighbours' "
        f"features added: {verdict}."
    )


def _neighbours(name: str, run: RunEvidence, data: Data) -> str:
    ends, same = _same_label(data)
    nodes = len(data.y)
    total, alike = (ends.bincount(weights, nodes) for weights in (None, same.double()))
    test = data.test_mask & (total > 0)
    right = run.decided == data.y
    groups = [alike[rows] / total[rows] for rows in (test & ~right, test & right)]
    if not all(len(group) for group in groups):
        return ""
    wrong_share, right_share = (float(group.mean()) for group in groups)
    where = ": errors lie where classes meet" if wrong_share < right_share - MEET else ""
    return (
        f"{name}: a test node that is answered wrongly shares its label with {_share(wrong_share)} "
        f"of its neighbours on average, one that is answered rightly with "
        f"{_share(right_share)}{where}."
    )


def _refusal(name: str, run: RunEvidence, data: Data) -> str:
    rule, trust = refusal(run, data), run.trust
    count = rule.answered + rule.refused
    nodes = "validation nodes" if trust.chosen_on == "validation" else "nodes"
    says = (
        f"{name} refuses where the {trust.title} is above "
        f"{trust.threshold:.3g}, which keeps {100 * trust.coverage:.0f} % of the {nodes}"
    )
    for limit in trust.rare:
        says += (
            ", and answers of another class where the probability of the rare class "
            f"{Names.of(data).label(limit.label)} is {limit.probability:.3g} or more"
        )
    if not rule.answered or not rule.refused:
        done = "all" if rule.answered else "none"
        return f"{says}: it answers {done} of the {count:,} test nodes."
    accuracy, all_right = rule.right / rule.answered, run.scores["accuracy"]
    wrong = rule.refused_wrong / rule.refused
    worth = "" if wrong > 1 - accuracy else ", no more than of the others: refusing does not help"
    return (
        f"{says}: it answers {_share(rule.answered / count)} of the test nodes and gets "
        f"{_share(accuracy)} of these right, against {_share(all_right)} of all; of the answers "
        f"refused {_share(wrong)} are wrong{worth}."
    )


def _sets(name: str, run: RunEvidence, data: Data) -> str:
    figures = set_figures(run, data)
    if figures is None or run.sets is None:
        return f"{name} carries no calibration nodes, so it has no sets."
    known = run.prediction.origin.set_nodes
    calibrated_on = len(known.nodes) if known is not None else 1
    tested = int(data.test_mask.sum())
    in_time = (
        " The split is by time, so this coverage is not guaranteed: the calibration nodes are "
        "older than the test nodes." * bool(run.config.data.split_by_time)
    )
    error = math.sqrt(COVERAGE * (1 - COVERAGE) * (1 / tested + 1 / calibrated_on))
    off = figures.held - COVERAGE
    if abs(off) <= CLEAR * error:
        kept = "as often as they should, within chance"
    else:
        kept = "less often than they should" if off < 0 else "more often than they need to"
    return (
        f"{name}: the {100 * COVERAGE:.0f} % sets hold the true class of {_share(figures.held)} of "
        f"the test nodes, {kept}, and name {figures.size:.2f} classes on average; "
        f"{_share(figures.counts[0] / tested)} of them name one class only.{in_time}"
    )


def _rare(name: str, run: RunEvidence, data: Data) -> list[str]:
    """A sentence for each rare class."""
    names, texts = Names.of(data), []
    for view in rare_views(run, data):
        label, found = names.label(view.label), view.figures
        text = (
            f"{name}: {_share(found.nodes / found.of)} of the test nodes are of the rare class "
            f"{label}. The {found.budget:,} nodes with its highest probability hold "
            f"{_share(found.recall)} of them; the average precision is "
            f"{found.average_precision:.3f}, where chance gives {found.nodes / found.of:.3f}."
        )
        if found.threshold is not None:
            share = _share(found.flagged_recall or 0.0)
            text += (
                f" From a probability of {found.threshold:.3f} on, which the ratio of costs asks "
                f"for, {found.flagged:,} nodes are flagged, with {share} of the class."
            )
        text += (
            f" The run trusts {_share(view.trusted / found.nodes)} of the class's nodes as nodes "
            "of another class."
        )
        texts.append(text)
    return texts


def _calibration(name: str, run: RunEvidence, data: Data) -> str:
    test = data.test_mask
    right = (run.decided == data.y)[test].double()
    confidence = float(run.prediction.probabilities[test].amax(1).mean())
    accuracy, ece = float(right.mean()), run.scores["ece"]
    error = math.sqrt(max(accuracy * (1 - accuracy), 1e-12) / len(right))
    gap = confidence - accuracy
    says = (
        f"{name} claims a confidence of {_share(confidence)} on average and gets "
        f"{_share(accuracy)} of the test nodes right: "
    )
    if abs(gap) <= CLEAR * error:
        says += "on the whole neither too sure nor too cautious"
    else:
        says += "too sure" if gap > 0 else "too cautious"
    says += f"; its calibration error is {_share(ece)}"
    if run.floor is not None and run.floor_high is not None:
        more = "no more than" if ece <= run.floor_high else "more than"
        chance = f"about {_share(run.floor)}, up to {_share(run.floor_high)}"
        says += f", {more} chance explains ({chance})"
    if run.uncalibrated is None:
        return says + ", and it is not calibrated."
    before = run.uncalibrated["ece"]
    return says + f"; before calibration it was {_share(before)}."


def _training(name: str, run: RunEvidence) -> str:
    course = run.training
    if not course["evaluated"]:
        return f"{name} has no record of its training."
    last = course["epoch"][-1]
    says = f"{name} was selected after epoch {run.selected_epoch} of {last}"
    if run.selected_epoch in course["evaluated"]:
        at = course["evaluated"].index(run.selected_epoch)
        says += f", with a validation accuracy of {_share(course['accuracy'][at])}"
    if run.selected_epoch == course["evaluated"][-1] and last == run.config.train.epochs:
        says += ", the last one: longer training might help"
    until = sum(epoch <= run.selected_epoch for epoch in course["evaluated"])
    moved = [_moved(number, rates[:until]) for number, rates in enumerate(course["drop_rates"], 1)]
    if any(moved):
        says += "; until then the drop rate went " + ", ".join(text for text in moved if text)
    return says + "."


def _moved(layer: int, rates: Sequence[float | None]) -> str:
    """How the drop rate of a layer changed; nothing if it did not."""
    known = [rate for rate in rates if rate is not None]
    if not known or abs(known[-1] - known[0]) < 0.005:
        return ""
    return f"from {known[0]:.2f} to {known[-1]:.2f} in layer {layer}"


def _smoothing(name: str, run: RunEvidence) -> str:
    values: Numbers = run.smoothing.get("mean average distance", [])
    known = [value for value in values if value is not None]
    if not known:
        return ""
    if len(known) == 1 or not known[0]:
        return (
            f"{name}: the mean average distance of neighbours is {known[0]:.3f} after the first "
            "hidden layer; over-smoothing shows only where further layers follow."
        )
    first, last = known[0], known[-1]
    if last < COLLAPSED * first:
        verdict = "neighbours have become nearly alike, which is over-smoothing"
    elif last < first:
        verdict = "neighbours grow more alike and stay apart"
    else:
        verdict = "no sign of over-smoothing"
    return (
        f"{name}: the mean average distance of neighbours is {first:.3f} after the first hidden "
        f"layer and {last:.3f} after the last: {verdict}."
    )
