"""Utilities: atomic files, locks, memory limits, sums in a fixed order."""
