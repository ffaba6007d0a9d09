"""The tables and the figure of ``reproduce worth``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from experiments.comparisons import Difference
from experiments.factors import PRIMARY, Arm, Factor
from experiments.plots.differences import Interval, draw_differences
from experiments.recipe import graph_name
from experiments.rendering import Rendering
from experiments.tables import Table, signed, summarise
from experiments.target_runs import TargetRuns
from experiments.worth_comparisons import (
    BySeed,
    Comparison,
    Seen,
    compared,
    complete,
    core_hours,
    corrected,
    planned_runs,
    runs_of,
)

DIGITS = {"accuracy": 2, "nll": 4}
LABELS = {"accuracy": "accuracy (points)", "nll": "calibrated NLL"}
SHOWN: dict[str, tuple[Callable[[Seen], float | None], int]] = {
    "accuracy (%)": (lambda seen: 100.0 * seen["test"]["accuracy"], 2),
    "NLL": (lambda seen: seen["test"]["nll"], 3),
    "ECE (%)": (lambda seen: 100.0 * seen["test"]["ece"], 2),
    "its floor (%)": (lambda seen: 100.0 * seen["ece_floor"]["mean"], 2),
    "AURC": (lambda seen: seen["test"]["aurc"], 4),
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
    """A table for every factor, one of all differences, and their figure."""
    graphs = [
        graph
        for graph in dict.fromkeys(graph_name(runs.cell.dataset) for runs in found.cells)
        if any(runs.records for runs in found.cells if graph_name(runs.cell.dataset) == graph)
    ]
    by_factor = {
        factor.name: [one for graph in graphs for one in compared(found, factor, graph)]
        for factor in found.recipe.factors
    }
    note = _note(found, graphs)
    tables = {
        f"{found.target}-{factor.name}": Table(
            f"{found.title}: {factor.title}",
            ["accuracy, difference (points)", "NLL, difference", *SHOWN],
            _rows(found, factor, graphs, by_factor[factor.name]),
            note,
        )
        for factor in found.recipe.factors
    }
    overview = [
        (
            f"{factor.name}: {arm.name}",
            [_both(by_factor[factor.name], arm, graph, found.recipe.runs) for graph in graphs],
        )
        for factor in found.recipe.factors
        for arm in factor.arms
    ]
    tables[found.target] = Table(f"{found.title}: all differences", graphs, overview, note)
    return Rendering(tables, _figure(found, graphs, by_factor))


def _note(found: TargetRuns, graphs: Sequence[str]) -> str:
    """How to read the intervals, how much is done, and what it took."""
    own = found.recipe.graphs
    done = sum(len(runs.records) for runs in found.cells)
    total = planned_runs(found, [*own, *(graph for graph in graphs if graph not in own)])
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
    made = [one for one in comparisons if complete(one, found.recipe.runs)]
    p_values = corrected(made, factor, found.recipe.graphs)
    rows: list[tuple[str, Cells]] = []
    for graph in graphs:
        own = [one for one in comparisons if one.graph == graph]
        shown = {arm.row or arm.name for arm in factor.arms}
        references = dict.fromkeys(one.arm.against for one in own)
        for name in references:
            if name not in shown or name == "base":
                runs = runs_of(found, Arm(name=name), graph)
                if runs:
                    rows.append((f"{graph}, {name}", [("",), ("",), *_scores(runs)]))
        for one in own:
            cells = [
                _difference(one, score, p_values.get((one.arm.name, graph, score)), one in made)
                for score in PRIMARY
            ]
            against = "" if one.arm.against == "base" else f" (against {one.arm.against})"
            rows.append((f"{graph}, {one.arm.name}{against}", [*cells, *_scores(one.runs)]))
    return rows


def _difference(one: Comparison, score: str, p_value: float | None, made: bool) -> tuple[str, ...]:
    found = one.differences.get(score)
    if found is None:
        return ("too few runs",)
    lines = [interval_text(found, DIGITS[score]), f"over {OVER[one.over]}"]
    if not made:
        lines.append(MISSING)
    else:
        lines.append("descriptive" if p_value is None else f"p = {p_value:.3f}")
    return tuple(lines)


def interval_text(found: Difference, digits: int) -> str:
    """A difference with its interval, such as `+0.12 [-0.30, +0.54]`."""
    low, high = (signed(value, digits) for value in (found.low, found.high))
    return f"{signed(found.mean, digits)} [{low}, {high}]"


def _scores(runs: BySeed) -> Cells:
    cells: Cells = []
    for of, digits in SHOWN.values():
        values = [value for seen in runs.values() if (value := of(seen)) is not None]
        if not values:
            cells.append(("none",))
            continue
        summary = summarise(values)
        spread = f" ± {summary.deviation:.{digits}f}" if summary.count > 1 and digits else ""
        cells.append((f"{summary.mean:.{digits}f}{spread}",))
    return cells


def _both(comparisons: Sequence[Comparison], arm: Arm, graph: str, planned: int) -> tuple[str, ...]:
    one = _with_interval(comparisons, arm, graph)
    if one is None:
        return ("not run",) if arm.is_of(graph) else ("the base",)
    lines = [
        f"{LABELS[score]} {interval_text(one.differences[score], DIGITS[score])}"
        for score in PRIMARY
    ]
    return (*lines,) if complete(one, planned) else (*lines, MISSING)


def _with_interval(comparisons: Sequence[Comparison], arm: Arm, graph: str) -> Comparison | None:
    return next(
        (one for one in comparisons if one.arm == arm and one.graph == graph and one.differences),
        None,
    )


def _figure(
    found: TargetRuns, graphs: Sequence[str], by_factor: dict[str, list[Comparison]]
) -> dict[str, Figure]:
    shown: dict[str, list[Comparison | None]] = {}
    for factor in found.recipe.factors:
        for arm in factor.arms:
            own = [_with_interval(by_factor[factor.name], arm, graph) for graph in graphs[:7]]
            some = [one for one in own if one and not complete(one, found.recipe.runs)]
            missing = f"\n{MISSING}: {', '.join(one.graph for one in some)}" if some else ""
            if any(own):
                shown[f"{factor.name}: {arm.name}{missing}"] = own
    if not shown:
        return {}
    panels = {
        f"{LABELS[score]}, difference": {
            graph: [_interval(own[number], score) for own in shown.values()]
            for number, graph in enumerate(graphs[:7])
        }
        for score in PRIMARY
    }
    return {found.target: draw_differences(list(shown), panels, quick=found.quick)}


def _interval(one: Comparison | None, score: str) -> Interval | None:
    if one is None:
        return None
    own = one.differences[score]
    return Interval(own.mean, own.low, own.high)
