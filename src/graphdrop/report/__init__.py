"""Reports of runs: tables, figures for print, and an HTML page."""

from graphdrop.report.runs import report

__all__ = ["report"]
