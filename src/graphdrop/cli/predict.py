"""`graphdrop predict`: the answers of a run for every node, in a table."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphdrop.cli import output as machine
from graphdrop.cli import tables
from graphdrop.cli.runs import Device, OwnData, Run, Samples, of_samples, opened_run
from graphdrop.cli.sheet import Columns, writer

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from graphdrop.data.names import Names
    from graphdrop.inference import Predictive
    from graphdrop.inference.sets import PredictionSets
    from graphdrop.inference.trust import Trust

BETWEEN = "|"
"""Between the classes of a set."""


def predict(
    run: Run,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file to write: .csv, or .parquet with pyarrow.",
            show_default="RUN-answers.csv",
        ),
    ] = None,
    *,
    samples: Samples = None,
    dataset: OwnData = None,
    nodes: tables.Nodes = None,
    edges: tables.Edges = None,
    device: Device = "cpu",
    coverage: Annotated[
        float, typer.Option(help="Trust as many of the validation nodes, the most certain first.")
    ] = 0.9,
) -> None:
    """Predict the class of every node with the selected network of a run.

    Writes for each node its id, the predicted class, its probability with the Monte Carlo standard
    error, the classes of a set that should hold the true one 90 % of the time, the entropy of the
    prediction in nats, whether to trust it, its label and part of the split where they are known,
    the mutual information between prediction and network, and the probability of every class with
    its standard error.

    With --dataset, or --nodes and --edges, it predicts another graph with the same columns.
    """
    from graphdrop.data.names import Names  # noqa: PLC0415 - --help needs no torch
    from graphdrop.inference import predict as infer  # noqa: PLC0415
    from graphdrop.inference.shift import CalibrationShiftWarning  # noqa: PLC0415
    from graphdrop.inference.trust import trusted  # noqa: PLC0415

    if output is None:
        output = run.resolve().with_name(f"{run.resolve().name}-answers.csv")
    write = writer(output)
    opened = opened_run(run, dataset, nodes, edges, device)
    names = Names.of(opened.data)
    with warnings.catch_warnings():
        if not opened.same:  # said below, in one line
            warnings.simplefilter("ignore", CalibrationShiftWarning)
        answer = infer(opened.model, opened.data, samples)
        sets = answer.sets(0.9) if answer.origin.set_nodes is not None else None
        trust = trusted(answer, coverage)
    columns = _columns(answer, opened.data, names, sets, trust)
    write(columns, output)
    count, kept = len(answer.probabilities), int(trust.trusted.sum())
    print(f"Wrote {count} nodes to {output}: {kept} to trust, {count - kept} not.")
    settings = opened.config
    by_time, limit = settings.data.split_by_time, settings.predict.standard_error
    notes = (_on_trust(trust), _on_samples(answer, limit), _on_sets(sets, by_time))
    for line in (*notes, "" if opened.same else _on_shift(answer)):
        if line:
            print(line)
    machine.result(
        output=output,
        nodes=count,
        trusted=kept,
        trust={name: value for name, value in trust._asdict().items() if name != "trusted"},
        sets=None
        if sets is None
        else {"coverage": 0.9, "approximate": sets.approximate or bool(by_time)},
        calibrated=answer.calibrated is not None,
        samples=answer.samples,
        standard_error=answer.largest_error if answer.samples > 1 else None,
        near_another_class=int(answer.near_another_class.sum()),
        same_data=opened.same,
        notes=opened.notes,
    )


def _columns(
    answer: Predictive,
    data: Data,
    names: Names,
    sets: PredictionSets | None,
    trust: Trust,
) -> Columns:
    predicted, count = answer.predicted, len(answer.probabilities)
    columns: dict[str, list[Any]] = {
        "id": [name if names.ids else int(name) for name in map(names.node, range(count))],
        "predicted": [names.label(one) if names.classes else one for one in predicted.tolist()],
        "probability": answer.probabilities.gather(1, predicted[:, None])[:, 0].tolist(),
    }
    errors = answer.standard_error if answer.samples > 1 else None  # unknown of one pass
    if errors is not None:
        columns["standard_error"] = errors.gather(1, predicted[:, None])[:, 0].tolist()
    if sets is not None:  # older runs carry no calibration nodes
        members = [sets.classes(node) for node in range(count)]
        # A random part may leave the set of a certain node empty; its class does no harm there.
        members = [one or [first] for one, first in zip(members, predicted.tolist(), strict=True)]
        columns["set_90"] = [BETWEEN.join(map(names.label, one)) for one in members]
    columns["entropy"] = answer.entropy.tolist()
    columns["trust"] = trust.trusted.tolist()
    labels = [] if data.y is None else data.y.tolist()
    if any(label >= 0 for label in labels):
        columns["label"] = [
            (names.label(one) if names.classes else one) if one >= 0 else None for one in labels
        ]
    if (parts := _parts(data)) is not None:
        columns["split"] = parts
    columns["mutual_information"] = answer.epistemic.tolist()
    for number, probability in enumerate(answer.probabilities.T.tolist()):
        columns[f"probability_{names.label(number)}"] = probability
        if errors is not None:
            columns[f"standard_error_{names.label(number)}"] = errors[:, number].tolist()
    if names.order is None:
        return columns
    order = names.order.tolist()  # the rows of the table
    return {name: [cells[node] for node in order] for name, cells in columns.items()}


def _parts(data: Data) -> list[str] | None:
    """The part of the split of every node, empty for none; ``None`` where no node has one."""
    masks = {name: data.get(f"{name}_mask") for name in ("train", "val", "test")}
    if any(mask is None for mask in masks.values()):
        return None
    parts = [""] * len(data.x)
    for name, mask in masks.items():
        for node in mask.nonzero().flatten().tolist():
            parts[node] = name
    return parts if any(parts) else None


NAMES = {
    "epistemic": "mutual information",
    "aleatoric": "expected entropy",
    "least_confidence": "probability of another class",
}


def _on_trust(trust: Trust) -> str:
    by = NAMES.get(trust.by, trust.by)
    if trust.chosen_on == "these":
        return f"Trusted are the {trust.coverage:.0%} of these nodes with the lowest {by}."
    return (
        f"Trusted are nodes whose {by} is at most {trust.threshold:.3g}, as it is for "
        f"{trust.coverage:.0%} of the validation nodes, of which {trust.accuracy:.0%} were right."
    )


def _on_samples(answer: Predictive, limit: float) -> str:
    if answer.samples == 1:
        return ""
    error, near = answer.largest_error, int(answer.near_another_class.sum())
    above = f", above the limit of {limit:g} (predict.standard_error)" if error > limit > 0 else ""
    nodes = "1 node lies" if near == 1 else f"{near} nodes lie"
    return (
        f"{of_samples(answer.samples, error)}{above}; {nodes} within two standard errors of "
        "another class. More samples (--samples) make both smaller."
    )


def _on_sets(sets: PredictionSets | None, by_time: str) -> str:
    if sets is not None and by_time:
        return (
            "The coverage of the sets in column set_90 is not guaranteed: the run was split by "
            f"time (column {by_time}), and their calibration nodes are older than the test nodes."
        )
    if sets is None or not sets.approximate:
        return ""
    return (
        "The sets in column set_90 are approximate: their calibration nodes also selected the "
        "network, or come from another graph. For a guarantee train with --set "
        "data.calibration=0.5."
    )


def _on_shift(answer: Predictive) -> str:
    calibrated = "calibration and " if answer.calibrated else ""
    return (
        f"This is not the graph of the run: {calibrated}coverage may not transfer. Check them on "
        "labelled nodes of this graph."
    )


def add_to(app: typer.Typer) -> None:
    """Give the command `graphdrop` this verb."""
    app.command()(predict)
