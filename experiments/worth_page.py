"""The passages of docs/evidence.md on the controlled experiment, made from the records of its runs.

``evidence_page`` writes them into the page. Every word that depends on a figure is chosen by it:
"better" and "worse" need a p-value below 0.05 after Holm's correction over all planned comparisons
of a factor. A comparison counts as made when all its seeds are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from experiments.comparisons import Difference
from experiments.contrasts import (
    PRIMARY_SCORES,
    Comparison,
    Score,
    compare,
    core_hours,
    corrected,
    count_planned_runs,
)
from experiments.factors import BASE, Arm, Factor
from experiments.recipe import read_recipe
from experiments.store import Store
from experiments.tables import signed
from experiments.target_runs import TargetRuns, in_store

SIGNIFICANT = 0.05
FILES = {
    "amazon_photo": "0785c0ae311232c66ac843dbd30ffe6377bd4bf4488e5abb1fece314f6a62163",
    "chameleon_filtered": "bf46f07e1fb5249280447e5fe3100f3e82fc4b93ad1e13ffcfdec924b6ac0bb5",
}
"""The sha256 of the graphs that were given as files: their runs are found without them."""
GRAPHS = {
    "cora": "Cora",
    "citeseer": "Citeseer",
    "cora_ml": "Cora-ML",
    "pubmed": "PubMed",
    "amazon_photo": "Photo",
    "chameleon_filtered": "Chameleon",
}
LABELS = {
    "none": "DropOut alone",
    "node": "a draw per node",
    "feature": "a draw per feature",
    "edge": "a draw per edge",
    "edge and feature": "a draw per edge and feature",
}
"""How a sentence calls an arm, if not by its name."""


@dataclass(frozen=True)
class Question:
    """What a reader asks about one part, and the arms that answer it."""

    title: str
    asked: str
    factor: str
    arms: tuple[str, ...]


QUESTIONS = (
    Question("Masks at all", "DropOut alone, without masks on connections", "sharing", ("none",)),
    Question("A draw per edge and block", "one draw per edge", "sharing", ("edge",)),
    Question(
        "Which connections share a draw",
        "a draw per node, per feature, or per edge and feature",
        "sharing",
        ("node", "feature", "edge and feature"),
    ),
    Question(
        "Learning the rate",
        "the best of three fixed rates by validation nodes",
        "rate",
        ("best fixed, by validation",),
    ),
    Question(
        "Not having to choose it",
        "a rate fixed at 0.2, 0.5 or 0.8",
        "rate",
        ("fixed at 0.2", "fixed at 0.5", "fixed at 0.8"),
    ),
    Question(
        "The beta prior and one rate per layer",
        "a rate without a prior, drawn per mask, or computed per edge",
        "rate",
        ("learned, no prior", "drawn per mask", "amortised per edge"),
    ),
    Question(
        "The gradient estimator",
        "other temperatures, ARM or DisARM",
        "estimator",
        ("concrete at 0.1", "concrete at 0.67", "ARM", "DisARM"),
    ),
    Question(
        "The KL term", "another weight", "kl", ("KL weight 0", "KL weight elbo", "KL weight 1")
    ),
    Question(
        "Sampling in prediction",
        "masks off, expected masks, or 100 samples",
        "prediction",
        ("masks off", "expected masks", "100 samples"),
    ),
    Question("An ensemble", "five networks in place of one", "prediction", ("ensemble of 5",)),
)


@dataclass(frozen=True)
class Verdict:
    """One primary comparison."""

    one: Comparison
    score: Score
    difference: Difference
    p_value: float

    @property
    def shown(self) -> bool:
        """Whether it is beyond chance."""
        return self.p_value < SIGNIFICANT

    @property
    def better(self) -> bool:
        """Whether the arm is on the better side: a higher accuracy, a lower NLL."""
        return (self.difference.mean > 0.0) == self.score.higher

    @property
    def label(self) -> str:
        """The arm, as a sentence calls it, with what it is compared with if not the default."""
        return LABELS.get(self.one.arm.name, self.one.arm.name) + _against(self.one.arm)

    @property
    def graph(self) -> str:
        """The name of the graph in sentences."""
        return GRAPHS[self.one.graph]

    @property
    def text(self) -> str:
        """Such as `ARM on Cora, accuracy -1.20 points [-1.90, -0.50], p = 0.003`."""
        mean, _, ends = self.score.format(self.difference).partition(" ")
        p_value = format_p(self.p_value)
        p_value = p_value if p_value.startswith("<") else f"= {p_value}"
        size = f"{self.score.name} {mean}{self.score.unit} {ends}"
        return f"{self.label} on {self.graph}, {size}, p {p_value}"


@dataclass(frozen=True)
class Experiment:
    """The comparisons of all factors that have all their seeds, with corrected p-values."""

    found: TargetRuns

    @cached_property
    def by_factor(self) -> dict[str, list[Comparison]]:
        """The comparisons of every factor."""
        recipe = self.found.recipe
        return {
            factor.name: [
                one
                for graph in recipe.graphs
                for one in compare(self.found, factor, graph)
                if one.is_complete(recipe.runs)
            ]
            for factor in recipe.factors
        }

    @cached_property
    def verdicts(self) -> dict[str, list[Verdict]]:
        """Every primary difference by factor, with its p-value."""
        found = {}
        for factor in self.found.recipe.factors:
            own = self.by_factor[factor.name]
            p_values = corrected(own, factor, self.found.recipe.graphs)
            found[factor.name] = [
                Verdict(one, score, one.differences[name], p_value)
                for one in own
                for name, score in PRIMARY_SCORES.items()
                if (p_value := p_values.get((one.arm.name, one.graph, name))) is not None
            ]
        return found

    @property
    def graphs(self) -> list[str]:
        """The graphs of which something is compared."""
        there = {one.graph for own in self.by_factor.values() for one in own}
        return [graph for graph in self.found.recipe.graphs if graph in there]

    def answers(self, title: str, arms: Sequence[str] = ()) -> list[Verdict]:
        """Return the verdicts that answer a question, or those of some of its arms."""
        question = next(one for one in QUESTIONS if one.title == title)
        chosen = arms or question.arms
        return [one for one in self.verdicts[question.factor] if one.one.arm.name in chosen]


def committed(folder: str | Path) -> Experiment:
    """Return the controlled experiment in a folder of results."""
    recipe, store = read_recipe("worth-auto"), Store(folder)
    cells = [
        in_store(cell, store, watch=False, checksum=FILES.get(cell.dataset))
        for cell in recipe.cells(files=list(FILES))
    ]
    return Experiment(TargetRuns("worth", recipe, "auto", False, cells))


def shown(verdicts: Sequence[Verdict], *, better: bool) -> list[Verdict]:
    """Return those beyond chance on one side."""
    return [one for one in verdicts if one.shown and one.better is better]


def _against(arm: Arm) -> str:
    return "" if arm.against == BASE else f" against {arm.against}"


def format_p(p_value: float) -> str:
    """Write a p-value with three digits."""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def join(words: Sequence[str]) -> str:
    """Join words with commas and an `and`."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def name_places(verdicts: Sequence[Verdict]) -> str:
    """Name the arms of some verdicts, with graphs and scores."""
    by_arm: dict[str, list[str]] = {}
    for one in verdicts:
        by_arm.setdefault(one.label, []).append(f"{one.score.name} on {one.graph}")
    return "; ".join(f"{arm} ({', '.join(those)})" for arm, those in by_arm.items()) or "nothing"


def mean_range(differences: Sequence[Difference], score: Score) -> str:
    """Write the smallest and the largest mean of some differences."""
    means = [one.mean for one in differences]
    low, high = (signed(end, score.digits) for end in (min(means), max(means)))
    return low if low == high else f"{low} to {high}"


def bounds(verdicts: Sequence[Verdict]) -> str:
    """Say between which ends the intervals lie, score by score."""
    parts = []
    for score in PRIMARY_SCORES.values():
        own = [one.difference for one in verdicts if one.score is score]
        if own:
            ends = min(one.low for one in own), max(one.high for one in own)
            low, high = (signed(end, score.digits) for end in ends)
            parts.append(f"{score.name}: intervals within [{low}, {high}]{score.unit}")
    return " and ".join(parts)


def summary(made: Experiment) -> str:
    """Say how much is made and what is beyond chance, in a table and in sentences."""
    found, graphs = made.found, made.found.recipe.graphs
    runs = sum(len(cell.records) for cell in found.cells)
    verdicts = [one for own in made.verdicts.values() for one in own]
    planned = sum(factor.planned(graphs) for factor in found.recipe.factors)
    missing = [GRAPHS[graph] for graph in graphs if graph not in made.graphs]
    lines = [
        f"{runs} of {count_planned_runs(found, graphs)} planned runs are made, in "
        f"{core_hours(found):.1f} core-hours. "
        f"Of {planned} planned comparisons {len(verdicts)} have all their seeds, on "
        f"{join([GRAPHS[graph] for graph in made.graphs]) or 'no graph'}"
        + (f"; not run yet: {join(missing)}." if missing else "."),
        "",
        f"- **Better, beyond chance:** {name_places(shown(verdicts, better=True))}.",
        f"- **Worse, beyond chance:** {name_places(shown(verdicts, better=False))}.",
        f"- **Not told apart:** the other {sum(not one.shown for one in verdicts)} of "
        f"{len(verdicts)} comparisons that are made.",
        "",
        "| part | in its place | made | better | worse | accuracy (points) | NLL |",
        "|---|---|---|---|---|---|---|",
        *(_row(one.title, one.asked, made.answers(one.title)) for one in QUESTIONS),
        _row(
            "The architecture",
            "GAT, SAGE, GCNII or APPNP, in place of a GCN",
            made.verdicts["architecture"],
        ),
        "",
    ]
    return "\n".join([*lines, *(f"{i}. {_sentence(made, q)}" for i, q in enumerate(QUESTIONS, 1))])


def _row(title: str, asked: str, verdicts: Sequence[Verdict]) -> str:
    cells = [str(len(verdicts)), *(str(len(shown(verdicts, better=b))) for b in (True, False))]
    for score in PRIMARY_SCORES.values():
        own = [one.difference for one in verdicts if one.score is score]
        cells.append(mean_range(own, score) if own else "not made")
    return f"| {title} | {asked} | {' | '.join(cells)} |"


def _sentence(made: Experiment, question: Question) -> str:
    verdicts = made.answers(question.title)
    start = f"**{question.title}.** With {question.asked}"
    if not verdicts:
        return f"{start}: no comparison is made yet."
    parts = []
    for better, word in ((True, "better"), (False, "worse")):
        if those := [one.text for one in shown(verdicts, better=better)]:
            parts.append(f"{word} than the default: {'; '.join(those)}")
    if rest := [one for one in verdicts if not one.shown]:
        which = "the other" if len(rest) < len(verdicts) else "any of the"
        count = f"{len(rest)} comparisons" if len(rest) > 1 else "one"
        parts.append(f"no difference is shown in {which} {count} ({bounds(rest)})")
    return f"{start}, {'; '.join(parts)}."


def tables(made: Experiment) -> str:
    """Return a table of every factor that has comparisons."""
    factors = [factor for factor in made.found.recipe.factors if made.by_factor[factor.name]]
    return "\n\n".join(_table(factor, made) for factor in factors) or "No comparison is made yet."


def _table(factor: Factor, made: Experiment) -> str:
    verdicts = made.verdicts[factor.name]
    p_values = {(one.one.arm.name, one.one.graph, one.score.name): one.p_value for one in verdicts}
    lines = [
        f"**{factor.title[0].upper()}{factor.title[1:]}.**",
        "",
        "| arm | graph | accuracy (points) | p | NLL | p |",
        "|---|---|---|---|---|---|",
    ]
    for one in made.by_factor[factor.name]:
        cells = [one.arm.name + _against(one.arm), GRAPHS[one.graph]]
        for name, score in PRIMARY_SCORES.items():
            p_value = p_values.get((one.arm.name, one.graph, score.name))
            cells.append(score.format(one.differences[name]))
            cells.append("descriptive" if p_value is None else format_p(p_value))
        lines.append(f"| {' | '.join(cells)} |")
    planned = factor.planned(made.found.recipe.graphs)
    beyond = sum(one.shown for one in verdicts)
    made_of = f"Of {planned} primary comparisons {len(verdicts)} are made, {beyond} of them beyond"
    return "\n".join([*lines, "", f"{made_of} chance."])
