"""One file of tensors and JSON, written atomically and checked when read.

The format is safetensors, which contains no code. The JSON is in the metadata of the header, with a
checksum of all names, shapes, values and the JSON itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from graphdrop.io.files import check_regular, replace_file, sync_folder

__all__ = ["FORMAT", "DamagedError", "read", "replace_file", "sync_folder", "write"]

FORMAT = 2
"""The number of the format, written into every file; files of another one are refused."""
_KEY = "graphdrop"
_CHECKSUM = "sha256"


class DamagedError(ValueError):
    """A file is truncated, was changed, or has another format."""


def write(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write tensors and a header; equal content gives equal bytes."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in sorted(tensors.items())}
    text = json.dumps({"format": FORMAT, **header}, sort_keys=True)
    # One key only: the order of several would change from run to run.
    metadata = {_KEY: json.dumps({"header": text, _CHECKSUM: _checksum(plain, text)})}
    replace_file(path, safetensors.torch.save(plain, metadata))


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
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
        stored = json.loads(metadata[_KEY])
        text, expected = str(stored["header"]), stored[_CHECKSUM]
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
