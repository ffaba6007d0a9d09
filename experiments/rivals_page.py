"""The passages of docs/evidence.md on uncertainty, and what was to be reached: from `rivals`.

Only graphs of which all seeds of a comparison are there count. The default is at or better than a
rival where its mean is not on the worse side; an interval that excludes 0 says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from experiments.comparisons import Difference, holm
from experiments.contrasts import (
    ACCURACY,
    AURC,
    ECE,
    MEAN_PAVPU,
    NLL,
    PAVPU,
    BySeed,
    Comparison,
    Score,
    core_hours,
)
from experiments.rivals import compare_all, score_cells, subject
from experiments.target_runs import TargetRuns
from experiments.worth_page import GRAPHS, SIGNIFICANT, join

ASKED: dict[str, Sequence[Score]] = {
    "calibrated NLL": [NLL],
    "ECE": [ECE],
    "AURC": [AURC],
    "PAvPU at every threshold from 0.5 to 1": PAVPU,
}
"""What the default was to be at or better in, all of its scores at once."""
COUNTED = (NLL, ECE, AURC, MEAN_PAVPU)
"""One score of each kind: neighboring thresholds of PAvPU are no comparisons of their own."""
_NAMES = {
    "default": "the default",
    "five of the default": "an ensemble of five default networks",
    "Monte Carlo DropOut": "Monte Carlo DropOut",
    "deep ensemble": "a deep ensemble of five GCN-DO",
}


class Standing(NamedTuple):
    """Where the default stands beside one rival in what is asked."""

    asked: str
    subject: str
    """The default, or five of them."""
    rival: str
    graphs: list[str]
    """Those that are run."""
    reached: list[str]
    """Those where it is at or better."""
    better: list[str]
    """Differences whose interval excludes 0 on the better side, in words."""
    worse: list[str]

    @property
    def where(self) -> str:
        """The graphs where it is at or better, in brackets."""
        return f" ({', '.join(self.reached)})" if self.reached else ""


def complete(found: TargetRuns) -> list[Comparison]:
    """Return the comparisons that have all their seeds."""
    return [one for one in compare_all(found) if one.is_complete(found.recipe.runs)]


def excludes_zero(difference: Difference) -> bool:
    """Return whether an interval excludes 0."""
    return difference.low > 0.0 or difference.high < 0.0


def standings(found: TargetRuns) -> Iterator[Standing]:
    """Return where the default stands in each that is asked beside each rival, run or not."""
    (factor,) = found.recipe.factors
    every = complete(found)
    for asked, scores in ASKED.items():
        for arm in factor.arms:
            one = Standing(asked, subject(arm), arm.against, [], [], [], [])
            for comparison in every:
                if comparison.arm != arm:
                    continue
                graph = GRAPHS[comparison.graph]
                values = [(score, comparison.difference(score)) for score in scores]
                one.graphs.append(graph)
                if all(score.at_or_better(value) for score, value in values):
                    one.reached.append(graph)
                for texts, side in ((one.better, True), (one.worse, False)):
                    those = [
                        score.format(value)
                        for score, value in values
                        if excludes_zero(value) and score.at_or_better(value) is side
                    ]
                    if those:
                        many = f"at {len(those)} of {len(scores)} thresholds"
                        texts.append(f"{graph} {those[0] if len(scores) == 1 else many}")
            yield one


def uncertainty(found: TargetRuns) -> str:
    """Say on how many graphs the default is at or better, then all scores and differences."""
    done = sum(len(runs.records) for runs in found.cells)
    total = sum(len(runs.cell.configs) for runs in found.cells)
    every = complete(found)
    if not every:
        return f"{done} of {total} planned runs are made; no comparison has all its seeds yet."
    graphs = list(dict.fromkeys(one.graph for one in every))
    missing = [GRAPHS[graph] for graph in found.recipe.graphs if graph not in graphs]
    values = [one.difference(score) for one in every for own in ASKED.values() for score in own]
    lines = [
        f"{done} of {total} planned runs are made, in {core_hours(found):.1f} core-hours, on "
        f"{join([GRAPHS[graph] for graph in graphs])}"
        + (f"; not run yet: {join(missing)}." if missing else ".")
        + f" Of {len(values)} intervals {sum(map(excludes_zero, values))} exclude 0; they are not "
        "corrected for their number, and those of neighboring thresholds go together.",
        "",
        "| score | of | beside | at or better on | interval excludes 0, better | worse |",
        "|---|---|---|---|---|---|",
    ]
    for one in standings(found):
        sides = ["; ".join(texts) or "none" for texts in (one.better, one.worse)]
        count = f"{len(one.reached)} of {len(one.graphs)}{one.where}"
        lines.append(f"| {' | '.join([one.asked, one.subject, one.rival, count, *sides])} |")
    lines += [
        "",
        "| | accuracy (%) | NLL | ECE (%) | floor (%) | AURC | PAvPU (%) at 0.5 "
        "| PAvPU (%), mean of 0.5 to 1 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for graph in graphs:
        own = [one for one in every if one.graph == graph]
        shown: dict[str, BySeed] = {}
        for comparison in own:
            shown |= {subject(comparison.arm): comparison.runs}
            shown |= {comparison.arm.against: comparison.others}
        for name, runs in shown.items():
            lines.append(f"| {GRAPHS[graph]}, {name} | {' | '.join(score_cells(runs))} |")
        for comparison in own:
            cells = [
                score.format(comparison.difference(score))
                for score in (ACCURACY, NLL, ECE, AURC, PAVPU[0], MEAN_PAVPU)
            ]
            cells.insert(3, "")
            name = f"{subject(comparison.arm)} minus {comparison.arm.against}"
            lines.append(f"| {GRAPHS[graph]}, {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def counts_beside(found: TargetRuns) -> list[str]:
    """Return a bullet for every rival that has comparisons: how many intervals exclude 0."""
    by_pair: dict[tuple[str, str], list[Comparison]] = {}
    for one in complete(found):
        by_pair.setdefault((subject(one.arm), one.arm.against), []).append(one)
    lines = []
    for (own, rival), those in by_pair.items():
        title = f"**Uncertainty of {_NAMES[own]} beside {_NAMES[rival]}**, calibrated alike"
        lines.append(f"- {title}: {_count(those)}.")
    return lines


def _count(own: Sequence[Comparison]) -> str:
    """Count the differences that exclude 0 on each side, before and after Holm's correction."""
    family = [(score, one, one.difference(score)) for score in COUNTED for one in own]
    scores = join([score.name for score in COUNTED])
    what = f"{scores} on {join([GRAPHS[one.graph] for one in own])}"
    outside = [(score, value) for score, _, value in family if excludes_zero(value)]
    if not outside:
        return f"no difference is shown in {len(family)} comparisons ({what})"
    better = sum(score.at_or_better(value) for score, value in outside)
    p_values = holm([value.p_value for *_, value in family])
    left = [
        f"{score.name} on {GRAPHS[one.graph]}"
        for (score, one, _), p in zip(family, p_values, strict=True)
        if p < SIGNIFICANT
    ]
    return (
        f"of {len(family)} comparisons ({what}) better in {better} and worse in "
        f"{len(outside) - better} by an interval that excludes 0; after Holm's correction over "
        f"them {f'there remain {join(left)}' if left else 'none remains'}"
    )


def pavpu_standing(found: TargetRuns) -> str:
    """Say on which graphs PAvPU is at or above Monte Carlo DropOut's at every threshold."""
    one = next(
        one
        for one in standings(found)
        if one.rival == "Monte Carlo DropOut" and one.asked.startswith("PAvPU")
    )
    if not one.graphs:
        return "not run yet"
    count = f"{len(one.reached)} of {len(one.graphs)} graphs{one.where}"
    return f"in the mean at or above it at every threshold on {count}"


def goal_rows(found: TargetRuns) -> list[str]:
    """Return a row of the table of goals for each that is asked and each rival."""
    rows = []
    planned = len(found.recipe.graphs)
    for one in standings(found):
        count = f"{len(one.reached)} of those run ({', '.join(one.graphs)})"
        measured = count if one.graphs else "not run"
        what = f"beside {one.rival}, {one.asked}: graphs at or better"
        if one.subject == "default":
            reached = "yes" if len(one.reached) == planned else "no"
            rows.append(f"| {what} | {planned} | {measured} | {reached} |")
        else:  # added later, and not asked for
            rows.append(f"| {one.subject} {what} | reported | {measured} |  |")
    return rows
