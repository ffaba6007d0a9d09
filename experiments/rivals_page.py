"""The passage of docs/evidence.md on uncertainty, and what was to be reached: from `rivals`.

Only graphs of which all seeds of a comparison are there count. The default is at or better than a
rival where its mean is not on the worse side; an interval that excludes 0 says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from experiments.comparisons import Difference, holm
from experiments.rivals import (
    ACCURACY,
    AURC,
    ECE,
    MEAN_PAVPU,
    NLL,
    PAVPU,
    Score,
    comparisons,
    difference,
    floor,
    mean_and_deviation,
    subject,
)
from experiments.target_runs import TargetRuns
from experiments.worth import interval_text
from experiments.worth_comparisons import BySeed, Comparison, complete, core_hours
from experiments.worth_page import GRAPHS, SIGNIFICANT, listed


class Asked(NamedTuple):
    """What the default is to be at or better in, all of its scores at once."""

    title: str
    scores: Sequence[Score]


ASKED = (
    Asked("calibrated NLL", [NLL]),
    Asked("ECE", [ECE]),
    Asked("AURC", [AURC]),
    Asked("PAvPU at every threshold from 0.5 to 1", PAVPU),
)


COUNTED = {"NLL": NLL, "ECE": ECE, "AURC": AURC, "mean PAvPU": MEAN_PAVPU}
"""One score of each kind: neighboring thresholds of PAvPU are no comparisons of their own."""
_SAID = {
    "default": "the default",
    "five of the default": "an ensemble of five default networks",
    "Monte Carlo DropOut": "Monte Carlo DropOut",
    "deep ensemble": "a deep ensemble of five GCN-DO",
}


class Standing(NamedTuple):
    """Where the default stands beside one rival in what is asked."""

    asked: Asked
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


def standings(found: TargetRuns) -> Iterator[Standing]:
    """One for each that is asked and each rival, whether run or not."""
    made = [one for one in comparisons(found) if complete(one, found.recipe.runs)]
    (factor,) = found.recipe.factors
    for asked in ASKED:
        for arm in factor.arms:
            own = [one for one in made if one.arm == arm]
            differences = {
                one.graph: [difference(one, score) for score in asked.scores] for one in own
            }
            reached = [
                graph
                for graph, values in differences.items()
                if all(map(_at_or_better, asked.scores, values))
            ]
            better, worse = (
                [
                    text
                    for graph, values in differences.items()
                    if (text := _excluding(GRAPHS[graph], asked, values, better=side))
                ]
                for side in (True, False)
            )
            names = [GRAPHS[graph] for graph in differences]
            own_names = [GRAPHS[g] for g in reached]
            yield Standing(asked, subject(arm), arm.against, names, own_names, better, worse)


def _at_or_better(score: Score, value: Difference) -> bool:
    return score.at_or_better(value)


def _excluding(graph: str, asked: Asked, values: Sequence[Difference], *, better: bool) -> str:
    """The graph with its difference if that excludes 0; of several, how many do."""
    those = [
        value
        for score, value in zip(asked.scores, values, strict=True)
        if (value.low > 0.0 or value.high < 0.0) and score.at_or_better(value) is better
    ]
    if not those:
        return ""
    if len(asked.scores) == 1:
        return f"{graph} {interval_text(those[0], asked.scores[0].digits)}"
    return f"{graph} at {len(those)} of {len(asked.scores)} thresholds"


def uncertainty(found: TargetRuns) -> str:
    """On how many graphs the default is at or better, then all scores and differences."""
    done = sum(len(runs.records) for runs in found.cells)
    total = sum(len(runs.cell.configs) for runs in found.cells)
    made = [one for one in comparisons(found) if complete(one, found.recipe.runs)]
    if not made:
        if not done:
            return f"Not run yet: none of {total} planned runs is made."
        return f"{done} of {total} planned runs are made; no comparison has all its seeds yet."
    graphs = list(dict.fromkeys(one.graph for one in made))
    missing = [GRAPHS[graph] for graph in found.recipe.graphs if graph not in graphs]
    every = [difference(one, score) for one in made for a in ASKED for score in a.scores]
    outside = sum(one.low > 0.0 or one.high < 0.0 for one in every)
    lines = [
        f"{done} of {total} planned runs are made, in {core_hours(found):.1f} core-hours, on "
        f"{listed([GRAPHS[graph] for graph in graphs])}"
        + (f"; not run yet: {listed(missing)}." if missing else ".")
        + f" Of {len(every)} intervals {outside} exclude 0; they are not corrected for their "
        "number, and those of neighboring thresholds go together.",
        "",
        "| score | of | beside | at or better on | interval excludes 0, better | worse |",
        "|---|---|---|---|---|---|",
        *(_standing_row(one) for one in standings(found)),
        "",
        "| | accuracy (%) | NLL | ECE (%) | floor (%) | AURC | PAvPU (%) at 0.5 "
        "| PAvPU (%), mean of 0.5 to 1 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for graph in graphs:
        lines += _graph_rows([one for one in made if one.graph == graph])
    return "\n".join(lines)


def counts_beside(found: TargetRuns) -> list[str]:
    """A bullet for every rival that has comparisons: how many intervals exclude 0."""
    by_pair: dict[tuple[str, str], list[Comparison]] = {}
    for one in comparisons(found):
        if complete(one, found.recipe.runs):
            by_pair.setdefault((subject(one.arm), one.arm.against), []).append(one)
    lines = []
    for (own, rival), those in by_pair.items():
        title = f"**Uncertainty of {_SAID[own]} beside {_SAID[rival]}**, calibrated alike"
        lines.append(f"- {title}: {_count(those)}.")
    return lines


def _count(own: Sequence[Comparison]) -> str:
    """How many differences exclude 0 on each side, and which do after Holm's correction."""
    family = [
        (f"{name} on {GRAPHS[one.graph]}", score, difference(one, score))
        for name, score in COUNTED.items()
        for one in own
    ]
    what = f"{listed([*COUNTED])} on {listed([GRAPHS[one.graph] for one in own])}"
    outside = [(score, d) for _, score, d in family if d.low > 0.0 or d.high < 0.0]
    if not outside:
        return f"no difference is shown in {len(family)} comparisons ({what})"
    better = sum(score.at_or_better(d) for score, d in outside)
    corrected = holm([d.p_value for *_, d in family])
    left = [name for (name, *_), p in zip(family, corrected, strict=True) if p < SIGNIFICANT]
    return (
        f"of {len(family)} comparisons ({what}) better in {better} and worse in "
        f"{len(outside) - better} by an interval that excludes 0; after Holm's correction over "
        f"them {f'there remain {listed(left)}' if left else 'none remains'}"
    )


def pavpu_standing(found: TargetRuns) -> str:
    """On which graphs its PAvPU is at or above that of Monte Carlo DropOut at every threshold."""
    one = next(
        one
        for one in standings(found)
        if one.rival == "Monte Carlo DropOut" and one.asked.title.startswith("PAvPU")
    )
    if not one.graphs:
        return "not run yet"
    where = f" ({', '.join(one.reached)})" if one.reached else ""
    count = f"{len(one.reached)} of {len(one.graphs)} graphs{where}"
    return f"in the mean at or above it at every threshold on {count}"


def _standing_row(one: Standing) -> str:
    where = f" ({', '.join(one.reached)})" if one.reached else ""
    cells = [
        f"{len(one.reached)} of {len(one.graphs)}{where}",
        *("; ".join(texts) or "none" for texts in (one.better, one.worse)),
    ]
    return f"| {one.asked.title} | {one.subject} | {one.rival} | {' | '.join(cells)} |"


def _graph_rows(own: Sequence[Comparison]) -> list[str]:
    graph = GRAPHS[own[0].graph]
    shown: dict[str, BySeed] = {}
    for one in own:
        shown |= {subject(one.arm): one.runs, one.arm.against: one.others}
    rows = [f"| {graph}, {name} | {_scores(runs)} |" for name, runs in shown.items()]
    for one in own:
        cells = [
            interval_text(difference(one, score), score.digits)
            for score in (ACCURACY, NLL, ECE, AURC, PAVPU[0], MEAN_PAVPU)
        ]
        cells.insert(3, "")
        minus = f"{subject(one.arm)} minus {one.arm.against}"
        rows.append(f"| {graph}, {minus} | {' | '.join(cells)} |")
    return rows


def _scores(runs: BySeed) -> str:
    shown = ((ACCURACY.of, 2), (NLL.of, 3), (ECE.of, 2), (floor, 2), (AURC.of, 4))
    both = (*shown, (PAVPU[0].of, 2), (MEAN_PAVPU.of, 2))
    return " | ".join(mean_and_deviation(runs, of, digits) for of, digits in both)


def goal_rows(found: TargetRuns) -> list[str]:
    """A row of the table of goals for each that is asked and each rival."""
    rows = []
    planned = len(found.recipe.graphs)
    for one in standings(found):
        measured = (
            f"{len(one.reached)} of those run ({', '.join(one.graphs)})"
            if one.graphs
            else "not run"
        )
        what = f"beside {one.rival}, {one.asked.title}: graphs at or better"
        if one.subject == "default":
            reached = "yes" if len(one.reached) == planned else "no"
            rows.append(f"| {what} | {planned} | {measured} | {reached} |")
        else:  # added later, and not asked for
            rows.append(f"| {one.subject} {what} | reported | {measured} |  |")
    return rows
