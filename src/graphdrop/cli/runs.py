"""`graphdrop evaluate` and `graphdrop predict`: scores and predictions of a run."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from graphdrop.config import Config

# What needs torch is imported by the command that needs it: --help and `data` start at once.
if TYPE_CHECKING:
    from graphdrop.inference import Predictive
    from graphdrop.train.evaluation import Scores
    from graphdrop.train.opening import Opened

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run: --out of train.")]
Samples = Annotated[
    int | None, typer.Option(min=1, help="Monte Carlo samples, in place of the run's own number.")
]
OwnData = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        help="The run's data again, such as an .npz file that lies elsewhere now, or other data.",
        show_default="the run's own",
    ),
]


def evaluate(run: Run, samples: Samples = None, dataset: OwnData = None) -> None:
    """Score the selected network of a run again, on its validation and test nodes."""
    from graphdrop.inference import predict as infer  # noqa: PLC0415
    from graphdrop.nn.sampled import sampled  # noqa: PLC0415
    from graphdrop.train import evaluation  # noqa: PLC0415

    chosen, model, data, header, _ = _opened(run, dataset)
    scores = {}
    carried = sampled(model).defaults.calibration
    ways: dict[str, Any] = {"": "model"} | ({", uncalibrated": None} if carried else {})
    for how, calibrator in ways.items():
        for name, mask in (("validation", data.val_mask), ("test", data.test_mask)):
            rows = mask.nonzero().flatten()
            prediction = infer(model, data, samples, rows=rows, calibrator=calibrator)
            scores[name + how] = evaluation.score(prediction, data.y[rows], chosen)
    show_scores(chosen, scores, list(sampled(model).drop_rates().values()))
    finished = "" if (run / "result.json").is_file() else " The run is not finished."
    print(f"The state after epoch {header['epoch']}, selected on the validation nodes.{finished}")


def predict(
    run: Run,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The file to write: .csv, or .parquet with pyarrow."),
    ],
    samples: Samples = None,
    dataset: OwnData = None,
) -> None:
    """Predict the class of every node with the selected network of a run.

    Writes for each node its class, the probability of every class, the entropy of the prediction
    and the mutual information between prediction and network, in nats. Judge how far to trust a
    node by its probability or the entropy, which find errors better than the mutual information
    does. The last column has the classes, with spaces between them, of a set that
    should hold the true class 90 % of the time.
    """
    from graphdrop.inference import predict as infer  # noqa: PLC0415

    write = _writer(output)
    _, model, data, _, _ = _opened(run, dataset)
    prediction = infer(model, data, samples)
    columns: dict[str, list[Any]] = {
        "node": list(range(len(prediction.probabilities))),
        "class": prediction.predicted.tolist(),
    }
    for number, probability in enumerate(prediction.probabilities.T.tolist()):
        columns[f"probability_{number}"] = probability
    columns["entropy"] = prediction.entropy.tolist()
    columns["mutual_information"] = prediction.epistemic.tolist()
    if prediction.origin.set_nodes is not None:  # older runs carry none
        columns["set_90"] = _sets(prediction)
    write(columns, output)
    print(f"Wrote {len(columns['node'])} nodes to {output}.")


def _sets(prediction: Predictive) -> list[str]:
    """The classes in the 90 % set of every node, with spaces between them."""
    sets = prediction.sets(0.9)
    if sets.approximate:
        print(
            "The sets in column set_90 are approximate: their calibration nodes also selected the "
            "network, or come from another graph. For a guarantee train with --set "
            "data.calibration=0.5."
        )
    return [" ".join(map(str, sets.classes(node))) for node in range(len(sets))]


def _opened(run: Path, dataset: str | None) -> Opened:
    """A run with its own data, or with other data and a note that says so."""
    from graphdrop.train.opening import open_run, other_data  # noqa: PLC0415

    opened = open_run(run, dataset)
    if not opened.same:
        print(f"Note: {other_data(run)}.", file=sys.stderr)
    return opened


def show_scores(chosen: Config, scores: dict[str, Scores], drop_rates: list[float | None]) -> None:
    """Print the scores on each part of the split, and the drop rate of each layer."""
    model = chosen.model
    name = model.method.removeprefix("GCN-")
    named = model.method if model.architecture == "gcn" else f"{model.architecture.upper()}-{name}"
    title = f"{Path(chosen.data.dataset).stem}, {named}, {model.layers} layers"
    table = Table(box=box.SIMPLE_HEAD, title=f"{title}, seed {chosen.seed}", title_justify="left")
    table.add_column("")
    for column in scores["test"].shown():
        table.add_column(column, justify="right")
    for name, one in scores.items():
        table.add_row(name, *(f"{value:.4f}" for value in one.shown().values()))
    rates = Table(box=box.SIMPLE_HEAD)
    rates.add_column("layer", justify="right")
    rates.add_column("drop rate", justify="right")
    for number, rate in enumerate(drop_rates, 1):
        rates.add_row(str(number), "none" if rate is None else f"{rate:.4f}")
    console = Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False)
    console.print(table)
    console.print(rates)
    axis = chosen.predict.pavpu_axis.replace("-", " ")
    print(f"PAvPU: certain up to {chosen.predict.pavpu_threshold:g} ({axis} entropy).")
    test = scores["test"]
    if test.accuracy_vote != test.accuracy_mean:
        print(
            f"Test accuracy by majority vote: {test.accuracy_vote:.4f}, by the highest mean "
            f"probability: {test.accuracy_mean:.4f}."
        )


def show_calibration(calibration: Mapping[str, Any]) -> None:
    """Say how the probabilities were calibrated, and what error chance alone would show."""
    if not calibration:
        return
    by = calibration["name"]
    if by == "temperature":
        by = f"temperature {calibration['temperature']:.2f}"
    print(f"Calibrated by {by}, fitted on {calibration['nodes']} validation nodes.")
    if "ece_floor" in calibration:
        print(
            f"A perfect forecaster would show an ECE of {calibration['ece_floor']:.4f} on these "
            f"test nodes by chance alone (95 %: up to {calibration['ece_floor_high']:.4f})."
        )


Columns = dict[str, list[Any]]
_PARQUET = "pyarrow.parquet"


def _writer(output: Path) -> Callable[[Columns, Path], None]:
    """The function that writes a file with this suffix; raises if there is none."""
    if not output.parent.is_dir():
        raise ValueError(f"--output is {output} and {output.parent} is no folder: make it first")
    if output.suffix == ".csv":
        return _write_csv
    if output.suffix != ".parquet":
        raise ValueError(f"--output is {output}: give a name that ends in .csv or .parquet")
    try:
        import_module(_PARQUET)
    except ImportError as error:
        raise ValueError(
            f"--output is {output} and pyarrow, which writes Parquet, is not installed: run "
            "`pip install pyarrow`, or give a name that ends in .csv"
        ) from error
    return _write_parquet


def _write_csv(columns: Columns, output: Path) -> None:
    from graphdrop.util.files import replace_file  # noqa: PLC0415

    # Nine digits give every float32 back exactly.
    text = [
        [str(v) if isinstance(v, int | str) else f"{v:.9g}" for v in values]
        for values in columns.values()
    ]
    lines = [",".join(columns), *(",".join(row) for row in zip(*text, strict=True))]
    replace_file(output, ("\n".join(lines) + "\n").encode())


def _write_parquet(columns: Columns, output: Path) -> None:
    from graphdrop.util.files import replace_file  # noqa: PLC0415

    parquet, stream = import_module(_PARQUET), io.BytesIO()
    parquet.write_table(import_module("pyarrow").table(columns), stream)
    replace_file(output, stream.getvalue())


def add_to(app: typer.Typer) -> None:
    """Give the command `graphdrop` these verbs."""
    app.command()(evaluate)
    app.command()(predict)
