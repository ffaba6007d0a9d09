"""The loss of one step: the NLL and the consistency loss, full batch or of a mini-batch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphdrop.config import ObjectiveSettings
from graphdrop.nn.sampled import Estimate
from graphdrop.sampling.samplers import Draw
from graphdrop.train.batches import MiniBatches, Step
from graphdrop.train.consistency_loss import consistency_loss

if TYPE_CHECKING:
    from graphdrop.train.trainer import Trainer


def step_loss(trainer: Trainer, step: Step | None) -> tuple[Estimate, dict[str, Tensor]]:
    """The NLL of the training nodes with the masks of the first pass, and the consistency loss.

    The NLL carries the gradients of both, since an estimator weighs them together.

    Args:
        trainer: with the model, the data and the settings.
        step: a mini-batch; None for all training nodes.
    """
    settings, engine, agreed = trainer.config.objective, trainer.engine, list[Tensor]()

    def compute(draws: Sequence[Draw]) -> Tensor:
        if step is None:
            loss, agree = _full_batch(trainer, draws)
        else:
            outputs = list(engine.samples(step.data, draws, training=True))
            loss, agree = batch_loss(step, outputs, trainer.loss, settings)
        if agree is None:
            return loss
        agreed.append(agree)
        return loss + agree

    passes = max(trainer.config.train.passes, 2 if settings.agree else 1)
    loss, tape = engine.estimate(compute, passes)
    if not agreed:
        return Estimate(loss, tape), {}
    agree = agreed[0].detach()
    return Estimate(loss - agree, tape), {"agree": agree}


def _full_batch(trainer: Trainer, draws: Sequence[Draw]) -> tuple[Tensor, Tensor | None]:
    settings, task, train = trainer.config.objective, trainer.task, trainer.rows["train"]
    whole = bool(settings.agree) or not task.of_nodes
    rows = None if whole else train
    logits = list(trainer.engine.samples(trainer.inputs, draws, rows, training=True))
    labelled = [one[train] if settings.agree else one for one in logits]
    labelled = [task.decode(one, train) for one in labelled]
    loss = torch.stack([trainer.loss(one, trainer.labels) for one in labelled]).mean()
    if not settings.agree:
        return loss, None
    return loss, settings.agree * consistency_loss(logits, settings.sharpen)


def batch_loss(
    step: Step,
    outputs: list[Tensor],
    loss: Callable[[Tensor, Tensor], Tensor],
    settings: ObjectiveSettings,
) -> tuple[Tensor, Tensor | None]:
    """The weighed NLL of a step and, if it is asked for, its weighed consistency loss.

    Args:
        step: the batch, its labels and factors.
        outputs: of the batch's seed nodes, of every sample of the network.
        loss: the mean NLL of outputs and targets.
        settings: the weight of the consistency loss.
    """
    count = len(step.labels)
    nll = torch.stack([loss(one[:count], step.labels) for one in outputs]).mean() * step.scale
    if not settings.agree:
        return nll, None
    agree = nll.new_zeros(())
    for part, factor in step.parts:
        agree = agree + factor * consistency_loss([one[part] for one in outputs], settings.sharpen)
    return nll, settings.agree * agree


def mini_batches(trainer: Trainer) -> MiniBatches | None:
    """The mini-batches that the settings ask for; None for full batch."""
    settings, ranks, task = trainer.config.train, trainer.ranks, trainer.task
    if not settings.batch_size:
        if ranks.size > 1:
            raise ValueError(
                f"train.batch_size is 0, but there are {ranks.size} ranks; ranks divide "
                "mini-batches: give --batch-size, or start one process without torchrun"
            )
        return None
    if not task.of_nodes:
        raise ValueError(
            f"train.batch_size is {settings.batch_size}; {type(task).__name__} takes 0, because "
            "its targets are not nodes. Train full batch."
        )
    data = trainer.dataset.data
    if not trainer.data.edge_index.is_cpu and data is trainer.data:  # batches are cut out there
        data = copy.copy(data).cpu()
    return MiniBatches(
        data,
        trainer.rows["train"],
        trainer.labels,
        task=task,
        settings=settings,
        model=trainer.engine,
        seed=trainer.config.seed,
        every_node=bool(trainer.config.objective.agree),
        ranks=ranks,
    )
