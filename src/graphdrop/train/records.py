"""The files of a run and of a model: written whole, and read by typed models.

Tensors are in safetensors files, which contain no code. Their JSON is in the metadata of the
header, with a checksum of all names, shapes, values and the JSON itself. A file that was damaged or
changed is a ``DamagedError``, which names the file and the field.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypeVar

import safetensors
import safetensors.torch
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

import graphdrop
from graphdrop.io.files import check_regular, replace_file

FORMAT = 2
"""The number of the format of tensor files, in every file; files of another one are refused."""
PACKAGES = ("torch", "torch_geometric", "numpy", "scipy", "numba", "safetensors")
"""The packages that results depend on, whose versions are written into files."""

Count = Annotated[int, Field(ge=0)]
Model = TypeVar("Model", bound=BaseModel)


class DamagedError(ValueError):
    """A file is truncated, was changed, or has another format."""


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


class SelectionNote(EvaluationLine):
    """The best evaluation so far."""

    epoch: Count


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


def check_record(model: type[Model], values: Any, where: str) -> Model:
    """The values as a typed model, or an error that names the file and the field."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field, text = ".".join(map(str, first["loc"])) or "it", repr(first["input"])
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        raise DamagedError(
            f"{where} was damaged or changed: {field} is {shown} ({first['msg'].lower()}); restore "
            "the file, or make the run anew"
        ) from None


def header_note(model: type[Model], header: Mapping[str, Any], path: Path) -> Model:
    """The header of a file of tensors as a typed model."""
    return check_record(model, dict(header), f"the header of {path}")


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
        check_record(MetricsLine, line, f"{path}, line {number}")
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
    return check_record(ResultNote, values, str(path))


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write tensors and a header; equal content gives equal bytes."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in sorted(tensors.items())}
    text = json.dumps({"format": FORMAT, **header}, sort_keys=True)
    # One key only: the order of several would change from run to run.
    stored = json.dumps({"header": text, "sha256": _checksum(plain, text)})
    replace_file(path, safetensors.torch.save(plain, {"graphdrop": stored}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the header of a file; raises `DamagedError` if it is damaged."""
    if not path.exists() or path.is_dir():
        raise FileNotFoundError(f"{path} is not there")
    check_regular(path)
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, UnicodeDecodeError) as error:
        raise DamagedError(f"{path} is cut short or not a checkpoint ({error})") from error
    try:
        stored = json.loads(metadata["graphdrop"])
        text, expected = str(stored["header"]), stored["sha256"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise DamagedError(f"{path} was not written by graphdrop, or its header is lost") from error
    if _checksum(tensors, text) != expected:
        raise DamagedError(f"{path} was changed since it was written: its checksum is wrong")
    try:
        header: dict[str, Any] = dict(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedError(f"{path} has a header that is none of graphdrop's ({error})") from error
    if header.get("format") != FORMAT:
        raise DamagedError(f"{path} was written by another version of graphdrop: make it anew")
    return tensors, header


def _checksum(tensors: Mapping[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """The versions of this package and of the packages that its results depend on."""
    own = {"graphdrop": graphdrop.__version__, "python": platform.python_version()}
    return own | {package: version(package) for package in PACKAGES}
