"""Training as jobs of an executor: a run in its folder, and a trial of `tune`."""

from __future__ import annotations

import platform
from functools import lru_cache

from graphdrop.config import Config, DataSettings
from graphdrop.data import Dataset
from graphdrop.train.progress import Silent
from graphdrop.train.provenance import fingerprint
from graphdrop.train.result import Result
from graphdrop.train.run_dataset import load_named_dataset
from graphdrop.train.trainer import Trainer


def train_in_folder(config: Config, folder: str, data: str | None, device: str = "cpu") -> Result:
    """Train in a folder, or go on with what is there; a job.

    Args:
        config: all settings of the run.
        folder: the run's folder.
        data: the fingerprint that its data must have, if known.
        device: where to compute, as `Trainer` takes it.
    """
    if data is not None:
        load_same_dataset(config.data, data)
    trainer = Trainer(
        config,
        None,
        folder,
        resume=True,
        progress=Silent(),
        device=trainer_device(device),
    )
    return trainer.fit()


def trainer_device(device: str) -> str | None:
    """The device as `Trainer` takes it: None for the CPU, where datasets are anyway."""
    return None if device == "cpu" else device


def load_same_dataset(settings: DataSettings, data: str) -> Dataset:
    """The dataset that the settings name, which must have this fingerprint."""
    dataset, found = _loaded(settings)
    if data != found:
        raise ValueError(
            f"{settings.dataset} is not the same on {platform.node()} as where the run was asked "
            "for: give every node the same files, in a folder that all of them see"
        )
    return dataset


@lru_cache(maxsize=1)
def _loaded(settings: DataSettings) -> tuple[Dataset, str]:
    dataset = load_named_dataset(settings)
    return dataset, fingerprint(dataset.data)
