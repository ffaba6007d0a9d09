r"""What training minimises, term by term.

    mean NLL on labelled nodes + warmup(epoch) * kl_weight * sum_l KL_l + l2 * sum_l c_l ||M_l||^2

`M_l` has the weights and biases of layer `l`; `c_l` comes from the keep probability `pi_l` that the
pass has drawn, so the gradient of the last term reaches the rate as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphdrop.config import ObjectiveSettings
from graphdrop.nn import GCN, GCNLayer
from graphdrop.samplers import Drawn

TERMS = ("nll", "kl", "l2")
"""The names of the terms, as they are logged; the loss is their sum."""

SERIAL = 8192
"""So many numbers torch adds up in one thread."""


class Objective:
    """Adds the KL and the L2 to a pass's negative log-likelihood.

    Args:
        settings: weights and options of the terms.
        model: the network whose rates and weights count.
        labelled: number of labelled training nodes.
    """

    def __init__(self, settings: ObjectiveSettings, model: GCN, labelled: int) -> None:
        self.settings = settings
        self.layers = layers_of(model)
        elbo = settings.kl_weight == "elbo"
        self.kl_weight = 1.0 / labelled if elbo else float(settings.kl_weight)
        nothing = all(layer.sampler is None and layer.dropout is None for layer in self.layers)
        if nothing and settings.l2_factor == "drop" and settings.l2 > 0.0:
            raise ValueError(
                'objective.l2_factor is "drop" and the network drops nothing, so that its L2 would '
                'be 0: set it to "one", or objective.l2 = 0'
            )

    def __call__(self, nll: Tensor, tape: Sequence[Drawn], epoch: int) -> dict[str, Tensor]:
        """The terms of one pass by name, weighted: their sum is the loss. Epochs count from 0."""
        weight = self.warmup(epoch) * self.kl_weight
        return {"nll": nll, "kl": weight * self.kl(), "l2": self.settings.l2 * self.l2(tape)}

    def warmup(self, epoch: int) -> float:
        """`min(1, (epoch + 1) / warmup)`."""
        return min(1.0, (epoch + 1) / self.settings.warmup) if self.settings.warmup else 1.0

    def kl(self) -> Tensor:
        """`sum_l KL_l`; with the mean, each layer's is divided by its number of rates."""
        total = torch.zeros(())
        for layer in self.layers:
            if layer.sampler is not None:
                rate = layer.sampler.rate
                entries = rate.entries.numel() if self.settings.kl_reduction == "mean" else 1
                total = total + rate.kl() / entries
        return total

    def l2(self, tape: Sequence[Drawn]) -> Tensor:
        """`sum_l c_l ||M_l||^2` for the keep probabilities that a pass noted down."""
        total = torch.zeros(())
        keep_logits = sampled_logits(self.layers, tape)
        count = 1 if self.settings.l2_layers == "first" else len(self.layers)
        for layer, logit in list(zip(self.layers, keep_logits, strict=True))[:count]:
            squares = _sum_of_squares(layer.weight)
            if self.settings.l2_biases and layer.bias is not None:
                squares = squares + _sum_of_squares(layer.bias)
            total = total + self._factor(logit) * squares
        return total

    def _factor(self, keep_logit: Tensor | None) -> Tensor | float:
        if keep_logit is None or self.settings.l2_factor == "one":
            return 1.0
        sign = 1.0 if self.settings.l2_factor == "keep" else -1.0
        factor = torch.sigmoid(sign * keep_logit).flatten()
        return ordered_sum(factor) / len(factor)  # a rate per edge: the mean over edges


def layers_of(model: GCN) -> list[GCNLayer]:
    """The layers of a network, by their own type."""
    return [layer for layer in model.layers if isinstance(layer, GCNLayer)]


def sampled_logits(layers: Sequence[GCNLayer], tape: Sequence[Drawn]) -> list[Tensor | None]:
    """The keep logit that each layer drew: its sampler's, or where it has none its DropOut's."""
    entries = iter(tape)
    logits = []
    for layer in layers:
        drawn = [next(entries) for part in (layer.dropout, layer.sampler) if part is not None]
        logits.append(drawn[-1].mask.keep_logit if drawn else None)
    return logits


def _sum_of_squares(matrix: Tensor) -> Tensor:
    return ordered_sum(matrix.square().sum(1))


def ordered_sum(values: Tensor) -> Tensor:
    """The sum of `values [n]`, added up in an order that the number of threads does not change.

    Torch divides a long sum between threads, but not a short one, nor the sum of one row of many.
    """
    while len(values) > SERIAL:
        values = torch.stack([part.sum() for part in torch.split(values, SERIAL)])
    return values.sum()
