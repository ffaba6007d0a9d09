"""Tables in Parquet files, by pyarrow where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from graphdrop.data.tables.table import Column, Table
from graphdrop.io.memory import check_bytes

BYTES_PER_CELL = 64
"""Memory of a cell of text, at least."""


def read_parquet(path: Path, most: int) -> Table:
    """Read a Parquet file; the size that its footer declares is checked first."""
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise ValueError(
            f"{path} is a Parquet file and pyarrow, which reads it, is not installed: run "
            "`pip install pyarrow`, or save it as CSV"
        ) from error
    try:
        # Text stays a dictionary: a long string that a small file repeats is kept once.
        text = _text_columns(arrow, parquet.read_schema(path))
        with parquet.ParquetFile(path, read_dictionary=text) as file:
            about = file.metadata
            groups = range(about.num_row_groups)
            stored = sum(about.row_group(group).total_byte_size for group in groups)
            cells = about.num_rows * about.num_columns
            _check_size(
                f"{path} has {about.num_rows} rows of {about.num_columns} columns and, as a table,",
                max(2 * stored, BYTES_PER_CELL * cells),
                most,
            )
            table = file.read()
    except Exception as error:  # a broken file may raise nearly anything
        raise _not_whole(path, error) from error
    if len(set(table.column_names)) != len(table.column_names):
        raise ValueError(f"{path} has two columns of one name: rename one of them")
    try:
        columns = {
            name: _column(arrow, table.column(name), name, path) for name in table.column_names
        }
    except (arrow.ArrowException, UnicodeDecodeError, LookupError, OverflowError) as error:
        raise _not_whole(path, error) from error
    return Table(str(path), columns, table.num_rows)


class _TooLargeError(Exception):
    """More than may be taken; its message says so."""


def _check_size(what: str, needed: int, most: int) -> None:
    try:
        check_bytes(what, needed, most)
    except ValueError as error:
        raise _TooLargeError(str(error)) from error


def _not_whole(path: Path, error: Exception) -> ValueError:
    if isinstance(error, _TooLargeError):
        return ValueError(str(error))
    why = " ".join(str(error).split())[:200]
    return ValueError(f"{path} is not a whole Parquet file ({why}): write it again")


def _text_columns(arrow: Any, schema: Any) -> list[str]:
    types = arrow.types
    return [
        one.name for one in schema if types.is_string(one.type) or types.is_large_string(one.type)
    ]


def _column(arrow: Any, values: Any, name: str, path: Path) -> Column:
    kind = values.type
    types = arrow.types
    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        raise ValueError(
            f"{path} has the column {name} of type {kind}: give numbers or text, a value per cell"
        )
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        if not types.is_floating(kind) and _exceeds(values):
            return Column([None if one is None else _exact(one) for one in values.to_pylist()])
        numbers = values.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
        return Column(numbers=np.ascontiguousarray(numbers, dtype=np.float64))
    if types.is_dictionary(kind):
        return Column([cell for chunk in values.chunks for cell in _decoded(chunk)])
    return Column([_text(one) for one in values.to_pylist()])


def _decoded(chunk: Any) -> Iterator[str | None]:
    words = [_text(one) for one in chunk.dictionary.to_pylist()]
    for index in chunk.indices.to_pylist():
        yield None if index is None else words[index]


def _exceeds(values: Any) -> bool:
    """Whether an integer or a decimal, such as a long id, has no exact float64."""
    return any(one is not None and abs(one) >= 2**53 for one in values.to_pylist())


def _exact(value: int | Decimal) -> str:
    return str(int(value) if value == int(value) else value)


def _text(value: object) -> str | None:
    text = "" if value is None else str(value)
    return text if text.strip() else None
