"""Samplers, rates and estimators as JSON, and built again from it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from graphdrop import estimators, rates, samplers

_KNOWN: dict[str, type[nn.Module]] = {
    name: getattr(room, name)
    for room in (samplers, rates, estimators)
    for name in room.__all__
    if inspect.isclass(getattr(room, name)) and issubclass(getattr(room, name), nn.Module)
}


def described(part: nn.Module) -> dict[str, Any]:
    """The class of a part and the arguments that it was made with, as JSON values.

    A part keeps every argument under its name; what it has learned since is in its state. Of a
    class that is not graphdrop's own nothing but the name is known.
    """
    if not is_known(part):
        return {"class": type(part).__name__}
    arguments = inspect.signature(type(part)).parameters.values()
    names = [a.name for a in arguments if a.kind not in (a.VAR_POSITIONAL, a.VAR_KEYWORD)]
    return {"class": type(part).__name__, **{name: _plain(part, name) for name in names}}


def is_known(part: nn.Module) -> bool:
    """Whether a part is of one of graphdrop's own classes, so that it can be built again."""
    return _KNOWN.get(type(part).__name__) is type(part)


def built(description: Mapping[str, Any]) -> Any:
    """A part of this description, with fresh parameters."""
    name = description["class"]
    if name not in _KNOWN:
        raise ValueError(
            f"the file describes a {name}, which is none of graphdrop's own: build it yourself, "
            "call attach(model, sampler), and load the state into that model"
        )
    arguments = {
        key: built(value) if isinstance(value, Mapping) else value
        for key, value in description.items()
        if key != "class"
    }
    return _KNOWN[name](**arguments)


def _plain(part: nn.Module, name: str) -> Any:
    value = getattr(part, name)
    if isinstance(value, torch.Size):  # the entries of a rate
        return value.numel() if value else None
    if isinstance(value, nn.Module):
        return described(value)
    return value.item() if isinstance(value, Tensor) else value
