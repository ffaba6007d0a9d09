"""The entries that a stranger's bytes can take, each with valid files, mutations and a reader."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import struct
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from torture import mutations, silent, valid_files
from torture.mutations import Mutate

MUTATIONS: Mapping[str, Mutate] = {
    "*.npz": mutations.mutated_archive,
    "*.npy": mutations.mutated_array,
    "*.csv": mutations.mutated_table,
    "*.jsonl": mutations.mutated_lines,
    "*.json": mutations.mutated_json,
    "*.safetensors": mutations.mutated_tensors,
    "ind.*.test.index": mutations.mutated_bytes,
    "ind.*": mutations.mutated_pickle,
    "?.ind.*": mutations.mutated_pickle,
    "*": mutations.mutated_bytes,
}
"""How a file is changed, by its name; the first that fits."""


def mutation_of(name: str) -> Mutate:
    return next(change for pattern, change in MUTATIONS.items() if fnmatch(name, pattern))


@dataclass(frozen=True)
class Entry:
    """Valid files in sub-folders of a folder, and what reads them."""

    name: str
    make: Callable[[Path], None]
    """Writes one valid sub-folder after the other."""
    read: Callable[[Path, Random], object]
    """Reads a sub-folder; a case ends well or in a named error."""
    share: int
    """Of 1,125 cases."""
    writes: bool = False
    """Whether it may write to the sub-folder."""
    mutated: bool = True
    """Whether files are changed before each case; the reader changes them otherwise."""
    warm: int = 10
    """Valid cases before the first mutation, which import and compile what is needed."""


def read_planetoid(folder: Path, random: Random) -> None:
    from graphdrop.data import dataset  # noqa: PLC0415
    from graphdrop.io.memory import most_bytes  # noqa: PLC0415

    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    dataset.load_files("ring", files, "public", 0, most_bytes())


def read_graph(folder: Path, random: Random) -> None:
    from graphdrop import load_dataset  # noqa: PLC0415

    split = random.choice(("public", "public", "random-per-class", "random-fractions"))
    str(load_dataset(folder / "graph.npz", split=split, seed=random.choice((0, 0, 0, 1, 5))))


def read_tables(folder: Path, random: Random) -> None:
    from graphdrop import load_dataset, load_tables  # noqa: PLC0415
    from graphdrop.data.tables.columns import TableOptions  # noqa: PLC0415
    from graphdrop.data.tables.loading import load_for  # noqa: PLC0415

    kind = random.random()
    if kind < 0.2 and SCHEMAS:  # another graph with the columns of the valid one
        asked = random.choice(({}, {"split_column": "part"}, {"missing": "refuse"}))
        load_for(SCHEMAS[0], folder, None, TableOptions(**asked))
        return
    if kind < 0.5:
        dataset = load_dataset(folder, split=random.choice(("public", "random-fractions")))
        SCHEMAS[:] = SCHEMAS or [dataset.schema]
        return
    options: dict[str, Any] = {
        "label": ("label", "kind", "none"),
        "id": ("id", "#1", "none"),
        "features": (
            "size",
            "size,kind",
            "kind:category",
            "size:number,kind",
            "id:category",
            "x:y",
        ),
        "split_column": ("part", "kind", "none"),
        "weight": ("weight", "source", "none"),
        "missing": ("impute", "refuse"),
    }
    chosen = {
        name: values[int(random.random() ** 3 * len(values))] for name, values in options.items()
    }
    load_tables(folder, **{name: chosen[name] for name in chosen if random.random() < 0.4})


SCHEMAS: list[Any] = []
"""How the columns of the first valid table become features."""


def read_settings(folder: Path, random: Random) -> None:
    from graphdrop import config  # noqa: PLC0415
    from graphdrop.config import toml  # noqa: PLC0415

    asked = toml.read(folder / "config.toml")
    if random.random() < 0.3:
        words = (
            "train.epochs=3",
            "model.hidden=8",
            "seed=1",
            "data.split=[1]",
            "a.b.c=1",
            "model=1",
        )
        asked = toml.override(asked, mutations.mutated_words([random.choice(words)], random))
    toml.to_toml(config.settle(asked))


def read_network(folder: Path, random: Random) -> None:
    from graphdrop import load  # noqa: PLC0415
    from graphdrop.train import checkpoint  # noqa: PLC0415

    if (folder / "last.safetensors").exists() and random.random() < 0.3:
        checkpoint.read_newest(folder, lambda _: None)
    load(folder if random.random() < 0.5 else folder / "best.safetensors")


def read_records(folder: Path, random: Random) -> None:
    from experiments.store import Store  # noqa: PLC0415
    from graphdrop.train.records import metrics_lines, result_note  # noqa: PLC0415

    Store(folder).records()
    list(metrics_lines(folder / "metrics.jsonl"))
    result_note(folder / "result.json")


def read_run(folder: Path, random: Random) -> None:
    from graphdrop import predict  # noqa: PLC0415
    from graphdrop.calibration import find_trusted  # noqa: PLC0415
    from graphdrop.report.card import model_card  # noqa: PLC0415
    from graphdrop.train.opening import open_run, schema_of  # noqa: PLC0415

    model_card(folder)
    opened = open_run(folder)
    answer = predict(opened.model, opened.data, 2)
    find_trusted(answer)
    if answer.origin.set_nodes is not None:
        answer.sets()
    if random.random() < 0.2:
        schema_of(folder)


def read_store(folder: Path, random: Random) -> None:
    from graphdrop import GCN, DropEdge, load_dataset, predict  # noqa: PLC0415
    from graphdrop.data.store import Store  # noqa: PLC0415

    if random.random() < 0.3:
        Store(folder).verify()
    dataset = load_dataset(folder, split=random.choice(("public", "random-fractions")))
    str(dataset)
    if random.random() < 0.3:
        classes = min(dataset.num_classes, 8)
        model = GCN(min(dataset.data.x.shape[1], 64), 4, 2, max(classes, 2), DropEdge(0.2))
        if dataset.data.x.shape[1] <= 64:
            predict(model, dataset.data, 1)


def read_arrays(folder: Path, random: Random) -> None:
    from graphdrop.data.store import convert  # noqa: PLC0415

    found, directed = sorted(folder.glob("*.*")), random.random() < 0.5
    with TemporaryDirectory(dir=folder) as made:
        if (folder / "raw").is_dir():
            convert(folder, Path(made) / "store", directed=directed)
            return
        edges, features, labels = (
            next((path for path in found if path.name.startswith(name)), folder / f"{name}.npy")
            for name in ("edges", "features", "labels")
        )
        files = {"features": features, "labels": labels}
        convert(edges, Path(made) / "store", **files, directed=directed)


def read_words(folder: Path, random: Random) -> None:
    """The command with changed words; other than its exit codes 0 and 2 nothing may come out."""
    from graphdrop.cli import main  # noqa: PLC0415

    (folder / "out").mkdir(exist_ok=True)
    words = random.choice(COMMANDS)
    for name in ("graph", "run", "store", "out", "nodes"):
        words = [word.replace(f"<{name}>", str(folder / PLACES[name])) for word in words]
    given = mutations.mutated_words(words, random)
    said = io.StringIO()
    before = os.getcwd()
    os.chdir(folder / "out")
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            main(given)
    except SystemExit as stop:
        if stop.code not in (0, 2, None):
            raise AssertionError(
                f"exit code {stop.code} of {given}: {said.getvalue()[-300:]}"
            ) from None
        if "Traceback" in said.getvalue():
            raise AssertionError(f"a traceback of {given}") from None
    finally:
        os.chdir(before)


PLACES = {
    "graph": "graph.npz",
    "run": "run",
    "store": "store",
    "out": "out/new",
    "nodes": "nodes.csv",
}
COMMANDS = [
    line.split()
    for line in (
        "data info <graph> --split random-fractions --seed 1",
        "data info <store>",
        "data info <nodes> --label label --features size,kind",
        "data verify <store>",
        "data list --files --root <out>",
        "data convert <graph> <out>",
        "train --dataset <graph> --method DO --epochs 1 --out <out> --set predict.samples=1",
        "train --dataset <graph> --method GCN-BBGDC --recipe paper --show-config",
        "evaluate <run> --samples 1 --json",
        "predict <run> -o <out>.csv --samples 1 --coverage 0.8",
        "card <run> -o <out>.md --force",
    )
]

ENTRIES: Mapping[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("planetoid", valid_files.planetoid, read_planetoid, 170),
        Entry("npz", valid_files.npz, read_graph, 190),
        Entry("csv", valid_files.csv_tables, read_tables, 140),
        Entry("parquet", valid_files.parquet_tables, read_tables, 90),
        Entry("toml", valid_files.settings, read_settings, 110),
        Entry("checkpoint", valid_files.networks, read_network, 90, writes=True),
        Entry("jsonlines", valid_files.records, read_records, 80),
        Entry("run", valid_files.runs, read_run, 20),
        Entry("store", valid_files.stores, read_store, 55),
        Entry("arrays", valid_files.arrays, read_arrays, 30, writes=True),
        Entry(
            "arguments",
            valid_files.for_commands,
            read_words,
            10,
            writes=True,
            mutated=False,
            warm=13,
        ),
        *(
            Entry(name, make, read, share, writes=True, mutated=False, warm=2)
            for name, make, read, share in (
                ("special", silent.special_files, silent.read_special_files, 25),
                ("changed", silent.changed_stores, silent.read_changed_store, 20),
                ("shuffled", silent.shuffled_tables, silent.read_shuffled_tables, 15),
                ("few-nodes", silent.few_nodes, silent.read_few_nodes, 5),
            )
        ),
    )
}


def changed(folder: Path, random: Random) -> dict[Path, bytes | None]:
    """The new contents of one or two files of a valid folder; `None` for one that vanishes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    found: dict[Path, bytes | None] = {}
    for _ in range(random.choice((1, 1, 1, 2))):
        path = random.choice(files)
        kind = random.random()
        if kind < 0.02:
            found[path] = None
        elif kind < 0.04:
            found[path] = random.choice(files).read_bytes()
        elif kind < 0.12:
            found[path] = mutations.garbage(random)
        else:
            found[path] = _mutated(path, random)
    if (folder / "manifest.json").exists() and random.random() < 0.7:
        _sign(folder / "manifest.json", found)
    return found


def _sign(manifest: Path, found: dict[Path, bytes | None]) -> None:
    """Compute the checksums of a store's changed arrays anew, as a forger would."""
    if manifest in found:
        return
    values = json.loads(manifest.read_text())
    for path, content in found.items():
        if content is not None and path.stem in values["arrays"]:
            digest = hashlib.sha256(content).hexdigest()  # of a small file, the one of its samples
            values["arrays"][path.stem].update(sha256=digest, samples=digest)
    found[manifest] = json.dumps(values).encode()


def _mutated(path: Path, random: Random) -> bytes:
    content = path.read_bytes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as of two members of one name
            return mutation_of(path.name)(content, random)
    except (ValueError, LookupError, TypeError, OverflowError, struct.error):
        return mutations.mutated_bytes(content, random)  # two mutations may not fit each other
