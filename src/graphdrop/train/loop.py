"""The training loop: steps, epochs, and evaluations that select the best state.

Read `train_epochs` first, then `train_step` and `evaluate`. A `Run` (`run.py`) holds what stays the
same, a `State` (`state.py`) what these functions change.

By default training is full batch: every epoch is one step of Adam on all training nodes, computed
on their receptive field. With `train.batch_size` there is a step for every mini-batch (`batches`),
and processes that `torchrun` started share the batches (`ranks`). Torch's generator is not used:
initial weights depend on the seed, and every mask on the seed and the step. A resumed run therefore
has the same result as an uninterrupted one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from graphdrop.inference import Predictive
from graphdrop.io.devices import has_float64
from graphdrop.nn.sampled import Estimate
from graphdrop.sampling.samplers import Draw
from graphdrop.train.batches import Step
from graphdrop.train.linear_solver import LinearSolver
from graphdrop.train.memory_estimate import check_memory
from graphdrop.train.objective import (
    DivergedError,
    check_gradients,
    check_tensors,
    check_terms,
    consistency_loss,
    explain_divergence,
)
from graphdrop.train.progress import Progress
from graphdrop.train.run import Run
from graphdrop.train.selection import tempered_nll
from graphdrop.train.state import State

Line = dict[str, Any]
"""The metrics of an epoch by name, as in a line of `metrics.jsonl`."""


def train(run: Run, progress: Progress) -> State:
    """Train a run from its first epoch to its last, in memory; its final state."""
    state = State.initial(run)
    try:
        for line in train_epochs(run, state, progress):
            progress.update(line, state.selection)
    finally:
        progress.stop()
    return state


def train_epochs(
    run: Run,
    state: State,
    progress: Progress,
    on_evaluation: Callable[[Any], None] = lambda _: None,
) -> Iterator[Line]:
    """Train epoch by epoch until the state is finished; yields the metrics after every epoch.

    Between two epochs the caller may write a checkpoint, or stop.

    Args:
        run: what is trained.
        state: where to begin; it changes in place.
        progress: the display, which is started here; the caller stops it.
        on_evaluation: takes the prediction of the validation nodes at an evaluation, while the
            model has the evaluated weights.
    """
    settings, ranks = run.config.train, run.ranks
    check_memory(run, progress.note)
    progress.start(settings.epochs, state.epoch)
    started = time.monotonic() - state.seconds
    solver = None
    if settings.optimizer == "lbfgs":
        solver = LinearSolver(run, from_zero=state.epoch == 0)
    while not state.finished:
        epoch = state.epoch + 1
        try:
            if solver is not None:  # an epoch solves for a tenth of the previous epoch's L2
                terms = solver.solve(run.config.objective.l2 * 0.1**state.epoch)
            elif run.batches is None:
                terms = train_step(run, state, None, epoch)
            else:
                terms = train_mini_batches(run, state, progress)
            state.epoch = epoch
            line: Line = {"epoch": epoch, **terms}
            if epoch % settings.evaluate_every == 0 or epoch == settings.epochs:
                scores: Line = {}
                if ranks.first:  # it alone evaluates, and broadcasts the scores below
                    average = state.average
                    with average.average_parameters() if average is not None else nullcontext():
                        answer, scores = evaluate(run, state)
                        on_evaluation(answer)
                scores, state.selection = ranks.broadcast((scores, state.selection))
                line |= scores
                state.finished = state.selection.is_exhausted(epoch, settings)
        except DivergedError as error:
            error.epoch = epoch
            raise
        state.finished |= epoch == settings.epochs
        state.seconds = time.monotonic() - started
        line["seconds"] = round(state.seconds, 3)
        yield line


def train_mini_batches(run: Run, state: State, progress: Progress) -> dict[str, float]:
    """Train one epoch of mini-batches; the means of the terms of the loss by name."""
    assert run.batches is not None  # noqa: S101 - the loop has looked
    count, totals = run.batches.steps, dict[str, float]()
    for i, step in enumerate(run.batches.epoch(state.epoch), 1):
        for name, value in train_step(run, state, step, state.epoch * count + i).items():
            totals[name] = totals.get(name, 0.0) + value / count
        progress.batch(state.epoch + 1, i, count)
    run.ranks.average_buffers(run.model)
    return dict(zip(totals, run.ranks.sum(totals.values()), strict=True))


def train_step(run: Run, state: State, step: Step | None, number: int) -> dict[str, float]:
    """Take one step of the optimizer; the terms of the loss by name.

    Args:
        run: what is trained.
        state: its weights, its optimizer and the average of the weights change.
        step: a mini-batch; ``None`` for all training nodes.
        number: the number of the step since the start of the training, from 1.
    """
    model, ranks = run.model, run.ranks
    model.train()
    with explain_divergence(model):
        estimate, agree = estimate_loss(run, step)
        terms = run.objective(estimate.loss, estimate.tape, state.epoch)
        if ranks.size > 1:  # gradients are summed, and every rank computes the same KL and L2
            terms |= {name: terms[name] / ranks.size for name in ("kl", "l2")}
        terms |= agree
    stacked = torch.stack(list(terms.values()))
    loss = stacked.sum()
    # all at once: reading a number waits for the device
    values = dict(zip(terms, stacked.detach().tolist(), strict=True))
    check_terms(values)
    state.optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    ranks.sum_gradients(model.parameters())
    check_gradients(model)
    state.optimizer.step()
    if state.average is not None:
        state.average.update(number)
    return {"loss": float(loss.detach()), **values}


def estimate_loss(run: Run, step: Step | None) -> tuple[Estimate, dict[str, Tensor]]:
    """The NLL of the training nodes, and the loss of all nodes where the settings ask for it.

    The gradient estimator of the network (`nn.sampled`) calls `compute` with the draws that it
    wants, ARM for example with two opposite ones. A `Draw` is the key of all masks of one forward
    pass. The estimator returns a loss whose backward pass gives weights and drop rates their
    gradients, and what the first pass sampled (`tape`), which the L2 term reads.

    The estimator differentiates the sum of both losses, so the first value carries the gradients of
    both. The second one is a number for the metrics, without a gradient.

    Returns:
        The NLL with its tape; and the loss of all nodes, by the name `agree`, or nothing.
    """
    settings, agreements = run.config.objective, list[Tensor]()

    def compute(draws: Sequence[Draw]) -> Tensor:
        if step is None:
            nll, agree = _full_batch_loss(run, draws)
        else:
            outputs = list(run.engine.samples(step.data, draws, training=True))
            nll, agree = mini_batch_loss(run, step, outputs)
        if agree is None:
            return nll
        agreements.append(agree)
        return nll + agree

    passes = max(run.config.train.passes, 2 if settings.agree else 1)  # consistency compares two
    loss, tape = run.engine.estimate(compute, passes)
    if not agreements:
        return Estimate(loss, tape), {}
    agree = agreements[0].detach()
    return Estimate(loss - agree, tape), {"agree": agree}


def _full_batch_loss(run: Run, draws: Sequence[Draw]) -> tuple[Tensor, Tensor | None]:
    settings, task, train_rows = run.config.objective, run.task, run.rows["train"]
    unlabelled = bool(settings.agree) or run.teacher is not None
    all_nodes = unlabelled or not task.of_nodes
    rows = None if all_nodes else train_rows
    samples = list(run.engine.samples(run.inputs, draws, rows, training=True))
    labelled = [sample[train_rows] if unlabelled else sample for sample in samples]
    outputs = [task.decode(sample, train_rows) for sample in labelled]
    nll = torch.stack([run.loss(sample, run.labels) for sample in outputs]).mean()
    if not unlabelled:
        return nll, None
    return nll, loss_of_nodes(run, samples, run.teacher)


def loss_of_nodes(run: Run, samples: Sequence[Tensor], teacher: Tensor | None) -> Tensor:
    """The losses that need no labels: consistency, and the cross-entropy to a teacher's answers.

    Args:
        run: its settings have the factors of both losses.
        samples: the outputs of some nodes, of every sample of the network.
        teacher: the probabilities of the same nodes, if there are any.
    """
    settings, total = run.config.objective, samples[0].new_zeros(())
    if settings.agree:
        total = total + settings.agree * consistency_loss(samples, settings.sharpen)
    if teacher is not None:
        losses = [cross_entropy(sample, teacher) for sample in samples]
        total = total + settings.teach * torch.stack(losses).mean()
    return total


def mini_batch_loss(
    run: Run, step: Step, samples: Sequence[Tensor]
) -> tuple[Tensor, Tensor | None]:
    """The weighted NLL of a mini-batch and, if one is asked for, its weighted loss of all nodes.

    Args:
        run: the loss and its settings.
        step: the batch, its labels and factors.
        samples: the outputs of the batch's seed nodes, of every sample of the network.
    """
    count, settings = len(step.labels), run.config.objective
    losses = [run.loss(sample[:count], step.labels) for sample in samples]
    nll = torch.stack(losses).mean() * step.scale
    if not settings.agree and run.teacher is None:
        return nll, None
    total = nll.new_zeros(())
    for part, factor in step.parts:
        parts = [sample[part] for sample in samples]
        nodes = step.data.n_id[: len(samples[0])][part]
        teacher = None if run.teacher is None else run.teacher[nodes]
        total = total + factor * loss_of_nodes(run, parts, teacher)
    return nll, total


def evaluate(run: Run, state: State) -> tuple[Any, Line]:
    """Predict the validation nodes, and copy the weights of the model if they are the best so far.

    Returns:
        The prediction, and its line of metrics.
    """
    rows, settings = run.rows["validation"], run.config.train
    check_tensors(run.model.state_dict())
    targets = run.targets[rows]
    targets = targets if has_float64(targets.device) else targets.cpu()
    with explain_divergence(run.model):
        answer = run.predict(rows, settings.samples)
        quality, nll = run.task.quality(answer, targets)
    selected_by = nll
    if settings.select == "calibrated-nll" and isinstance(answer, Predictive):
        selected_by = tempered_nll(answer.probabilities, targets)
    if state.selection.offer(state.epoch, quality, selected_by, settings):
        state.best = {n: t.detach().clone() for n, t in run.model.state_dict().items()}
    return answer, {
        "validation": {"accuracy": quality, "nll": nll},
        "drop_rates": run.drop_rates(),
    }
