"""The results of a search: a table, and the best settings as rules for a recipe."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence

from experiments.search import Search
from experiments.search_ranking import Outcome, Standing
from experiments.spaces import Assignment, nested, values_of
from experiments.tables import Table
from graphdrop.io.visible import format_duration

WIDTH = 48
_FIGURES = {
    "accuracy": "accuracy",
    "halves": "accuracy by halves (of one half where the other is best)",
    "nll": "NLL",
}
COLUMNS = ("configurations", "best settings", "validation", "second best", "seconds per run")


def table(search: Search, outcomes: Sequence[Outcome]) -> Table:
    """Per cell: how many configurations were run, the best one, its scores, and the next."""
    rows = [(one.cell.name, _line(one)) for one in outcomes]
    records = [record for one in outcomes for record in one.records]
    diverged = sum("error" in record for record in records)
    spent = format_duration(sum(record["seconds"] for record in records))
    note = f"{budget(search)} {len(records)} runs, {diverged} diverged; {spent} of computing."
    return Table(search.title, COLUMNS, rows, note)


def budget(search: Search) -> str:
    """The budget of a cell as text."""
    more = " and ".join(map(str, search.seeds[1:]))
    again = f", the best {search.finalists} again with {more}" if more else ""
    figure = _FIGURES[search.score]
    return (
        f"Up to {search.trials} configurations per cell with seed {search.first_seed}{again}; "
        f"the best mean {figure} on validation nodes wins."
    )


def _line(outcome: Outcome) -> list[tuple[str, ...]]:
    tried = [f"{outcome.tried} of {len(outcome.cell.trials)}"]
    if outcome.missing:
        tried.append(f"{outcome.missing} or more runs missing")
    if not outcome.finalists:
        return [tuple(tried), *[("",)] * (len(COLUMNS) - 1)]
    best, *others = outcome.finalists
    seconds = sum(record["seconds"] for record in best.records) / len(best.records)
    return [
        tuple(tried),
        tuple(textwrap.wrap(_changed(outcome, best) or "as the rules say", WIDTH)),
        scores(best),
        scores(others[0]) if others else ("",),
        (f"{seconds:.1f}",),
    ]


def _changed(outcome: Outcome, standing: Standing) -> str:
    base = outcome.cell.trials[0].drawn
    drawn = standing.trial.drawn.items()
    return ", ".join(f"{key}={value}" for key, value in drawn if value != base[key])


def scores(standing: Standing) -> tuple[str, ...]:
    """Means over seeds, and which configuration it is."""
    count = len(standing.records)
    which = f"{count} seed{'s' * (count > 1)}, trial {standing.trial.number}"
    if standing.diverged:
        return "diverged", which
    halves = "" if standing.halves is None else f" ({100 * standing.halves:.2f} % by halves)"
    return f"{100 * standing.accuracy:.2f} %{halves}, NLL {standing.nll:.3f}", which


def fragment(search: Search, name: str, outcomes: Sequence[Outcome]) -> str:
    """The winners as rules of a recipe, with all settings that were searched."""
    told = f"What `python -m experiments search {name} --out FILE` found. {budget(search)}"
    open_cells = [one.cell.name for one in outcomes if one.winner is None]
    lines = textwrap.wrap(told, 98, initial_indent="# ", subsequent_indent="# ")
    if open_cells:
        left = f"No winner yet: {'; '.join(open_cells)}."
        lines += textwrap.wrap(left, 98, initial_indent="# ", subsequent_indent="# ")
    methods = {row.name for row in search.rows if row.name == row.uses}
    # A rule about a method is about all its rows: those of single rows come after it.
    for one in sorted(outcomes, key=lambda one: one.cell.row not in methods):
        if one.winner is not None:
            lines += [
                "",
                f"# {one.cell.name}: {', '.join(scores(one.winner))}",
                *_rule(search, one),
            ]
    return "\n".join(lines) + "\n"


def _rule(search: Search, outcome: Outcome) -> list[str]:
    cell, winner = outcome.cell, outcome.winner
    assert winner is not None  # noqa: S101 - only winners have rules
    row = next(row for row in search.rows if row.name == cell.row)
    of_method = row.name == row.uses
    lines = [
        "[[rules]]",
        f"{'methods' if of_method else 'rows'} = [{_toml(row.name)}]",
        f"datasets = [{_toml(cell.dataset)}]",
        f"layers = [{cell.layers}]",
    ]
    for section, inner in nested(_settings(search, outcome, winner)).items():
        values = ", ".join(f"{name} = {_toml(value)}" for name, value in inner.items())
        lines.append(f"set.{section} = {{ {values} }}")
    return lines


def _settings(search: Search, outcome: Outcome, winner: Standing) -> Assignment:
    """The values of all settings that were searched for any row of this method."""
    cell, config = outcome.cell, winner.trial.configs[0]
    keys = {
        key
        for row in search.rows
        if row.uses == config.model.method
        for space in search.spaces_of(row, cell.dataset, cell.layers)
        for key in space.keys
    }
    return values_of(config, sorted(keys))


def _toml(value: bool | int | float | str) -> str:
    return json.dumps(value)
