"""Descriptions of models as JSON, and models built from them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from graphdrop.nn import GCN, sampled
from graphdrop.nn.description import built, described, is_known
from graphdrop.nn.methods import Blueprint
from graphdrop.nn.sampled_layer import SampledLayer


def describe_model(model: nn.Module) -> dict[str, Any]:
    """The kind of a model and its arguments, as JSON values."""
    own = sampled(model).estimator
    estimator = described(own) if own is not None and is_known(own) else None
    blueprint = getattr(model, "blueprint", None)
    if isinstance(blueprint, Blueprint):
        return {"kind": "model", "blueprint": blueprint.as_json(), "estimator": estimator}
    if isinstance(model, GCN):
        return {"kind": "gcn", "gcn": model.description()}
    attached = next((m.description for m in model.modules() if isinstance(m, SampledLayer)), None)
    about = {"class": type(model).__name__, "attached": attached, "estimator": estimator}
    return {"kind": "own", **about}


def build_model(path: Path, header: Mapping[str, Any], model: nn.Module | None) -> nn.Module:
    """A model from its description, with initial weights; a user's own class needs `model`."""
    kind = header.get("kind")
    if kind == "gcn":
        return GCN.from_description(header["gcn"])
    if kind == "model":
        model = Blueprint.from_json(header["blueprint"]).build()
    elif kind in ("own", "state"):
        model = _prepared(path, header, model)
    else:
        raise ValueError(f"{path} says that it is a {kind!r}, which this version cannot read")
    if header.get("estimator") is not None:
        sampled(model).estimator = built(header["estimator"])
    return model


def _prepared(path: Path, header: Mapping[str, Any], model: nn.Module | None) -> nn.Module:
    """The user's model, with a sampler attached as in the saved one."""
    if model is None:
        raise ValueError(
            f"{path} is the state of a model of your own, which only you can build: build it, and "
            "give load(path, model=...)"
        )
    description = header.get("attached")
    if description is not None and not any(isinstance(m, SampledLayer) for m in model.modules()):
        from graphdrop.nn.attach import attach  # noqa: PLC0415 - PyG's layers take seconds to import

        parts = {
            name: built(value) if isinstance(value, Mapping) else value
            for name, value in description.items()
        }
        attach(model, **parts)
    return model
