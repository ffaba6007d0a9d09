"""The tables of `rivals`: the uncertainty of the default beside that of its rivals, calibrated.

A difference is the default, or five of them, minus the rival on the same seeds.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    compare,
    core_hours,
    floor,
    mean_and_deviation,
    runs_of,
)
from experiments.controlled import THRESHOLDS
from experiments.factors import Arm
from experiments.rendering import Rendering
from experiments.tables import Table, summarise
from experiments.target_runs import TargetRuns

SCORES = (ACCURACY, NLL, ECE, AURC, MEAN_PAVPU)
PAVPU_TITLES = ("PAvPU (%) at 0.50", "PAvPU (%), mean of 0.5 to 1")


def subject(arm: Arm) -> str:
    """Return the row that stands beside a rival: the default, or five of them."""
    return arm.rows[0]


def compare_all(found: TargetRuns) -> list[Comparison]:
    """Return the default beside every rival on every graph, where two seeds are common."""
    (factor,) = found.recipe.factors
    every = [one for graph in found.recipe.graphs for one in compare(found, factor, graph)]
    return [one for one in every if len(one.pairs) > 1]


def score_cells(runs: BySeed) -> list[str]:
    """Return the means over seeds of accuracy, NLL, ECE and its floor, AURC and PAvPU."""
    shown = ((ACCURACY.of, 2), (NLL.of, 3), (ECE.of, 2), (floor, 2), (AURC.of, 4))
    both = (*shown, (PAVPU[0].of, 2), (MEAN_PAVPU.of, 2))
    return [mean_and_deviation(runs, of, digits) for of, digits in both]


def rivals(found: TargetRuns) -> Rendering:
    """Return the scores of all rows, their differences, and those of PAvPU by threshold."""
    done = sum(len(runs.records) for runs in found.cells)
    total = sum(len(runs.cell.configs) for runs in found.cells)
    note = (
        "Differences: the default minus the rival, on the same seeds, with 95 % intervals over "
        "seeds and test nodes (crossed variance components; ECE, AURC and PAvPU by leaving each "
        "node out in turn) on public splits, by the corrected resampled t on random splits. They "
        "are not corrected for their number. PAvPU: thresholds are fractions of the largest "
        f"entropy. Scores: mean ± deviation over runs. {done} of {total} runs, "
        f"{core_hours(found):.2f} core-hours. {found.note()}"
    )
    headings = ["accuracy (%)", "NLL", "ECE (%)", "its floor (%)", "AURC", *PAVPU_TITLES]
    rows = []
    for graph in found.recipe.graphs:
        for row in found.recipe.rows:
            if runs := runs_of(found, Arm(name=row.name), graph):
                seconds = summarise([seen["cpu_seconds"] for seen in runs.values()]).mean
                cells = [(cell,) for cell in (*score_cells(runs), f"{seconds:.0f}")]
                rows.append((f"{graph}, {row.name}", cells))
    titles = ["accuracy (%)", "NLL", "ECE (%)", "AURC", PAVPU_TITLES[1]]
    thresholds = [f"{threshold:.2f}" for threshold in THRESHOLDS]
    differences = f"{found.title}: differences"
    by_threshold = f"{differences} of PAvPU (points) by threshold"
    target = found.target
    return Rendering(
        {
            target: Table(found.title, [*headings, "processor seconds"], rows, note),
            f"{target}-differences": Table(differences, titles, _rows(found, SCORES), note),
            f"{target}-pavpu": Table(by_threshold, thresholds, _rows(found, PAVPU), note),
        }
    )


def _rows(found: TargetRuns, scores: Sequence[Score]) -> list[tuple[str, list[tuple[str, ...]]]]:
    rows: list[tuple[str, list[tuple[str, ...]]]] = []
    for one in compare_all(found):
        some = "" if one.is_complete(found.recipe.runs) else f", {len(one.pairs)} seeds"
        name = f"{one.graph}, {subject(one.arm)} minus {one.arm.against}{some}"
        rows.append((name, [(score.format(one.difference(score)),) for score in scores]))
    return rows
