"""Context managers that restore the buffers and the training mode of a model."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from graphdrop.graph.masks import MASK32
from graphdrop.sampling.samplers import Draw

OWN_STREAM = 1 << 62
"""The layer number of the seed of a model's own random layers."""


@contextmanager
def seed_by(draw: Draw | None) -> Iterator[None]:
    """Context in which a model's own DropOut is seeded by the draw.

    Both passes of ARM thereby share it; the state of torch's generator is restored.
    """
    if draw is None:
        yield
        return
    with torch.random.fork_rng():
        seed = int(draw.key(OWN_STREAM)[0]) & MASK32
        if torch.accelerator.is_available():
            torch.manual_seed(seed)
        else:  # the same; manual_seed formats a traceback for devices, which takes longer
            torch.default_generator.manual_seed(seed)
        yield


@contextmanager
def restore_buffers(model: nn.Module) -> Iterator[None]:
    """Context after which the buffers of the model, such as running means, are restored."""
    kept = [
        (module, name, buffer, buffer.clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for module, name, buffer, value in kept:
                if not torch.equal(buffer, value):
                    buffer.data.copy_(value)  # unseen by autograd, as the change itself was
                module._buffers[name] = buffer


@contextmanager
def evaluate_modules(model: nn.Module, *, dropout: bool, batch_statistics: bool) -> Iterator[None]:
    """Context in which the model is in evaluation mode, except for the given layers.

    Args:
        model: the model; its mode and buffers are restored afterwards.
        dropout: whether its own DropOut stays in training mode.
        batch_statistics: whether BatchNorm normalizes by batch statistics.
    """
    was_training = [(module, module.training) for module in model.modules()]
    try:
        with restore_buffers(model):
            for module, _ in was_training:
                normalizes = isinstance(module, _NormBase)
                module.training = batch_statistics if normalizes else dropout
            yield
    finally:
        for module, training in was_training:
            module.training = training


def call(model: nn.Module, data: Any) -> Tensor:
    """The model's output on a PyG `Data`, whose attributes are the arguments of `forward`.

    An argument named `data` gets the whole `Data`. Missing arguments with a default are left out.
    """
    values = {}
    for name, parameter in inspect.signature(model.forward).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        value = data if name == "data" else getattr(data, name, None)
        if value is not None:
            values[name] = value
        elif parameter.default is parameter.empty:
            raise ValueError(
                f"{type(model).__name__}.forward takes {name!r}, which the data does not have: "
                "give it that attribute, or wrap the model in a module whose forward takes data"
            )
    out = model(**values)
    if not isinstance(out, Tensor):
        raise TypeError(
            f"{type(model).__name__} returned a {type(out).__name__}: wrap it in a module whose "
            "forward takes data and returns one tensor"
        )
    return out
