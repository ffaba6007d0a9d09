"""Executors: where independent jobs run, in processes of this machine or on a Ray cluster."""

from graphdrop.executors.local import Executor, Job, LocalExecutor
from graphdrop.executors.ray import RayExecutor

__all__ = ["Executor", "Job", "LocalExecutor", "RayExecutor"]
