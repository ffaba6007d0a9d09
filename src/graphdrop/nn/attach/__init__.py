"""`attach`: add a sampler to every message passing layer of a model.

    handle = attach(model, GraphDropConnect(BetaBernoulliRate(), blocks=2))
    optimizer = torch.optim.Adam(model.parameters())  # the rates are among them

Then add `weight * handle.kl()` to the loss of every step.
"""

from __future__ import annotations

import inspect
from dataclasses import replace

import torch
from torch import nn
from torch_geometric.nn.conv import MessagePassing

from graphdrop.nn.attach.edges import EdgeCache
from graphdrop.nn.attach.layer import MaskedLayer
from graphdrop.nn.attach.masking import sums_features
from graphdrop.nn.attach.weights import normalizes
from graphdrop.nn.description import describe_part
from graphdrop.nn.sampled import Handle
from graphdrop.nn.sampled_layer import SampledLayer
from graphdrop.sampling.estimators import Concrete, Estimator
from graphdrop.sampling.samplers import Sampler

__all__ = ["Handle", "attach"]


def attach(
    model: nn.Module,
    sampler: Sampler,
    estimator: Estimator | None = None,
    *,
    sample_dropout: bool = False,
    batch_statistics: bool = False,
    seed: int | None = None,
) -> Handle:
    """Add connection sampling to every message passing layer of a PyG model, in place.

    Each layer gets its own copy of the sampler, whose rate becomes a parameter of the model: build
    the optimizer afterwards. In training every call of a layer samples new masks; after `eval()`
    messages are multiplied by the expected keep probability. For the layer `GCNConv` this is
    eq. (5) of the paper.

    Args:
        model: any module with PyG's `MessagePassing` layers in it, or such a layer itself.
        sampler: samples the connections.
        estimator: gradient estimator for learned rates; by default `Concrete()`. With any other,
            train through `Handle.backward`.
        sample_dropout: Monte Carlo samples also sample the model's own DropOut.
        batch_statistics: in Monte Carlo samples BatchNorm uses the statistics of the batch, as in
            training, instead of the running ones.
        seed: seed of the masks; by default that of `torch.manual_seed`.

    Returns:
        A `Handle`: `kl()`, `backward(closure)` for other estimators, `remove()`.

    Example:
        >>> from graphdrop import DropEdge
        >>> from torch_geometric.nn import GAT
        >>> handle = attach(GAT(8, 16, num_layers=2, out_channels=3), DropEdge(0.25))
        >>> handle.drop_rates()
        {'convs.0': 0.25, 'convs.1': 0.25}
    """
    _check_sampler(sampler)
    if any(isinstance(module, SampledLayer) for module in model.modules()):
        raise ValueError("model has a sampler attached already: call remove() on its handle first")
    layers = {n: m for n, m in model.named_modules() if isinstance(m, MessagePassing)}
    if not layers:
        raise ValueError(
            f"model is a {type(model).__name__} without a MessagePassing layer; attach takes a PyG "
            "model or layer."
        )
    for name, layer in layers.items():
        if getattr(layer, "cached", False) and {"_cached_x", "_cached_h"} & set(vars(layer)):
            raise ValueError(
                f"{name or 'model'} is a {type(layer).__name__} with cached=True, which computes "
                "its messages once, so no later mask would act: make it with cached=False"
            )
    if estimator is None and any(True for _ in sampler.rate.parameters()):
        estimator = Concrete()
    if not isinstance(estimator, Estimator | None):
        raise TypeError(
            f"estimator is of type {type(estimator).__name__}; it takes an Estimator such as ARM()."
        )
    temperature = None if estimator is None else estimator.temperature
    seed = torch.initial_seed() if seed is None else seed
    cache = EdgeCache()
    samplers = _samplers_of(layers, sampler)
    for number, (layer, own) in enumerate(zip(layers.values(), samplers, strict=True)):
        device = next((p.device for p in layer.parameters()), None)
        masked = MaskedLayer(
            layer, own, number=number, temperature=temperature, seed=seed, cache=cache
        ).to(device)
        if number == 0:
            masked.estimator = estimator
            masked.description = {
                "sampler": describe_part(sampler),
                "estimator": None if estimator is None else describe_part(estimator),
                "sample_dropout": sample_dropout,
                "batch_statistics": batch_statistics,
                "seed": seed,
            }
        masked.train(layer.training)
        masked.install()
    handle = Handle(model)
    defaults = handle.defaults
    if (defaults.sample_dropout, defaults.batch_statistics) != (sample_dropout, batch_statistics):
        handle.defaults = replace(
            defaults, sample_dropout=sample_dropout, batch_statistics=batch_statistics
        )
    return handle


def _samplers_of(layers: dict[str, MessagePassing], sampler: Sampler) -> list[Sampler]:
    """The sampler of each layer; layers of the first level read the features."""
    samplers, first = list[Sampler](), _level(next(iter(layers)))
    for name, layer in layers.items():
        if _level(name) == first:
            own = sampler.for_first_layer()
            if samplers:  # a layer of another relation
                own.rate.reset_parameters()
        else:
            own = sampler.for_later_layer()
        if own.before_normalization:
            _check_before(own, layer)
        samplers.append(own)
    return samplers


def _level(name: str) -> str:
    """The name that layers of all relations share; PyG names them `author__writes__paper`."""
    parent, _, key = name.rpartition(".")
    return parent if "__" in key else name


def _check_sampler(sampler: Sampler) -> None:
    """Raise if the sampler needs more than a mask on messages."""
    if not isinstance(sampler, Sampler):
        raise TypeError(
            f"sampler is of type {type(sampler).__name__}; it takes a Sampler such as "
            "GraphDropConnect(BetaBernoulliRate())."
        )
    if sampler.needs_earlier_layers:
        raise ValueError(
            f"sampler is a {type(sampler).__name__}, which needs to know the layers before it; an "
            "attached layer knows its messages alone: use graphdrop.GCN"
        )
    if sampler.needs_weights:
        raise ValueError(
            "sampler has pairs=True, a mask for every input and output feature, which needs the "
            "layer's weights: use blocks=None, a mask per feature, or graphdrop.GCN"
        )


def _check_before(sampler: Sampler, layer: MessagePassing) -> None:
    """Raise if the masks of a sampler cannot act before the normalization of a layer."""
    name = type(layer).__name__
    if getattr(layer, "cached", False):
        raise ValueError(
            f"a {name} with cached=True normalizes its edges once, before the masks of later "
            "steps: make it with cached=False, or use before_normalization=False"
        )
    if normalizes(layer) and sums_features(layer):
        return
    if "edge_weight" not in inspect.signature(type(layer).forward).parameters:
        raise ValueError(
            f"sampler has before_normalization=True, but a {name} takes no edge_weight that could "
            "be masked before it normalizes its edges: use before_normalization=False, or a layer "
            "with edge_weight such as GCNConv"
        )
    if sampler.blocks != 1:
        raise ValueError(
            f"sampler has before_normalization=True and a draw for each of several blocks, but a "
            f"{name} has one weight per edge: use blocks=1 and first_blocks=1, or DropEdge"
        )
