"""Typed models of the files of a run; a damaged file is an error that names it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from graphdrop.io.files import check_regular
from graphdrop.train.tensor_file import DamagedError

Count = Annotated[int, Field(ge=0)]
Model = TypeVar("Model", bound=BaseModel)


class _Typed(BaseModel):
    """Checks the types of known fields; allows further fields."""

    model_config = ConfigDict(extra="allow", strict=True)


class EvaluationLine(_Typed):
    """An evaluation on the validation nodes."""

    accuracy: float
    nll: float


class MetricsLine(_Typed):
    """One epoch in `metrics.jsonl`."""

    epoch: Count
    loss: float
    nll: float = 0.0
    kl: float = 0.0
    l2: float = 0.0
    agree: float = 0.0
    seconds: float = 0.0
    validation: EvaluationLine | None = None
    drop_rates: list[float | None] = []


class DataNote(_Typed):
    """Which data a file belongs to."""

    sha256: str = ""
    files: dict[str, str] = {}


class ResultNote(_Typed):
    """`result.json`, which training writes at its end."""

    seconds: float | None = None
    data: DataNote = DataNote()
    validation: dict[str, Any] = {}
    calibration: dict[str, Any] = {}
    rare: list[dict[str, Any]] = []
    baselines: dict[str, dict[str, Any]] = {}
    """The scores of simple models on the same split, by their name."""


class SelectionNote(_Typed):
    """The best evaluation so far."""

    epoch: Count
    accuracy: float
    nll: float


class TrainingNote(_Typed):
    """The header of a checkpoint."""

    epoch: Count
    finished: bool
    selection: SelectionNote
    seconds: float
    data: DataNote
    versions: dict[str, str]


class ModelNote(_Typed):
    """The header of a saved model."""

    kind: str
    epoch: Count = 0
    task: str = "classes"
    data: DataNote = DataNote()
    versions: dict[str, str] = {}
    blueprint: dict[str, Any] = {}
    gcn: dict[str, Any] = {}
    attached: dict[str, Any] | None = None
    estimator: dict[str, Any] | None = None
    defaults: dict[str, Any] = {}
    config: dict[str, Any] = {}
    schema_: dict[str, Any] = Field(default={}, alias="schema")
    """How the columns of tables become features, where the run was trained on tables."""


def checked(model: type[Model], values: Any, where: str) -> Model:
    """The values as a typed model, or an error that names the file and the field."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "it"
        raise DamagedError(
            f"{where} was damaged or changed: {field} is {_short(first['input'])} "
            f"({first['msg'].lower()}); restore the file, or make the run anew"
        ) from None


def metrics_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of `metrics.jsonl`; an incomplete last line of a killed run is left out."""
    if not path.exists():
        return
    texts = check_regular(path).read_text("utf-8", errors="replace").splitlines()
    for number, text in enumerate(texts, 1):
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            return
        except (RecursionError, ValueError):  # so deep, or a number of so many digits
            line = text
        checked(MetricsLine, line, f"{path}, line {number}")
        yield line


def result_note(path: Path) -> ResultNote:
    """The contents of `result.json`; empty if training is not finished."""
    if not path.exists():
        return ResultNote()
    try:
        values = json.loads(check_regular(path).read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedError(
            f"{path} is not JSON ({error}): restore it, or make the run anew"
        ) from error
    return checked(ResultNote, values, str(path))


def header_note(model: type[Model], header: Mapping[str, Any], path: Path) -> Model:
    """The header of a file of tensors."""
    return checked(model, dict(header), f"the header of {path}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
