"""Writing and restoring the state of a run in its folder, and its selected model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphdrop.config import Config
from graphdrop.train import checkpoint, folder, provenance
from graphdrop.train.divergence import check_tensors
from graphdrop.train.records import TrainingNote, header_note
from graphdrop.train.result import Result
from graphdrop.train.selection import Selection

if TYPE_CHECKING:
    from graphdrop.train.trainer import Trainer


def keep(trainer: Trainer, path: Path, seconds: float) -> None:
    """Write a checkpoint from which the run resumes with the same result as without a stop."""
    state = trainer.model.state_dict()
    check_tensors(trainer, state)
    trainer.journal.flush()
    about = origin(trainer)
    if trainer.best:
        selected = {"epoch": trainer.selection.epoch, **about}
        checkpoint.write_model(path / checkpoint.BEST, trainer.model, trainer.best, selected)
    states = {
        "model": state,
        "best": trainer.best,
        "optimizer": checkpoint.optimizer_state(trainer.optimizer),
        "average": trainer.average.state_dict() if trainer.average is not None else {},
    }
    header = {
        "kind": "training",
        "epoch": trainer.epoch,
        "finished": trainer.finished,
        "selection": asdict(trainer.selection),
        "seconds": seconds,
        **about,
    }
    checkpoint.keep(path, checkpoint.joined(states), header)


def restore(trainer: Trainer, path: Path) -> None:
    """Load the newest undamaged checkpoint of a folder, if there is one, into a trainer."""
    contents = checkpoint.newest(path, trainer.progress.say)
    if contents is None:
        return
    tensors, header = contents
    note = header_note(TrainingNote, header, path / checkpoint.LAST)
    if note.data.sha256 != trainer.fingerprint:
        raise ValueError(
            f"{path} was trained on other data than {trainer.dataset.name} is now: its features, "
            "edges, labels or split have changed; give the same data, or another folder"
        )
    for package, version in provenance.versions().items():
        if version != (then := note.versions.get(package)):
            trainer.progress.say(f"{package} was {then} and is {version}: bits may differ")
    states = checkpoint.parted(tensors)
    checkpoint.load_state(trainer.model, states.get("model", {}))
    trainer.best = states.get("best", {})
    checkpoint.restore_optimizer(trainer.optimizer, states.get("optimizer", {}))
    if trainer.average is not None:
        trainer.average.load_state_dict(states.get("average", {}))
    trainer.epoch, trainer.finished, trainer.seconds = note.epoch, note.finished, note.seconds
    trainer.selection = Selection(**dict(note.selection))


def goes_on_from(config: Config, trial: Trainer) -> bool:
    """Whether training by these settings passes through the last state of a trial."""
    then, now = trial.config.train, config.train
    alike = then.model_copy(update={"epochs": now.epochs})
    same = trial.config.model_copy(update={"train": alike}).model_dump() == config.model_dump()
    # the last epoch of a trial is evaluated whatever its number, which a longer run does not do
    stopped = trial.epoch < then.epochs or trial.epoch % then.evaluate_every == 0
    return same and (then.epochs == now.epochs or stopped)


def adopt(trainer: Trainer, trial: Trainer) -> None:
    """Give a trainer the state that a trial ended with, as if it had trained so far itself."""
    trainer.model.load_state_dict(trial.model.state_dict())
    moments = checkpoint.optimizer_state(trial.optimizer)
    checkpoint.restore_optimizer(trainer.optimizer, moments)
    if trainer.average is not None and trial.average is not None:
        trainer.average.load_state_dict(trial.average.state_dict())
    trainer.epoch, trainer.selection, trainer.best = trial.epoch, trial.selection, trial.best
    settings = trainer.config.train
    trainer.finished = trial.epoch == settings.epochs or trial.selection.exhausted(
        trial.epoch, settings
    )
    trainer.right, trainer.seconds = trial.right, trial.journal.lines[-1]["seconds"]


def share(trainer: Trainer) -> None:
    """Give all ranks the state of the first one, which has read the checkpoint."""
    average = trainer.average
    state = {
        "model": trainer.model.state_dict(),
        "optimizer": checkpoint.optimizer_state(trainer.optimizer),
        "average": average.state_dict() if average is not None else {},
    }
    counts = trainer.epoch, trainer.finished, trainer.seconds, trainer.selection
    state, counts = trainer.ranks.tell((state, counts))
    if trainer.ranks.first:
        return
    checkpoint.load_state(trainer.model, state["model"])
    checkpoint.restore_optimizer(trainer.optimizer, state["optimizer"])
    if average is not None:
        average.load_state_dict(state["average"])
    trainer.epoch, trainer.finished, trainer.seconds, trainer.selection = counts


def conclude(trainer: Trainer, path: Path, result: Result) -> None:
    """Write the result of a run and its selected, calibrated model."""
    about = origin(trainer)
    dataset, split = trainer.dataset, trainer.dataset.split
    data = {
        **about["data"],
        "name": dataset.name,
        "files": dict(dataset.checksums),
        "split": {"name": split.name, "seed": split.seed, **split.sizes._asdict()},
    }
    written = {**result.as_json(), "seed": trainer.config.seed, **about, "data": data}
    folder.write_result(path, written)
    selected = {"epoch": trainer.selection.epoch, **about}
    state = trainer.model.state_dict()
    checkpoint.write_model(path / checkpoint.BEST, trainer.model, state, selected)


def origin(trainer: Trainer) -> dict[str, Any]:
    """The origin of a run's results: data, task, versions and settings, and how tables are read."""
    schema = trainer.dataset.schema
    return {
        "data": {"sha256": trainer.fingerprint},
        **({} if schema is None else {"schema": schema.as_json()}),
        "task": type(trainer.task).__name__.lower(),
        "versions": provenance.versions(),
        "config": trainer.config.model_dump(mode="json"),
    }
