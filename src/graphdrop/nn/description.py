"""Samplers, rates and estimators to JSON and back."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from graphdrop.sampling import edges, estimators, rates, samplers

_KNOWN: dict[str, type[nn.Module]] = {
    name: getattr(package, name)
    for package in (samplers, rates, estimators, edges)
    for name in package.__all__
    if inspect.isclass(getattr(package, name)) and issubclass(getattr(package, name), nn.Module)
}


def describe_part(part: nn.Module) -> dict[str, Any]:
    """The class and the arguments of a sampler, rate or estimator, as JSON values.

    A part has every argument as an attribute of that name; learned values are in its state. For a
    class outside graphdrop only the name is stored.
    """
    if not is_known(part):
        return {"class": type(part).__name__}
    arguments = inspect.signature(type(part)).parameters.values()
    names = [a.name for a in arguments if a.kind not in (a.VAR_POSITIONAL, a.VAR_KEYWORD)]
    return {"class": type(part).__name__, **{name: _plain(part, name) for name in names}}


def is_known(part: nn.Module) -> bool:
    """Whether the class is one of graphdrop's, so that it can be built from its description."""
    return _KNOWN.get(type(part).__name__) is type(part)


def build_part(description: Mapping[str, Any]) -> Any:
    """A part from its description, with initial parameters."""
    name = description["class"]
    if name not in _KNOWN:
        raise ValueError(
            f"the file describes a {name}, which is none of graphdrop's own: build it yourself, "
            "call attach(model, sampler), and load the state into that model"
        )
    arguments = {
        key: build_part(value) if isinstance(value, Mapping) else value
        for key, value in description.items()
        if key != "class"
    }
    return _KNOWN[name](**arguments)


def _plain(part: nn.Module, name: str) -> Any:
    value = getattr(part, name)
    if isinstance(value, torch.Size):  # the entries of a rate
        return value.numel() if value else None
    if isinstance(value, nn.Module):
        return describe_part(value)
    return value.item() if isinstance(value, Tensor) else value
