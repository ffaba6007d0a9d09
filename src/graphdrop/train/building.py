"""What a file says of a model, so that it can be built again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from graphdrop.nn import GCN, Handle
from graphdrop.nn.description import built
from graphdrop.nn.methods import Blueprint
from graphdrop.nn.sampled_layer import SampledLayer


def describe_model(model: nn.Module) -> dict[str, Any]:
    """The kind of a model and what it was made of, as JSON values."""
    blueprint = getattr(model, "blueprint", None)
    if isinstance(blueprint, Blueprint):
        return {"kind": "model", "blueprint": blueprint.as_json()}
    if isinstance(model, GCN):
        return {"kind": "gcn", "gcn": model.description()}
    attached = next((m.description for m in model.modules() if isinstance(m, SampledLayer)), None)
    return {"kind": "own", "class": type(model).__name__, "attached": attached}


def build_model(path: Path, header: Mapping[str, Any], model: nn.Module | None) -> nn.Module:
    """A model of the saved kind, with fresh weights; of one's own kind, from the given model."""
    kind = header.get("kind")
    if kind == "model":
        network: nn.Module = Blueprint.from_json(header["blueprint"]).build()
        return network
    if kind == "gcn":
        return GCN.from_description(header["gcn"])
    if kind not in ("own", "state"):
        raise ValueError(f"{path} says that it is a {kind!r}, which this version cannot read")
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
    Handle(model)  # or it says what is missing
    return model
