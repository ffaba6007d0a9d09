"""The ordered sum under the name it had: it lives in `graphdrop.util.ordered`."""

from graphdrop.util.ordered import ordered_sum

__all__ = ["ordered_sum"]
