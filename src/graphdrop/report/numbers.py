"""The report of runs that predict numbers: one page without scripts, its figures drawn as SVG.

Reports of classes are in `html.py`; both share the style sheet.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphdrop.config import Config
from graphdrop.data.names import Names
from graphdrop.data.sources import short_name
from graphdrop.inference import GaussianPredictive, predict
from graphdrop.metrics import registry
from graphdrop.metrics.registry import METRICS
from graphdrop.metrics.scoring import as_columns, mean_error
from graphdrop.report.collect import Evidence, describe_run
from graphdrop.report.conclusions import compare_features
from graphdrop.train.baselines import DESCRIPTIONS
from graphdrop.train.folder import METRICS as JOURNAL
from graphdrop.train.records import metrics_lines

CLEAR = 0.01
"""Simple models whose RMSE differ by a smaller share are called alike."""
LEVELS = [number / 20 for number in range(1, 20)]
POINTS = 2_000
"""A picture shows at most so many nodes."""
FIRST = 15
"""The number of rows of the tables of nodes to look at."""


@dataclass(frozen=True, eq=False, kw_only=True)
class NumbersEvidence(Evidence):
    """The content of a report for one run that predicts numbers."""

    prediction: GaussianPredictive
    """The prediction for all nodes, in the unit of the data."""
    mean_error: float
    """The test RMSE of always answering the mean of the training nodes."""
    course: list[tuple[float, float]]
    """The validation RMSE by epoch."""


def collect_numbers(
    folder: Path, config: Config, model: nn.Module, data: Data, header: Mapping[str, Any]
) -> NumbersEvidence:
    """Predict all nodes of the graph of a run, and score the test nodes.

    Args:
        folder: of the run.
        config: its settings.
        model: its selected network.
        data: its graph.
        header: what the file of the network says about it.
    """
    prediction = predict(model, data, output="gaussian")
    test = data.test_mask
    part = GaussianPredictive(
        prediction.mean[test], prediction.aleatoric[test], prediction.epistemic[test], 1
    )
    lines = [line for line in metrics_lines(folder / JOURNAL) if "validation" in line]
    train = as_columns(data.y[data.train_mask]).double().mean(0).tolist()
    return NumbersEvidence(
        **describe_run(folder, config, model, data, header),
        prediction=prediction,
        scores=registry.score(part, data.y[test], config, "gaussian"),
        mean_error=mean_error(data.y[test], train),
        course=[(float(line["epoch"]), -line["validation"]["accuracy"]) for line in lines],
    )


def page_of_numbers(
    runs: Sequence[NumbersEvidence], names: Sequence[str], data: Data, *, command: str = ""
) -> str:
    """The text of the report.

    Args:
        runs: what `collect_numbers` returned.
        names: what the page calls them.
        data: their graph.
        command: the command line, to be shown in the report.
    """
    title = short_name(runs[0].config.data.dataset)
    target = runs[0].config.data.label_column or "the target"
    style = (resources.files(__package__) / "page" / "style.css").read_text("utf-8")
    first = "".join(_first(run, name, data) for run, name in zip(runs, names, strict=True))
    sections = [
        _section("Summary", _summary(runs, names, target)),
        _section("Predicted and true values", _scatters(runs, names, data)),
        _section("Intervals", _intervals(runs, names, data)),
        _section("What the doubt is worth", _selective(runs, names, data)),
        _section("Look at these first", f'<div class="grid wide">{first}</div>'),
        _section("Training", _training(runs, names)),
    ]
    safe, heading = html.escape(f"{title}: {', '.join(names)}"), html.escape(title)
    listed = "".join(
        f'<li><span class="dot" style="background:var(--run{number % 8})"></span>'
        f"<strong>{html.escape(name)}</strong></li>"
        for number, name in enumerate(names)
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<link rel="icon" href="data:,">\n<title>{safe}</title>\n<style>\n{style}\n</style>\n'
        '</head>\n<body>\n<header class="bar"><span class="brand">graphdrop</span></header>\n'
        f'<main>\n<section class="hero"><h1>{heading}</h1><p id="lead">{html.escape(target)} of '
        f"{len(data.x):,} nodes, predicted with 90 % intervals; {int(data.test_mask.sum()):,} test "
        f'nodes are scored.</p><ul class="runs" aria-label="Runs">{listed}</ul></section>\n'
        f'{"".join(sections)}</main>\n<footer id="provenance"><h2>Provenance</h2>\n'
        f"{_provenance(runs, names, command)}</footer>\n</body>\n</html>\n"
    )


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n{content}\n</section>\n"


def _says(*sentences: str) -> str:
    lines = "".join(f"<p>{html.escape(text)}</p>" for text in sentences if text)
    return f'<div class="says">{lines}</div>'


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], tall: str = "") -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    whole = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll{tall}">{whole}</div>'


def _summary(runs: Sequence[NumbersEvidence], names: Sequence[str], target: str) -> str:
    shown = [metric for metric in METRICS["gaussian"] if metric.shown]
    features = compare_features(list(zip(names, runs, strict=True)))
    rows = []
    for run, name in zip(runs, names, strict=True):
        cells = [run.scores.get(metric.name) for metric in shown]
        rows.append([name, *("" if cell is None else f"{cell:.4g}" for cell in cells)])
    for name, parts in runs[0].baselines.items():
        cells = [parts["test"].get(metric.name) for metric in shown]
        rows.append([name, *("" if cell is None else f"{cell:.4g}" for cell in cells)])
    if "always the mean" not in runs[0].baselines:
        always = [f"{runs[0].mean_error:.4g}" if m.name == "rmse" else "" for m in shown]
        rows.append(["always the mean", *always])
    best = min(zip(names, runs, strict=True), key=lambda pair: pair[1].scores["rmse"])
    error, trivial = best[1].scores["rmse"], best[1].mean_error
    if error < trivial:
        verdict = f"{100 * (1 - error / trivial):.0f} % below that of always answering the mean"
    else:
        verdict = "no better than always answering the mean: the network has learned nothing"
    says = f"{best[0]} has a test RMSE of {error:.4g} in the unit of {target}, {verdict}."
    simple = {name: parts["test"]["rmse"] for name, parts in best[1].baselines.items()}
    if simple:
        name = min(simple, key=lambda one: simple[one])
        what = "lower" if simple[name] < error else "higher"
        simplest = DESCRIPTIONS[name].removesuffix(",")
        says += f" The best simple model, {simplest}, has {simple[name]:.4g}, which is {what}."
    own, around = (simple.get(f"ridge regression{which}") for which in ("", ", neighbours"))
    if own is not None and around is not None:
        helps = "help" if around < (1 - CLEAR) * own else "hardly help"
        if around > (1 + CLEAR) * own:
            helps = "do not help"
        says += (
            f" A ridge regression has {own:.4g} on a node's own features and {around:.4g} with the "
            f"means of its neighbours' features added: the features of neighbours {helps}."
        )
    help_text = "".join(f"<dt>{m.title}</dt><dd>{html.escape(m.help)}</dd>" for m in shown)
    return (
        f"{_says(features, says)}{_table(['run', *(metric.title for metric in shown)], rows)}"
        f'<details id="measures"><summary>What the measures mean</summary><dl>{help_text}</dl>'
        "</details>"
    )


def _scatters(runs: Sequence[NumbersEvidence], names: Sequence[str], data: Data) -> str:
    """A picture for every run and target: true values to the right, predicted ones upwards."""
    rows = data.test_mask.nonzero().flatten()
    rows = rows[:: max(1, math.ceil(len(rows) / POINTS))]
    pictures = []
    for number, (run, name) in enumerate(zip(runs, names, strict=True)):
        truth, mean = as_columns(data.y)[rows], run.prediction.mean[rows]
        for column in range(mean.shape[1]):
            x, y = truth[:, column].tolist(), mean[:, column].tolist()
            low, high = min(*x, *y), max(*x, *y)
            dots = (f"run{number % 8}", list(zip(x, y, strict=True)))
            line = ("soft", [(low, low), (high, high)])
            label = name if mean.shape[1] == 1 else f"{name}, target {column + 1}"
            pictures.append(_chart(label, "true", "predicted", [line], [dots]))
    note = '<p class="note">A dot is a test node; on the line the prediction is right.</p>'
    return note + _side_by_side(pictures)


def _intervals(runs: Sequence[NumbersEvidence], names: Sequence[str], data: Data) -> str:
    """How often intervals of each level hold the true value."""
    test, truth = data.test_mask, as_columns(data.y)
    says, lines = [], [("soft", [(0.0, 0.0), (1.0, 1.0)])]
    for number, (run, name) in enumerate(zip(runs, names, strict=True)):
        held = []
        for level in LEVELS:
            low, high = run.prediction.intervals(level)
            inside = ((truth >= low) & (truth <= high))[test]
            held.append((level, float(inside.double().mean())))
        lines.append((f"run{number % 8}", held))
        error = math.sqrt(0.09 / int(test.sum()))
        off = dict(held)[0.9] - 0.9
        verdict = "as often as they should, within chance"
        if abs(off) > 2 * error:
            verdict = "less often than they should" if off < 0 else "more often than they need to"
        says.append(
            f"{name}: the 90 % intervals hold the true value of {100 * dict(held)[0.9]:.1f} % of "
            f"the test nodes, {verdict}; they are {run.scores['width']:.4g} wide on average."
        )
    chart = _chart("held by intervals of each level", "level", "share that they hold", lines, [])
    return _says(*says) + _side_by_side([chart])


def _selective(runs: Sequence[NumbersEvidence], names: Sequence[str], data: Data) -> str:
    """The RMSE of the most certain part of the test nodes, by how large that part is."""
    test, lines, says = data.test_mask, [], []
    for number, (run, name) in enumerate(zip(runs, names, strict=True)):
        error = (run.prediction.mean - as_columns(data.y)).double().square().mean(1)[test]
        order = run.prediction.doubt[test].argsort(stable=True)
        running = (error[order].cumsum(0) / torch.arange(1, len(order) + 1)).sqrt()
        shares = [number / 20 for number in range(2, 21)]
        curve = [(s, float(running[max(0, math.ceil(s * len(order)) - 1)])) for s in shares]
        lines.append((f"run{number % 8}", curve))
        half, whole = dict(curve)[0.5], dict(curve)[1.0]
        says.append(
            f"{name}: the half of the test nodes with the smallest predicted standard deviation "
            f"has an RMSE of {half:.4g}, all of them {whole:.4g}."
        )
    chart = _chart("RMSE of the most certain nodes", "share of nodes", "RMSE", lines, [])
    return _says(*says) + _side_by_side([chart])


def _first(run: NumbersEvidence, name: str, data: Data) -> str:
    """The test nodes that are furthest outside, and the unlabelled nodes in most doubt."""
    ids, truth = Names.of(data), as_columns(data.y)
    low, high = run.prediction.intervals(0.9)
    mean, deviation = run.prediction.mean, run.prediction.deviation

    def cells(node: int) -> list[str]:
        several = [
            ", ".join("" if math.isnan(v) else f"{v:.5g}" for v in part[node].tolist())
            for part in (mean, low, high, truth)
        ]
        return [ids.node(node), *several]

    def box(title: str, header: list[str], rows: list[list[str]]) -> str:
        table = _table(header, rows, " tall")
        return f'<div class="chart"><h3>{html.escape(title)}</h3>{table}</div>'

    off = ((truth - mean).abs() / deviation).amax(1)
    header = ["node", "predicted", "low", "high", "true"]
    tested = [cells(node) for node in _largest(off, data.test_mask)]
    found = box(f"{name}: test nodes it misses most, in standard deviations", header, tested)
    unknown = truth.isnan().any(1)
    if bool(unknown.any()):
        rows = [cells(node)[:-1] for node in _largest(run.prediction.doubt, unknown)]
        found += box(f"{name}: nodes without a label that are most in doubt", header[:-1], rows)
    return found


def _largest(values: Tensor, mask: Tensor) -> list[int]:
    rows = mask.nonzero().flatten()
    order: list[int] = rows[values[rows].argsort(descending=True)][:FIRST].tolist()
    return order


def _training(runs: Sequence[NumbersEvidence], names: Sequence[str]) -> str:
    says = []
    for run, name in zip(runs, names, strict=True):
        rates = ", ".join("none" if r is None else f"{r:.2f}" for r in run.drop_rates)
        says.append(f"{name} was selected after epoch {run.selected_epoch}; drop rates {rates}.")
    lines = [(f"run{number % 8}", run.course) for number, run in enumerate(runs)]
    if not any(run.course for run in runs):
        return _says(*says)
    chart = _chart("on the validation nodes", "epoch", "RMSE", lines, [])
    return _says(*says) + _side_by_side([chart])


def _provenance(runs: Sequence[NumbersEvidence], names: Sequence[str], command: str) -> str:
    parts = []
    for run, name in zip(runs, names, strict=True):
        rows = {
            "Folder": str(run.folder),
            "Method": f"{run.config.model.method.value}, {run.config.model.layers} layers",
            "Seed": str(run.config.seed),
            "Duration": "not finished" if run.seconds is None else f"{run.seconds:.0f} seconds",
            "Versions": ", ".join(f"{n} {v}" for n, v in run.versions.items()),
            "Data, sha256": run.data_sha256,
        }
        cells = "".join(f"<dt>{key}</dt><dd>{html.escape(text)}</dd>" for key, text in rows.items())
        parts.append(f"<h3>{html.escape(name)}</h3><dl>{cells}</dl>")
    made = f'<p class="note"><code>{html.escape(command)}</code></p>' if command else ""
    return "".join(parts) + made


def _side_by_side(pictures: Sequence[str]) -> str:
    style = "display:flex;flex-wrap:wrap;gap:1rem"
    return f'<div style="{style}">{"".join(pictures)}</div>'


Series = tuple[str, list[tuple[float, float]]]
"""The name of a colour of the style sheet, and points."""


def _chart(title: str, across: str, up: str, lines: list[Series], dots: list[Series]) -> str:
    """A figure of lines and dots with two axes, 420 by 320."""
    points = [point for _, series in (*lines, *dots) for point in series]
    if not points:
        return ""
    (left, right), (bottom, top) = (_range([p[axis] for p in points]) for axis in (0, 1))

    def place(x: float, y: float) -> tuple[float, float]:
        return 60 + 345 * (x - left) / (right - left), 265 - 235 * (y - bottom) / (top - bottom)

    drawn = []
    for number in range(5):
        x, y = left + number * (right - left) / 4, bottom + number * (top - bottom) / 4
        (column, _), (_, row) = place(x, bottom), place(left, y)
        drawn.append(
            f'<line x1="60" x2="405" y1="{row:.1f}" y2="{row:.1f}" stroke="var(--line)"/>'
            f'<text x="54" y="{row + 4:.1f}" text-anchor="end">{y:.3g}</text>'
            f'<text x="{column:.1f}" y="283" text-anchor="middle">{x:.3g}</text>'
        )
    for color, series in lines:
        path = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in series)
        drawn.append(
            f'<polyline points="{path}" fill="none" stroke="var(--{color})" stroke-width="2"/>'
        )
    for color, series in dots:
        circles = "".join(
            '<circle cx="{:.1f}" cy="{:.1f}" r="2.4"/>'.format(*place(*point)) for point in series
        )
        drawn.append(f'<g fill="var(--{color})" fill-opacity="0.55">{circles}</g>')
    safe, horizontal, vertical = map(html.escape, (title, across, up))
    return (
        f'<figure class="chart" style="margin:0"><figcaption>{safe}</figcaption>'
        f'<svg viewBox="0 0 420 320" width="420" height="320" role="img" aria-label="{safe}" '
        'style="max-width:100%;font-size:12px" fill="currentColor">'
        f'{"".join(drawn)}<text x="232" y="306" text-anchor="middle">{horizontal}</text>'
        f'<text x="60" y="18">{vertical}</text></svg></figure>'
    )


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)
