"""`attach`: make any PyTorch Geometric model sample its connections."""

from graphdrop.nn.attach.handle import Handle, attach

__all__ = ["Handle", "attach"]
