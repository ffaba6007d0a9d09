"""`States`: the hidden states of all nodes, in memory or in memory-mapped files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from graphdrop.kernels.buffers import empty

MEMORY_BYTES, FOLDER_BYTES = 3 << 30, 8 << 30
"""Samples are computed side by side while their hidden states fit so many bytes."""
CHUNK_BYTES = 1 << 26
"""Rows are computed together while their outputs fit so many bytes."""
LEAST_ROWS = 256


class States:
    """Where hidden states are stored, and how many nodes and samples are computed at once.

    Args:
        nodes: number of nodes.
        batch_size: number of rows that are computed at once; chosen by default.
        folder: a folder for memory-mapped files, which have no name: they are gone with the
            process, even if it is killed. ``None`` is for memory.
        dtype: the type of the model.
    """

    def __init__(
        self,
        nodes: int,
        batch_size: int | None = None,
        folder: str | Path | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; it takes a number of at least 1.")
        if folder is not None and not Path(folder).is_dir():
            raise ValueError(
                f"folder is {str(folder)!r}, which is not a folder: make it, or leave it out to "
                "keep hidden states in memory"
            )
        self.nodes, self.batch_size, self.folder = nodes, batch_size, folder
        self.dtype = dtype

    def empty(self, samples: int, width: int) -> Tensor:
        """An uninitialized state `[nodes, samples, width]`."""
        shape = self.nodes, samples, width
        if self.folder is None or not all(shape):
            if self.dtype == torch.float32:
                return empty(self.nodes, samples * width).view(shape)
            return torch.empty(shape, dtype=self.dtype)
        with tempfile.TemporaryFile(dir=self.folder) as file:
            # torch takes the map of a file as it takes any array, and keeps it alive
            kind = torch.empty(0, dtype=self.dtype).numpy().dtype
            return torch.from_numpy(np.memmap(file, kind, "w+", shape=shape))

    def at_once(self, width: int, shared: int = 0) -> int:
        """How many samples fit side by side.

        Args:
            width: how many numbers a node has in a sample, in all states that live at once.
            shared: how many it has in states that samples share.
        """
        limit = MEMORY_BYTES if self.folder is None else FOLDER_BYTES
        each = self.dtype.itemsize * max(1, self.nodes)
        return max(1, (limit - each * shared) // (each * max(1, width)))

    def rows_at_once(self, width: int) -> int:
        """How many rows of so many numbers are computed at once."""
        return self.batch_size or max(LEAST_ROWS, CHUNK_BYTES // max(1, 4 * width))
