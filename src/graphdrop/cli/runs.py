"""`graphdrop evaluate`: the scores of a run again, and what commands on runs share."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich import box
from rich.table import Table

from graphdrop.cli import output, tables
from graphdrop.config import Config, DataSettings, PredictSettings
from graphdrop.data.sources import short_name
from graphdrop.io.visible import Console, say

# What needs torch is imported by the command that needs it: --help and `data` start at once.
if TYPE_CHECKING:
    from graphdrop.metrics.ranking import RareFigures
    from graphdrop.metrics.registry import Scores
    from graphdrop.train.opening import Opened
    from graphdrop.train.records import ResultNote

    RareRow = tuple[str, str, RareFigures]  # the class, the part of the split, the figures

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run: --out of train.")]
TableFile = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="The table to write: .csv, or .parquet with pyarrow.",
        show_default="a .csv beside the run",
    ),
]
Samples = Annotated[
    int | None,
    typer.Option(min=1, help="The exact number of Monte Carlo samples, in place of the run's own."),
]
OwnData = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        help="Where the run's data lies now, or another graph: an .npz file, or a folder with "
        "nodes.csv and edges.csv.",
        show_default="the run's own",
    ),
]


Budget = Annotated[
    str | None,
    typer.Option(
        help="Rare classes: how many nodes one can look at, such as 1% or 50.",
        show_default="1%, or the run's own",
    ),
]
CostRatio = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Rare classes: how many false alarms cost as much as one missed node, such as 20; "
        "sets the probability from which a node is flagged. 0 for none.",
        show_default="none, or the run's own",
    ),
]
Device = Annotated[
    str, typer.Option(help="Where to compute: auto, cpu, cuda (also ROCm's GPUs) or mps.")
]


def evaluate(
    run: Run,
    *,
    samples: Samples = None,
    dataset: OwnData = None,
    nodes: tables.Nodes = None,
    edges: tables.Edges = None,
    device: Device = "cpu",
    budget: Budget = None,
    cost_ratio: CostRatio = None,
) -> None:
    """Score the selected network of a run again, on its validation and test nodes.

    Calibrated scores of validation nodes are those that training printed: out of fold, since the
    calibrator was fitted on these nodes. With other samples or costs they are marked "in sample".

    With --dataset, or --nodes and --edges, it scores another graph with the same columns.
    """
    from graphdrop.metrics.scoring import mean_error  # noqa: PLC0415
    from graphdrop.nn.sampled import sampled  # noqa: PLC0415
    from graphdrop.train.records import ResultNote, result_note  # noqa: PLC0415

    opened = open_given_run(run, dataset, nodes, edges, device)
    chosen, model, data, header, same = opened[:5]
    chosen = change_costs(chosen, budget, cost_ratio)
    note = result_note(run / "result.json") if same else ResultNote()
    scores, titles, rare, answers = _score_parts(opened, chosen, note, samples)
    rates = list(sampled(model).drop_rates().values())
    rows = {titles.get(name, name): values for name, values in scores.items()}
    show_scores(chosen, rows, rates, note.baselines)
    show_rare(rare)
    always = None
    if opened.numbers and bool(data.test_mask.any()):
        moments = sampled(model).defaults.target_moments
        always = mean_error(data.y[data.test_mask], None if moments is None else moments[0])
        show_mean_error(chosen, always)
    done = (run / "result.json").is_file()
    finished = "" if done else " The run is not finished."
    say(f"The state after epoch {header['epoch']}, selected on the validation nodes.{finished}")
    count = answers[0].samples
    errors = [answer.largest_error for answer in answers]
    error = None if any(map(math.isnan, errors)) else max(errors)
    say(describe_samples(count, error, numbers=opened.numbers) + ".")
    output.result(
        run=run,
        **{name.replace(", ", "_"): values for name, values in scores.items()},
        **({} if always is None else {"always_the_mean": {"rmse": always}}),
        baselines=note.baselines,
        drop_rates=rates,
        rare=[{"name": name, "part": part, **figures._asdict()} for name, part, figures in rare],
        epoch=header["epoch"],
        finished=done,
        samples=count,
        standard_error=error,
        same_data=same,
    )


class _Parts(NamedTuple):
    """The scores of a run on the parts of the split."""

    scores: dict[str, Scores]
    titles: dict[str, str]
    """The headings of rows that are not their name."""
    rare: list[RareRow]
    answers: list[Any]


def _score_parts(opened: Opened, chosen: Config, note: ResultNote, samples: int | None) -> _Parts:
    """Score validation and test nodes, with the calibrator of the model and without one.

    The calibrator was fitted on the validation nodes of the training graph. Their scores are read
    from the result of the training, which made them out of fold, unless other samples or costs are
    asked for.
    """
    from graphdrop.data.names import Names  # noqa: PLC0415
    from graphdrop.inference import predict as infer  # noqa: PLC0415
    from graphdrop.metrics import registry  # noqa: PLC0415
    from graphdrop.metrics.ranking import RareFigures  # noqa: PLC0415
    from graphdrop.nn.sampled import sampled  # noqa: PLC0415
    from graphdrop.train.run_dataset import reserve_calibration_nodes  # noqa: PLC0415

    model, data = opened.model, opened.data
    found = _Parts({}, {}, [], [])
    masks = {"validation": data.val_mask, "test": data.test_mask}
    if opened.same:
        masks["validation"] = reserve_calibration_nodes(masks, chosen)["validation"]
    fitted, stored = bool(note.calibration.get("out_of_fold")), False
    if fitted:
        stored = samples is None and chosen == opened.config
        found.titles["validation"] = f"validation, {'out of fold' if stored else 'in sample'}"
    carried = sampled(model).defaults.calibrator
    ways: dict[str, Any] = {"": "model"} | ({", uncalibrated": None} if carried else {})
    for how, calibrator in ways.items():
        for name, mask in masks.items():
            rows = mask.nonzero().flatten()
            if not len(rows):
                continue
            if stored and name + how == "validation":
                found.scores[name] = registry.Scores(note.validation)
                found.rare.extend(
                    (row["name"], name, RareFigures(**row[name]))
                    for row in note.rare
                    if name in row
                )
                continue
            options: Any = {"rows": rows, "calibrator": calibrator, "output": opened.output}
            answer = infer(model, data, samples, **options)
            found.scores[name + how] = registry.score(answer, data.y[rows], chosen, opened.output)
            found.answers.append(answer)
            if not how and opened.output == "classes":
                found.rare.extend(
                    (Names.of(data).label(label), name, figures)
                    for label, figures in registry.find_rare_classes(
                        answer, data.y[rows], chosen
                    ).items()
                )
    if not found.scores:
        raise ValueError("the data has no labelled validation or test node: nothing can be scored")
    return found


def describe_samples(count: int, error: float | None, *, numbers: bool = False) -> str:
    """The number of samples and the largest standard error, in words."""
    if error is None:
        return f"Monte Carlo samples: {count}, without a standard error"
    if numbers:
        what = f"value is at most {error:.3f} of its standard deviation"
    else:
        what = f"probability is at most {error:.3f}"
    return f"{count} Monte Carlo samples: the standard error of a {what}"


def open_given_run(
    run: Path,
    dataset: str | None,
    nodes: Path | None = None,
    edges: Path | None = None,
    device: str = "cpu",
) -> Opened:
    """A run with its own data, or with other data and a note that says so."""
    from graphdrop.inference.shift import (  # noqa: PLC0415
        CalibrationShiftWarning,
        describe_shift,
    )
    from graphdrop.nn.sampled import sampled  # noqa: PLC0415
    from graphdrop.train.opening import open_run, other_data  # noqa: PLC0415

    given = tables.collect_settings(dataset, nodes, edges=edges)
    opened = open_run(run, DataSettings(**given) if edges is not None else given.get("dataset"))
    if not opened.same:
        say(f"Note: {other_data(run)}.", file=sys.stderr)
        # said here once; `main` puts the filter back
        warnings.simplefilter("ignore", CalibrationShiftWarning)
        defaults = sampled(opened.model).defaults
        if defaults.calibrator and (shift := describe_shift(defaults, opened.data)):
            say(f"Note: {shift}.", file=sys.stderr)
    for note in opened.notes:
        say(note, file=sys.stderr)
    if device == "cpu":
        return opened
    from graphdrop.io.devices import find_device  # noqa: PLC0415

    where = find_device(device)
    return opened._replace(model=opened.model.to(where), data=opened.data.to(where))


def change_costs(chosen: Config, budget: str | None, cost_ratio: float | None) -> Config:
    """The settings with another budget or ratio of costs, where one is given."""
    given = {"budget": budget, "cost_ratio": cost_ratio}
    changed = {name: value for name, value in given.items() if value is not None}
    predict = PredictSettings.model_validate(chosen.predict.model_dump() | changed)
    return chosen.model_copy(update={"predict": predict})


def show_rare(found: Sequence[RareRow]) -> None:
    """Say how well each rare class is found on a part of the split."""
    for name, part, figures in found:
        looked = "node" if figures.budget == 1 else "nodes"
        line = (
            f"Rare class {name}, {part}: average precision {figures.average_precision:.3f} (chance "
            f"{figures.nodes / figures.of:.3f}); the {figures.budget} {looked} of highest "
            f"probability hold {figures.recall:.0%} of the class, and {figures.precision:.0%} of "
            "them are of it."
        )
        if figures.threshold is not None:
            line += (
                f" At a probability of {figures.threshold:.3f} or more {figures.flagged} nodes are "
                f"flagged, with {figures.flagged_recall:.0%} of the class"
            )
            if figures.flagged_precision is not None:
                line += f"; {figures.flagged_precision:.0%} of them are of it"
            line += "."
        say(line)


def show_scores(
    chosen: Config,
    scores: dict[str, Scores],
    drop_rates: list[float | None],
    baselines: Mapping[str, Mapping[str, Any]],
) -> None:
    """Print the scores on each part of the split, and the drop rate of each layer.

    Below them stand the test scores of simple models on the same split.
    """
    from graphdrop.metrics.registry import PAVPU_THRESHOLD, Scores  # noqa: PLC0415

    model = chosen.model
    title = f"{short_name(chosen.data.dataset)}, {model.title}, {model.layers} layers"
    table = Table(box=box.SIMPLE_HEAD, title=f"{title}, seed {chosen.seed}", title_justify="left")
    table.add_column("")
    rows = {name: values.shown() for name, values in scores.items()}
    columns = dict.fromkeys(column for row in rows.values() for column in row)
    for column in columns:
        table.add_column(column, justify="right")
    rows |= {f"test, {name}": Scores(parts["test"]).shown() for name, parts in baselines.items()}
    for name, values in rows.items():
        table.add_row(name, *(f"{values[key]:.4f}" if key in values else "" for key in columns))
    rates = Table(box=box.SIMPLE_HEAD)
    rates.add_column("layer", justify="right")
    rates.add_column("drop rate", justify="right")
    for number, rate in enumerate(drop_rates, 1):
        rates.add_row(str(number), "none" if rate is None else f"{rate:.4f}")
    console = Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False)
    console.print(table)
    console.print(rates)
    if "pavpu" not in next(iter(scores.values())):
        return
    say(f"PAvPU: certain up to {PAVPU_THRESHOLD:g} of the largest entropy.")
    test = scores.get("test")
    if test is not None and test.accuracy_vote != test.accuracy_mean:
        say(
            f"Test accuracy by majority vote: {test.accuracy_vote:.4f}, by the highest mean "
            f"probability: {test.accuracy_mean:.4f}."
        )


def show_mean_error(chosen: Config, error: float) -> None:
    """Say in which unit the errors of numbers are, and what RMSE needs no network."""
    target = chosen.data.label_column or "the target"
    say(
        f"RMSE, MAE and width are in the unit of {target}. Always answering the mean of the "
        f"training nodes has a test RMSE of {error:.4f}."
    )


def show_calibration(calibration: Mapping[str, Any]) -> None:
    """Say how the probabilities were calibrated, and what error chance alone would show."""
    if not calibration:
        return
    by = calibration["name"]
    if by == "temperature":
        by = f"temperature {calibration['temperature']:.2f}"
    elif by == "variance":
        wider = [f"{factor**0.5:.2f}" for factor in calibration["factor"]]
        by = f"a factor of {', '.join(wider)} on the standard deviation"
    elif by == "entropy-temperature":
        slope = calibration["slope"]
        by = f"temperature {calibration['temperature']:.2f} with slope {slope:+.2f} in the entropy"
        if "spread" in calibration:
            by += f", samples spread by {calibration['spread']:.2f} around their mean"
    if by == "none":
        say("Not calibrated: the calibrator did harm on validation nodes.")
    else:
        say(f"Calibrated by {by}, fitted on {calibration['nodes']} validation nodes.")
    if "ece_floor" in calibration:
        say(
            f"A perfect forecaster would show an ECE of {calibration['ece_floor']:.4f} on these "
            f"test nodes by chance alone (95 %: up to {calibration['ece_floor_high']:.4f})."
        )
