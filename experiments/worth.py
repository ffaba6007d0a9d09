"""The tables of `worth`, the controlled experiment: one for every factor and one of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from experiments.contrasts import (
    ACCURACY,
    AURC,
    ECE,
    NLL,
    PRIMARY_SCORES,
    BySeed,
    Comparison,
    Seen,
    compare,
    core_hours,
    corrected,
    count_planned_runs,
    floor,
    mean_and_deviation,
    runs_of,
)
from experiments.factors import BASE, Arm, Factor
from experiments.recipe import graph_name
from experiments.rendering import Rendering
from experiments.tables import Table
from experiments.target_runs import TargetRuns

SHOWN: dict[str, tuple[Callable[[Seen], float | None], int]] = {
    "accuracy (%)": (ACCURACY.of, 2),
    "NLL": (NLL.of, 3),
    "ECE (%)": (ECE.of, 2),
    "its floor (%)": (floor, 2),
    "AURC": (AURC.of, 4),
    "error AUROC, entropy": (lambda seen: seen["test"].get("error_auroc_entropy"), 3),
    "error AUROC, mutual information": (
        lambda seen: seen["test"].get("error_auroc_mutual_information"),
        3,
    ),
    "AUROC, features of noise": (lambda seen: seen["noise_auroc"]["entropy"], 3),
    "processor seconds": (lambda seen: seen["cpu_seconds"], 0),
}
OVER = {
    "seeds and nodes": "seeds and test nodes",
    "splits": "random splits, corrected t",
    "seeds": "seeds alone",
}
MISSING = "some seeds are missing"
Cells = list[tuple[str, ...]]


def worth(found: TargetRuns) -> Rendering:
    """Return a table for every factor, and one of all differences."""
    graphs = list(
        dict.fromkeys(graph_name(runs.cell.dataset) for runs in found.cells if runs.records)
    )
    note = _note(found, graphs)
    tables, overview = {}, []
    for factor in found.recipe.factors:
        comparisons = [one for graph in graphs for one in compare(found, factor, graph)]
        tables[f"{found.target}-{factor.name}"] = Table(
            f"{found.title}: {factor.title}",
            ["accuracy, difference (points)", "NLL, difference", *SHOWN],
            _rows(found, factor, graphs, comparisons),
            note,
        )
        by_place = {(one.arm.name, one.graph): one for one in comparisons if one.differences}
        for arm in factor.arms:
            cells = [
                _both(by_place.get((arm.name, graph)), arm, graph, found.recipe.runs)
                for graph in graphs
            ]
            overview.append((f"{factor.name}: {arm.name}", cells))
    tables[found.target] = Table(f"{found.title}: all differences", graphs, overview, note)
    return Rendering(tables)


def _note(found: TargetRuns, graphs: Sequence[str]) -> str:
    """Say how to read the intervals, how much is done, and what it took."""
    done = sum(len(runs.records) for runs in found.cells)
    total = count_planned_runs(found, list(dict.fromkeys([*found.recipe.graphs, *graphs])))
    return (
        "Differences: arm minus what it is compared with, on the same seeds, with 95 % intervals "
        "over seeds and test nodes (crossed variance components) on public splits, by the "
        "corrected resampled t on random splits. p: Holm's correction over the primary "
        "comparisons of a factor that were planned, those not made yet counted. Scores: mean ± "
        f"deviation over runs. {done} of {total} planned runs, {core_hours(found):.2f} core-hours. "
        f"{found.note()}"
    )


def _rows(
    found: TargetRuns, factor: Factor, graphs: Sequence[str], comparisons: Sequence[Comparison]
) -> list[tuple[str, Cells]]:
    complete = [one for one in comparisons if one.is_complete(found.recipe.runs)]
    p_values = corrected(complete, factor, found.recipe.graphs)
    shown = {arm.row or arm.name for arm in factor.arms}
    rows: list[tuple[str, Cells]] = []
    for graph in graphs:
        own = [one for one in comparisons if one.graph == graph]
        for name in dict.fromkeys(one.arm.against for one in own):
            runs = runs_of(found, Arm(name=name), graph)
            if runs and (name not in shown or name == BASE):
                rows.append((f"{graph}, {name}", [("",), ("",), *_scores(runs)]))
        for one in own:
            cells = [
                _difference(one, score, p_values.get((one.arm.name, graph, score)), one in complete)
                for score in PRIMARY_SCORES
            ]
            against = "" if one.arm.against == BASE else f" (against {one.arm.against})"
            rows.append((f"{graph}, {one.arm.name}{against}", [*cells, *_scores(one.runs)]))
    return rows


def _difference(one: Comparison, name: str, p: float | None, complete: bool) -> tuple[str, ...]:
    if not one.differences:
        return ("too few runs",)
    verdict = MISSING if not complete else "descriptive" if p is None else f"p = {p:.3f}"
    interval = PRIMARY_SCORES[name].format(one.differences[name])
    return interval, f"over {OVER[one.over]}", verdict


def _scores(runs: BySeed) -> Cells:
    return [(mean_and_deviation(runs, of, digits),) for of, digits in SHOWN.values()]


def _both(one: Comparison | None, arm: Arm, graph: str, planned: int) -> tuple[str, ...]:
    if one is None:
        return ("not run",) if arm.is_of(graph) else ("the base",)
    lines = (
        f"accuracy (points) {ACCURACY.format(one.differences['accuracy'])}",
        f"calibrated NLL {NLL.format(one.differences['nll'])}",
    )
    return lines if one.is_complete(planned) else (*lines, MISSING)
