"""Predictions as pandas tables and in notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    import pandas

    from graphdrop.inference.classes import Predictive

SHOWN = 5
"""The number of nodes in a notebook table."""


def most_uncertain(uncertainty: Tensor, k: int) -> Tensor:
    """The rows of the ``k`` largest entries, the largest first; of equal ones the first."""
    if k < 0:
        raise ValueError(f"k is {k}; it takes a number of nodes, 0 or more")
    return uncertainty.argsort(descending=True, stable=True)[:k]


def table(
    columns: Mapping[str, Tensor | Sequence[str]], ids: Sequence[str] | None = None
) -> pandas.DataFrame:
    """Columns of one length as a pandas table, or an error that says how to get pandas."""
    try:
        frames = import_module("pandas")  # not installed with us
    except ImportError as error:
        raise ImportError(
            "to_pandas() needs pandas, which is not installed: run `pip install pandas`"
        ) from error
    made: pandas.DataFrame = frames.DataFrame(
        {
            name: column.cpu().numpy() if isinstance(column, Tensor) else list(column)
            for name, column in columns.items()
        },
        index=None if ids is None else frames.Index(ids, name="id"),
    )
    return made


def html_table(answer: Predictive) -> str:
    """The predictions of the least certain nodes as an HTML table."""
    nodes, origin = answer.most_uncertain(SHOWN), answer.origin
    probabilities = answer.probabilities.amax(1)
    rows = "".join(
        f"<tr><td>{escape(origin.node(node))}</td>"
        f"<td>{escape(origin.names.label(int(answer.predicted[node])))}</td>"
        f"<td>{float(probabilities[node]):.3f}</td><td>{float(answer.entropy[node]):.3f}</td></tr>"
        for node in nodes.tolist()
    )
    return (
        f"<p><code>{escape(repr(answer))}</code></p><p>The least certain nodes:</p>"
        "<table><thead><tr><th>node</th><th>class</th><th>probability</th><th>entropy</th></tr>"
        f"</thead><tbody>{rows}</tbody></table>"
    )
