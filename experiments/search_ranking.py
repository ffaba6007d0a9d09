"""Ranking of the configurations of a search: all run once, the best again with more seeds.

Runs of a search have no test scores, so that test nodes cannot influence the ranking.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.display import Display
from experiments.measures import BY_HALVES
from experiments.runner import run_cells
from experiments.search import Search, SearchCell, Trial
from experiments.store import Record, Store
from graphdrop.config import Config
from graphdrop.executors import Executor


@dataclass(frozen=True)
class Standing:
    """A configuration with its finished runs."""

    trial: Trial
    records: list[Record]

    @property
    def accuracy(self) -> float:
        """Mean over its runs on the validation nodes; a run that diverged counts as 0."""
        return statistics.fmean(_score(record, "accuracy", 0.0) for record in self.records)

    @property
    def halves(self) -> float | None:
        """The same, on half of the nodes where the other half is best; None where not known."""
        if any(BY_HALVES not in record.get("validation", {BY_HALVES}) for record in self.records):
            return None
        return statistics.fmean(_score(record, BY_HALVES, 0.0) for record in self.records)

    @property
    def nll(self) -> float:
        """Mean over its runs on the validation nodes; infinite if one diverged."""
        return statistics.fmean(_score(record, "nll", math.inf) for record in self.records)

    @property
    def diverged(self) -> bool:
        """Whether one of its runs diverged."""
        return any("error" in record for record in self.records)


def _score(record: Record, name: str, otherwise: float) -> float:
    value = record.get("validation", {}).get(name)
    return otherwise if value is None else float(value)


@dataclass(frozen=True)
class Outcome:
    """The ranking of a cell: its finalists, the best first, by the finished runs."""

    cell: SearchCell
    finalists: list[Standing]
    tried: int
    """Configurations that were run."""
    missing: int
    """Runs to be made of those known so far."""
    records: list[Record]

    @property
    def winner(self) -> Standing | None:
        """The best configuration, once all have been run, unless even this one diverged."""
        first = self.finalists[0] if self.finalists else None
        return None if first is None or self.missing or first.diverged else first


def outcome(search: Search, cell: SearchCell, records: Mapping[str, Record]) -> Outcome:
    """The ranking of a cell by these records."""
    tried = [
        Standing(trial, [records[trial.keys[0]]])
        for trial in cell.trials
        if trial.keys[0] in records
    ]
    best = _ranked(tried, search.score)[: search.finalists]
    finalists = [
        Standing(one.trial, [records[key] for key in one.trial.keys if key in records])
        for one in best
    ]
    if search.score == "halves":
        _check_halves(cell, (*tried, *finalists))
    runs = sum(len(one.records) for one in finalists)
    return Outcome(
        cell,
        _ranked(finalists, search.score),
        len(tried),
        len(cell.trials) - len(tried) + len(finalists) * len(search.seeds) - runs,
        [records[key] for trial in cell.trials for key in trial.keys if key in records],
    )


def _check_halves(cell: SearchCell, standings: Sequence[Standing]) -> None:
    """Raise if the accuracy by halves is missing or does not apply."""
    if any(trial.configs[0].train.select != "accuracy" for trial in cell.trials):
        raise ValueError(
            f'{cell.name}: the score "halves" is of states chosen by their accuracy, but some '
            'configurations have train.select = "nll": give them "accuracy", or score by nll'
        )
    if any(one.halves is None for one in standings):
        raise ValueError(
            f"{cell.name}: some runs were not scored by halves, being of an older version or with "
            f"one validation node: take the lines without {BY_HALVES} out of the file of this "
            "search, or score by accuracy or nll"
        )


def _ranked(standings: Sequence[Standing], score: str) -> list[Standing]:
    """The best first; the earlier trial among equals."""

    def place(one: Standing) -> tuple[float, float]:
        if score == "nll":
            return one.nll, -one.accuracy
        return -((one.halves or 0.0) if score == "halves" else one.accuracy), one.nll

    return sorted(standings, key=place)


def compete(
    search: Search,
    cells: Sequence[SearchCell],
    store: Store,
    jobs: int = 1,
    *,
    executor: Executor | None = None,
    device: str = "cpu",
) -> None:
    """Make the missing runs of these cells: of all configurations, then of finalists."""
    known = store.records()
    for cell in cells:  # what cannot be compared is better found before hours of runs
        outcome(search, cell, known)
    for final in (False, True):
        known = store.records()
        runs: dict[str, dict[str, Config]] = {}
        for cell in cells:
            own = runs[cell.name] = {trial.keys[0]: trial.configs[0] for trial in cell.trials}
            for one in outcome(search, cell, known).finalists if final else []:
                own |= dict(zip(one.trial.keys, one.trial.configs, strict=True))
        display = Display(search.title, {name: list(own) for name, own in runs.items()})
        configs = [config for own in runs.values() for config in own.values()]
        run_cells(
            configs, store, jobs, blind=True, display=display, executor=executor, device=device
        )
