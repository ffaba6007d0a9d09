"""`save` and `load`: a trained model as one file, with what `predict` reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from graphdrop.calibration.fit import from_json
from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.nn.description import build_part, describe_part, is_known
from graphdrop.nn.methods import Blueprint
from graphdrop.nn.models import GCN
from graphdrop.nn.sampled import sampled
from graphdrop.nn.sampled_layer import SampledLayer
from graphdrop.train.records import (
    DamagedError,
    ModelNote,
    header_note,
    read_tensors,
    versions,
    write_tensors,
)

BEST = "best.safetensors"
"""The selected model of a run, in its folder."""


def save(model: nn.Module, path: str | Path, **header: Any) -> None:
    """Write a model to one file: its state, and the settings that `predict` reads.

    Args:
        model: a `GCN`, a model that `attach` was called on, or a module with layers such as
            `SampledGCNConv` in it.
        path: the file, with a name that ends in `.safetensors`; its folder must exist.
        header: further JSON values to store.

    Example:
        >>> from graphdrop import GCN, DropEdge
        >>> save(GCN(8, 16, 2, 3, DropEdge(0.25)), "model.safetensors")
        >>> len(load("model.safetensors").layers)
        2
    """
    write_model(Path(path), model, model.state_dict(), header)


def write_model(
    path: Path, model: nn.Module, state: Mapping[str, Tensor], header: Mapping[str, Any]
) -> None:
    """Like `save`, with a given state instead of the model's own."""
    about = {"defaults": sampled(model).defaults.as_json(), "versions": versions()}
    write_tensors(path, state, {**header, **describe_model(model), **about})


def load(path: str | Path, model: nn.Module | None = None) -> Any:
    """Read a model from a file that `save` wrote, or the selected model from a run's folder.

    Args:
        path: the file, or the folder of a run.
        model: for a model of your own class, a newly built one of the same architecture. If a
            sampler was attached to the saved model, it is attached to this one, too; then the
            saved state is loaded into it.

    Example:
        >>> from graphdrop import GCN, DropEdge
        >>> save(GCN(8, 16, 2, 3, DropEdge(0.25)), "model.safetensors")
        >>> load("model.safetensors").drop_rates()
        {'layers.0': 0.25, 'layers.1': 0.25}
    """
    return load_with_header(path, model)[0]


def load_with_header(
    path: str | Path, model: nn.Module | None = None
) -> tuple[Any, dict[str, Any]]:
    """Like `load`; also returns the header of the file."""
    path = Path(path)
    if path.is_dir():
        path = path / BEST
    if not path.is_file():
        raise ValueError(
            f"{path} is not there: give a file that graphdrop.save wrote, or the folder of a run "
            "that has got as far as its first evaluation"
        )
    tensors, header = read_tensors(path)
    kind = header_note(ModelNote, header, path).kind
    if kind == "training":
        raise ValueError(f"{path} is a checkpoint of a run, not a network: give {BEST} beside it")
    if kind == "own" and model is None:
        raise ValueError(
            f"{path} is the state of a model of your own, which only you can build: build it, and "
            "give load(path, model=...)"
        )
    if kind != "own":
        check_size(path, header, tensors)
    try:
        model = build_model(header, model)
        sampled(model).defaults = PredictionDefaults.from_json(header["defaults"], from_json)
    # what constructors raise where a description is none of ours
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as e:
        if kind == "own" and isinstance(e, ValueError):
            raise  # which says how the user's model differs
        raise DamagedError(
            f"the header of {path} does not describe a network ({e}): save it again"
        ) from e
    load_state(model, tensors)
    return model.eval(), header


def load_state(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load a state into a model; an error names what does not fit."""
    try:
        missing, unexpected = model.load_state_dict(state, strict=False)
    except RuntimeError as error:  # shapes that do not fit
        first = str(error).splitlines()[-1].strip()
        raise ValueError(
            f"the state is not that of this {type(model).__name__} ({first}): build the model as "
            "it was when it was saved"
        ) from error
    if missing or unexpected:
        wrong = [f"no {name}" for name in missing]
        wrong += [f"{name}, which it lacks" for name in unexpected]
        raise ValueError(
            f"the state is not that of this {type(model).__name__}: the file has "
            f"{', '.join(wrong[:3])}; build the model as it was when it was saved"
        )


def describe_model(model: nn.Module) -> dict[str, Any]:
    """The kind of a model and its arguments, as JSON values."""
    own = sampled(model).estimator
    estimator = describe_part(own) if own is not None and is_known(own) else None
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
    stored, problem = sum(tensor.numel() for tensor in tensors.values()), ""
    for name, size in _iterate_sizes({key: header.get(key) for key in ("gcn", "blueprint")}):
        if size > (len(tensors) if name in ("num_layers", "layers") else max(stored, SMALL)):
            problem = f"{name} is {size}"
    about = header.get("gcn") or {}
    names = ("in_channels", "hidden_channels", "out_channels")
    given, hidden, out = (n if type(n := about.get(name)) is int else 0 for name in names)
    if about.get("num_layers") != 1 and hidden * (given + out) > stored:
        problem = f"its layers have {given}, {hidden} and {out} channels"
    if problem:
        raise DamagedError(
            f"the header of {path} describes another network than the file has: "
            f"{problem[:200]}, and there are {len(tensors)} tensors of {stored} values; save it "
            "again"
        )


SMALL = 1 << 12
"""A description may name sizes up to this whatever the file holds."""


def _iterate_sizes(values: Any) -> Iterator[tuple[str, int]]:
    """All integers of a description by name, without those that say nothing about the weights."""
    for name, value in values.items() if isinstance(values, Mapping) else ():
        if type(value) is int and name not in ("edges", "seed"):
            yield name, value
        yield from _iterate_sizes(value)


def build_model(header: Mapping[str, Any], model: nn.Module | None) -> nn.Module:
    """A model from its description, with initial weights, or the user's with a sampler attached."""
    if header["kind"] == "gcn":
        return GCN.from_description(header["gcn"])
    if header["kind"] == "model":
        model = Blueprint.from_json(header["blueprint"]).build()
    if model is None:
        raise ValueError(f"its kind is {header['kind']!r}; it takes gcn, model or own")
    attached = header.get("attached")
    if attached is not None and not any(isinstance(m, SampledLayer) for m in model.modules()):
        from graphdrop.nn.attach import attach  # noqa: PLC0415 - PyG's layers take seconds to import

        parts = {n: build_part(v) if isinstance(v, Mapping) else v for n, v in attached.items()}
        attach(model, **parts)
    if header.get("estimator") is not None:
        sampled(model).estimator = build_part(header["estimator"])
    return model
