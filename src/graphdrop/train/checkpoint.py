"""Checkpoints: the state of a run in its folder, from which the run resumes after it was killed.

The newest checkpoint and the one before it are kept, so that a damaged file costs some epochs and
not the run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from graphdrop.io.files import sync_folder
from graphdrop.train.model_file import BEST, write_model
from graphdrop.train.objective import check_tensors
from graphdrop.train.records import (
    DamagedError,
    TrainingNote,
    header_note,
    read_tensors,
    versions,
    write_tensors,
)
from graphdrop.train.run import Run
from graphdrop.train.state import State

LAST, PREVIOUS = "last.safetensors", "previous.safetensors"
DAMAGED = "damaged.safetensors"


def write_checkpoint(folder: Path, run: Run, state: State) -> None:
    """Write the state of a run, and its best model so far if there is one.

    Args:
        folder: of the run.
        run: whose origin is written into both files.
        state: a resumed run ends with the same result as one that was not stopped here.
    """
    tensors = state.tensors()
    check_tensors(tensors["model"])
    origin = describe_origin(run)
    if state.best:
        selected = {"epoch": state.selection.epoch, **origin}
        write_model(folder / BEST, state.model, state.best, selected)
    flat = {f"{group}/{name}": t for group, part in tensors.items() for name, t in part.items()}
    write_newest(folder, flat, {"kind": "training", **state.counts(), **origin})


def describe_origin(run: Run) -> dict[str, Any]:
    """The origin of a run's results: data, task, versions and settings, and how tables are read."""
    schema = run.dataset.schema
    return {
        "data": {"sha256": run.fingerprint},
        **({} if schema is None else {"schema": schema.as_json()}),
        "task": type(run.task).__name__.lower(),
        "versions": versions(),
        "config": run.config.model_dump(mode="json"),
    }


def restore_checkpoint(folder: Path, run: Run, state: State, say: Callable[[str], None]) -> None:
    """Load the newest undamaged checkpoint of a folder, if there is one, into the state of a run.

    Args:
        folder: of the run.
        run: with the settings of the folder, and the data that the checkpoint was trained on.
        state: what is changed.
        say: takes a line on a damaged checkpoint, or on packages that have changed.
    """
    contents = read_newest(folder, say)
    if contents is None:
        return
    tensors, header = contents
    note = header_note(TrainingNote, header, folder / LAST)
    if note.data.sha256 != run.fingerprint:
        raise ValueError(
            f"{folder} was trained on other data than {run.dataset.name} is now: its features, "
            "edges, labels or split have changed; give the same data, or another folder"
        )
    for package, version in versions().items():
        if version != (then := note.versions.get(package)):
            say(f"{package} was {then} and is {version}: bits may differ")
    groups: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        group, _, name = key.partition("/")
        groups.setdefault(group, {})[name] = tensor
    state.load(groups, note.model_dump())


def write_newest(folder: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write a checkpoint; the one before it is kept."""
    new = folder / f"new-{LAST}"
    write_tensors(new, tensors, header)
    if (folder / LAST).exists():
        (folder / LAST).replace(folder / PREVIOUS)
    new.replace(folder / LAST)
    sync_folder(folder)


def read_newest(
    folder: Path, say: Callable[[str], None]
) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The newest undamaged checkpoint; ``None`` if there is no checkpoint.

    A damaged newer one is reported by `say` and renamed, so that it does not replace a good one.
    """
    problems = []
    for name in (LAST, PREVIOUS):
        path = folder / name
        try:
            contents = read_tensors(path)
        except FileNotFoundError:
            continue
        except DamagedError as error:
            problems.append(str(error))
            continue
        if problems:
            os.replace(folder / LAST, folder / DAMAGED)
            epoch = contents[1].get("epoch")
            say(f"{problems[0]}: going on from {name}, after epoch {epoch}")
        return contents
    if problems:
        raise DamagedError(
            f"{'; '.join(problems)}: no checkpoint is left, so start anew in another folder"
        )
    return None
