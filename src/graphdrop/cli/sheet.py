"""Tables that spreadsheets open: CSV without formulas, or Parquet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

Cell = str | int | float | bool | None
Columns = Mapping[str, Sequence[Cell]]

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Text that begins so is a formula to a spreadsheet; the last four are their full-width forms."""
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?", re.ASCII)
_PARQUET = "pyarrow.parquet"


def writer(output: Path) -> Callable[[Columns, Path], None]:
    """The function that writes a file with this ending; raises if there is none."""
    if not output.parent.is_dir():
        raise ValueError(f"--output is {output} and {output.parent} is no folder: make it first")
    if output.suffix == ".csv":
        return write_csv
    if output.suffix != ".parquet":
        raise ValueError(f"--output is {output}: give a name that ends in .csv or .parquet")
    try:
        import_module(_PARQUET)
    except ImportError as error:
        raise ValueError(
            f"--output is {output} and pyarrow, which writes Parquet, is not installed: run "
            "`pip install pyarrow`, or give a name that ends in .csv"
        ) from error
    return write_parquet


def write_csv(columns: Columns, output: Path) -> None:
    """UTF-8; marked as such where it is not ASCII, which Excel needs in order to tell."""
    from graphdrop.io.files import replace_file  # noqa: PLC0415

    stream = io.StringIO()
    rows = csv.writer(stream)  # lines end as RFC 4180 says, and a cell with either sign is quoted
    rows.writerow([harmless(name) for name in columns])
    rows.writerows([shown(cell) for cell in row] for row in zip(*columns.values(), strict=True))
    text = stream.getvalue()
    replace_file(output, text.encode("utf-8" if text.isascii() else "utf-8-sig"))


def write_parquet(columns: Columns, output: Path) -> None:
    """Numbers as numbers and text as it is: nothing evaluates it."""
    from graphdrop.io.files import replace_file  # noqa: PLC0415

    parquet, stream = import_module(_PARQUET), io.BytesIO()
    table = import_module("pyarrow").table({name: list(cells) for name, cells in columns.items()})
    parquet.write_table(table, stream)
    replace_file(output, stream.getvalue())


def shown(cell: Cell) -> str:
    """A cell as text: numbers without an exponent, of up to nine decimals."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.9f}".rstrip("0").rstrip(".")
    return str(cell) if isinstance(cell, int) else harmless(cell)


def harmless(text: str) -> str:
    """Text that no spreadsheet takes for a formula: such text gets an apostrophe in front."""
    if text.startswith(FORMULA) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text
