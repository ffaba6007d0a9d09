"""Executors: where independent jobs are done, on this machine or on many."""

from graphdrop.executors.jobs import THREAD_VARIABLES, Event, Executor, Job
from graphdrop.executors.local import LocalExecutor

__all__ = ["THREAD_VARIABLES", "Event", "Executor", "Job", "LocalExecutor"]
