"""``reproduce rivals``: the uncertainty of the default beside that of its rivals, all calibrated.

A difference is the default, or five of them, minus the rival on the same seeds. On a public split
its interval is over seeds and test nodes, of ECE, AURC and PAvPU by leaving each node out in turn;
on random splits it is the corrected resampled t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments.comparisons import (
    Difference,
    aurc_without_each,
    crossed,
    ece_without_each,
    node_values,
    pavpu_without_each,
    resampled_t,
    seeds_alone,
)
from experiments.controlled import THRESHOLDS, outcome
from experiments.factors import Arm
from experiments.measures import BINS
from experiments.plots.differences import Interval, draw_differences
from experiments.rendering import Rendering
from experiments.tables import Table, summarise
from experiments.target_runs import TargetRuns
from experiments.worth import interval_text
from experiments.worth_comparisons import (
    BySeed,
    Comparison,
    Seen,
    compared,
    complete,
    core_hours,
    runs_of,
)

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Score:
    """A score of a run, and what every test node has of it; shares are in percent."""

    title: str
    of: Callable[[Seen], float]
    nodes: Callable[[Seen], Values]
    digits: int
    higher: bool = False
    """Whether more is better."""
    drawn: str = ""
    """The title of its panel, if it is to be shorter."""

    def at_or_better(self, difference: Difference) -> bool:
        """Whether the default is not on the worse side."""
        return difference.mean >= 0.0 if self.higher else difference.mean <= 0.0


def _ece_nodes(seen: Seen) -> Values:
    without = ece_without_each(outcome(seen, "accuracy"), 1.0 - outcome(seen, "doubt"), BINS)
    return 100.0 * node_values(seen["test"]["ece"], without)


def _aurc_nodes(seen: Seen) -> Values:
    without = aurc_without_each(outcome(seen, "accuracy"), outcome(seen, "entropy"))
    return node_values(seen["test"]["aurc"], without)


def _pavpu_nodes(seen: Seen, at: int) -> Values:
    right, entropy = outcome(seen, "accuracy"), outcome(seen, "entropy")
    without = pavpu_without_each(right, entropy, THRESHOLDS[at])
    return 100.0 * node_values(seen["pavpu_curve"][at], without)


def _mean_pavpu_nodes(seen: Seen) -> Values:
    by_threshold = [_pavpu_nodes(seen, at) for at in range(len(THRESHOLDS))]
    mean: Values = np.mean(by_threshold, axis=0)
    return mean


def _pavpu(seen: Seen, at: int) -> float:
    return 100.0 * float(seen["pavpu_curve"][at])


ACCURACY = Score(
    "accuracy (%)",
    lambda seen: 100.0 * seen["test"]["accuracy"],
    lambda seen: 100.0 * outcome(seen, "accuracy"),
    2,
    higher=True,
)
NLL = Score("NLL", lambda seen: seen["test"]["nll"], lambda seen: outcome(seen, "nll"), 4)
ECE = Score("ECE (%)", lambda seen: 100.0 * seen["test"]["ece"], _ece_nodes, 2)
AURC = Score("AURC", lambda seen: seen["test"]["aurc"], _aurc_nodes, 4)
MEAN_PAVPU = Score(
    "PAvPU (%), mean of 0.5 to 1",
    lambda seen: 100.0 * float(np.mean(seen["pavpu_curve"])),
    _mean_pavpu_nodes,
    2,
    higher=True,
    drawn="mean PAvPU (%)",
)
PAVPU = tuple(
    Score(
        f"PAvPU (%) at {threshold:.2f}",
        partial(_pavpu, at=at),
        partial(_pavpu_nodes, at=at),
        2,
        higher=True,
    )
    for at, threshold in enumerate(THRESHOLDS)
)
SCORES = (ACCURACY, NLL, ECE, AURC, MEAN_PAVPU)


def difference(one: Comparison, score: Score) -> Difference:
    """The default minus the rival on common seeds, at least two."""
    pairs = [(one.runs[seed], one.others[seed]) for seed in sorted(one.runs.keys() & one.others)]
    if one.over == "seeds and nodes":
        return crossed(np.stack([score.nodes(own) - score.nodes(other) for own, other in pairs]))
    values = [score.of(own) - score.of(other) for own, other in pairs]
    if one.over == "seeds":
        return seeds_alone(values)
    first = pairs[0][0]
    return resampled_t(values, tested=first["tested"], fitted=first["fitted"])


def subject(arm: Arm) -> str:
    """The row that stands beside a rival: the default, or five of them."""
    return arm.rows[0]


def comparisons(found: TargetRuns) -> list[Comparison]:
    """The default beside every rival on every graph, where two seeds are common."""
    (factor,) = found.recipe.factors
    every = [one for graph in found.recipe.graphs for one in compared(found, factor, graph)]
    return [one for one in every if one.differences]


def mean_and_deviation(runs: BySeed, of: Callable[[Seen], float], digits: int) -> str:
    """Over seeds, such as `0.510 ± 0.010`."""
    summary = summarise([of(seen) for seen in runs.values()])
    spread = f" ± {summary.deviation:.{digits}f}" if summary.count > 1 else ""
    return f"{summary.mean:.{digits}f}{spread}"


def floor(seen: Seen) -> float:
    """The mean calibration error by chance alone, on as many nodes, in percent."""
    return 100.0 * float(seen["ece_floor"]["mean"])


# Tables and figures


def rivals(found: TargetRuns) -> Rendering:
    """The scores of all rows, their differences, those of PAvPU by threshold, and both drawn."""
    shown = comparisons(found)
    note = _note(found)
    tables = {
        found.target: Table(
            found.title,
            [
                *(ACCURACY.title, NLL.title, ECE.title, "its floor (%)", AURC.title),
                *(PAVPU[0].title, MEAN_PAVPU.title, "processor seconds"),
            ],
            _score_rows(found),
            note,
        ),
        f"{found.target}-differences": Table(
            f"{found.title}: differences",
            [score.title for score in SCORES],
            [(_name(found, one), _cells(one, SCORES)) for one in shown],
            note,
        ),
        f"{found.target}-pavpu": Table(
            f"{found.title}: differences of PAvPU (points) by threshold",
            [f"{threshold:.2f}" for threshold in THRESHOLDS],
            [(_name(found, one), _cells(one, PAVPU)) for one in shown],
            note,
        ),
    }
    return Rendering(tables, _figures(found, shown) if shown else {})


def _note(found: TargetRuns) -> str:
    done = sum(len(runs.records) for runs in found.cells)
    total = sum(len(runs.cell.configs) for runs in found.cells)
    return (
        "Differences: the default minus the rival, on the same seeds, with 95 % intervals over "
        "seeds and test nodes (crossed variance components; ECE, AURC and PAvPU by leaving each "
        "node out in turn) on public splits, by the corrected resampled t on random splits. They "
        "are not corrected for their number. PAvPU: thresholds are fractions of the largest "
        f"entropy. Scores: mean ± deviation over runs. {done} of {total} runs, "
        f"{core_hours(found):.2f} core-hours. {found.note()}"
    )


def _score_rows(found: TargetRuns) -> list[tuple[str, list[tuple[str, ...]]]]:
    rows: list[tuple[str, list[tuple[str, ...]]]] = []
    for graph in found.recipe.graphs:
        for row in found.recipe.rows:
            runs = runs_of(found, Arm(name=row.name), graph)
            if runs:
                rows.append((f"{graph}, {row.name}", [(cell,) for cell in _row_scores(runs)]))
    return rows


def _row_scores(runs: BySeed) -> list[str]:
    return [
        mean_and_deviation(runs, ACCURACY.of, 2),
        mean_and_deviation(runs, NLL.of, 3),
        mean_and_deviation(runs, ECE.of, 2),
        mean_and_deviation(runs, floor, 2),
        mean_and_deviation(runs, AURC.of, 4),
        mean_and_deviation(runs, PAVPU[0].of, 2),
        mean_and_deviation(runs, MEAN_PAVPU.of, 2),
        f"{summarise([seen['cpu_seconds'] for seen in runs.values()]).mean:.0f}",
    ]


def _name(found: TargetRuns, one: Comparison) -> str:
    seeds = len(one.runs.keys() & one.others)
    some = "" if complete(one, found.recipe.runs) else f", {seeds} seeds"
    return f"{one.graph}, {subject(one.arm)} minus {one.arm.against}{some}"


def _cells(one: Comparison, scores: Sequence[Score]) -> list[tuple[str, ...]]:
    return [(interval_text(difference(one, score), score.digits),) for score in scores]


def _figures(found: TargetRuns, shown: Sequence[Comparison]) -> dict[str, Figure]:
    by_place = {(one.arm.name, one.graph): one for one in shown}
    titles = {one.arm.name: f"{subject(one.arm)}\nminus {one.arm.against}" for one in shown}
    graphs = list(dict.fromkeys(one.graph for one in shown))

    def interval(rival: str, graph: str, score: Score) -> Interval | None:
        if (rival, graph) not in by_place:
            return None
        own = difference(by_place[rival, graph], score)
        return Interval(own.mean, own.low, own.high)

    by_score = {
        score.drawn or score.title: {
            g: [interval(name, g, score) for name in titles] for g in graphs
        }
        for score in SCORES[1:]
    }
    by_rival = {
        f"PAvPU (points), {title}": {
            g: [interval(name, g, score) for score in PAVPU] for g in graphs
        }
        for name, title in titles.items()
    }
    rows = [f"threshold {threshold:.2f}" for threshold in THRESHOLDS]
    return {
        found.target: draw_differences(list(titles.values()), by_score, quick=found.quick),
        f"{found.target}-pavpu": draw_differences(rows, by_rival, quick=found.quick),
    }
