"""The report room: what runs say, as tables, figures and one page to open in a browser."""

from graphdrop.report.runs import report

__all__ = ["report"]
