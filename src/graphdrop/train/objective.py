r"""What training minimises, term by term.

    mean NLL on labelled nodes + warmup(epoch) * kl_weight * sum_l KL_l + l2 * sum_l c_l ||M_l||^2
        + agree * disagreement of samples

`M_l` has the weights and biases of layer `l`; `c_l` comes from the keep probability `pi_l` that the
pass has drawn, so the gradient of the last term reaches the rate as well. What an attached model
has outside its layers counts with `c = 1`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from graphdrop.config import ObjectiveSettings
from graphdrop.nn import GCN, SampledGCNConv
from graphdrop.rates.ordered import ordered_sum
from graphdrop.samplers import Drawn

if TYPE_CHECKING:
    from graphdrop.nn.attach.layer import MaskedLayer

    Layer = SampledGCNConv | MaskedLayer

Tape = Sequence[Drawn] | Sequence[Sequence[Drawn]]
"""What a pass has drawn, or what each of its layers has."""
TERMS = ("nll", "kl", "l2", "agree")
"""The names of the terms, as they are logged; the loss is their sum. The last is optional."""


class Objective:
    """Adds the KL and the L2 to a pass's negative log-likelihood.

    Args:
        settings: weights and options of the terms.
        model: the network whose rates and weights count.
        labelled: number of labelled training nodes.
    """

    def __init__(self, settings: ObjectiveSettings, model: nn.Module, labelled: int) -> None:
        self.settings = settings
        self.layers = layers_of(model)
        inside = {id(p) for layer in self.layers for p in _owner(layer).parameters()}
        self.outside = [p for p in model.parameters() if id(p) not in inside]
        elbo = settings.kl_weight == "elbo"
        self.kl_weight = 1.0 / labelled if elbo else float(settings.kl_weight)
        nothing = all(layer.sampler is None and layer.dropout is None for layer in self.layers)
        if nothing and settings.l2_factor == "drop" and settings.l2 > 0.0:
            raise ValueError(
                'objective.l2_factor is "drop" and the network drops nothing, so that its L2 would '
                'be 0: set it to "one", or objective.l2 = 0'
            )

    def __call__(self, nll: Tensor, tape: Tape, epoch: int) -> dict[str, Tensor]:
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

    def l2(self, tape: Tape) -> Tensor:
        """`sum_l c_l ||M_l||^2` for the keep probabilities that a pass noted down."""
        total = torch.zeros(())
        keep_logits = sampled_logits(self.layers, tape)
        count = 1 if self.settings.l2_layers == "first" else len(self.layers)
        for layer, logit in list(zip(self.layers, keep_logits, strict=True))[:count]:
            total = total + self._factor(logit) * self._squares(*_weights_and_biases(layer))
        if self.outside and self.settings.l2_layers == "all":
            total = total + self._squares(*_by_dimension(self.outside))
        return total

    def _squares(self, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
        counted = [*weights, *biases] if self.settings.l2_biases else weights
        total = torch.zeros(())
        for matrix in counted:
            total = total + _sum_of_squares(matrix)
        return total

    def _factor(self, keep_logit: Tensor | None) -> Tensor | float:
        if keep_logit is None or self.settings.l2_factor == "one":
            return 1.0
        sign = 1.0 if self.settings.l2_factor == "keep" else -1.0
        factor = torch.sigmoid(sign * keep_logit).flatten()
        return ordered_sum(factor) / len(factor)  # a rate per edge: the mean over edges


def layers_of(model: nn.Module) -> list[Layer]:
    """The layers of a network, or those of any model that have a sampler attached."""
    if isinstance(model, GCN):
        return [layer for layer in model.layers if isinstance(layer, SampledGCNConv)]
    from graphdrop.nn.attach import Handle  # noqa: PLC0415 - PyG's layers take seconds to import

    return list(Handle(model).layers.values())


def sampled_logits(layers: Sequence[Layer], tape: Tape) -> list[Tensor | None]:
    """The keep logit that each layer drew: its sampler's, or where it has none its DropOut's.

    The tape of an attached model has a list for each layer, which may draw several times.
    """
    entries: Any = iter(tape)
    logits: list[Tensor | None] = []
    for layer in layers:
        if not isinstance(layer, SampledGCNConv):
            drawn = [each.keep_logit.flatten() for each in next(entries)]
            logits.append(torch.cat(drawn) if drawn else None)
            continue
        parts = [next(entries) for part in (layer.dropout, layer.sampler) if part is not None]
        logits.append(parts[-1].keep_logit if parts else None)
    return logits


def _owner(layer: Layer) -> nn.Module:
    """The module that has the layer's weights."""
    owner: nn.Module = layer if isinstance(layer, SampledGCNConv) else layer.layer
    return owner


def _weights_and_biases(layer: Layer) -> tuple[list[Tensor], list[Tensor]]:
    """The matrices of a layer; those of a rate are none."""
    if isinstance(layer, SampledGCNConv):
        return [layer.weight], [] if layer.bias is None else [layer.bias]
    rates = {id(p) for p in layer.parameters()}
    return _by_dimension(p for p in _owner(layer).parameters() if id(p) not in rates)


def _by_dimension(parameters: Iterable[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Weights, and biases, which have one dimension."""
    parameters = list(parameters)
    return [p for p in parameters if p.dim() > 1], [p for p in parameters if p.dim() <= 1]


def _sum_of_squares(matrix: Tensor) -> Tensor:
    rows = matrix if matrix.dim() > 1 else matrix.reshape(1, -1)
    return ordered_sum(rows.square().flatten(1).sum(1))
