"""Cases that could hang, or end well with a wrong answer: each makes its own change and undoes it.

Special files in the place of ordinary ones, stores whose arrays were changed, tables in another
order, and calibrators that few validation nodes are given.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from contracts.changed_stores import sign
from torture import valid_files


def special_files(folder: Path) -> None:
    """Valid files of entries that read files by their names."""
    for name, make, read in SPECIAL:
        make(folder / "new")
        for path in sorted((folder / "new").iterdir()):
            if path.is_dir():
                path.rename(folder / f"{name}-{path.name}")
                for number in range(5):  # imports and compiles what is needed
                    with suppress(ValueError):
                        read(folder / f"{name}-{path.name}", Random(number))
        shutil.rmtree(folder / "new")


def read_special_files(folder: Path, random: Random) -> None:
    """Read a folder in which a pipe, a device, a link or a folder is in the place of a file."""
    read = next(read for name, _, read in SPECIAL if folder.name.startswith(f"{name}-"))
    path = random.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    with _moved_away(path):
        random.choice(KINDS)(path)
        read(folder, random)


@contextmanager
def _moved_away(path: Path) -> Iterator[None]:
    content = path.read_bytes()
    path.unlink()
    try:
        yield
    finally:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        path.unlink(missing_ok=True)
        path.write_bytes(content)


KINDS: tuple[Callable[[Path], object], ...] = (
    os.mkfifo,
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to("/dev/null"),
    lambda path: path.symlink_to("/dev/random"),
    lambda path: path.symlink_to(path.name),
    lambda path: path.symlink_to("nowhere"),
    lambda path: os.mkfifo(path) or path.chmod(0),
    Path.mkdir,
)


def _entry(name: str) -> Callable[[Path, Random], None]:
    def read(folder: Path, random: Random) -> None:
        from torture import entries  # noqa: PLC0415 - which reads this module

        getattr(entries, name)(folder, random)

    return read


def _made(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def new(folder: Path) -> None:
        folder.mkdir()
        make(folder)

    return new


SPECIAL: tuple[tuple[str, Callable[[Path], None], Callable[[Path, Random], None]], ...] = (
    ("npz", _made(valid_files.npz), _entry("read_graph")),
    ("csv", _made(valid_files.csv_tables), _entry("read_tables")),
    ("parquet", _made(valid_files.parquet_tables), _entry("read_tables")),
    ("toml", _made(valid_files.settings), _entry("read_settings")),
    ("network", _made(valid_files.networks), _entry("read_network")),
    ("records", _made(valid_files.records), _entry("read_records")),
    ("run", _made(valid_files.runs), _entry("read_run")),
    ("store", _made(valid_files.stores), _entry("read_store")),
    ("arrays", _made(valid_files.arrays), _entry("read_arrays")),
)


def changed_stores(folder: Path) -> None:
    """Small stores, whose arrays are compared whole, and one that is compared in parts."""
    from graphdrop.data.store import convert  # noqa: PLC0415
    from graphdrop.data.synthetic import synthetic_graph  # noqa: PLC0415

    valid_files.stores(folder)
    convert(synthetic_graph(3000, 3, num_features=40).data, folder / "large")
    for number in range(60):  # imports and compiles what is needed
        _entry("read_store")(folder / ("dense", "sparse", "large")[number % 3], Random(number))


def read_changed_store(folder: Path, random: Random) -> None:
    """Change an array and keep its shape; what was changed may not be used unseen."""
    from graphdrop.data.store import Store  # noqa: PLC0415
    from graphdrop.data.store.manifest import BLOCK, BLOCKS  # noqa: PLC0415

    path = random.choice(sorted(folder.glob("*.npy")))
    manifest, before = (folder / "manifest.json").read_text(), path.read_bytes()
    array = np.load(path)
    if not array.size:
        return
    new = CHANGES[random.choice(sorted(CHANGES))](array, random).astype(array.dtype)
    try:
        np.save(path, new)
        changed = path.read_bytes() != before
        signed = random.random() < 0.4  # a forger: what is read is checked nevertheless
        if signed:
            sign(folder)
        elif changed:
            _check_refused(lambda: Store(folder).verify())
            if len(before) <= BLOCK * BLOCKS:
                _check_refused(lambda: Store(folder).tensor(path.stem))
        _entry("read_store")(folder, random)
    finally:
        path.write_bytes(before)
        (folder / "manifest.json").write_text(manifest)


def _check_refused(use: Callable[[], Any]) -> None:
    try:
        use()
    except ValueError:
        return
    raise AssertionError("a changed array was used")


def _one_entry(array: np.ndarray, random: Random, value: float) -> np.ndarray:
    new = array.copy()
    new.reshape(-1)[random.randrange(array.size)] = value
    return new


CHANGES: Mapping[str, Callable[[np.ndarray, Random], np.ndarray]] = {
    "reversed": lambda array, _: array[..., ::-1],
    "shuffled": lambda array, random: array.reshape(-1)[
        np.array(random.sample(range(array.size), array.size))
    ].reshape(array.shape),
    "negative": lambda array, random: _one_entry(array, random, -7 if array.dtype != bool else 0),
    "beyond": lambda array, random: _one_entry(array, random, 1_000_000),
    "zeros": lambda array, _: np.zeros_like(array),
    "next": lambda array, random: _one_entry(array, random, array.flat[0]),
}


def shuffled_tables(folder: Path) -> None:
    """A place for tables, which every case writes anew."""
    (folder / "tables").mkdir()
    (folder / "tables" / "nodes.csv").write_text(valid_files.NODES_CSV)


def read_shuffled_tables(folder: Path, random: Random) -> None:
    """Write tables twice, in two orders of rows, columns and ends; the graph must be the same."""
    count = random.choice((12, 30, 60))
    ids = random.sample([str(i) if random.random() < 0.8 else f"n{i}" for i in range(99)], count)
    classes = random.choice((["1", "1.0", "2"], ["red", "blue"], ["0", "1", "10"]))
    nodes = [
        {
            "id": ids[i],
            "label": random.choice(classes) if random.random() < 0.9 else "",
            "size": random.choice(("", str(random.gauss(0, 9)), str(i))),
            "kind": random.choice(("x", "y", "z", "")),
        }
        for i in range(count)
    ]
    edges = [
        {
            "source": random.choice(ids),
            "target": random.choice(ids),
            "weight": str(random.choice((0.1, 1 / 3, 1, 2.5))),
        }
        for _ in range(3 * count)
    ]
    weight = random.choice((None, "weight"))
    _write(folder, nodes, edges)
    first = _graph_of(folder, weight)
    for row in edges:
        if random.random() < 0.5:
            row["source"], row["target"] = row["target"], row["source"]
    random.shuffle(edges)
    random.shuffle(nodes)
    columns = random.sample(sorted(nodes[0]), len(nodes[0]))
    _write(folder, [{name: row[name] for name in columns} for row in nodes], edges)
    second = _graph_of(folder, weight)
    if isinstance(first, ValueError) and isinstance(second, ValueError):
        raise first
    if isinstance(first, ValueError) or isinstance(second, ValueError):
        raise AssertionError(f"one order was refused, another one read: {first!r} {second!r}")
    _check_same(first.data, second.data)
    names = second.data.names
    listed = names.ids if names.order is None else [names.ids[i] for i in names.order.tolist()]
    assert list(listed) == [row["id"] for row in nodes], "answers have another order than the rows"


def _write(folder: Path, nodes: list[dict[str, str]], edges: list[dict[str, str]]) -> None:
    for name, rows in (("nodes.csv", nodes), ("edges.csv", edges)):
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        (folder / name).write_text(text.getvalue())


def _graph_of(folder: Path, weight: str | None) -> Any:
    from graphdrop import load_tables  # noqa: PLC0415

    try:
        return load_tables(folder, weight=weight, split="random-fractions", seed=3)
    except ValueError as error:
        return error


def _check_same(first: Any, second: Any) -> None:
    import torch  # noqa: PLC0415

    assert first.names.ids == second.names.ids, "other ids"
    assert first.names.classes == second.names.classes, "other classes"
    for name, value in first.to_dict().items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, second[name]), f"another {name}"


def few_nodes(folder: Path) -> None:
    """The number of validation nodes."""
    for count in (5, 10, 20, 50, 99, 100):
        (folder / f"{count}").mkdir()
        (folder / f"{count}" / "none").touch()


WORSE = 0.1
"""By how much the test NLL may rise in the mean over the draws of a case, with any calibrator."""
DRAWS = 24


def read_few_nodes(folder: Path, random: Random) -> None:
    """Fit calibrators to few nodes; an answer is then hardly worse than without any."""
    import torch  # noqa: PLC0415

    from graphdrop import calibrate  # noqa: PLC0415
    from graphdrop.calibration import apply  # noqa: PLC0415
    from graphdrop.metrics import nll  # noqa: PLC0415

    count, method = int(folder.name), random.choice(("temperature", "entropy-temperature"))
    classes, strength = random.choice((2, 3, 7)), random.choice((1.0, 3.0, 6.0))
    changes = []
    for _ in range(DRAWS):
        made = torch.Generator().manual_seed(random.randrange(2**31))
        label = torch.randint(classes, (count + 200,), generator=made)
        logits = torch.randn(count + 200, classes, generator=made, dtype=torch.float64)
        logits += strength * torch.nn.functional.one_hot(label, classes)
        chance = torch.softmax(logits, 1)
        truth = torch.multinomial(chance, 1, generator=made).flatten()
        found = apply(calibrate(logits[:count], truth[:count], method), logits[count:])
        assert isinstance(found, torch.Tensor)
        changes.append(float(nll(found, truth[count:]) - nll(chance[count:], truth[count:])))
    rise = sum(changes) / DRAWS
    assert rise < WORSE, f"{method} on {count} nodes raises the test NLL by {rise:.3f}"
