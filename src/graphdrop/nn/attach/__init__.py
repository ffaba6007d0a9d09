"""`attach`: connection sampling for any PyTorch Geometric model."""

from graphdrop.nn.attach.attaching import attach
from graphdrop.nn.sampled import Handle

__all__ = ["Handle", "attach"]
