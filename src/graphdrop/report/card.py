"""``model_card``: a README.md for a trained model, made from the files of its run.

It says what a reader needs before trusting the model: the data, the split, the figures with and
without calibration, what it is for and what it is not. It computes nothing anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphdrop.calibration.refusal import SCORE_TITLES
from graphdrop.config import Config
from graphdrop.data.tables.schema import Schema
from graphdrop.metrics.registry import metrics_by_name
from graphdrop.train.folder import RESULT, stored_config
from graphdrop.train.model_file import BEST
from graphdrop.train.records import (
    DamagedError,
    ModelNote,
    header_note,
    read_tensors,
    result_note,
)

MOST = 30
"""Names of columns or classes in a list, at most."""
FRONT = """\
---
library_name: graphdrop
tags:
- graph-machine-learning
- pytorch_geometric
- uncertainty
- calibration
---"""
"""What model hubs read."""


def model_card(run: str | Path) -> str:
    """The text of a model card for a finished run.

    Args:
        run: its folder.

    Example::

        Path("README.md").write_text(model_card("runs/papers"))
    """
    folder = Path(run)
    config = stored_config(folder)
    if not (folder / RESULT).is_file():
        raise ValueError(f"{folder} has no {RESULT}: a model card takes a finished run")
    result_note(folder / RESULT)
    tensors, header = read_tensors(folder / BEST)
    about = header_note(ModelNote, header, folder / BEST)
    try:
        result: dict[str, Any] = json.loads((folder / RESULT).read_text("utf-8"))
        parameters = sum(tensor.numel() for tensor in tensors.values())
        return "\n\n".join(_write_parts(config, result, about, parameters)) + "\n"
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        if isinstance(error, ValueError) and "could not convert" not in str(error):
            raise
        raise DamagedError(
            f"{folder / RESULT} or {folder / BEST} was damaged or changed "
            f"({type(error).__name__}: {error}): restore it, or make the run anew"
        ) from error


def _write_parts(
    config: Config, result: Mapping[str, Any], about: ModelNote, parameters: int
) -> list[str]:
    """The parts of a card, from its front matter to its lines of code."""
    data, schema = result.get("data", {}), Schema.from_json(about.schema_)
    numbers, figures = about.task == "gaussian", [_figures(result)]
    predicts = _plain(about.task)
    if numbers:
        predicts = "numbers" if schema is None else f"the number {_plain(schema.label)}"
    if always := result.get("always_the_mean", {}):
        error = float(always["rmse"])
        figures.append(
            f"Always answering the mean of the training nodes has a test RMSE of {error:.4f}."
        )
    warnings = [_plain(text) for text in result.get("warnings", [])]
    rates = ["none" if rate is None else f"{rate:.3f}" for rate in result["drop_rates"]]
    versions = [f"{name} {version}" for name, version in result.get("versions", {}).items()]
    training = [
        f"{config.model.layers} layers, hidden width {config.model.hidden}, {parameters:,} "
        "parameters and buffers.",
        f"{result['epochs']:,} epochs in {result['seconds']:,.0f} seconds; the state after epoch "
        f"{result['selected_epoch']:,} was selected on the validation nodes.",
        f"Drop rate by layer: {', '.join(rates)}. Seed {config.seed}, recipe {config.recipe}.",
        f"Versions: {_listed(versions)}.",
    ]
    same = "with the same columns" if schema is not None else "with the same features"
    use = [
        "To predict nodes of the graph that it was trained on, and to say which answers to refuse.",
        f"To predict another graph {same} of the same kind, after a check on labelled nodes there.",
        "Not for decisions about people or safety without a review of errors by group, which this "
        "card does not have.",
    ]
    answers = 'data, output="gaussian")' if numbers else "data)"
    reads = "mean, answer.deviation, answer.intervals(0.9)"
    if not numbers:
        reads = "predicted, answer.probabilities, answer.reject(coverage=0.9)"
    words = "graphdrop predict FOLDER -o answers.csv --nodes nodes.csv --edges edges.csv"
    with_tables = (
        f"With tables that have the same columns, from this folder:\n\n```bash\n{words}\n```"
    )
    return [
        FRONT,
        f"# {_plain(config.model.title)} on {_plain(data.get('name', config.data.dataset))}",
        f"A graph neural network that predicts {predicts}, with its uncertainty. "
        f"Trained with graphdrop {_plain(about.versions.get('graphdrop', ''))}.",
        *_section("Data", _data(data, schema, about)),
        *_section("Figures", figures, listed=False),
        *_section("Rare classes", _rare(result.get("rare", []))),
        *_section("Calibration", _calibration(result.get("calibration", {}), about)),
        *_section("Intended use", use),
        *_section(
            "Limits",
            [*_limits(config, about), *(f"{text[:1].upper()}{text[1:]}." for text in warnings)],
        ),
        *_section("Training", training),
        "## How to use it",
        *([] if schema is None else [with_tables]),
        f"```python\nfrom graphdrop import load, predict\n\nmodel = load({json.dumps(BEST)})\n"
        f"answer = predict(model, {answers}  # a PyG Data with the same features\n"
        f"answer.{reads}\n```",
    ]


def _section(title: str, lines: Iterable[str], *, listed: bool = True) -> list[str]:
    text = "\n".join(f"- {line}" for line in lines) if listed else "\n\n".join(lines)
    return [f"## {title}", text] if text else []


def _data(data: Mapping[str, Any], schema: Schema | None, about: ModelNote) -> list[str]:
    lines = []
    graph = about.defaults.get("calibrated_on")
    if isinstance(graph, Mapping):
        lines.append(f"{graph['nodes']:,.0f} nodes and {graph['edges']:,.0f} directed edges.")
    if schema is not None:
        columns = [f"{column.name} ({column.kind})" for column in schema.columns]
        lines.append(f"Features from the columns {_listed(columns)}.")
        if schema.classes:
            lines.append(f"Classes: {_listed(schema.classes)}.")
        if moments := about.defaults.get("target_moments"):
            (mean,), (deviation,) = moments
            lines.append(
                f"Target: the number {_plain(schema.label)}, {float(mean):.5g} ± "
                f"{float(deviation):.4g} on the training nodes."
            )
    if isinstance(split := data.get("split"), Mapping):
        drawn = "" if split.get("seed") is None else f", seed {split['seed']}"
        sizes = f"{split['train']:,} training, {split['val']:,} validation, {split['test']:,} test"
        lines.append(f"Split: {sizes} nodes ({_plain(split['name'])}{drawn}).")
    files = [f"{_plain(file)}: {_plain(sha256)}" for file, sha256 in data.get("files", {}).items()]
    lines += [f"sha256 of {file}" for file in files]
    lines.append(f"sha256 of features, edges, labels and split: {about.data.sha256}")
    return lines


def _figures(result: Mapping[str, Any]) -> str:
    """A table of scores, a row for each part of the split."""
    before = result.get("uncalibrated", {})
    raw = {f"{part}, uncalibrated": scores for part, scores in before.items()}
    simple = result.get("baselines", {})
    beside = {f"test, {_plain(name)}": parts["test"] for name, parts in simple.items()}
    rows = {"test": result["test"], **beside, "validation": result["validation"], **raw}
    known = [
        metric
        for name, metric in metrics_by_name().items()
        if metric.shown and all(name in scores for scores in rows.values())
    ]
    lines = ["| | " + " | ".join(metric.title for metric in known) + " |"]
    lines.append("|---|" + "---|" * len(known))
    for part, scores in rows.items():
        cells = [f"{float(scores[metric.name]):.4f}" for metric in known]
        lines.append(f"| {part} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _rare(found: Iterable[Mapping[str, Any]]) -> list[str]:
    """How well each rare class is found among the test nodes."""
    lines = []
    for row in found:
        name, share = _plain(row["name"]), f"{row['share']:.1%}"
        test = row.get("test")
        if test is None:
            lines.append(f"{name}: {share} of the labelled training nodes, and no test node.")
            continue
        line = (
            f"{name}: {share} of the labelled training nodes. Average precision on the test nodes "
            f"{test['average_precision']:.3f} (chance {test['nodes'] / test['of']:.3f}); the "
            f"{test['budget']:,} nodes of highest probability hold {test['recall']:.0%} of its "
            f"{test['nodes']:,} nodes, and {test['precision']:.0%} of them are of it."
        )
        known = row.get("validation") or {}
        if known.get("threshold") is not None and known["flagged_precision"] is not None:
            line += (
                f" Threshold by cost: a probability of {known['threshold']:.3f}; on the validation "
                f"nodes it finds {known['flagged_recall']:.0%} of the class with a precision of "
                f"{known['flagged_precision']:.0%}."
            )
        lines.append(line)
    return lines


def _calibration(calibration: Mapping[str, Any], about: ModelNote) -> list[str]:
    lines = []
    if calibration and calibration["name"] == "variance":
        lines.append(
            "Variances are calibrated by one factor for all nodes, fitted on "
            f"{calibration['nodes']:,} validation nodes; 90 % intervals are those of a Gaussian."
        )
    elif calibration and calibration["name"] != "none":
        lines.append(
            f"Probabilities are calibrated by {_plain(calibration['name'])}, fitted on "
            f"{calibration['nodes']:,} validation nodes."
        )
    else:
        what = "Variances" if about.task == "gaussian" else "Probabilities"
        lines.append(f"{what} are not calibrated.")
    if "ece_floor" in calibration:
        lines.append(
            f"A perfect forecaster would show an ECE of {calibration['ece_floor']:.4f} on the test "
            f"nodes by chance alone (95 %: up to {calibration['ece_floor_high']:.4f})."
        )
    if by := about.defaults.get("reject_by"):
        title = SCORE_TITLES.get(by, str(by))
        lines.append(f"The score that found errors best on validation nodes: {_plain(title)}.")
    return lines


def _limits(config: Config, about: ModelNote) -> list[str]:
    lines = [
        "The figures are of one training on one split; another seed gives others.",
        "Calibration, prediction sets and thresholds were fitted on this graph, and may not "
        "transfer to another one.",
    ]
    if config.data.split_by_time:
        lines.append(
            "The split is by time: calibration nodes are older than test nodes, so the coverage of "
            "prediction sets is not guaranteed."
        )
    kept = about.defaults.get("set_nodes")
    if isinstance(kept, Mapping):
        count = len(kept.get("nodes", ()))
        lines.append(
            f"The file holds the labels and predicted probabilities of {count:,} validation nodes, "
            "for prediction sets: do not publish it where these are confidential."
        )
    return lines


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(_plain(name) for name in names[:MOST])
    return shown + (f" and {len(names) - MOST} more" if len(names) > MOST else "")


def _plain(text: object) -> str:
    """Text from elsewhere in one line of Markdown, without marks that would become markup."""
    line = " ".join(str(text).split())[:200]
    return re.sub(r"([\\`*_\[\]<>|~])", r"\\\1", line)
