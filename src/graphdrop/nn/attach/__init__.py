"""`attach`: make any PyTorch Geometric model sample its connections."""

from graphdrop.nn.attach.attaching import attach
from graphdrop.nn.handle import Handle

__all__ = ["Handle", "attach"]
