"""Post-hoc calibration of the selected state, and scores without the bias of its fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.calibration import calibration_floor
from graphdrop.calibration.entropy_temperature import EntropyTemperatureScaling
from graphdrop.calibration.methods import calibrator_for
from graphdrop.inference import Predictive
from graphdrop.inference.calibrator import (
    Calibrator,
    Samples,
    Surroundings,
    average,
    keep_samples,
)
from graphdrop.inference.origin import Origin
from graphdrop.inference.shift import described
from graphdrop.metrics import calibration_error
from graphdrop.metrics.registry import as_columns, error_auroc, gaussian_nll
from graphdrop.nn.defaults import SetNodes
from graphdrop.train.run import Run as Trainer
from graphdrop.train.run_warnings import warnings_of
from graphdrop.train.scored_samples import ScoredSamples

SAMPLES_STEP = 20
"""Numbers of samples that are tried are multiples of this."""


def draw_samples(trainer: Trainer) -> ScoredSamples:
    """The samples of the selected state: as many as `predict.standard_error` asks for.

    Their number is a function of the samples alone, and the model keeps it: what calibrates it are
    as many samples as it predicts with.
    """
    settings, engine = trainer.config.predict, trainer.engine
    limit, most, rows = settings.standard_error, settings.samples, trainer.rows["calibration"]
    if not limit or settings.masks in ("off", "expected"):
        return ScoredSamples(trainer)
    count = min(SAMPLES_STEP, most)
    engine.defaults = replace(engine.defaults, samples=count)
    drawn, calibrator = ScoredSamples(trainer), None
    while count < most:
        if settings.calibration != "none":
            calibrator = _fit_of(trainer)(rows, keep_samples(drawn.of(rows)), trainer.targets[rows])
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


class Halves(NamedTuple):
    """The calibration nodes in two halves, and a calibrator fitted on each."""

    rows: tuple[Tensor, Tensor]
    calibrators: tuple[Calibrator, Calibrator]


def score_calibrated(
    trainer: Trainer, drawn: ScoredSamples, raw: dict[str, Any], selected_epoch: int
) -> dict[str, Any]:
    """Fit a calibrator on the validation nodes, store it in the model, and score with it.

    Validation scores are out of fold: each half of the nodes is calibrated by the fit on the other
    half. The calibrator of the model is fitted on all of them.

    Args:
        trainer: its model has the selected state.
        drawn: the samples of that state.
        raw: the scores of validation and test without a calibrator.
        selected_epoch: the epoch of that state.
    """
    rows, shared = trainer.rows["calibration"], not trainer.config.data.calibration
    calibrator, halves = fit_calibrator(trainer, drawn, rows)
    found, change = dict(raw), _held_out_change(trainer, drawn, calibrator, halves)
    note = None if change is None else change.note(calibrator.name)
    if change is not None and change.is_worse:
        return _keep_uncalibrated(trainer, drawn, found | {"warnings": [note]}, selected_epoch)
    validation = None
    if shared and halves is not None and trainer.task.output == "classes":
        validation = out_of_fold(drawn, halves, rows)
        found["reject_by"] = best_at_errors(validation, trainer.targets[rows])
    engine = trainer.engine
    engine.defaults = replace(
        engine.defaults,
        calibrator=calibrator,
        calibrated_on=described(trainer.data),
        reject_by=found.pop("reject_by", None),
    )
    if not shared or trainer.task.output == "gaussian":  # whose calibrator is one factor
        validation = drawn.predict(trainer.rows["validation"])
    if validation is not None:
        found["validation"] = trainer.scores("validation", validation)
    answer = drawn.predict(trainer.rows["test"])
    found["answers"] = {"test": answer} | ({} if validation is None else {"validation": validation})
    found["test"] = trainer.scores("test", answer)
    summary = {"name": calibrator.name, **calibrator.summary()}
    found["calibration"] = {
        **summary,
        "nodes": len(rows),
        "out_of_fold": shared and validation is not None,
    }
    floor = None
    if isinstance(answer, Predictive):
        floor = calibration_floor(
            answer.probabilities,
            drawn.predict(rows).probabilities,
            by_entropy=isinstance(calibrator, EntropyTemperatureScaling),
        )
        found["calibration"] |= {"ece_floor": floor.mean, "ece_floor_high": floor.high}
    found["warnings"] = warnings_of(
        validation,
        trainer.targets[trainer.rows["validation"]],
        model=None if trainer.own_model else trainer.config.model,
        calibrator=calibrator,
        calibration_nodes=len(rows),
        selected_epoch=selected_epoch,
        epochs=trainer.config.train.epochs,
        ece=getattr(found["test"], "ece", 0.0),
        floor=floor,
        x=_some_features(trainer),
    )
    if note is not None:
        found["warnings"].append(note)
    return found


CLEARLY = 3.0
"""A calibrator that raises the NLL of nodes that it was not fitted on by more standard errors than
this is not applied. Nodes that are neighbors are not independent, so that two would be too few."""
RESAMPLES, NODES, CHANCE = 200, 5000, 0.025
"""A calibration error is higher if it is in all but this share of resamples of the nodes."""


class HeldOutChange(NamedTuple):
    """What a calibrator changes on validation nodes that it was not fitted on."""

    nodes: str
    """The nodes in words."""
    nll: tuple[float, float]
    """Mean without and with the calibrator."""
    error: float
    """The standard error of the difference."""
    ece: tuple[float, float] | None = None
    """Without and with the calibrator, where it is higher with it beyond chance; else ``None``."""

    @property
    def is_worse(self) -> bool:
        """Whether the calibrator raises the NLL clearly."""
        return self.nll[1] - self.nll[0] > CLEARLY * self.error

    def note(self, name: str) -> str | None:
        """A note on a calibrator that does harm here, if it does."""
        says = f'the calibrator "{name}" raises the {{}} on {self.nodes} from {{:.3f}} to {{:.3f}}'
        if self.is_worse:
            return says.format("NLL", *self.nll) + ", more than chance explains: it is not applied"
        if self.ece is not None:
            return (
                says.format("calibration error", *self.ece)
                + ", more than chance explains, and does not raise the NLL clearly: it is applied; "
                'predict.calibration = "none" leaves it out'
            )
        return None


def _held_out_change(
    trainer: Trainer, drawn: ScoredSamples, calibrator: Calibrator, halves: Halves | None
) -> HeldOutChange | None:
    """The change that a calibrator makes on validation nodes that it was not fitted on.

    They are the other half of a random division, or with a split by time the later half, which
    says more about test nodes, since these are later still. ``None`` where nothing can be said.
    """
    output, times = trainer.task.output, trainer.dataset.times
    if halves is None or output == "labels" or not trainer.task.of_nodes:
        return None
    if trainer.config.data.calibration:
        nodes, pairs = "the other validation nodes", [(trainer.rows["validation"], calibrator)]
    elif times is not None:
        rows = trainer.rows["calibration"]
        rows = rows[times[rows.cpu()].argsort(stable=True).to(rows.device)]
        early, late = rows[: len(rows) // 2], rows[len(rows) // 2 :]
        targets = trainer.engine.defaults.standardized_targets(trainer.targets[early])
        fitted = _fit_of(trainer)(early, keep_samples(drawn.of(early)), targets)
        nodes = "the later half of the validation nodes, fitted on the earlier half,"
        pairs = [(late, fitted)]
    else:
        nodes = "validation nodes that it is not fitted on"
        pairs = list(zip(halves.rows, reversed(halves.calibrators), strict=True))
    rows = torch.cat([part for part, _ in pairs])
    targets = trainer.targets[rows]
    before = [drawn.predict(part, None) for part, _ in pairs]
    after = [drawn.predict(part, one) for part, one in pairs]
    losses = []
    for answers in (before, after):
        if output == "gaussian":
            moments = (torch.cat([getattr(a, n) for a in answers]) for n in ("mean", "variance"))
            mean, variance = moments
            losses.append(gaussian_nll(mean, variance.log(), as_columns(targets)).double().mean(1))
        else:
            p = torch.cat([answer.probabilities for answer in answers]).double()
            losses.append(-p.clamp_min(1e-38).gather(1, targets[:, None])[:, 0].log())
    gain = losses[1] - losses[0]
    error = float(gain.std() / len(gain) ** 0.5)
    nll = float(losses[0].mean()), float(losses[1].mean())
    if output == "gaussian":
        return HeldOutChange(nodes, nll, error)
    plain, changed = (torch.cat([a.probabilities for a in part]) for part in (before, after))
    generator = torch.Generator().manual_seed(0)
    few = torch.randperm(len(rows), generator=generator)[:NODES]
    ece = float(calibration_error(plain, targets)), float(calibration_error(changed, targets))
    rises = torch.empty(RESAMPLES)
    for i in range(RESAMPLES if ece[1] > ece[0] else 0):
        part = few[torch.randint(len(few), (len(few),), generator=generator)].to(rows.device)
        rises[i] = calibration_error(changed[part], targets[part])
        rises[i] -= calibration_error(plain[part], targets[part])
    raised = ece[1] > ece[0] and float(rises.quantile(CHANCE)) > 0.0
    return HeldOutChange(nodes, nll, error, ece if raised else None)


def _keep_uncalibrated(
    trainer: Trainer, drawn: ScoredSamples, found: dict[str, Any], selected_epoch: int
) -> dict[str, Any]:
    """The scores without a calibrator, and the rest of what a result says."""
    rows, engine = trainer.rows["validation"], trainer.engine
    answer, targets = drawn.predict(rows, None), trainer.targets[rows]
    by = best_at_errors(answer, targets) if isinstance(answer, Predictive) else None
    engine.defaults = replace(engine.defaults, reject_by=by)
    found["calibration"] = {"name": "none", "nodes": len(trainer.rows["calibration"])}
    test = drawn.predict(trainer.rows["test"], None)
    if isinstance(test, Predictive):
        floor = calibration_floor(test.probabilities)
        found["calibration"] |= {"ece_floor": floor.mean, "ece_floor_high": floor.high}
    found["warnings"] += warnings_of(
        answer,
        targets,
        model=None if trainer.own_model else trainer.config.model,
        calibrator=None,
        calibration_nodes=0,
        selected_epoch=selected_epoch,
        epochs=trainer.config.train.epochs,
        ece=0.0,
        floor=None,
        x=_some_features(trainer),
    )
    return found


def _some_features(trainer: Trainer) -> Tensor:
    """Features as the network reads them: of all nodes, or with mini-batches of training nodes."""
    x: Tensor = trainer.data.x
    if trainer.batches is None or x.layout is not torch.strided:
        given: Tensor = trainer.inputs.x
        return given
    rows = trainer.rows["train"][:SET_NODES]
    part = Data(x=x[rows])
    some: Tensor = trainer.engine.defaults.inputs(part).x
    return some


SET_NODES = 2000
"""A model carries at most so many nodes for its prediction sets, chosen at random."""


def keep_set_nodes(trainer: Trainer, drawn: ScoredSamples) -> None:
    """Let the model carry the nodes by which its prediction sets are calibrated.

    Of numbers it carries quantiles of the predicted standard deviation, by which answers are
    trusted.
    """
    if trainer.task.output == "gaussian":
        doubt = drawn.predict(trainer.rows["sets"]).doubt.double()
        steps = torch.linspace(0.0, 1.0, 101, dtype=torch.float64)
        quantiles = doubt.quantile(steps, interpolation="higher").tolist()
        trainer.engine.defaults = replace(
            trainer.engine.defaults,
            deviation_quantiles=quantiles,
            calibrated_on=described(trainer.data),
        )
    if trainer.task.output != "classes" or not trainer.task.of_nodes:
        return
    rows = trainer.rows["sets"]
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:SET_NODES]
    rows = rows[order.sort().values.to(rows.device)]
    answer = drawn.predict(rows)
    kept = SetNodes(
        rows,
        trainer.targets[rows],
        answer.probabilities,
        held_out=bool(trainer.config.data.calibration),
        calibrated=answer.calibrated is not None,
    )
    engine = trainer.engine
    engine.defaults = replace(
        engine.defaults, set_nodes=kept, calibrated_on=described(trainer.data)
    )


SCORES = ("least_confidence", "entropy", "epistemic")
"""Uncertainties of which the one that finds errors best decides what is rejected."""


FEWEST_ERRORS = 10
"""With fewer errors, or right answers, an AUROC for errors is noise."""


def best_at_errors(answer: Predictive, labels: Tensor) -> str | None:
    """The uncertainty with the highest AUROC for errors; ``None`` where too few nodes tell."""
    right = int((answer.predicted == labels).sum())
    if min(right, len(labels) - right) < FEWEST_ERRORS:
        return None
    found = {name: error_auroc(answer, labels, name) for name in SCORES}
    known = {name: value for name, value in found.items() if value is not None}
    return max(known, key=lambda name: known[name]) if known else None


def fit_calibrator(
    trainer: Trainer, drawn: ScoredSamples, rows: Tensor, kind: type[Calibrator] | None = None
) -> tuple[Calibrator, Halves | None]:
    """A calibrator fitted on all given nodes, and one on each half of them.

    Its kind is what the settings of the run name, unless another is given.
    """
    targets = trainer.engine.defaults.standardized_targets(trainer.targets[rows])
    samples = keep_samples(drawn.of(rows))
    fit = _fit_of(trainer, kind)
    whole = fit(rows, samples, targets)
    if len(rows) < 4:
        return whole, None
    first = torch.zeros(len(rows), dtype=torch.bool)
    first[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[::2]] = True

    def part(chosen: Tensor) -> Iterable[Tensor]:
        return (one[chosen] for one in samples())

    one, other = (fit(rows[h], partial(part, h), targets[h]) for h in (first, ~first))
    return whole, Halves((rows[first], rows[~first]), (one, other))


def _fit_of(
    trainer: Trainer, kind: type[Calibrator] | None = None
) -> Callable[[Tensor, Samples, Tensor], Calibrator]:
    """Fits the run's calibrator, or one of another kind, by samples and targets of some nodes."""
    kind = kind or calibrator_for(trainer.config.predict.calibration, trainer.task.output)
    return partial(_fit, kind, _surroundings(trainer) if kind.reads_graph else None)


def _fit(
    kind: type[Calibrator],
    graph: Surroundings | None,
    rows: Tensor,
    samples: Samples,
    targets: Tensor,
) -> Calibrator:
    """A calibrator, with the graph in sight where it reads one."""
    return kind.fit(samples, targets, None if graph is None else replace(graph, rows=rows))


@torch.no_grad()
def _surroundings(trainer: Trainer) -> Surroundings:
    """The training graph with the mean logits of all of its nodes."""
    logits = average(trainer.predictive_samples(None))
    return Surroundings(logits, trainer.data.edge_index, train=trainer.rows["train"])


def out_of_fold(drawn: ScoredSamples, halves: Halves, rows: Tensor) -> Predictive:
    """The prediction of the validation nodes, each half calibrated by the other half's fit."""
    answers: list[Predictive] = [
        drawn.predict(half, other)
        for half, other in zip(halves.rows, reversed(halves.calibrators), strict=True)
    ]
    order = torch.argsort(torch.cat(halves.rows))[torch.argsort(torch.argsort(rows))]

    def joined(name: str) -> Tensor:
        return torch.cat([getattr(answer, name) for answer in answers])[order]

    return replace(
        answers[0],
        probabilities=joined("probabilities"),
        votes=joined("votes"),
        expected_entropy=joined("expected_entropy"),
        deviation=joined("deviation"),
        # that of one half would be wrong for both
        origin=Origin(class_counts=answers[0].origin.class_counts),
    )
