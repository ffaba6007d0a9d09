r"""The training objective, the negative of eq. (9) of the paper, term by term.

    mean NLL on labelled nodes + warmup(epoch) * kl_weight * sum_l KL_l + l2 * sum_l c_l ||M_l||^2
        + agree * consistency loss of the samples + teach * cross-entropy to a teacher's answers

`M_l` are the weights and biases of layer `l`. `c_l` depends on the keep probability `pi_l` that was
sampled in the pass, so that the L2 term has a gradient for the rate. Parameters outside sampled
layers have `c = 1`.

Terms, gradients, weights and predictions must be finite: else training has diverged, and a
`DivergedError` says which number it was and what to try.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from graphdrop.config import ObjectiveSettings
from graphdrop.inference.predictive import NotFiniteError
from graphdrop.nn.sampled import SampledModel
from graphdrop.sampling.samplers import UsedMask
from graphdrop.train.tasks import Task

TERMS = ("nll", "kl", "l2", "agree")
"""The names of the terms in the metrics; the loss is their sum. The last one is optional: it is the
loss of all nodes, which is the consistency loss and the cross-entropy to a teacher's answers."""
WHAT_TO_TRY = {
    "nll": "lower train.learning_rate, or divide the features by their sum (data.features = row)",
    "kl": "lower train.learning_rate or objective.kl_weight, or raise objective.warmup",
    "l2": "lower train.learning_rate or objective.l2",
    "agree": "lower train.learning_rate or objective.agree",
}
"""What to do, by the term of the loss that is not finite."""
SLOWER = "lower train.learning_rate"


class Objective:
    """The training objective: negative log-likelihood, KL term and L2 term.

    Args:
        settings: weights and options of the terms.
        model: the model with the rates and weights.
        labelled: number of labelled training nodes.
    """

    def __init__(self, settings: ObjectiveSettings, model: SampledModel, labelled: int) -> None:
        self.settings = settings
        self._numbered = model.numbered_layers()
        self.layers = [layer for _, layer in self._numbered]
        self._device = next(model.module.parameters()).device
        inside = {id(p) for layer in self.layers for p in layer.owner.parameters()}
        self.outside = [p for p in model.module.parameters() if id(p) not in inside]
        self._before = _layer_before(model.module, inside)
        elbo = settings.kl_weight == "elbo"
        self.kl_weight = 1.0 / labelled if elbo else float(settings.kl_weight)
        nothing = all(layer.sampler is None and layer.dropout is None for layer in self.layers)
        if nothing and settings.l2_factor == "drop" and settings.l2 > 0.0:
            raise ValueError(
                'objective.l2_factor is "drop" and the network drops nothing, so that its L2 would '
                'be 0: set it to "one", or objective.l2 = 0'
            )

    def __call__(self, nll: Tensor, tape: Sequence[UsedMask], epoch: int) -> dict[str, Tensor]:
        """The weighted terms by name; their sum is the loss. Epochs count from 0."""
        weight = self.warmup(epoch) * self.kl_weight
        return {"nll": nll, "kl": weight * self.kl(), "l2": self.settings.l2 * self.l2(tape)}

    def warmup(self, epoch: int) -> float:
        """`min(1, (epoch + 1) / warmup)`."""
        return min(1.0, (epoch + 1) / self.settings.warmup) if self.settings.warmup else 1.0

    def kl(self) -> Tensor:
        """`sum_l KL_l`; with the reduction `mean` each is divided by its number of rates."""
        total = torch.zeros((), device=self._device)
        for layer in self.layers:
            if layer.sampler is not None:
                rate = layer.sampler.rate
                entries = rate.entries.numel() if self.settings.kl_reduction == "mean" else 1
                total = total + rate.kl() / entries
        return total

    def l2(self, tape: Sequence[UsedMask]) -> Tensor:
        """`sum_l c_l ||M_l||^2` for the keep probabilities on the tape of a pass."""
        total = torch.zeros((), device=self._device)
        layers, others = self._numbered, self.outside
        if self.settings.l2_layers == "first":
            layers, others = [] if self._before else layers[:1], self._before
        elif self.settings.l2_layers == "sampled":
            others = []
        for number, layer in layers:
            factor = self._factor(sampled_logits(tape, number))
            total = total + factor * self._squares(*layer.weights_and_biases())
        if others:
            matrices = [p for p in others if p.dim() > 1]
            vectors = [p for p in others if p.dim() <= 1]
            total = total + self._squares(matrices, vectors)
        return total

    def _squares(self, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
        counted = [*weights, *biases] if self.settings.l2_biases else weights
        total = torch.zeros((), device=self._device)
        for matrix in counted:
            total = total + matrix.square().sum()
        return total

    def _factor(self, keep_logit: Tensor | None) -> Tensor | float:
        if keep_logit is None or self.settings.l2_factor == "one":
            return 1.0
        sign = 1.0 if self.settings.l2_factor == "keep" else -1.0
        return torch.sigmoid(sign * keep_logit).mean()  # a rate per edge: the mean over edges


def _layer_before(module: nn.Module, sampled: set[int]) -> list[nn.Parameter]:
    """The parameters of the first layer, if it is not a sampled one: a linear map before these."""
    for layer in module.modules():
        own = list(layer.parameters(recurse=False))
        if any(p.dim() > 1 for p in own):
            return [] if any(id(p) in sampled for p in own) else own
    return []


def sampled_logits(tape: Sequence[UsedMask], layer: int) -> Tensor | None:
    """The keep logits that a layer drew, `[draws]`: its sampler's, or where it has none its
    DropOut's; None where it drew nothing.
    """
    own = [drawn for drawn in tape if drawn.layer == layer]
    masks = [drawn for drawn in own if not drawn.beside] or own
    logits = [drawn.keep_logit.flatten() for drawn in masks]
    if not logits:
        return None
    return logits[0] if len(logits) == 1 else torch.cat(logits)


def check_consistency(settings: ObjectiveSettings, task: Task) -> None:
    """Raise if the outputs are not logits of classes, which the consistency loss compares."""
    if settings.agree and task.output != "classes":
        raise ValueError(
            f"objective.agree is {settings.agree:g}, but the task is {type(task).__name__}, and "
            "the consistency loss compares probabilities of classes: set it to 0"
        )


def consistency_loss(logits: Sequence[Tensor], temperature: float) -> Tensor:
    r"""Consistency loss: mean squared distance of the samples to their sharpened mean.

    .. math:: \frac{1}{Sn} \sum_{s,i} \lVert p_{si} - q_i \rVert^2, \qquad
        q_{ic} \propto \bar p_{ic}^{1/T}, \quad \bar p_i = \frac1S \sum_s p_{si}

    It applies to labelled and unlabelled nodes. No gradient passes through the target ``q``.

    Args:
        logits: ``S`` samples, ``[n, classes]`` each.
        temperature: ``T``, the sharpening temperature; below 1 the target is sharper than the mean.
    """
    probabilities = torch.stack([sample.softmax(-1) for sample in logits])
    with torch.no_grad():
        mean = probabilities.mean(0)
        target = torch.softmax(mean.clamp_min(torch.finfo(mean.dtype).tiny).log() / temperature, -1)
    return (probabilities - target).square().sum(-1).mean()


class DivergedError(ValueError):
    """Training diverged: a number became infinite or NaN.

    Args:
        problem: which number.
        advice: what to try.
    """

    epoch: int | None = None
    """The epoch in which it happened; the loop adds it."""
    checkpoint: Path | None = None
    """The last good checkpoint; a run in a folder adds it."""

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(problem, advice)
        self.problem, self.advice = problem, advice

    def __str__(self) -> str:
        where = "" if self.epoch is None else f" in epoch {self.epoch}"
        left = "" if self.checkpoint is None else f"; the last good checkpoint is {self.checkpoint}"
        return f"training diverged{where}: {self.problem}. What to try: {self.advice}{left}"


def check_terms(terms: Mapping[str, float]) -> None:
    """Raise if a term of the loss is not finite."""
    for name, value in terms.items():
        if not math.isfinite(value):
            raise DivergedError(f"the term {name} is {value}", WHAT_TO_TRY[name])


def check_gradients(model: nn.Module) -> None:
    """Raise if a gradient is not finite, before the optimizer uses it."""
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    if not torch.isfinite(get_total_norm(list(gradients.values()))):
        check_tensors(gradients, "the gradient of")
        raise DivergedError("the gradient overflows", SLOWER)


def check_tensors(tensors: Mapping[str, Tensor], what: str = "") -> None:
    """Raise if a tensor is not finite; the error names it by ``what`` and its key."""
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise DivergedError(f"{what} {name} is not finite".strip(), SLOWER)


@contextmanager
def explain_divergence(model: nn.Module) -> Iterator[None]:
    """Context in which an error that a non-finite number caused becomes a ``DivergedError``.

    Other errors, for example of a user's own loss, are not changed.
    """
    try:
        yield
    except NotFiniteError as error:
        raise DivergedError(f"{error}", WHAT_TO_TRY["nll"]) from error
    except (ArithmeticError, ValueError) as error:
        try:
            check_tensors(model.state_dict())
        except DivergedError as cause:
            raise cause from error
        if isinstance(error, FloatingPointError):
            raise DivergedError(f"{error}", WHAT_TO_TRY["kl"]) from error
        raise
