"""Descriptions of models as JSON, and models built from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from graphdrop.nn import GCN, sampled
from graphdrop.nn.description import built, described, is_known
from graphdrop.nn.methods import Blueprint
from graphdrop.nn.sampled_layer import SampledLayer
from graphdrop.train.tensor_file import DamagedError


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


def check_size(path: Path, header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Raise if a description asks for a larger network than the file has values for.

    A few bytes may describe a network of any size; its weights are then in the file, or it is none
    of ours.
    """
    stored = sum(tensor.numel() for tensor in tensors.values())
    problem = ""
    for name, value in _numbers({key: header.get(key) for key in ("gcn", "blueprint")}):
        if value > (len(tensors) if name in _LAYERS else max(stored, _SMALL)):
            problem = f"{name} is {value}"
    about = header.get("gcn") or {}
    names = ("in_channels", "hidden_channels", "out_channels")
    given, hidden, out = (size if type(size := about.get(n)) is int else 0 for n in names)
    if about.get("num_layers") != 1 and hidden * (given + out) > stored:
        problem = f"its layers have {given}, {hidden} and {out} channels"
    if problem:
        raise DamagedError(
            f"the header of {path} describes another network than the file has: "
            f"{problem[:200]}, and there are {len(tensors)} tensors of {stored} values; save it "
            "again"
        )


_LAYERS = ("num_layers", "layers")
_SMALL = 1 << 12
_NO_SIZES = ("edges", "seed")
"""Numbers that may be large: of the graph of the training, and of chance."""


def _numbers(values: Any) -> Iterator[tuple[str, int]]:
    """All integers of a description, by their name."""
    items = values.items() if isinstance(values, Mapping) else ()
    for name, value in items:
        if type(value) is int and name not in _NO_SIZES:
            yield name, value
        yield from _numbers(value)


def build_model(path: Path, header: Mapping[str, Any], model: nn.Module | None) -> nn.Module:
    """A model from its description, with initial weights; a user's own class needs `model`."""
    kind = header.get("kind")
    if kind == "gcn":
        return GCN.from_description(header["gcn"])
    if kind == "model":
        model = Blueprint.from_json(header["blueprint"]).build()
    elif kind == "own":
        model = _prepared(path, header, model)
    else:
        raise ValueError(f"{path} says that it is a {kind!r}; it takes gcn, model or own")
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
