"""A device that is none: tensors that say they are elsewhere, and are computed on the CPU.

They claim the device `meta`, but have values. An operation on tensors of both devices fails as it
would on a GPU, except for numbers, and so does reading memory by `numpy()`. So a training step, or
a whole run, shows here whether it leaves a tensor behind.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from graphdrop.graph.masks import rule
from graphdrop.kernels import aggregate as _aggregate

sums = sys.modules[_aggregate.__module__]

DEVICE = torch.device("meta")
SYNCHRONIZES = {"_local_scalar_dense", "nonzero", "equal", "is_nonzero", "unique_dim", "_unique2"}
"""Operations that wait for the device, by name."""


class Shadow(Tensor):
    """A tensor of the device, which has its values on the CPU."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "Shadow":
        made = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            layout=inner.layout,
            device=DEVICE,
            requires_grad=False,
        )
        made.inner = inner
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Shadow({self.inner!r})"

    def tolist(self) -> Any:
        """The values, which torch does not give of subclasses."""
        return self.cpu().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """The values, if they may be copied."""
        if not force:
            raise TypeError("numpy() of a tensor that is on the device")
        return self.detach().cpu().numpy()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return computed(func, args, kwargs or {})


class Device(TorchDispatchMode):
    """Context in which the device exists: what is made there is a `Shadow`."""

    def __init__(self, seen: Callable[[str, list[Tensor]], None] | None = None) -> None:
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return computed(func, args, kwargs or {}, self.seen)


def computed(
    func: Any,
    args: Any,
    kwargs: dict[str, Any],
    seen: Callable[[str, list[Tensor]], None] | None = None,
) -> Any:
    """Run an operation on the CPU, and say where its results are."""
    name = func._schema.name.split("::")[1]
    flat = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, Tensor)]
    shadows = [one for one in flat if isinstance(one, Shadow)]
    target = kwargs.get("device")
    moves = name in ("_to_copy", "copy_", "_pin_memory") or target is not None
    if shadows and not moves:
        left = [one for one in flat if not isinstance(one, Shadow) and one.dim()]
        if left:
            shapes = [tuple(one.shape) for one in left]
            raise RuntimeError(f"{func}: tensors {shapes} are on the CPU, others on the device")
    if shadows and seen is not None:
        seen(name, flat)

    def plain(one: Any) -> Any:
        return one.inner if isinstance(one, Shadow) else one

    if target is not None:
        there = torch.device(target).type == DEVICE.type
        kwargs = {**kwargs, "device": torch.device("cpu")}
    else:
        there = bool(shadows) and not (name == "copy_" and not isinstance(args[0], Shadow))
    results = func(*tree_map(plain, args), **tree_map(plain, kwargs))
    if seen is not None and there:
        seen(name, [one for one in tree_flatten(results)[0] if isinstance(one, Tensor)])
    back = {id(one.inner): one for one in shadows}

    def wrapped(one: Any) -> Any:
        if not isinstance(one, Tensor) or not there:
            return one
        return back[id(one)] if id(one) in back else Shadow(one)

    return tree_map(wrapped, results)


@contextmanager
def device(
    seen: Callable[[str, list[Tensor]], None] | None = None,
) -> Iterator[torch.device]:
    """The device, for as long as the context lasts."""
    _forget()
    try:
        with Device(seen):
            yield DEVICE
    finally:
        _forget()


@contextmanager
def without_float64() -> Iterator[tuple[torch.device, list[str]]]:
    """The device without float64, as Apple's GPUs are; and the operations that asked for it."""
    asked: list[str] = []

    def seen(operation: str, tensors: list[Tensor]) -> None:
        wide = [one for one in tensors if one.dtype == torch.float64]
        # numbers of the CPU may meet tensors of any device
        if any(one.dim() or isinstance(one, Shadow) for one in wide):
            asked.append(operation)

    def has_float64(device: torch.device) -> bool:
        return device.type != DEVICE.type

    with ExitStack() as patched, device(seen) as there:
        for name, module in list(sys.modules.items()):
            if name.startswith("graphdrop.") and hasattr(module, "has_float64"):
                patched.enter_context(mock.patch.object(module, "has_float64", has_float64))
        yield there, asked


def _forget() -> None:
    """Let nothing that was made on one device of this name be found on the other."""
    for known in (rule.concrete_logits, rule._both_tables, sums._keep_all):
        known.cache_clear()
