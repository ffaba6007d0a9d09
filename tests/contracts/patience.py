"""How long a test waits before it says that something hangs."""

SECONDS = 1800.0
"""What takes seconds on a free machine may take minutes on a busy one, and that is no failure."""
