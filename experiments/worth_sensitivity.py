"""How the verdicts of the controlled experiment depend on its statistics, for docs/evidence.md.

What was planned stays the verdict. Beside it the same comparisons are judged with one choice of the
statistics changed: a wider family, p-values by simulation, another correlation of random splits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from experiments.comparisons import holm, resampled_t, simulated_p
from experiments.worth_comparisons import FACTORS, differences_at_nodes, seed_differences
from experiments.worth_page import SIGNIFICANT, Made, Verdict, named

NODES = {"cora_ml": 2995, "amazon_photo": 7650, "chameleon_filtered": 890}
"""The nodes of the graphs with random splits, of which test nodes are drawn."""


def sensitivity(made: Made) -> str:
    """A table of the verdicts with one choice of the statistics changed at a time."""
    families = [
        list(made.verdicts(factor.name, made.by_factor[factor.name]))
        for factor in made.found.recipe.factors
    ]
    if not any(families):
        return "No comparison is made yet."
    every = [one for family in families for one in family]
    planned = [one for one in every if one.shown]
    planned_count = sum(_planned(made))
    changed = {
        f"Holm's correction over all {planned_count} planned comparisons, not those of a factor": (
            _declared(every, [one.difference.p_value for one in every], planned_count)
        ),
        "p-values beyond chance by simulation, not by Satterthwaite's t": (
            _in_families(made, families, _simulated)
        ),
        "random splits correlated by the test nodes that they share, not by the labels used": (
            _in_families(made, families, _by_shared_nodes)
        ),
    }
    lines = [
        "| changed | beyond chance | no longer | in addition |",
        "|---|---|---|---|",
        f"| nothing: as planned | {len(planned)} of {len(every)} | | |",
    ]
    for title, shown in changed.items():
        lost = [one for one in planned if one not in shown]
        new = [one for one in shown if one not in planned]
        count = f"{len(shown)} of {len(every)}"
        lines.append(f"| {title} | {count} | {named(lost)} | {named(new)} |")
    return "\n".join(lines)


def _planned(made: Made) -> list[int]:
    recipe = made.found.recipe
    return [factor.planned(recipe.graphs) for factor in recipe.factors]


def _in_families(
    made: Made, families: Sequence[Sequence[Verdict]], p_value: Callable[[Verdict], float]
) -> list[Verdict]:
    """What is declared with other p-values, by Holm's correction within each factor."""
    return [
        one
        for family, planned in zip(families, _planned(made), strict=True)
        for one in _declared(family, [p_value(verdict) for verdict in family], planned)
    ]


def _declared(family: Sequence[Verdict], p_values: Sequence[float], planned: int) -> list[Verdict]:
    corrected = holm(p_values, planned)
    return [one for one, p in zip(family, corrected, strict=True) if p < SIGNIFICANT]


def _simulated(verdict: Verdict) -> float:
    """Of those that are declared; simulating all would take minutes."""
    one, p_value = verdict.one, verdict.difference.p_value
    if not verdict.shown or one.over != "seeds and nodes":
        return p_value
    return simulated_p(differences_at_nodes(one, verdict.score), p_value)


def _by_shared_nodes(verdict: Verdict) -> float:
    """Two tests of `n2` random nodes out of `n` share `n2 / n` of them."""
    one = verdict.one
    if one.over != "splits":
        return verdict.difference.p_value
    values = [FACTORS[verdict.score] * d for d in seed_differences(one, verdict.score)]
    tested = next(iter(one.runs.values()))["tested"]
    return resampled_t(values, tested=tested, fitted=NODES[one.graph] - tested).p_value
