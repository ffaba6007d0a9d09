"""Learnable connection sampling and uncertainty for graph neural networks."""

__version__ = "0.1.0"
