"""`graphdrop predict`: the answers of a run for every node, in a table."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer

from graphdrop.cli import output as machine
from graphdrop.cli import tables
from graphdrop.cli.runs import (
    Budget,
    CostRatio,
    Device,
    OwnData,
    Run,
    Samples,
    TableFile,
    describe_samples,
    open_given_run,
)
from graphdrop.cli.sheet import Columns, writer
from graphdrop.io.visible import say

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

    from graphdrop.calibration.refusal import Trust
    from graphdrop.data.names import Names
    from graphdrop.inference import GaussianPredictive, Predictive
    from graphdrop.inference.sets import PredictionSets


def join_classes(classes: Iterable[str]) -> str:
    """Write classes with a vertical bar between them; one with a bar in it is quoted, as in CSV.

    Example:
        >>> join_classes(["a|b", "c"])
        '"a|b"|c'
    """
    line = io.StringIO()
    csv.writer(line, delimiter="|", lineterminator="").writerow(classes)
    return line.getvalue()


def predict(
    run: Run,
    output: TableFile = None,
    *,
    samples: Samples = None,
    dataset: OwnData = None,
    nodes: tables.Nodes = None,
    edges: tables.Edges = None,
    device: Device = "cpu",
    coverage: Annotated[
        float,
        typer.Option(help="The share of the validation nodes to trust, the most certain first."),
    ] = 0.9,
    budget: Budget = None,
    cost_ratio: CostRatio = None,
) -> None:
    """Predict the class or the number of every node with the selected network of a run.

    Writes for each node its id, the predicted class, its probability with the Monte Carlo standard
    error, the classes of a set that should hold the true one 90 % of the time, the entropy of the
    prediction in nats, whether to trust it, its label and part of the split where they are known,
    the mutual information between prediction and network, and the probability of every class with
    its standard error.

    Where a class has less than 10 % of the labelled training nodes, sets cover each class by
    itself, and two columns say which nodes to look at: rank_CLASS orders nodes by the probability
    of the class, those without a label if there are any, and flag_CLASS marks the first of them,
    as many as --budget allows, or those that --cost-ratio asks for.

    Where labels are numbers it writes the id, the value, the ends of its 90 % interval, whether to
    trust it, label and part of the split, the standard deviation, the doubt, which is the part of
    the deviation that comes from the network and not from noise, and the Monte Carlo standard error
    of the value.

    With --dataset, or --nodes and --edges, it predicts another graph with the same columns.
    """
    from graphdrop.calibration.refusal import find_trusted, find_trusted_numbers  # noqa: PLC0415
    from graphdrop.data.names import Names  # noqa: PLC0415 - --help needs no torch
    from graphdrop.inference import predict as infer  # noqa: PLC0415
    from graphdrop.nn.sampled import sampled  # noqa: PLC0415

    if output is None:
        output = run.resolve().with_name(f"{run.resolve().name}-answers.csv")
    write = writer(output)
    opened = open_given_run(run, dataset, nodes, edges, device)
    names = Names.of(opened.data)
    sets, answer, flags = None, cast("Any", None), dict[int, Flags]()
    if opened.numbers:
        answer = infer(opened.model, opened.data, samples, output="gaussian")
        defaults = sampled(opened.model).defaults
        trust = find_trusted_numbers(answer, defaults.deviation_quantiles, coverage)
        columns = _list_columns_of_numbers(answer, opened.data, names, trust)
        calibrated = defaults.calibrator is not None
    else:
        answer = infer(opened.model, opened.data, samples)
        sets = answer.sets(0.9) if answer.origin.set_nodes is not None else None
        ratio = opened.config.predict.cost_ratio if cost_ratio is None else cost_ratio
        trust = find_trusted(answer, coverage, ratio)
        if budget is None and not ratio:
            budget = opened.config.predict.budget
        flags = _flag_nodes(answer, opened.data, budget, ratio)
        columns = _list_columns(answer, opened.data, names, sets, trust, flags=flags)
        calibrated = answer.calibrated is not None
    if names.order is not None:
        order = names.order.tolist()  # the rows of the table
        columns = {name: [cells[node] for node in order] for name, cells in columns.items()}
    write(columns, output)
    count, kept = len(trust.trusted), int(trust.trusted.sum())
    say(f"Wrote {count} nodes to {output}: {kept} to trust, {count - kept} not.")
    settings = opened.config
    by_time, limit = settings.data.split_by_time, settings.predict.standard_error
    fitted = sampled(opened.model).defaults.samples if calibrated else answer.samples
    on_samples = _describe_samples(answer, limit, fitted, numbers=opened.numbers)
    shift = (
        f"This is not the graph of the run: {'calibration and ' if calibrated else ''}coverage may "
        "not transfer. Check them on labelled nodes of this graph."
    )
    notes = [_describe_trust(trust, names), *_describe_flags(flags, names), on_samples]
    notes += [*_describe_sets(sets, names, by_time), "" if opened.same else shift]
    for line in filter(None, notes):
        say(line)
    machine.result(
        output=output,
        nodes=count,
        trusted=kept,
        trust={name: value for name, value in trust._asdict().items() if name != "trusted"},
        sets=None
        if sets is None
        else {
            "coverage": 0.9,
            "approximate": sets.approximate or bool(by_time),
            "by_class": sets.by_class,
            "always": sets.always,
        },
        flagged={names.label(label): sum(map(bool, found.flag)) for label, found in flags.items()},
        calibrated=calibrated,
        samples=answer.samples,
        standard_error=None if math.isnan(answer.largest_error) else answer.largest_error,
        **({} if opened.numbers else {"near_another_class": int(answer.near_another_class.sum())}),
        same_data=opened.same,
        notes=opened.notes,
    )


def _list_columns(
    answer: Predictive,
    data: Data,
    names: Names,
    sets: PredictionSets | None,
    trust: Trust,
    *,
    flags: dict[int, Flags],
) -> Columns:
    predicted, count = answer.predicted, len(answer.probabilities)
    columns: dict[str, list[Any]] = {
        "id": [name if names.ids else int(name) for name in map(names.node, range(count))],
        "predicted": [names.label(i) if names.classes else i for i in predicted.tolist()],
        "probability": answer.probabilities.gather(1, predicted[:, None])[:, 0].tolist(),
    }
    errors = None if math.isnan(answer.largest_error) else answer.standard_error
    if errors is not None:
        columns["standard_error"] = errors.gather(1, predicted[:, None])[:, 0].tolist()
    if sets is not None:
        members = [sets.classes(node) for node in range(count)]
        columns["set_90"] = [join_classes(map(names.label, labels)) for labels in members]
    columns["entropy"] = answer.entropy.tolist()
    columns["trust"] = trust.trusted.tolist()
    for label, found in flags.items():
        columns[f"rank_{names.label(label)}"] = found.rank
        columns[f"flag_{names.label(label)}"] = found.flag
    labels = [] if data.y is None else data.y.tolist()
    if any(label >= 0 for label in labels):
        columns["label"] = [
            (names.label(i) if names.classes else i) if i >= 0 else None for i in labels
        ]
    if (parts := _list_parts(data)) is not None:
        columns["split"] = parts
    columns["mutual_information"] = answer.epistemic.tolist()
    for number, probability in enumerate(answer.probabilities.T.tolist()):
        columns[f"probability_{names.label(number)}"] = probability
        if errors is not None:
            columns[f"standard_error_{names.label(number)}"] = errors[:, number].tolist()
    return columns


def _list_columns_of_numbers(
    answer: GaussianPredictive, data: Data, names: Names, trust: Trust
) -> Columns:
    """A column of each kind for every target; those of several targets are numbered from 1."""
    count, targets = answer.mean.shape
    low, high = answer.intervals(0.9)
    columns: dict[str, list[Any]] = {
        "id": [name if names.ids else int(name) for name in map(names.node, range(count))]
    }

    def add(name: str, values: Tensor) -> None:
        for number, column in enumerate(values.T.tolist(), 1):
            # float32 has seven digits
            cells = [None if math.isnan(cell) else float(f"{cell:.7g}") for cell in column]
            columns[name if targets == 1 else f"{name}_{number}"] = cells

    for name, values in (("value", answer.mean), ("low", low), ("high", high)):
        add(name, values)
    columns["trust"] = trust.trusted.tolist()
    if data.y is not None and not bool(data.y.isnan().all()):
        add("label", data.y.reshape(count, -1).double())
    if (parts := _list_parts(data)) is not None:
        columns["split"] = parts
    add("deviation", answer.deviation)
    add("doubt", answer.epistemic.sqrt())
    if answer.samples > 1:
        add("standard_error", answer.standard_error)
    return columns


class Flags(NamedTuple):
    """Which nodes to look at for a rare class; no rank and flag for nodes whose class is known."""

    rank: list[int | None]
    """1 for the highest probability of the class."""
    flag: list[bool | None]
    ranked: int
    budget: int
    """How many nodes may be flagged."""
    threshold: float
    """From which probability; 0 where there is no ratio of costs."""


def _flag_nodes(
    answer: Predictive, data: Data, budget: str | None, cost_ratio: float
) -> dict[int, Flags]:
    """The nodes to look at for every rare class, by class."""
    import torch  # noqa: PLC0415 - --help needs no torch

    from graphdrop.metrics.ranking import budget_nodes, cost_threshold  # noqa: PLC0415

    count = len(answer.probabilities)
    nodes = torch.arange(count) if data.y is None else (data.y.cpu() < 0).nonzero().flatten()
    if not len(nodes):  # every class is known: rank them all
        nodes = torch.arange(count)
    most = len(nodes) if budget is None else budget_nodes(budget, len(nodes))
    threshold = cost_threshold(cost_ratio) if cost_ratio else 0.0
    found = {}
    for label in answer.rare_classes:
        probability = answer.probabilities[:, label].cpu()
        order = nodes[probability[nodes].argsort(descending=True, stable=True)]
        rank: list[int | None] = [None] * count
        flag: list[bool | None] = [None] * count
        likely = probability[order] >= threshold
        for place, (node, enough) in enumerate(zip(order.tolist(), likely.tolist(), strict=True)):
            rank[node], flag[node] = place + 1, place < most and enough
        found[label] = Flags(rank, flag, len(order), most, threshold)
    return found


def _list_parts(data: Data) -> list[str] | None:
    """The part of the split of every node, empty for none; ``None`` where no node has one."""
    masks = {name: data.get(f"{name}_mask") for name in ("train", "val", "test")}
    if any(mask is None for mask in masks.values()):
        return None
    parts = [""] * len(data.x)
    for name, mask in masks.items():
        for node in mask.nonzero().flatten().tolist():
            parts[node] = name
    return parts if any(parts) else None


REASONS = {
    "coverage": "which {coverage:.0%} of its validation nodes reach",
    "cost": "the threshold of the ratio of costs",
    "share": "its share of the training nodes, since it has too few validation nodes",
}
"""The options that set the limit of a rare class."""


def _describe_trust(trust: Trust, names: Names) -> str:
    if trust.chosen_on == "these":
        text = f"Trusted are the {trust.coverage:.0%} of these nodes with the lowest {trust.title}."
    else:
        right = "" if trust.accuracy is None else f"; of those {trust.accuracy:.0%} were right"
        text = (
            f"Trusted are nodes whose {trust.title} is at most {trust.threshold:.3g}, as it is for "
            f"{trust.coverage:.0%} of the validation nodes{right}."
        )
    for limit in trust.rare:
        text += (
            f" Not trusted is another class where the probability of the rare class "
            f"{names.label(limit.label)} is {limit.probability:.3g} or more, "
            f"{REASONS[limit.by].format(coverage=trust.coverage)}."
        )
    return text


def _describe_samples(answer: Any, limit: float, fitted: int, *, numbers: bool) -> str:
    """The largest standard error, and whether the calibrator was fitted to as many samples."""
    if math.isnan(answer.largest_error):
        return ""
    error = answer.largest_error
    text = describe_samples(answer.samples, error, numbers=numbers)
    if error > limit > 0:
        text += f", above the limit of {limit:g} (predict.standard_error)"
    if not numbers:
        near = int(answer.near_another_class.sum())
        nodes = "1 node lies" if near == 1 else f"{near} nodes lie"
        text += f"; {nodes} within two standard errors of another class"
    text += ". More samples (--samples) make " + ("it smaller." if numbers else "both smaller.")
    if fitted != answer.samples:
        text += f" The calibrator was fitted to {fitted} samples; leave --samples out for as many."
    return text


def _describe_flags(flags: dict[int, Flags], names: Names) -> list[str]:
    lines = []
    for label, found in flags.items():
        name, count = names.label(label), sum(map(bool, found.flag))
        if found.threshold:
            of = f"the {found.budget} likeliest" if found.budget < found.ranked else "all"
            rule = f"those of {of} whose probability is {found.threshold:.3g} or more"
        else:
            rule = "those with the highest probability"
        lines.append(
            f"Flagged for the rare class {name} are {count} of {found.ranked} nodes: {rule} "
            f"(columns rank_{name} and flag_{name})."
        )
    return lines


def _describe_sets(sets: PredictionSets | None, names: Names, by_time: str) -> list[str]:
    if sets is None:
        return []
    lines = []
    if sets.by_class:
        lines.append("A class is rare, so the sets in column set_90 cover each class by itself.")
    if sets.always:
        always = ", ".join(map(names.label, sets.always))
        lines.append(
            f"Every set holds {always}: the class has fewer than nine calibration nodes, too few "
            "to leave it out of a set and keep 90 % coverage."
        )
    if by_time:
        lines.append(
            "The coverage of the sets in column set_90 is not guaranteed: the run was split by "
            f"time (column {by_time}), and their calibration nodes are older than the test nodes."
        )
    elif sets.approximate:
        lines.append(APPROXIMATE)
    return lines


APPROXIMATE = (
    "The sets in column set_90 are approximate: their calibration nodes also selected the "
    "network, or come from another graph. For a guarantee train with --set data.calibration=0.5."
)
