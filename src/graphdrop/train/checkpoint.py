"""Checkpoints of a run, newest first, and trained networks as files: `save` and `load`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from graphdrop.nn.methods import Blueprint, NamedGCN
from graphdrop.train import archive
from graphdrop.train.provenance import versions

LAST, PREVIOUS, BEST = "last.safetensors", "previous.safetensors", "best.safetensors"
DAMAGED = "damaged.safetensors"
STATE = "state"
"""The kind of a file that has the state of an attached model."""

Contents = tuple[dict[str, Tensor], dict[str, Any]]


def keep(folder: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write the newest checkpoint of a run; the one before it stays."""
    beside = folder / f"new-{LAST}"
    archive.write(beside, tensors, header)
    if (folder / LAST).exists():
        (folder / LAST).replace(folder / PREVIOUS)
    beside.replace(folder / LAST)
    archive.sync_folder(folder)


def newest(folder: Path, say: Callable[[str], None]) -> Contents | None:
    """The newest checkpoint that is whole, or None where there never was one.

    What is wrong with a newer one is said, and it is moved aside, so that it never takes the
    place of a good one.
    """
    problems = []
    for name in (LAST, PREVIOUS):
        path = folder / name
        try:
            contents = archive.read(path)
        except FileNotFoundError:
            continue
        except archive.DamagedError as error:
            problems.append(str(error))
            continue
        if problems:
            os.replace(folder / LAST, folder / DAMAGED)
            epoch = contents[1].get("epoch")
            say(f"{problems[0]}: going on from {name}, after epoch {epoch}")
        return contents
    if problems:
        raise archive.DamagedError(
            f"{'; '.join(problems)}: no checkpoint is left, so start anew in another folder"
        )
    return None


def save(model: nn.Module, path: str | Path, **header: Any) -> None:
    """Write a trained network to one file that `load` builds it from.

    Args:
        model: a network that was built by the name of its method (`Trainer.model`).
        path: the file, best ending in `.safetensors`; the folder must exist.
        header: more to be known of it, as JSON values.
    """
    if not isinstance(model, NamedGCN):
        raise TypeError(
            f"model is a {type(model).__name__}: save takes a network built by the name of its "
            "method, such as Trainer(...).model; for others use torch.save(model.state_dict(), ...)"
        )
    write_model(Path(path), model.blueprint, model.state_dict(), header)


def write_model(
    path: Path, blueprint: Blueprint | None, state: Mapping[str, Tensor], header: Mapping[str, Any]
) -> None:
    """`save`, for a state that is not the network's present one, or of a model of the user's."""
    about = {"kind": STATE, "versions": versions()}
    if blueprint is not None:
        about |= {"kind": "model", "blueprint": blueprint.as_json()}
    archive.write(path, state, {**header, **about})


def load(path: str | Path) -> NamedGCN:
    """The network in a file that `save` wrote, or the selected one in a run's folder."""
    return load_with_header(path)[0]


def load_with_header(path: str | Path) -> tuple[NamedGCN, dict[str, Any]]:
    """`load`, and what the file says about the network."""
    path = Path(path)
    if path.is_dir():
        path = path / BEST
    if not path.is_file():
        raise ValueError(
            f"{path} is not there: give a file that graphdrop.save wrote, or the folder of a run "
            "that has got as far as its first evaluation"
        )
    tensors, header = archive.read(path)
    if header.get("kind") == STATE:
        raise ValueError(
            f"{path} is the state of a model of your own, which only you can build: build it, call "
            "attach, and give model.load_state_dict(safetensors.torch.load_file(path))"
        )
    if header.get("kind") != "model":
        raise ValueError(f"{path} is a checkpoint of a run, not a network: give {BEST} beside it")
    model = Blueprint.from_json(header["blueprint"]).build()
    model.load_state_dict(tensors)
    return model.eval(), header


def joined(groups: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Several states as one, under names such as `model/layers.0.weight`."""
    return {
        f"{group}/{n}": tensor for group, state in groups.items() for n, tensor in state.items()
    }


def parted(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """The states that `joined` made one."""
    groups: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        group, _, rest = name.partition("/")
        groups.setdefault(group, {})[rest] = tensor
    return groups


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The moments of every parameter, under names such as `3/exp_avg`."""
    return joined({str(n): state for n, state in optimizer.state_dict()["state"].items()})


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Give an optimizer of the same parameters the moments that `optimizer_state` took."""
    moments = {int(number): state for number, state in parted(tensors).items()}
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
