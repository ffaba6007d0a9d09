"""A warning for optimizers that were built before `attach` and lack the rates."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

_attached: weakref.WeakSet[nn.Module] = weakref.WeakSet()
_seen: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
_hooks: list[Any] = []


def watch(model: nn.Module) -> None:
    """Check at the first step of every later optimizer that it has the rates of this model."""
    _attached.add(model)
    if not _hooks:
        _hooks.append(register_optimizer_step_pre_hook(_look))


def _look(optimizer: torch.optim.Optimizer, _arguments: Any, _options: Any) -> None:
    if optimizer in _seen:
        return
    _seen.add(optimizer)
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    for model in list(_attached):
        parameters = dict(model.named_parameters())
        rates = {id(p) for name, p in parameters.items() if ".rate." in name}
        others = {id(p) for p in parameters.values()} - rates
        if rates and others & held and not rates & held:
            warnings.warn(
                f"the optimizer has the weights of {type(model).__name__} but none of its "
                f"{len(rates)} rate parameters, which it will not learn: build the optimizer after "
                "attach(), or give it the rates by "
                "optimizer.add_param_group({'params': handle.parameters()})",
                stacklevel=3,
            )
