"""Files of tables: CSV with commas, semicolons or tabs, in UTF-8 or UTF-16, and Parquet.

CSV is read by Python's own ``csv``, so that a table is the same wherever it is read, and so that
errors name the line. Parquet is read by pyarrow, and becomes a table as one of pandas does.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
from array import array
from collections.abc import Iterator, Sized
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from graphdrop.data.tables.table import Column, Table, listed, refuse_repeats
from graphdrop.io.files import check_regular, expand_path
from graphdrop.io.memory import check_bytes, most_bytes

if TYPE_CHECKING:
    import pandas

TEXT = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")
ENDINGS = (*TEXT, *PARQUET)
BYTES_PER_BYTE = 20
"""Memory for a byte of text: a cell of two characters and its comma become 59 bytes."""
BYTES_PER_CELL = 64
"""Memory of a cell of a Parquet file, at least."""
MOST_COLUMNS = 20_000
_HEAD = 1 << 16


def is_tables(path: str | Path) -> bool:
    """Whether a path is a table, or a folder with a table of nodes in it."""
    path = expand_path(path)
    return _find(path, "nodes") is not None if path.is_dir() else path.suffix.lower() in ENDINGS


def table_paths(nodes: str | Path, edges: str | Path | None = None) -> tuple[Path, Path]:
    """The files of nodes and edges, from a folder or one by one."""
    first = expand_path(nodes)
    folder = first if first.is_dir() else first.parent
    if first.is_dir():
        found = _find(first, "nodes")
        if found is None:
            raise ValueError(f"{first} has no nodes.csv or nodes.parquet: give a folder with one")
        first = found
    second = _find(folder, "edges") if edges is None else expand_path(edges)
    if second is None:
        raise ValueError(
            f"edges is missing and {folder} has no edges.csv or edges.parquet: give --edges FILE"
        )
    return first, second


def _find(folder: Path, stem: str) -> Path | None:
    places = (folder / f"{stem}{ending}" for ending in ENDINGS)
    return next((place for place in places if place.is_file()), None)


def read_table(path: Path, max_bytes: int | None = None) -> Table:
    """Read a file by its ending; the memory that it needs is checked first."""
    if not path.exists():
        raise ValueError(f"{path} is not there: give a table as .csv or .parquet")
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(
            f"{path} ends in {path.suffix or 'nothing'}; a table takes {listed(ENDINGS)}. Save it "
            "as CSV."
        )
    try:
        most = most_bytes(max_bytes, check_regular(path))
        return _read_parquet(path, most) if ending in PARQUET else _read_csv(path, most)
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}): give a table") from error


def _read_csv(path: Path, most: int) -> Table:
    size = path.stat().st_size
    check_bytes(f"{path} has {size} bytes and, as a table,", BYTES_PER_BYTE * size, most)
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
            stream.seek(0)
            encoding = _find_encoding(head, path)
            # A part of a character may stand at the end of the head.
            start = codecs.getincrementaldecoder(encoding)().decode(head)
            # What separates the header's cells is the most frequent candidate outside quotes.
            first = "".join(next(iter(start.splitlines()), "").split('"')[::2])
            delimiter = max((",", ";", "\t"), key=first.count)
            with io.TextIOWrapper(stream, encoding=encoding, newline="") as text:
                return _fill_table(_iterate_rows(text, delimiter), path, delimiter != ",")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not text in UTF-8 (it has a byte {error.object[error.start]:#04x}): save "
            "it again, in a spreadsheet as CSV UTF-8"
        ) from error
    except csv.Error as error:
        raise ValueError(f"{path} is not a CSV file ({error}): save it as CSV in UTF-8") from error


def _find_encoding(head: bytes, path: Path) -> str:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for start, kind in ((b"PK\x03\x04", "a spreadsheet or archive"), (b"PAR1", "a Parquet file")):
        if head.startswith(start):
            raise ValueError(
                f"{path} is {kind}, not CSV: save it as CSV, or give it the ending of its kind"
            )
    return "utf-8-sig"


def _iterate_rows(text: IO[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, each with the number of its first line."""
    reader, before = csv.reader(text, delimiter=delimiter), 0
    for row in reader:
        first, before = before + 1, reader.line_num
        if row:
            yield first, row


def _fill_table(rows: Iterator[tuple[int, list[str]]], path: Path, decimal_comma: bool) -> Table:
    header = next(rows, (0, None))[1]
    if header is None:
        raise ValueError(f"{path} is empty: give a table with a header and a row for each item")
    if len(header) > MOST_COLUMNS:
        raise ValueError(
            f"{path} has {len(header)} columns; it takes at most {MOST_COLUMNS}. Give fewer, or "
            "features as an .npz file."
        )
    # A column without a name, such as the index of pandas, is called `#1`.
    names = [name.strip() or f"#{number}" for number, name in enumerate(header, 1)]
    refuse_repeats(names, path)
    lines, cells = array("q"), [list[str | None]() for _ in names]
    known = [dict[str, str]() for _ in names]  # equal cells of a column are kept once
    for line, row in rows:
        if len(row) != len(names):
            raise ValueError(
                f"{path}, line {line} has {len(row)} cells and the header {len(names)}: put a cell "
                "for every column, and quotes around cells with the separator in them"
            )
        lines.append(line)
        for column, seen, cell in zip(cells, known, row, strict=True):
            column.append(seen.setdefault(cell, cell) if cell.strip() else None)
    columns = [Column(column, decimal_comma=decimal_comma) for column in cells]
    return Table(str(path), dict(zip(names, columns, strict=True)), lines)


def _read_parquet(path: Path, most: int) -> Table:
    try:
        types, parquet = import_module("pyarrow.types"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise ValueError(
            f"{path} is a Parquet file and pyarrow, which reads it, is not installed: run "
            "`pip install pyarrow`, or save it as CSV"
        ) from error
    try:
        # Text stays a dictionary: a long string that a small file repeats is kept once.
        schema = parquet.read_schema(path)
        kinds = types.is_string, types.is_large_string
        text = [field.name for field in schema if any(kind(field.type) for kind in kinds)]
        with parquet.ParquetFile(path, read_dictionary=text) as file:
            about = file.metadata
            groups = range(about.num_row_groups)
            stored = sum(about.row_group(group).total_byte_size for group in groups)
            needed = max(2 * stored, BYTES_PER_CELL * about.num_rows * about.num_columns)
            size = f"{about.num_rows} rows of {about.num_columns} columns"
            fits = needed <= most
            # Whole numbers beside missing ones stay whole: a long id has no exact float64.
            frame = file.read().to_pandas(integer_object_nulls=True) if fits else None
    except Exception as error:  # a broken file may raise nearly anything
        why = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} is not a whole Parquet file ({why}): write it again") from error
    check_bytes(f"{path} has {size} and, as a table,", needed, most)
    return table_of_frame(frame, str(path))


def table_of_frame(frame: pandas.DataFrame, name: str) -> Table:
    """A table of pandas: columns of numbers as numbers, all else as text."""
    names = refuse_repeats([str(key) for key in frame.columns], name)
    columns = (
        _read_series(values, key) for key, (_, values) in zip(names, frame.items(), strict=True)
    )
    return Table(name, dict(zip(names, columns, strict=True)))


def _read_series(values: pandas.Series, name: str) -> Column:
    if values.dtype.kind in "iuf":
        numbers = values.to_numpy(dtype=np.float64, na_value=math.nan)
        if values.dtype.kind == "f" or not (np.abs(numbers) >= 2**53).any():
            return Column(numbers=numbers)
    return Column([_write_cell(value, name) for value in values.tolist()])


def _write_cell(value: object, name: str) -> str | None:
    # before a comparison, which gives another NA
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, Sized) and not isinstance(value, str | tuple):
        raise ValueError(
            f"the column {name} has a cell of type {type(value).__name__}: give numbers or text, "
            "a value per cell"
        )
    if value != value:  # noqa: PLR0124
        return None
    if isinstance(value, float | Decimal) and math.isfinite(value) and value % 1 == 0:
        return str(int(value))  # an id beside missing ones
    text = str(value)
    return text if text.strip() else None
