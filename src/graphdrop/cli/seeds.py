"""`graphdrop train --seeds`: runs that differ in their seed, by an executor, and their mean."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

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
    from graphdrop.executors.display import Line, LiveTable  # noqa: PLC0415
    from graphdrop.train.inputs import load_for  # noqa: PLC0415
    from graphdrop.train.many import train_in_folder  # noqa: PLC0415
    from graphdrop.train.provenance import fingerprint  # noqa: PLC0415

    data = None if executor.same_machine else fingerprint(load_for(chosen.data).data)
    jobs, run = {}, partial(train_in_folder, device=device)
    for seed in range(chosen.seed, chosen.seed + seeds):
        one = chosen.model_copy(update={"seed": seed})
        folder = str((out / f"seed-{seed}").resolve())
        jobs[str(seed)] = Job(str(seed), run, (one, folder, data))
    lines = {f"seed {key}": Line([key], chosen.train.epochs) for key in jobs}
    display = LiveTable(f"{seeds} seeds", lines, executor.at_once())
    results: dict[str, Result] = {}
    with display.showing(), closing(executor.run(jobs.values(), seeds)) as events:
        for event in events:
            if event is None:
                display.refresh()
            elif event.what == "started":
                display.started(event.key)
            elif event.what == "progressed":
                display.progressed(event.key, event.value)
            elif event.what == "failed":
                raise ValueError(f"the run of seed {event.key} failed: {event.value}")
            else:
                results[event.key] = event.value
                display.finished(event.key, _record(event.value))
    return [results[key] for key in jobs]


def _record(result: Result) -> dict[str, Any]:
    """As much of a record as the display shows."""
    test = getattr(result.test, "accuracy", None)
    return {"seconds": result.seconds} | ({} if test is None else {"test": {"accuracy": test}})


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
