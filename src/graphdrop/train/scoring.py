"""Scoring: the selected state of a run is calibrated, and scored once on the test nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphdrop.data.names import Names
from graphdrop.inference import Predictive
from graphdrop.inference.shift import digests
from graphdrop.metrics.registry import as_columns, mean_error, rare_classes_found
from graphdrop.train.divergence import explain_divergence
from graphdrop.train.model_file import load_state
from graphdrop.train.post_hoc_calibration import draw_samples, keep_set_nodes, score_calibrated
from graphdrop.train.result import Result
from graphdrop.train.run import Run
from graphdrop.train.scored_samples import ScoredSamples
from graphdrop.train.state import State

SCORED = ("validation", "test")


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
    run.engine.defaults = replace(defaults, trained_on=digests(defaults, run.data))
    with explain_divergence(run.model):
        drawn = draw_samples(run)
        answers = {part: drawn.predict(run.rows[part]) for part in SCORED}
        raw = {part: run.scores(part, answer) for part, answer in answers.items()}
    found: dict[str, Any] = {}
    if run.config.predict.calibration != "none":
        found = score_calibrated(run, drawn, raw, state.selection.epoch)
    keep_set_nodes(run, drawn)
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


def _score_rare_classes(run: Run, answers: dict[str, Any]) -> list[dict[str, Any]]:
    """How well each rare class is found on validation and test nodes, as plain values."""
    test = answers["test"]
    if not isinstance(test, Predictive):
        return []
    found = {
        part: rare_classes_found(answer, run.targets[run.rows[part]], run.config)
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
