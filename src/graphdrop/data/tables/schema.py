"""``Schema``: how the columns of a table become features; it is kept with the model.

Numbers are standardized by the mean and standard deviation of the training nodes, here and nowhere
else: the recipe takes such features as they are. A missing number becomes the mean. Categories are
one-hot, a missing one is a category of its own, and one that training never saw is all zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from graphdrop.data.features import column_moments
from graphdrop.data.tables.table import Feature, Table, listed
from graphdrop.io.memory import check_bytes


@dataclass(frozen=True)
class FeatureColumn:
    """One column of a table as features."""

    name: str
    kind: Literal["number", "category"]
    mean: float = 0.0
    deviation: float = 1.0
    categories: tuple[str, ...] = ()
    missing: bool = False
    """Whether a missing category has a feature of its own."""

    @property
    def width(self) -> int:
        """Number of features."""
        return 1 if self.kind == "number" else len(self.categories) + self.missing


@dataclass(frozen=True)
class Encoded:
    """Features, and what was missing or unknown in the columns they come from."""

    x: Tensor
    missing: Mapping[str, int]
    unknown: Mapping[str, int]


@dataclass(frozen=True)
class Schema:
    """The columns that become features, in their order, and the names of the classes."""

    columns: tuple[FeatureColumn, ...]
    classes: tuple[str, ...]
    """Empty where the label is a number."""
    id: str | None = None
    label: str | None = None

    @classmethod
    def fit(
        cls, nodes: Table, columns: Sequence[Feature], train: Tensor, classes: tuple[str, ...]
    ) -> Schema:
        """Means and deviations of the training nodes, and the categories of all nodes."""
        fitted = (_fit_column(nodes, feature, train.numpy()) for feature in columns)
        return cls(tuple(fitted), classes)

    @property
    def width(self) -> int:
        """Number of features."""
        return sum(column.width for column in self.columns)

    def encode(self, nodes: Table, most: int) -> Encoded:
        """The features of every node, ``[nodes, width]`` in float32."""
        names = [column.name for column in self.columns]
        absent = [name for name in names if name not in nodes.columns]
        if absent:
            raise ValueError(
                f"{nodes.name} has no column {listed(absent)}; the model was trained with "
                f"{listed(names)}. Give the same columns."
            )
        check_bytes(
            f"{nodes.name} as {nodes.rows} rows of {self.width} features",
            4 * nodes.rows * self.width,
            most,
        )
        x = np.zeros((nodes.rows, self.width), dtype=np.float32)
        missing, unknown, start = dict[str, int](), dict[str, int](), 0
        for column in self.columns:
            part = x[:, start : start + column.width]
            start += column.width
            if column.kind == "number":
                values = nodes.numbers(column.name)
                absent_rows = np.isnan(values)
                filled = np.where(absent_rows, column.mean, values)
                part[:, 0] = (filled - column.mean) / column.deviation
                missing[column.name] = int(absent_rows.sum())
                continue
            place = {text: i for i, text in enumerate(column.categories)}
            texts = nodes.columns[column.name].strings
            for row, text in enumerate(texts):
                at = len(place) if text is None else place.get(text, column.width)
                if at < column.width:  # else it is a category that training did not have
                    part[row, at] = 1.0
            missing[column.name] = sum(text is None for text in texts)
            unknown[column.name] = sum(text not in place for text in texts if text is not None)
        counts = ({name: n for name, n in found.items() if n} for found in (missing, unknown))
        return Encoded(torch.from_numpy(x), *counts)

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any] | None) -> Schema | None:
        """What ``as_json`` wrote."""
        if not values:
            return None
        try:
            return TypeAdapter(cls).validate_python(values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ValueError(
                f"the schema of the columns was damaged or changed ({where}: {first['msg']}): "
                "restore the file of the model, or train it anew"
            ) from error


def _fit_column(nodes: Table, feature: Feature, train: NDArray[np.bool_]) -> FeatureColumn:
    if feature.kind == "number":
        values = nodes.numbers(feature.name)
        filled = ~np.isnan(values)
        # Where no training node has a value, those of all nodes have to do.
        rows = filled & train if (filled & train).any() else filled
        if not rows.any():
            return FeatureColumn(feature.name, "number")
        every = torch.ones(int(rows.sum()), dtype=torch.bool)
        mean, deviation = column_moments(torch.from_numpy(values[rows])[:, None], every)
        return FeatureColumn(feature.name, "number", float(mean), float(deviation))
    texts = nodes.column(feature.name, "features").strings
    categories = tuple(sorted({text for text in texts if text is not None}))
    return FeatureColumn(
        feature.name, "category", categories=categories, missing=any(text is None for text in texts)
    )
