"""Control experiment of table 1: equal settings with learned and with fixed rates."""

from __future__ import annotations

from experiments.rendering import Rendering, cell_lines, in_words, paired
from experiments.tables import Table
from experiments.target_runs import TargetRuns


def learned_and_fixed(found: TargetRuns) -> Rendering:
    """Accuracy of every row; and the first row, whose rate is learned, minus each of the others."""
    learned, *fixed = (row.name for row in found.recipe.rows)
    columns = found.columns()
    names = [in_words(column) for column in columns]
    accuracies = [
        (row, [cell_lines(found, row, column) for column in columns]) for row in (learned, *fixed)
    ]
    differences = [
        (f"learned minus {row}", [paired(found, learned, row, column) for column in columns])
        for row in fixed
    ]
    title = f"{found.title}: learned minus fixed with the same seeds (points)"
    return Rendering(
        {
            found.target: Table(found.title, names, accuracies, found.note()),
            f"{found.target}-difference": Table(title, names, differences, found.note()),
        }
    )
