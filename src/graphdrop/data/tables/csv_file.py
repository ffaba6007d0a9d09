"""Tables in text files: CSV with commas, semicolons or tabs, in UTF-8 or UTF-16.

Read by Python's own ``csv``, so that a table is the same wherever it is read, and so that errors
name the line; pyarrow's reader, which is faster, does neither and is not installed everywhere.
"""

from __future__ import annotations

import codecs
import csv
import io
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from graphdrop.data.tables.table import Column, Table, distinct
from graphdrop.io.memory import check_bytes

DELIMITERS = (",", ";", "\t")
BYTES_PER_BYTE = 20
"""Memory for a byte of text: a cell of two characters and its comma become 59 bytes."""
MOST_COLUMNS = 20_000
_HEAD = 1 << 16


def read_csv(path: Path, most: int) -> Table:
    """Read a file of text; its size is checked against ``most`` bytes of memory first."""
    size = path.stat().st_size
    check_bytes(f"{path} has {size} bytes and, as a table,", BYTES_PER_BYTE * size, most)
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
            stream.seek(0)
            return _read(stream, head, path)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not text in UTF-8 (it has a byte {error.object[error.start]:#04x}): save "
            "it again, in a spreadsheet as CSV UTF-8"
        ) from error
    except csv.Error as error:
        raise ValueError(f"{path} is not a CSV file ({error}): save it as CSV in UTF-8") from error


def _read(stream: IO[bytes], head: bytes, path: Path) -> Table:
    encoding = _encoding(head, path)
    # A part of a character may stand at the end of the head.
    start = codecs.getincrementaldecoder(encoding)().decode(head)
    delimiter = _delimiter(start)
    with io.TextIOWrapper(stream, encoding=encoding, newline="") as text:
        return _table(_rows(text, delimiter), path, decimal_comma=delimiter != ",")


def _table(rows: Iterator[tuple[int, list[str]]], path: Path, *, decimal_comma: bool) -> Table:
    header = next(rows, None)
    if header is None:
        raise ValueError(f"{path} is empty: give a table with a header and a row for each item")
    names = _names(header[1], path)
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
    columns = {
        name: Column(column, decimal_comma=decimal_comma)
        for name, column in zip(names, cells, strict=True)
    }
    return Table(str(path), columns, len(lines), lines)


def _rows(text: IO[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, each with the number of its first line."""
    reader, before = csv.reader(text, delimiter=delimiter), 0
    for row in reader:
        first, before = before + 1, reader.line_num
        if row:
            yield first, row


def _names(header: list[str], path: Path) -> list[str]:
    """The names of columns; one without a name, such as the index of pandas, is ``#1``."""
    if len(header) > MOST_COLUMNS:
        raise ValueError(
            f"{path} has {len(header)} columns; it takes at most {MOST_COLUMNS}. Give fewer, or "
            "features as an .npz file."
        )
    return distinct([name.strip() or f"#{number}" for number, name in enumerate(header, 1)], path)


def _encoding(head: bytes, path: Path) -> str:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for start, kind in ((b"PK\x03\x04", "a spreadsheet or archive"), (b"PAR1", "a Parquet file")):
        if head.startswith(start):
            raise ValueError(
                f"{path} is {kind}, not CSV: save it as CSV, or give it the ending of its kind"
            )
    return "utf-8-sig"


def _delimiter(start: str) -> str:
    """What separates the header's cells: the most frequent candidate outside quotes."""
    first = next(iter(start.splitlines()), "")
    outside = "".join(first.split('"')[::2])
    return max(DELIMITERS, key=outside.count)
