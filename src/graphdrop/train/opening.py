"""Opening a run, finished or not: its settings, its selected model and its data."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from torch import nn
from torch_geometric.data import Data

from graphdrop.config import Config, DataSettings
from graphdrop.data import Dataset, load_dataset
from graphdrop.data.dataset import choose_split
from graphdrop.data.names import Names
from graphdrop.data.tables.loading import load_for
from graphdrop.data.tables.schema import Schema
from graphdrop.data.validate import MASKS
from graphdrop.metrics.registry import Output
from graphdrop.train.folder import stored_config
from graphdrop.train.model_file import BEST, load_with_header
from graphdrop.train.records import ModelNote, header_note, read_tensors
from graphdrop.train.run_dataset import (
    OWN,
    fingerprint,
    load_named_dataset,
    names_tables,
    resolve_dataset,
    table_options,
)

Source: TypeAlias = str | Path | Data | Dataset | DataSettings
"""A dataset by name, by path, as an object, or by the settings that differ from the run's."""


class Opened(NamedTuple):
    """An opened run, ready for predictions."""

    config: Config
    model: nn.Module
    data: Data
    header: dict[str, Any]
    """The header of the model file."""
    same: bool
    """Whether the data is, bit for bit, what the run was trained on."""
    notes: list[str]
    """Sentences on how another graph was read."""
    numbers: bool = False
    """Whether the run predicts numbers and not classes."""

    @property
    def output(self) -> Output:
        """The kind of outputs, as in `predict(output=...)`."""
        return "gaussian" if self.numbers else "classes"


def open_run(
    folder: str | Path, data: Source | None = None, model: nn.Module | None = None
) -> Opened:
    """Open the run in a folder; a dataset that its settings name must be unchanged.

    Args:
        folder: of the run.
        data: its graph, if it was given as a `Data` or has moved; or another graph, in which case
            `same` is false.
        model: a freshly built model, where the run trained one that only you can build.
    """
    config = stored_config(folder)
    network, header = load_with_header(folder, model)
    about = header_note(ModelNote, header, Path(folder))
    if about.task not in ("classes", "gaussian"):
        raise ValueError(
            f"{folder} predicts {about.task}, not classes or numbers: open it in "
            "Python by load(folder) and predict(model, data, output=...)"
        )
    schema, sha256 = Schema.from_json(about.schema_), about.data.sha256
    settings = None if isinstance(data, (Data, Dataset)) else _find_settings(config, data)
    if settings is not None and names_tables(settings):
        graph, notes = _read_tables(settings, schema, sha256)
        same = fingerprint(graph) == sha256
    elif data is None and config.data.dataset == OWN:
        raise ValueError(
            f"{folder} was trained on a graph of your own, which it does not hold: give it again, "
            "as data=... or --dataset FILE"
        )
    else:
        notes, found = list[str](), _read_dataset(config, data)
        graph, same = found.data, fingerprint(found.data) == sha256
        drawn = found.split.name != "public" and not isinstance(data, Dataset)
        if not same and drawn and found.stored_masks:  # another graph brings its own split
            graph = copy.copy(graph)
            graph.update(dict(found.stored_masks))
            split = choose_split(graph, "public", 0)
            graph.update(dict(zip(MASKS, (split.train, split.val, split.test), strict=True)))
    if schema is not None and (names := Names.of(graph)).classes is None:
        graph = copy.copy(graph)
        graph.names = replace(names, classes=schema.classes or None)
    if data is None and not same:
        raise ValueError(
            f"{config.data.dataset} is no longer the data that {folder} was trained on: its "
            "features, edges, labels or split have changed"
        )
    return Opened(config, network, graph, header, same, notes, about.task == "gaussian")


def schema_of(folder: str | Path) -> Schema:
    """How the columns of tables became the features of a run; `apply_schema` takes it."""
    path = Path(folder) / BEST
    schema = Schema.from_json(header_note(ModelNote, read_tensors(path)[1], path).schema_)
    if schema is None:
        raise ValueError(f"{folder} was not trained on tables: give a run that was")
    return schema


def other_data(folder: str | Path) -> str:
    """The message for a run that is given other data than it was trained on."""
    return (
        f"the data given is not what {folder} was trained on: its features, edges, labels or split "
        "are others"
    )


def _find_settings(config: Config, source: str | Path | DataSettings | None) -> DataSettings:
    """The run's settings of the data, changed by those that are given."""
    if source is None:
        return config.data
    given: dict[str, Any] = {"dataset": str(source)}
    if isinstance(source, DataSettings):
        given = source.model_dump(exclude_unset=True)
    elsewhere = {"edges": ""} if "dataset" in given else {}  # the run's edges are others
    return config.data.model_copy(update=elsewhere | given)


def _read_tables(
    settings: DataSettings, schema: Schema | None, sha256: str
) -> tuple[Data, list[str]]:
    """The run's own tables, perhaps elsewhere now, or those of another graph by its schema."""
    try:
        data = load_named_dataset(settings).data
        if schema is None or fingerprint(data) == sha256:
            return data, []
    except ValueError:
        if schema is None:
            raise
    return load_for(schema, settings.dataset, settings.edges or None, table_options(settings))


def _read_dataset(config: Config, source: Source | None) -> Dataset:
    """The dataset that is given, or named with the root and the split of the run."""
    settings = config.data
    if isinstance(source, Dataset):
        return source
    if isinstance(source, (str, Path, DataSettings)):
        name = source.dataset if isinstance(source, DataSettings) else source
        return load_dataset(name, settings.root or None, settings.split, settings.split_seed)
    return resolve_dataset(config, source)[1]
