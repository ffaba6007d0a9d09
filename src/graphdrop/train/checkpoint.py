"""Checkpoints of a run, and `save` and `load` for trained models."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from graphdrop.calibration.methods import from_json
from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.nn.sampled import sampled
from graphdrop.train import tensor_file
from graphdrop.train.model_description import build_model, check_size, describe_model
from graphdrop.train.provenance import versions
from graphdrop.train.records import ModelNote, header_note

LAST, PREVIOUS, BEST = "last.safetensors", "previous.safetensors", "best.safetensors"
DAMAGED = "damaged.safetensors"

Contents = tuple[dict[str, Tensor], dict[str, Any]]


def keep(folder: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write a checkpoint; the previous one is kept."""
    beside = folder / f"new-{LAST}"
    tensor_file.write(beside, tensors, header)
    if (folder / LAST).exists():
        (folder / LAST).replace(folder / PREVIOUS)
    beside.replace(folder / LAST)
    tensor_file.sync_folder(folder)


def newest(folder: Path, say: Callable[[str], None]) -> Contents | None:
    """The newest undamaged checkpoint, or None if there is no checkpoint.

    A damaged newer one is reported by `say` and renamed, so that it does not replace a good one.
    """
    problems = []
    for name in (LAST, PREVIOUS):
        path = folder / name
        try:
            contents = tensor_file.read(path)
        except FileNotFoundError:
            continue
        except tensor_file.DamagedError as error:
            problems.append(str(error))
            continue
        if problems:
            os.replace(folder / LAST, folder / DAMAGED)
            epoch = contents[1].get("epoch")
            say(f"{problems[0]}: going on from {name}, after epoch {epoch}")
        return contents
    if problems:
        raise tensor_file.DamagedError(
            f"{'; '.join(problems)}: no checkpoint is left, so start anew in another folder"
        )
    return None


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
    tensor_file.write(path, state, {**header, **describe_model(model), **about})


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
    tensors, header = tensor_file.read(path)
    header_note(ModelNote, header, path)
    if header["kind"] == "training":
        raise ValueError(f"{path} is a checkpoint of a run, not a network: give {BEST} beside it")
    if model is None:
        check_size(path, header, tensors)
    try:
        model = build_model(path, header, model)
    except (*_NO_NETWORK, ValueError) as error:
        if isinstance(error, ValueError) and header["kind"] not in ("gcn", "model"):
            raise  # which says what only the user can do
        raise tensor_file.DamagedError(
            f"the header of {path} does not describe a network ({error}): save it again"
        ) from error
    sampled(model).defaults = _checked_defaults(path, header)
    load_state(model, tensors)
    return model.eval(), header


def load_state(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load a state into a model; one of another network is an error that says what differs."""
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


_NO_NETWORK = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValidationError,
)
"""What constructors raise where a description is none of ours, beside their own words."""


def _checked_defaults(path: Path, header: Mapping[str, Any]) -> PredictionDefaults:
    """The prediction defaults, whose calibrator and calibration nodes can be read."""
    try:
        defaults = PredictionDefaults.from_json(header["defaults"], from_json)
    except (*_NO_NETWORK, ValueError) as error:
        raise tensor_file.DamagedError(
            f"the header of {path} has settings of predictions that are none ({error}): save the "
            "network again"
        ) from error
    return defaults


def joined(groups: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Several states as one dict, with names such as `model/layers.0.weight`."""
    return {
        f"{group}/{n}": tensor for group, state in groups.items() for n, tensor in state.items()
    }


def parted(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """The inverse of `joined`."""
    groups: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        group, _, rest = name.partition("/")
        groups.setdefault(group, {})[rest] = tensor
    return groups


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The tensors of an optimizer, with names such as `3/exp_avg`."""
    states = optimizer.state_dict()["state"].items()
    return joined({str(n): {k: t for k, t in s.items() if torch.is_tensor(t)} for n, s in states})


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load what `optimizer_state` returned into an optimizer of the same parameters."""
    try:
        moments = {int(number): state for number, state in parted(tensors).items()}
        shapes = [p.shape for group in optimizer.param_groups for p in group["params"]]
        for number, state in moments.items():
            if any(t.dim() and t.shape != shapes[number] for t in state.values()):
                raise ValueError(f"the moments of parameter {number} have another shape")
        optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
    except (ValueError, IndexError, KeyError) as error:
        raise tensor_file.DamagedError(
            f"the checkpoint's moments are not those of this optimizer ({error}): start anew in "
            "another folder"
        ) from error
