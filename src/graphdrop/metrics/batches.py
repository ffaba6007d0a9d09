"""``OverBatches``: any metric of this package over batches, as a torchmetrics class."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat


class OverBatches(Metric):
    """A metric that equals its function on all batches together, in any order of them.

    Of several processes it is the metric of all their batches.

    Args:
        function: a metric of this package, such as `aurc`.
        options: arguments of the function that are the same for all batches, such as `bins`.

    Example:
        >>> import torch
        >>> from graphdrop.metrics import calibration_error
        >>> metric = OverBatches(calibration_error, bins=10)
        >>> metric.update(torch.tensor([[0.75, 0.25]]), torch.tensor([0]))
        >>> metric.update(torch.tensor([[0.75, 0.25]]), torch.tensor([1]))
        >>> metric.compute().item()
        0.25
    """

    full_state_update = False

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        super().__init__()
        self.function, self.options = function, options
        self.signature = inspect.signature(function)
        self.columns = [name for name in self.signature.parameters if name not in options]
        for name in self.columns:
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, *columns: Tensor, **named: Tensor) -> None:
        """Add a batch: the arguments of the function, each with one row per example."""
        given = self.signature.bind_partial(*columns, **named).arguments
        for name, rows in given.items():
            getattr(self, name).append(rows)

    def compute(self) -> Any:
        """The metric of all batches."""
        given = {name: rows for name in self.columns if (rows := getattr(self, name)) != []}
        return self.function(
            **{name: dim_zero_cat(rows) for name, rows in given.items()}, **self.options
        )
