"""The style of figures for print, and deterministic writing of SVG and PNG."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib import style
from matplotlib.figure import Figure

from graphdrop.io.files import replace_file

ONE_COLUMN, TWO_COLUMNS = 3.35, 6.9
"""Widths of figures in inches."""
INK, GREY, FAINT = "#222222", "#555555", "#dedede"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The colours of Okabe and Ito, without yellow, which is hard to see on white."""
_LOOK: dict[str, Any] = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#ececec",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.15,
    "lines.markersize": 4,
    "svg.hashsalt": "graphdrop",  # the same ids, hence the same bytes, every time
    "savefig.facecolor": "white",
}


@contextmanager
def print_style() -> Iterator[None]:
    """Context with the print style, independent of the user's matplotlib settings."""
    with style.context(["default", _LOOK]):
        yield


def save_figure(figure: Figure, stem: Path) -> Path:
    """Write `stem`.png atomically; equal figures give equal bytes."""
    path = stem.with_name(f"{stem.name}.png")
    stem.parent.mkdir(parents=True, exist_ok=True)
    with print_style():
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=300, metadata={"Software": "graphdrop"})
    replace_file(path, stream.getvalue())
    return path
