"""Devices by name, and float64 where a device has none."""

import torch
from torch import Tensor

DEVICES = ("auto", "cpu", "cuda", "mps")


def find_device(name: str | torch.device) -> torch.device:
    """The device of a name; ``auto`` is a GPU if torch sees one (CUDA, ROCm or mps), else the CPU.

    ROCm's GPUs are called ``cuda``, as everywhere in torch.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    if str(name).split(":")[0] not in DEVICES:
        raise ValueError(f"device is {str(name)!r}; it takes {', '.join(DEVICES)}, or cuda:1.")
    device = torch.device(name)
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(device.type, True):
        raise ValueError(
            f"device is {str(name)!r}, and torch {torch.__version__} sees no such device here. Use "
            "auto or cpu, or install a torch build for it (docs/install.md)."
        )
    return device


def has_float64(device: torch.device) -> bool:
    """Whether a device has numbers of 64 bits; Apple's GPUs have none."""
    return device.type != "mps"


def to_float64(tensor: Tensor) -> Tensor:
    """Convert to float64: on the tensor's device, or on the CPU where the device has no float64."""
    return tensor.double() if has_float64(tensor.device) else tensor.cpu().double()


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Move a tensor of float64 to a device, or to the CPU where the device has no float64."""
    return tensor.to(device) if has_float64(device) else tensor.cpu()
