"""Differences of arms to what they are compared with, for `worth` and `rivals`.

On one public split an interval is over seeds and test nodes (`crossed`), of ECE, AURC and PAvPU by
leaving each node out in turn; on random splits it is the corrected resampled t. Holm's correction
is over the planned primary comparisons of a factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from experiments.comparisons import (
    Difference,
    Values,
    aurc_without_each,
    crossed,
    ece_without_each,
    format_difference,
    holm,
    node_values,
    pavpu_without_each,
    resampled_t,
    seeds_alone,
)
from experiments.controlled import OWN, THRESHOLDS, outcome
from experiments.factors import PRIMARY, Arm, Factor
from experiments.measures import BINS
from experiments.recipe import graph_name
from experiments.store import Record
from experiments.tables import summarise
from experiments.target_runs import TargetRuns

Seen = Mapping[str, Any]
"""What a run shows in one way of predicting."""
BySeed = dict[int, Seen]
_OF_RUN = ("seed", "data", "tested", "fitted", "cpu_seconds")


@dataclass(frozen=True)
class Score:
    """A score of a run, and what every test node has of it; shares are shown in percent."""

    name: str
    in_run: Callable[[Seen], float]
    in_nodes: Callable[[Seen], Values]
    digits: int
    unit: str = ""
    """The unit of a difference."""
    higher: bool = False
    """Whether more is better."""
    factor: float = 1.0
    """What it is multiplied with where it is shown."""

    def of(self, seen: Seen) -> float:
        """Return the score of a run."""
        return self.factor * self.in_run(seen)

    @property
    def title(self) -> str:
        """The heading of a column of scores."""
        return f"{self.name} (%)" if self.unit else self.name

    def at_or_better(self, difference: Difference) -> bool:
        """Return whether the first of both is not on the worse side."""
        return difference.mean >= 0.0 if self.higher else difference.mean <= 0.0

    def format(self, difference: Difference) -> str:
        """Write a difference with its interval and the digits of this score."""
        return format_difference(difference, self.digits)


def _ece_nodes(seen: Seen) -> Values:
    without = ece_without_each(outcome(seen, "accuracy"), 1.0 - outcome(seen, "doubt"), BINS)
    return node_values(seen["test"]["ece"], without)


def _aurc_nodes(seen: Seen) -> Values:
    without = aurc_without_each(outcome(seen, "accuracy"), outcome(seen, "entropy"))
    return node_values(seen["test"]["aurc"], without)


def _pavpu(seen: Seen, i: int) -> float:
    return float(seen["pavpu_curve"][i])


def _pavpu_nodes(seen: Seen, i: int) -> Values:
    right, entropy = outcome(seen, "accuracy"), outcome(seen, "entropy")
    return node_values(_pavpu(seen, i), pavpu_without_each(right, entropy, THRESHOLDS[i]))


def _mean_pavpu_nodes(seen: Seen) -> Values:
    mean: Values = np.mean([_pavpu_nodes(seen, i) for i in range(len(THRESHOLDS))], axis=0)
    return mean


_SHARE: dict[str, Any] = {"digits": 2, "unit": " points", "factor": 100.0}
ACCURACY = Score(
    "accuracy",
    lambda seen: seen["test"]["accuracy"],
    lambda seen: outcome(seen, "accuracy"),
    higher=True,
    **_SHARE,
)
NLL = Score("NLL", lambda seen: seen["test"]["nll"], lambda seen: outcome(seen, "nll"), 4)
ECE = Score("ECE", lambda seen: seen["test"]["ece"], _ece_nodes, **_SHARE)
AURC = Score("AURC", lambda seen: seen["test"]["aurc"], _aurc_nodes, 4)
PAVPU = tuple(
    Score(
        f"PAvPU at {threshold:.2f}",
        partial(_pavpu, i=i),
        partial(_pavpu_nodes, i=i),
        higher=True,
        **_SHARE,
    )
    for i, threshold in enumerate(THRESHOLDS)
)
MEAN_PAVPU = Score(
    "mean PAvPU",
    lambda seen: float(np.mean(seen["pavpu_curve"])),
    _mean_pavpu_nodes,
    higher=True,
    **_SHARE,
)
PRIMARY_SCORES = {"accuracy": ACCURACY, "nll": NLL}
"""The scores whose differences were fixed beforehand, by their names in records."""


@dataclass(frozen=True)
class Comparison:
    """An arm on one graph beside what it is compared with."""

    arm: Arm
    graph: str
    runs: BySeed
    others: BySeed

    @cached_property
    def pairs(self) -> list[tuple[Seen, Seen]]:
        """The runs of both with the same seed; they have the same data."""
        seeds = sorted(self.runs.keys() & self.others)
        pairs = [(self.runs[seed], self.others[seed]) for seed in seeds]
        for own, other in pairs:
            if own["data"] != other["data"]:
                raise ValueError(
                    f"runs of seed {own['seed']} differ in their data: {own['data']} and "
                    f"{other['data']}; only runs on the same split are compared."
                )
        return pairs

    @cached_property
    def over(self) -> str:
        """What the intervals are over."""
        if len({own["data"] for own, _ in self.pairs}) > 1:
            return "splits"
        stored = all("outcomes" in seen for pair in self.pairs for seen in pair)
        return "seeds and nodes" if stored else "seeds"

    def at_nodes(self, score: Score) -> Values:
        """Return the differences ``[seeds, nodes]`` of a comparison over seeds and nodes."""
        gaps = [score.in_nodes(own) - score.in_nodes(other) for own, other in self.pairs]
        return score.factor * np.stack(gaps)

    def by_seed(self, score: Score) -> list[float]:
        """Return one difference for every seed."""
        return [score.factor * (score.in_run(a) - score.in_run(b)) for a, b in self.pairs]

    def difference(self, score: Score) -> Difference:
        """Return the mean difference of a score over common seeds, of which it takes two."""
        if self.over == "seeds and nodes":
            return crossed(self.at_nodes(score))
        if self.over == "seeds":
            return seeds_alone(self.by_seed(score))
        first = self.pairs[0][0]
        values = self.by_seed(score)
        return resampled_t(values, tested=first["tested"], fitted=first["fitted"])

    @cached_property
    def differences(self) -> dict[str, Difference]:
        """The differences of the primary scores; none with fewer than two common seeds."""
        if len(self.pairs) < 2:
            return {}
        return {name: self.difference(score) for name, score in PRIMARY_SCORES.items()}

    def is_complete(self, runs: int) -> bool:
        """Return whether all planned runs of both sides are there: only then its p counts."""
        return len(self.pairs) == runs


def seen_in(record: Record, view: str = OWN) -> Seen:
    """Return the scores of a record in one way of predicting, with what belongs to the run."""
    shown = record if view == OWN else record["views"][view]
    return {**shown, **{name: record[name] for name in _OF_RUN}}


def runs_of(found: TargetRuns, arm: Arm, graph: str) -> BySeed:
    """Return the runs of an arm on a graph by seed; of the best of several rows, the chosen one."""
    by_row = [runs_of_row(found, row, graph, arm.view) for row in arm.rows]
    if not arm.best_of:
        return by_row[0]
    chosen: BySeed = {}
    for seed in sorted(set.intersection(*map(set, by_row))):
        tried = [runs[seed] for runs in by_row]
        best = min(tried, key=lambda seen: seen["validation"]["nll"])
        chosen[seed] = {**best, "cpu_seconds": sum(seen["cpu_seconds"] for seen in tried)}
    return chosen


def runs_of_row(found: TargetRuns, row: str, graph: str, view: str = OWN) -> BySeed:
    """Return the runs of a row on a graph by seed, seen in one way of predicting."""
    return {
        record["seed"]: seen_in(record, view)
        for runs in found.cells
        if runs.cell.row == row and graph_name(runs.cell.dataset) == graph
        for record in runs.records
    }


def compare(found: TargetRuns, factor: Factor, graph: str) -> list[Comparison]:
    """Return every arm of a factor on a graph, as far as it has runs."""
    return [
        Comparison(arm, graph, runs, runs_of_row(found, arm.against, graph))
        for arm in factor.arms
        if arm.is_of(graph) and (runs := runs_of(found, arm, graph))
    ]


def corrected(
    comparisons: Iterable[Comparison], factor: Factor, graphs: Sequence[str]
) -> dict[tuple[str, str, str], float]:
    """Return Holm's p-values by arm, graph and score, over the planned primary comparisons."""
    family = {
        (one.arm.name, one.graph, score): one.differences[score].p_value
        for one in comparisons
        if one.arm.primary and one.graph in graphs and one.differences
        for score in PRIMARY
    }
    values = holm(list(family.values()), planned=factor.planned(graphs))
    return dict(zip(family, values, strict=True))


def mean_and_deviation(runs: BySeed, of: Callable[[Seen], float | None], digits: int) -> str:
    """Return the mean over seeds and its deviation, such as `0.510 ± 0.010`."""
    values = [value for seen in runs.values() if (value := of(seen)) is not None]
    if not values:
        return "none"
    summary = summarise(values)
    spread = f" ± {summary.deviation:.{digits}f}" if summary.count > 1 and digits else ""
    return f"{summary.mean:.{digits}f}{spread}"


def floor(seen: Seen) -> float:
    """Return the mean calibration error by chance alone, on as many nodes, in percent."""
    return 100.0 * float(seen["ece_floor"]["mean"])


def core_hours(found: TargetRuns) -> float:
    """Return the processor time of all runs of a target that are there, in hours."""
    records = [record for runs in found.cells for record in runs.records]
    return float(sum(record["cpu_seconds"] for record in records)) / 3600.0


def count_planned_runs(found: TargetRuns, graphs: Sequence[str]) -> int:
    """Return how many runs all factors need on these graphs."""
    factors = found.recipe.factors
    cells = sum(
        any(factor.needs(row.name, graph) for factor in factors)
        for row in found.recipe.rows
        for graph in graphs
    )
    return cells * found.recipe.runs
