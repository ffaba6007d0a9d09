"""``reproduce worth``: differences of every arm to what it is compared with, and their intervals.

On one public split an interval is over seeds and test nodes (``crossed``), on random splits it is
the corrected resampled t. Holm's correction is over the planned primary comparisons of a factor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.comparisons import (
    Difference,
    crossed,
    holm,
    resampled_t,
    seeds_alone,
)
from experiments.controlled import OWN, outcome
from experiments.factors import BASE, PRIMARY, Arm, Factor
from experiments.recipe import graph_name
from experiments.store import Record
from experiments.target_runs import TargetRuns

Seen = Mapping[str, Any]
"""What a run shows in one way of predicting."""
BySeed = dict[int, Seen]
_OF_RUN = ("seed", "data", "tested", "fitted", "cpu_seconds")
FACTORS = {"accuracy": 100.0, "nll": 1.0}
"""Accuracy is shown in points."""


@dataclass(frozen=True)
class Comparison:
    """An arm on one graph beside what it is compared with."""

    arm: Arm
    graph: str
    runs: BySeed
    others: BySeed
    differences: Mapping[str, Difference] = field(default_factory=dict)
    """By primary score; none with fewer than two seeds in common."""
    over: str = ""
    """What the intervals are over."""


def seen_in(record: Record, view: str = OWN) -> Seen:
    """The scores of a record in one way of predicting, with what belongs to the run."""
    shown = record if view == OWN else record["views"][view]
    return {**shown, **{name: record[name] for name in _OF_RUN}}


def runs_of(found: TargetRuns, arm: Arm, graph: str) -> BySeed:
    """The runs of an arm on a graph by seed; of the best of several rows, the one chosen."""
    by_row = [_of_row(found, row, graph, arm.view) for row in arm.rows]
    if not arm.best_of:
        return by_row[0]
    seeds = set.intersection(*(set(one) for one in by_row))
    chosen: BySeed = {}
    for seed in sorted(seeds):
        tried = [one[seed] for one in by_row]
        best = min(tried, key=lambda seen: seen["validation"]["nll"])
        chosen[seed] = {**best, "cpu_seconds": sum(seen["cpu_seconds"] for seen in tried)}
    return chosen


def _of_row(found: TargetRuns, row: str, graph: str, view: str = OWN) -> BySeed:
    return {
        record["seed"]: seen_in(record, view)
        for runs in found.cells
        if runs.cell.row == row and graph_name(runs.cell.dataset) == graph
        for record in runs.records
    }


def compared(found: TargetRuns, factor: Factor, graph: str) -> list[Comparison]:
    """Every arm of a factor on a graph, as far as it has runs."""
    found_ = []
    for arm in factor.arms:
        own = runs_of(found, arm, graph) if arm.is_of(graph) else {}
        if own:
            others = _of_row(found, arm.against, graph)
            found_.append(comparison(arm, graph, own, others))
    return found_


def comparison(arm: Arm, graph: str, own: BySeed, others: BySeed) -> Comparison:
    """The arm with the differences of its primary scores on common seeds."""
    one = Comparison(arm, graph, own, others)
    pairs = _pairs(one)
    if len(pairs) < 2:
        return one
    one = replace(one, over=_over(pairs))
    return replace(one, differences={score: _difference(one, score) for score in PRIMARY})


def _pairs(one: Comparison) -> list[tuple[Seen, Seen]]:
    return [(one.runs[seed], one.others[seed]) for seed in sorted(one.runs.keys() & one.others)]


def _over(pairs: Sequence[tuple[Seen, Seen]]) -> str:
    for own, other in pairs:
        if own["data"] != other["data"]:
            raise ValueError(
                f"runs of seed {own['seed']} differ in their data: {own['data']} and "
                f"{other['data']}; only runs on the same split are compared."
            )
    splits = {own["data"] for own, _ in pairs}
    if len(splits) > 1:
        return "splits"
    return (
        "seeds and nodes" if all("outcomes" in one for pair in pairs for one in pair) else "seeds"
    )


def differences_at_nodes(one: Comparison, score: str) -> NDArray[np.float64]:
    """``[seeds, nodes]``: of comparisons over seeds and nodes."""
    return np.stack([outcome(own, score) - outcome(other, score) for own, other in _pairs(one)])


def seed_differences(one: Comparison, score: str) -> list[float]:
    """One difference for every seed."""
    return [own["test"][score] - other["test"][score] for own, other in _pairs(one)]


def _difference(one: Comparison, score: str) -> Difference:
    factor = FACTORS[score]
    if one.over == "seeds and nodes":
        return crossed(factor * differences_at_nodes(one, score))
    values = [factor * value for value in seed_differences(one, score)]
    if one.over == "seeds":
        return seeds_alone(values)
    first = _pairs(one)[0][0]
    return resampled_t(values, tested=first["tested"], fitted=first["fitted"])


def complete(one: Comparison, runs: int) -> bool:
    """Whether all planned runs of both sides are there: only then its p-value counts."""
    return len(one.runs.keys() & one.others.keys()) == runs


def corrected(
    comparisons: Iterable[Comparison], factor: Factor, graphs: Sequence[str]
) -> dict[tuple[str, str, str], float]:
    """Holm's p-values by arm, graph and score, over the primary comparisons that were planned."""
    family = {
        (one.arm.name, one.graph, score): difference.p_value
        for one in comparisons
        if one.arm.primary and one.graph in graphs
        for score, difference in one.differences.items()
    }
    values = holm(list(family.values()), planned=factor.planned(graphs))
    return dict(zip(family, values, strict=True))


def core_hours(found: TargetRuns) -> float:
    """The processor time of all runs of the experiment that are there, in hours."""
    records = [record for runs in found.cells for record in runs.records]
    return float(sum(record["cpu_seconds"] for record in records)) / 3600.0


def planned_runs(found: TargetRuns, graphs: Sequence[str]) -> int:
    """How many runs all factors need on these graphs."""
    rows = [row.name for row in found.recipe.rows]
    factors = found.recipe.factors
    cells = sum(any(f.needs(row, graph) for f in factors) for row in rows for graph in graphs)
    return cells * found.recipe.runs


__all__ = [
    "BASE",
    "FACTORS",
    "BySeed",
    "Comparison",
    "compared",
    "comparison",
    "complete",
    "core_hours",
    "corrected",
    "differences_at_nodes",
    "planned_runs",
    "runs_of",
    "seed_differences",
    "seen_in",
]
