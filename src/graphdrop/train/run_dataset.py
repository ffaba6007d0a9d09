"""The dataset of a run: the one that the settings name, or a given `Data`."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable
from dataclasses import asdict

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from graphdrop.config import Config, DataSettings
from graphdrop.config.settings import TABLE_SETTINGS
from graphdrop.data import Dataset, load_dataset, load_tables
from graphdrop.data.checksums import known_checksum, tensor_parts
from graphdrop.data.names import Names
from graphdrop.data.sources import has_own_split, short_name
from graphdrop.data.splits import Split, describe, random_fractions, strata
from graphdrop.data.tables.columns import TableOptions
from graphdrop.data.tables.files import is_tables
from graphdrop.data.validate import MASKS, asked_targets, validate_graph, validate_targets
from graphdrop.nn.stack import WEIGHTED
from graphdrop.train.tasks import Links, Task, check_column, infer_task

OWN = "data"
"""The name of a graph that was given as a PyG `Data`."""
TARGETS = ("y", *MASKS)
"""The targets and the split, as a graph holds them."""


def load_named_dataset(settings: DataSettings) -> Dataset:
    """The dataset that the settings name, with its split."""
    if names_tables(settings):
        return load_tables(
            settings.dataset,
            settings.edges or None,
            **asdict(table_options(settings)),
            split=settings.split,
            seed=settings.split_seed,
        )
    for name in TABLE_SETTINGS:
        if (value := getattr(settings, name)) not in ("", "impute", "auto"):
            raise ValueError(
                f"data.{name} is {value!r} and data.dataset {settings.dataset!r}; it takes a table "
                "of nodes. Give --nodes FILE, or a folder with nodes.csv and edges.csv."
            )
    return load_dataset(
        settings.dataset, settings.root or None, settings.split, settings.split_seed
    )


def names_tables(settings: DataSettings) -> bool:
    """Whether the settings name a table of nodes, or a folder with one."""
    return not has_own_split(settings.dataset) and is_tables(settings.dataset)


def table_options(settings: DataSettings) -> TableOptions:
    """Which column is what, by the settings."""
    return TableOptions(
        label=settings.label_column or None,
        id=settings.id_column or None,
        features=settings.feature_columns or None,
        split_column=settings.split_column or None,
        split_by_time=settings.split_by_time or None,
        source=settings.source_column or None,
        target=settings.target_column or None,
        weight=settings.weight_column or None,
        missing=settings.missing,
        task=settings.task,
    )


def resolve_dataset(
    config: Config, data: Dataset | Data | None, task: Task | None = None
) -> tuple[Config, Dataset]:
    """The settings and the dataset of a run; a given `Data` gets the name `OWN`.

    Where the settings leave the split to the default, they then name the one that was used.
    """
    if not isinstance(config, Config):
        raise TypeError(
            f"config is a {type(config).__name__}: the settings come first, as in "
            "Trainer(Config(), data)"
        )
    config, dataset = _read_data(config, data, task)
    weight = dataset.data.get("edge_weight")
    if isinstance(weight, Tensor) and bool((weight < 0).any()):
        edge = int((weight < 0).nonzero()[0])
        raise ValueError(  # no normalization of an adjacency matrix is meant for them
            f"data.edge_weight is {float(weight.flatten()[edge]):g} for edge {edge}; Trainer takes "
            "weights of at least 0: remove such edges, or set data.edge_weight = None"
        )
    if config.data.split != "default":
        return config, dataset
    split = dataset.split
    # what was not drawn came with the data
    drawn = split.name in ("random-per-class", "random-fractions", "ppnp")
    used: dict[str, object] = {"split": split.name if drawn else "public"}
    if split.seed is not None:
        used["split_seed"] = split.seed
    return config.model_copy(update={"data": config.data.model_copy(update=used)}), dataset


def _read_data(
    config: Config, data: Dataset | Data | None, task: Task | None
) -> tuple[Config, Dataset]:
    if data is None:
        return config, load_named_dataset(config.data)
    if isinstance(data, HeteroData):
        raise TypeError(
            "data is a HeteroData: Trainer takes graphs of one kind of nodes; wrap the model as "
            "docs/attach.md shows and train it in a loop of your own, or use to_homogeneous()"
        )
    if isinstance(data, Dataset):
        if config.data.task not in ("auto", "numbers" if not data.num_classes else "classes"):
            raise ValueError(
                f"data.task is {config.data.task!r}, but {data.name} was read with other targets: "
                "give task=... to the function that reads it"
            )
        if config.recipe != "paper" and "dataset" not in config.data.model_fields_set:
            return _name_dataset(config, data.name), data  # no setting depends on the name
        if data.name != short_name(config.data.dataset):
            raise ValueError(
                f"dataset is {data.name!r} and data.dataset {config.data.dataset!r}: settings "
                f"depend on the data, so give Config(data={{'dataset': {data.name!r}}}, ...)"
            )
        return config, data
    if not isinstance(data, Data):
        graphs = isinstance(data, (list, tuple)) and all(isinstance(g, Data) for g in data)
        remedy = (
            "for several graphs, join them with torch_geometric.data.Batch.from_data_list; "
            "examples/graph_classification.py classifies whole graphs"
            if graphs
            else "give a PyG Data or what load_dataset returns"
        )
        raise TypeError(f"data is a {type(data).__name__}, and Trainer takes one graph: {remedy}")
    if config.data.dataset == DataSettings().dataset:
        config = _name_dataset(config, OWN)
    if isinstance(task, Links):
        return config, _make_pairs_dataset(data, task)
    y = data.y
    if isinstance(y, Tensor) and task is None:
        y = asked_targets(y, config.data.task)
        check_column(y)
        if y is not data.y:
            graph: Data = copy.copy(data)
            graph.y = y
            data = graph
    if isinstance(y, Tensor) and (y.is_floating_point() or y.dim() != 1):
        return config, _make_dataset_without_classes(data, task, config.data)
    return config, load_dataset(data, None, config.data.split, config.data.split_seed)


def _name_dataset(config: Config, name: str) -> Config:
    named = config.data.model_copy(update={"dataset": name})
    return config.model_copy(update={"data": named})


def _make_pairs_dataset(data: Data, task: Links) -> Dataset:
    """A graph whose links are predicted: nodes need neither targets nor a split."""
    nodes = validate_graph(data)
    if int(task.pairs.max()) >= nodes or int(task.pairs.min()) < 0:
        raise ValueError(
            f"the pairs of the task have node {int(task.pairs.max())}, but the rows of x are nodes "
            f"0..{nodes - 1}: renumber them"
        )
    data = copy.copy(data)
    data.x = data.x.to(torch.float32)
    return Dataset(OWN, data, task.split, 0)


CALIBRATION_SEED = 1
"""The seed of the random choice of calibration nodes."""


def reserve_calibration_nodes(parts: dict[str, Tensor], config: Config) -> dict[str, Tensor]:
    """The masks of a split, with a fraction of the validation nodes reserved.

    Half of it is for the calibrator and half for prediction sets, whose guarantee needs nodes that
    are used for nothing else. By default all validation nodes are used for both and for selection.
    """
    validation, share = parts["validation"], config.data.calibration
    if not share:
        return parts | {"calibration": validation, "sets": validation}
    nodes = validation.nonzero().flatten()
    count = round(share * len(nodes))
    fitted = 0 if config.predict.calibration == "none" else (count + 1) // 2
    if not fitted < count < len(nodes):
        raise ValueError(
            f"data.calibration is {share} of {len(nodes)} validation nodes, which leaves none for "
            "the calibrator, for prediction sets or for the selection: give another share, or more "
            "validation nodes"
        )
    order = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(CALIBRATION_SEED))
    fits, sets = torch.zeros_like(validation), torch.zeros_like(validation)
    fits[nodes[order[:fitted]]] = True
    sets[nodes[order[fitted:count]]] = True
    left = validation & ~(fits | sets)
    return parts | {"validation": left, "calibration": fits if fitted else left, "sets": sets}


def _make_dataset_without_classes(data: Data, task: Task | None, settings: DataSettings) -> Dataset:
    """A dataset whose targets are not classes, with the masks of the `Data` or a random split."""
    validate_targets(data)
    missing = data.get(MASKS[0]) is None
    data, notes = copy.copy(data), tuple[str, ...]()
    if missing:
        if settings.split not in ("default", "random-fractions"):
            raise ValueError(
                f"data.split is {settings.split!r} and the targets are not classes: give "
                "'random-fractions', or masks in the data"
            )
        split = random_fractions(strata(data.y), seed=settings.split_seed)
        data.train_mask, data.val_mask, data.test_mask = split.train, split.val, split.test
        notes = (describe(split, strata(data.y)),)
    data.x = data.x.to(torch.float32)
    train, val, test = (data[name] for name in MASKS)
    if not missing:
        split = Split(train, val, test, "given")
    if task is None:
        infer_task(data.y[split.used], settings.task)  # refuses what is no target
    return Dataset(OWN, data, split, 0, notes=notes)


def check_edges_are_read(data: Data, architecture: str) -> None:
    """Refuse numbers of edges that a network built by this name would not read."""
    if data.get("edge_weight") is not None and architecture not in ("gcn", *WEIGHTED):
        raise ValueError(
            f"the graph has edge weights, which {architecture} does not read: take them out of the "
            f"data, or choose {', '.join(('gcn', *WEIGHTED))}"
        )
    if data.get("edge_attr") is not None:
        raise ValueError(
            f"data has edge_attr, which the network {architecture} does not read: give Trainer a "
            "model of your own whose forward takes edge_attr, put one weight per edge into "
            "edge_weight, or set data.edge_attr = None"
        )


def fingerprint(data: Data) -> str:
    """The sha256 of the features, edges, labels and split of a graph."""
    return _sha256_of(data, ("x", "edge_index", "edge_weight", "edge_attr", *TARGETS)).hexdigest()


def graph_fingerprint(data: Data) -> str:
    """The sha256 of the ids, edges, labels and split of a graph: of all but its features.

    Runs on tables from which other columns were read have it in common.
    """
    digest = _sha256_of(data, ("edge_index", *TARGETS))
    names = Names.of(data)
    digest.update(repr((names.ids, names.classes)).encode(errors="surrogatepass"))
    return digest.hexdigest()


def _sha256_of(data: Data, names: Iterable[str]) -> hashlib._Hash:
    digest = hashlib.sha256()
    for name in names:
        tensor = data.get(name)
        if tensor is None:
            continue
        for part in tensor_parts(tensor):
            digest.update(f"{name} {part.dtype} {tuple(part.shape)}\n".encode())
            if (known := known_checksum(part)) is not None:
                digest.update(known.encode())
            else:
                digest.update(part.detach().cpu().contiguous().view(-1).numpy().data)
    return digest
