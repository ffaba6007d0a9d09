"""What `torchrun` tells the processes that it starts, by their environment."""

import os


def world_size() -> int:
    """The number of processes that `torchrun` started for one run; 1 without it."""
    started = "TORCHELASTIC_RUN_ID" in os.environ
    return int(os.environ.get("WORLD_SIZE", "1")) if started else 1


def restarts() -> int:
    """How often `torchrun` has started the processes of this run again, after one had failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
