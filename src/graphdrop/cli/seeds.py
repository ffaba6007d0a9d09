"""`graphdrop train --seeds`: runs that differ in their seed, by an executor, and their mean."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING

from graphdrop.cli import output
from graphdrop.config import Config
from graphdrop.io.visible import say

if TYPE_CHECKING:
    from graphdrop.executors import Executor
    from graphdrop.train.result import Result


def trained_seeds(
    chosen: Config, seeds: int, out: Path, executor: Executor, device: str = "cpu"
) -> list[Result]:
    """The results of one run per seed, each in a folder of its own, made or gone on with."""
    from graphdrop.executors import Job  # noqa: PLC0415 - --help needs no torch
    from graphdrop.train.many import train_in_folder  # noqa: PLC0415
    from graphdrop.train.run_dataset import fingerprint, load_named_dataset  # noqa: PLC0415

    data = None if executor.same_machine else fingerprint(load_named_dataset(chosen.data).data)
    jobs = []
    for seed in range(chosen.seed, chosen.seed + seeds):
        one = chosen.model_copy(update={"seed": seed})
        folder = str((out / f"seed-{seed}").resolve())
        arguments = (one, folder, data, device)
        jobs.append(Job(str(seed), f"the run of seed {seed}", train_in_folder, arguments))
    results: dict[str, Result] = {}
    for key, result in executor.run(jobs):
        results[key] = result
        say(
            f"Seed {key} took {result.seconds:.0f} seconds; {len(results)} of {seeds} are done.",
            file=sys.stderr,
        )
    return [results[job.key] for job in jobs]


def show_seeds(results: list[Result], out: Path, first: int) -> None:
    """Print mean and standard deviation over seeds."""
    from graphdrop.metrics.registry import Scores  # noqa: PLC0415

    runs = [{"folder": out / f"seed-{first + k}", **r.as_json()} for k, r in enumerate(results)]
    output.result(runs=runs)
    say(f"{len(results)} seeds, mean and standard deviation; the runs are in {out}/seed-*.")
    parts = {"validation": [r.validation for r in results], "test": [r.test for r in results]}
    for part, scores in parts.items():
        shown = [one.shown() if isinstance(one, Scores) else dict(one) for one in scores]
        for name in shown[0]:
            values = [one[name] for one in shown if name in one]
            say(f"{part} {name}: {mean(values):.4f} ± {stdev(values):.4f}")
