"""`graphdrop data`: list, download, inspect and verify datasets."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from graphdrop.cli import output, tables
from graphdrop.data.download import read_verified
from graphdrop.data.example import write_example
from graphdrop.data.sources import SOURCES, Source, find, find_source, local_folders
from graphdrop.data.sources import fetch as fetch_files
from graphdrop.io.visible import Console, say

app = typer.Typer(
    help=(
        "Datasets: which are known, which are here, what is in them.\n\n"
        "Files are looked for in --root, in the folder that GRAPHDROP_DATA names and in the user's "
        "cache, and downloaded if they are in none."
    ),
    no_args_is_help=True,
)
Root = Annotated[
    Path | None,
    typer.Option(help="Folder to look in first and to download to.", show_default="the cache"),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]...", help="Datasets; all known ones if none is named."),
]


@app.command("list")
def list_datasets(
    files: Annotated[bool, typer.Option("--files", help="Show every file.")] = False,
    root: Root = None,
) -> None:
    """Show what is known, what is here, and where the rest would come from."""
    _make_console().print(_list_files(root) if files else _list_datasets(root))
    found = {
        source.name: {file.name: find(source, file, root) for file in source.files}
        for source in SOURCES.values()
    }
    output.result(files=found, folders=local_folders(root))
    say(f"Looked in {', '.join(map(str, local_folders(root)))}.")


def _list_files(root: Path | None) -> Table:
    table = _make_table("file", "size", "path, or where it would come from")
    for source in SOURCES.values():
        for file in source.files:
            where = find(source, file, root) or source.addresses(file)
            table.add_row(file.name, _format_size(file.size), str(where))
    return table


def _list_datasets(root: Path | None) -> Table:
    table = _make_table("name", "size", "here", "published at")
    for source in SOURCES.values():
        paths = [find(source, file, root) for file in source.files]
        folders = sorted({str(path.parent) for path in paths if path})
        here = ", ".join(folders) or "no"
        if folders and None in paths:
            here += f", but {paths.count(None)} of {len(paths)} files"
        table.add_row(source.name, _format_size(source.size), here, source.published)
    table.add_row("synthetic", "", "always", "nowhere: a graph like Cora, made when asked for")
    return table


@app.command()
def fetch(names: Names = None, root: Root = None) -> None:
    """Download what is not here, and verify every file."""
    fetched = dict[str, object]()
    for source in _find_sources(names):
        paths = fetch_files(source, root)
        fetched[source.name] = paths
        for file in source.files:
            read_verified(paths[file.name], file.sha256)
        folders = sorted({str(path.parent) for path in paths.values()})
        say(f"{source.name}: {len(paths)} files verified in {', '.join(folders)}")
    output.result(files=fetched)


@app.command()
def info(
    name: Annotated[
        str,
        typer.Argument(
            help="A known dataset, 'synthetic', the path of an .npz file or of a table of nodes, "
            "or a folder with nodes.csv and edges.csv."
        ),
    ],
    split: Annotated[
        str | None,
        typer.Option(
            help="public, random-per-class, random-fractions or ppnp.",
            show_default="the split that comes with the data, or else 60 / 20 / 20 % of each class",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split.")] = 0,
    root: Root = None,
    *,
    edges: tables.Edges = None,
    label: tables.Label = None,
    id_column: tables.Id = None,
    features: tables.Features = None,
    split_column: tables.SplitColumn = None,
    split_by_time: tables.SplitByTime = None,
    source_column: tables.SourceColumn = None,
    target_column: tables.TargetColumn = None,
    weight: tables.Weight = None,
    task: tables.Task = None,
) -> None:
    """Load a dataset, fetching it if need be, and show its statistics."""
    # the other commands need no torch
    from graphdrop.config import Config  # noqa: PLC0415
    from graphdrop.train.run_dataset import load_named_dataset  # noqa: PLC0415

    given = tables.collect_settings(
        name,
        None,
        root=root,
        split=split,
        edges=edges,
        label_column=label,
        id_column=id_column,
        feature_columns=features,
        split_column=split_column,
        split_by_time=split_by_time,
        source_column=source_column,
        target_column=target_column,
        weight_column=weight,
        task=task,
    )
    dataset = load_named_dataset(Config(data=given | {"split_seed": seed}).data)
    table = Table(box=box.SIMPLE, show_header=False, title=dataset.name, title_justify="left")
    for what, how_much in dataset.summary.rows():
        table.add_row(what, how_much)
    _make_console().print(table)
    for note in dataset.notes:
        say(note)
    output.result(
        summary=dataset.summary,
        checksums=dataset.checksums,
        notes=dataset.notes,
        schema=dataset.schema,
    )
    if dataset.checksums:
        say("sha256 of the files:")
    for file, sha256 in dataset.checksums.items():
        say(f"{sha256}  {file}")


@app.command()
def example(
    folder: Annotated[
        Path, typer.Argument(help="Folder to write them into; it is made if it is missing.")
    ] = Path("examples/data"),
    dirty: Annotated[
        bool, typer.Option("--dirty", help="Write tables of which many edges are wrong.")
    ] = False,
) -> None:
    """Write tables to try things on: nodes.csv and edges.csv, two hundred papers, all made up.

    new_nodes.csv and new_edges.csv, without classes, are for `predict` on another graph. With
    --dirty it writes eight hundred papers with wrong citations, and bad_edges.csv, which lists
    these.
    """
    written = write_example(folder, dirty=dirty)
    say(f"Wrote {', '.join(path.name for path in written)} into {folder}.")
    output.result(files=written)


@app.command()
def convert(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SRC",
            help="A known dataset, an .npz file, a folder with nodes.csv and edges.csv, the folder "
            "of an OGB dataset, or with --features and --labels a list of edges.",
        ),
    ],
    folder: Annotated[Path, typer.Argument(metavar="DST", help="Folder of the store.")],
    *,
    features: Annotated[
        Path | None, typer.Option(help="A row of numbers per node: .npy, .csv, .tsv or .csv.gz.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="A class per node, -1 for none: .npy, .csv or .csv.gz.")
    ] = None,
    label: tables.Label = None,
    id_column: tables.Id = None,
    directed: Annotated[
        bool, typer.Option("--directed", help="Keep edges as they are listed.")
    ] = False,
    root: Root = None,
) -> None:
    """Write a graph as a store: arrays on disk that open at once and need no memory of their own.

    --dataset of train takes the folder, and so does load_dataset.
    """
    from graphdrop.data.store import Store  # noqa: PLC0415 - the other commands need no torch
    from graphdrop.data.store import convert as write  # noqa: PLC0415

    written = write(
        source,
        folder,
        features=features,
        labels=labels,
        label=label,
        id=id_column,
        root=root,
        directed=directed,
    )
    about = Store(written).manifest
    size = sum(file.stat().st_size for file in written.iterdir())
    say(
        f"{written}: {about.nodes:,} nodes, {about.edges:,} directed edges, {about.features:,} "
        f"features, {_format_size(size)}"
    )
    counts = {"nodes": about.nodes, "edges": about.edges, "features": about.features}
    output.result(folder=written, bytes=size, **counts)


@app.command()
def verify(names: Names = None, root: Root = None) -> None:
    """Check the checksum of every file that is here; exit with 2 if one is wrong.

    A dataset that is named must be here in full. A store is named by its folder.
    """
    from graphdrop.data.store.manifest import MANIFEST  # noqa: PLC0415 - others need no numpy

    table = _make_table("file", "checksum", "path")
    failures = []
    stores = [name for name in names or () if (Path(name) / MANIFEST).is_file()]
    for name in stores:
        from graphdrop.data.store import Store  # noqa: PLC0415 - the others need no torch

        try:
            store = Store(name)
            store.verify()
            for array in store.manifest.arrays:
                table.add_row(f"{array}.npy", "right", str(store.path))
        except ValueError as error:
            table.add_row(name, Text("wrong", style="bold red"), name)
            failures.append(str(error))
    known = [name for name in names or () if name not in stores]
    for source in _find_sources(known) if known or not stores else ():
        absent = [file for file in source.files if find(source, file, root) is None]
        if absent and names:
            failures.append(
                f"{len(absent)} of the {len(source.files)} files of {source.name} are not here: "
                f"run `graphdrop data fetch {source.name}`"
            )
        for file in source.files:
            path = find(source, file, root)
            if path is None:
                table.add_row(file.name, "not here", "")
                continue
            try:
                read_verified(path, file.sha256)
                table.add_row(file.name, "right", str(path))
            except (ValueError, OSError) as error:
                table.add_row(file.name, Text("wrong", style="bold red"), str(path))
                failures.append(str(error))
    _make_console().print(table)
    output.result(failures=failures)
    if failures:
        raise ValueError("; ".join(failures))


def _find_sources(names: list[str] | None) -> list[Source]:
    sources = []
    for name in names or SOURCES:
        source = find_source(name)
        if source is None:
            raise ValueError(f"NAME is {name!r}: give one of {', '.join(SOURCES)}")
        sources.append(source)
    return sources


def _make_table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, justify="right" if column == "size" else "left", overflow="fold")
    return table


def _make_console() -> Console:
    # Into a pipe or a file goes the whole line, as there is no window for it to fit. Names of files
    # are shown as they are, whatever brackets or colons they have.
    width = None if sys.stdout.isatty() else 240
    return Console(width=width, markup=False, emoji=False, highlight=False)


def _format_size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 10**5 else f"{size / 1e3:.1f} kB"
