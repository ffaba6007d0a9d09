"""Scoring: the selected state of a run is calibrated, and scored once on the test nodes.

``ScoredSamples`` draws the Monte Carlo samples of the state once. All of these read them: scores
with and without a calibrator, its fits on halves of the validation nodes, the floor of the
calibration error, and prediction sets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.calibration.fit import calibrator_for
from graphdrop.calibration.floor import calibration_floor
from graphdrop.calibration.post_hoc import (
    CalibrationNodes,
    Halves,
    HeldOutChange,
    choose_set_nodes,
    find_best_uncertainty,
    measure_change,
    predict_out_of_fold,
)
from graphdrop.calibration.temperature import EntropyTemperatureScaling
from graphdrop.data.names import Names
from graphdrop.inference import Predictive
from graphdrop.inference.calibrator import (
    KEPT_NUMBERS,
    Calibrator,
    Samples,
    Surroundings,
    average,
    keep_samples,
)
from graphdrop.inference.predictive import find_origin, resolve_settings, summarize
from graphdrop.inference.shift import describe_graph, digest_graph
from graphdrop.metrics.registry import find_rare_classes
from graphdrop.metrics.scoring import as_columns, mean_error
from graphdrop.train.model_file import load_state
from graphdrop.train.objective import explain_divergence
from graphdrop.train.result import Result, find_warnings
from graphdrop.train.run import Run
from graphdrop.train.state import State

SAMPLES_STEP = 20
"""Numbers of samples that are tried are multiples of this."""
FEATURE_ROWS = 2000
"""With mini-batches the features of at most so many training nodes are looked at for warnings."""
SCORED = ("validation", "test")
PARTS = (*SCORED, "calibration", "sets")
"""The parts of the split that scores, calibrators and prediction sets read."""


def score_selected(run: Run, state: State) -> tuple[Result, ScoredSamples]:
    """Load the best weights into the model, calibrate it, and score it on validation and test.

    Calibrators and metrics compute in float64, which not every device has, so the run must be on
    the CPU. The masks are the same there.

    Returns:
        The result, and the samples that it was computed from.
    """
    load_state(run.model, state.best)
    run.model.eval()
    defaults = run.engine.defaults
    run.engine.defaults = replace(defaults, trained_on=digest_graph(defaults, run.data))
    with explain_divergence(run.model):
        drawn = draw_samples(run)
        answers = {part: drawn.predict(run.rows[part]) for part in SCORED}
        raw = {part: run.scores(part, answer) for part, answer in answers.items()}
    found: dict[str, Any] = {}
    if run.config.predict.calibration != "none":
        found = score_calibrated(run, drawn, raw, state.selection.epoch)
    _carry_set_nodes(run, drawn)
    always_the_mean = {}
    if run.task.output == "gaussian":
        mean = as_columns(run.targets[run.rows["train"]]).double().mean(0).tolist()
        always_the_mean = {"rmse": mean_error(run.targets[run.rows["test"]], mean)}
    result = Result(
        **{part: found.get(part, raw[part]) for part in SCORED},
        drop_rates=run.drop_rates(),
        selected_epoch=state.selection.epoch,
        epochs=state.epoch,
        seconds=state.seconds,
        uncalibrated=raw if found else {},
        calibration=found.get("calibration", {}),
        always_the_mean=always_the_mean,
        warnings=found.get("warnings", []),
        rare=_score_rare_classes(run, answers | found.get("answers", {})),
    )
    return result, drawn


class ScoredSamples:
    """The outputs of every Monte Carlo sample on the nodes that are scored, in memory if few.

    Their nodes are all of the graph, so that the standard error of every answer is known, or, where
    that takes too many numbers or batches, those of the parts that are scored.

    Args:
        run: its model has the selected state. Of links, and where the samples are too many,
            nothing is kept, and every call draws them again.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.rows = torch.unique(torch.cat([run.rows[part] for part in PARTS]))
        task, settings, nodes = run.task, run.config, len(run.data.x)
        width = task.width(run.data, run.dataset.num_classes, settings.model.hidden)
        many = nodes * width * settings.predict.samples > KEPT_NUMBERS
        if task.of_nodes and run.batches is None and not many:
            self.rows = torch.arange(nodes, device=self.rows.device)
        self._kept: list[Tensor] | None = [] if run.task.of_nodes else None
        self._keep_missing()

    def extend(self, samples: int) -> None:
        """Let the model predict with so many samples, and draw those that are missing."""
        engine = self.run.engine
        engine.defaults = replace(engine.defaults, samples=samples)
        self._keep_missing()

    def _keep_missing(self) -> None:
        if self._kept is None:
            return
        for out in self._draw(self.rows, first=len(self._kept)):
            self._kept.append(out)
            if len(self._kept) * out.numel() > KEPT_NUMBERS:
                self._kept = None
                return

    @torch.no_grad()
    def _draw(self, rows: Tensor, first: int = 0) -> Iterator[Tensor]:
        run, task = self.run, self.run.task
        for out in run.predictive_samples(rows if task.of_nodes else None, first):
            yield out if task.of_nodes else task.decode(out, rows)

    def of(self, rows: Tensor) -> Samples:
        """A function that returns the outputs of every sample on some rows."""
        if self._kept is None or not bool(torch.isin(rows, self.rows).all()):
            return lambda: self._draw(rows)
        kept, places = self._kept, torch.searchsorted(self.rows, rows)
        return lambda: (sample[places] for sample in kept)

    def predict(
        self, rows: Tensor, calibrator: Calibrator | Literal["model"] | None = "model"
    ) -> Any:
        """What ``Run.predict`` returns for these rows."""
        run = self.run
        settings = resolve_settings(run.engine)
        chosen = settings.calibrator if calibrator == "model" else calibrator
        if self._kept is None or (chosen is not None and chosen.reads_graph):
            return run.predict(rows, calibrator=chosen)
        origin = find_origin(settings, run.data, rows)
        return summarize(self.of(rows), run.task.output, settings, chosen, origin)


def draw_samples(run: Run) -> ScoredSamples:
    """Draw the samples of the selected state: as many as `predict.standard_error` asks for.

    Their number is a function of the samples alone, and the model keeps it: what calibrates it are
    as many samples as it predicts with.
    """
    settings, engine = run.config.predict, run.engine
    limit, most = settings.standard_error, settings.samples
    if not limit or settings.masks in ("off", "expected"):
        return ScoredSamples(run)
    count = min(SAMPLES_STEP, most)
    engine.defaults = replace(engine.defaults, samples=count)
    drawn, calibrator = ScoredSamples(run), None
    while count < most:
        if settings.calibration != "none":
            kind = calibrator_for(settings.calibration, run.task.output)
            calibrator = read_calibration_nodes(run, drawn, kind).fit(kind)
        error = drawn.predict(drawn.rows, calibrator).largest_error
        if error <= limit:
            break
        # the error falls with the square root of the number of samples; one that is not known
        # (nan) takes the largest number
        needed = count * min(most, error / limit) ** 2
        count = min(
            most, SAMPLES_STEP * max(count // SAMPLES_STEP + 1, ceil(needed / SAMPLES_STEP))
        )
        drawn.extend(count)
    return drawn


@torch.no_grad()
def read_calibration_nodes(
    run: Run, drawn: ScoredSamples, kind: type[Calibrator], rows: Tensor | None = None
) -> CalibrationNodes:
    """The calibration nodes of a run, or others, with all that a kind of calibrator reads."""
    rows = run.rows["calibration"] if rows is None else rows
    surroundings = None
    if kind.reads_graph:
        logits = average(run.predictive_samples(None))
        surroundings = Surroundings(logits, run.data.edge_index, train=run.rows["train"])
    targets = run.engine.defaults.standardize_targets(run.targets[rows])
    return CalibrationNodes(rows, keep_samples(drawn.of(rows)), targets, surroundings)


def score_calibrated(
    run: Run, drawn: ScoredSamples, raw: dict[str, Any], selected_epoch: int
) -> dict[str, Any]:
    """Fit a calibrator on the validation nodes, store it in the model, and score with it.

    Validation scores are out of fold: each half of the nodes is calibrated by the fit on the other
    half. The calibrator of the model is fitted on all of them. One that clearly raises the NLL of
    nodes that it was not fitted on is not applied.

    Args:
        run: its model has the selected state.
        drawn: the samples of that state.
        raw: the scores of validation and test without a calibrator.
        selected_epoch: the epoch of that state.
    """
    kind = calibrator_for(run.config.predict.calibration, run.task.output)
    nodes, shared = read_calibration_nodes(run, drawn, kind), not run.config.data.calibration
    rows, parts, engine = nodes.rows, run.rows, run.engine
    calibrator, halves = nodes.fit(kind), nodes.fit_halves(kind)
    change = _measure_change(run, drawn, nodes, calibrator, halves)
    applied = None if change is not None and change.is_worse else calibrator
    found, validation = dict(raw), None
    if applied is None:
        validation = drawn.predict(parts["validation"], None)
    elif shared and halves is not None and run.task.output == "classes":
        validation = predict_out_of_fold(drawn, halves, rows)
    by = None
    if isinstance(validation, Predictive):
        by = find_best_uncertainty(validation, run.targets[parts["validation"]])
    engine.defaults = replace(engine.defaults, reject_by=by)
    if applied is not None:
        graph = describe_graph(run.data)
        engine.defaults = replace(engine.defaults, calibrator=applied, calibrated_on=graph)
        if not shared or run.task.output == "gaussian":  # whose calibrator is one factor
            validation = drawn.predict(parts["validation"])
    test = drawn.predict(parts["test"])
    found["calibration"] = {"name": "none", "nodes": len(rows)}
    if applied is not None:
        answers = {"test": test} | ({} if validation is None else {"validation": validation})
        found |= {part: run.scores(part, answer) for part, answer in answers.items()}
        found["answers"] = answers
        found["calibration"] |= {"name": applied.name, **applied.summary()}
        found["calibration"]["out_of_fold"] = shared and validation is not None
    floor = None
    if isinstance(test, Predictive):
        floor = calibration_floor(
            test.probabilities,
            None if applied is None else drawn.predict(rows).probabilities,
            by_entropy=isinstance(applied, EntropyTemperatureScaling),
        )
        found["calibration"] |= {"ece_floor": floor.mean, "ece_floor_high": floor.high}
    x: Tensor = run.data.x
    if run.batches is None or x.layout is not torch.strided:
        x = run.inputs.x
    else:
        x = engine.defaults.inputs(Data(x=x[parts["train"][:FEATURE_ROWS]])).x
    found["warnings"] = find_warnings(
        validation,
        run.targets[parts["validation"]],
        model=None if run.own_model else run.config.model,
        calibrator=applied,
        calibration_nodes=len(rows),
        selected_epoch=selected_epoch,
        epochs=run.config.train.epochs,
        ece=getattr(found["test"], "ece", 0.0),
        floor=None if applied is None else floor,
        x=x,
    )
    if change is not None and (note := change.note(calibrator.name)) is not None:
        found["warnings"].append(note)
    return found


def _measure_change(
    run: Run,
    drawn: ScoredSamples,
    nodes: CalibrationNodes,
    calibrator: Calibrator,
    halves: Halves | None,
) -> HeldOutChange | None:
    """The change that a calibrator makes on validation nodes that it was not fitted on.

    They are the other half of a random division, or with a split by time the later half, which
    says more about test nodes, since these are later still. ``None`` where nothing can be said.
    """
    times = run.dataset.times
    if halves is None or run.task.output == "labels" or not run.task.of_nodes:
        return None
    if run.config.data.calibration:
        where, fits = "the other validation nodes", [(run.rows["validation"], calibrator)]
    elif times is not None:
        order = times[nodes.rows.cpu()].argsort(stable=True).to(nodes.rows.device)
        early, late = order[: len(order) // 2], order[len(order) // 2 :]
        where = "the later half of the validation nodes, fitted on the earlier half,"
        fits = [(nodes.rows[late], nodes.fit(type(calibrator), early))]
    else:
        where = "validation nodes that it is not fitted on"
        fits = list(zip(halves.rows, reversed(halves.calibrators), strict=True))
    return measure_change(drawn, fits, run.targets, where)


def _carry_set_nodes(run: Run, drawn: ScoredSamples) -> None:
    """Let the model carry the nodes by which its prediction sets are calibrated.

    Of numbers it carries quantiles of the predicted standard deviation, by which answers are
    trusted.
    """
    rows, carried = run.rows["sets"], dict[str, Any]()
    if run.task.output == "gaussian":
        doubt = drawn.predict(rows).doubt.double()
        steps = torch.linspace(0.0, 1.0, 101, dtype=torch.float64)
        carried["deviation_quantiles"] = doubt.quantile(steps, interpolation="higher").tolist()
    elif run.task.output == "classes" and run.task.of_nodes:
        held_out = bool(run.config.data.calibration)
        carried["set_nodes"] = choose_set_nodes(drawn, rows, run.targets, held_out=held_out)
    if carried:
        defaults = run.engine.defaults
        run.engine.defaults = replace(defaults, **carried, calibrated_on=describe_graph(run.data))


def _score_rare_classes(run: Run, answers: dict[str, Any]) -> list[dict[str, Any]]:
    """How well each rare class is found on validation and test nodes, as plain values."""
    test = answers["test"]
    if not isinstance(test, Predictive):
        return []
    found = {
        part: find_rare_classes(answer, run.targets[run.rows[part]], run.config)
        for part, answer in answers.items()
    }
    counts, names = test.origin.class_counts, Names.of(run.dataset.data)
    return [
        {
            "label": label,
            "name": names.label(label),
            "share": counts[label] / sum(counts),
            **{part: by[label]._asdict() for part, by in found.items() if label in by},
        }
        for label in test.rare_classes
    ]
