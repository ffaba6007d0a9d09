"""The passages of docs/evidence.md on the controlled experiment, made from the records of its runs.

``evidence_page`` writes them into the page. Every word that depends on a figure is chosen by it:
"better" and "worse" need a p-value below 0.05 after Holm's correction over all planned comparisons
of a factor. A comparison counts as made when all its seeds are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from experiments.comparisons import Difference
from experiments.factors import BASE, PRIMARY, Arm, Factor
from experiments.recipe import read_recipe
from experiments.store import Store
from experiments.tables import signed
from experiments.target_runs import TargetRuns, in_store
from experiments.worth import DIGITS, interval_text
from experiments.worth_comparisons import (
    Comparison,
    compared,
    complete,
    core_hours,
    corrected,
    planned_runs,
)

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
SCORES = {"accuracy": "accuracy", "nll": "NLL"}
UNITS = {"accuracy": " points", "nll": ""}
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


def committed(folder: str | Path) -> TargetRuns:
    """The runs of the controlled experiment in a folder of results."""
    recipe, store = read_recipe("worth-auto"), Store(folder)
    cells = [
        in_store(cell, store, watch=False, checksum=FILES.get(cell.dataset))
        for cell in recipe.cells(files=list(FILES))
    ]
    return TargetRuns("worth", recipe, "auto", False, cells)


@dataclass(frozen=True)
class Made:
    """The comparisons of all factors that have all their seeds, with corrected p-values."""

    found: TargetRuns
    by_factor: dict[str, list[Comparison]] = field(init=False)
    p_values: dict[str, dict[tuple[str, str, str], float]] = field(init=False)

    def __post_init__(self) -> None:
        recipe = self.found.recipe
        by_factor = {
            factor.name: [
                one
                for graph in recipe.graphs
                for one in compared(self.found, factor, graph)
                if complete(one, recipe.runs)
            ]
            for factor in recipe.factors
        }
        object.__setattr__(self, "by_factor", by_factor)
        p_values = {
            factor.name: corrected(by_factor[factor.name], factor, recipe.graphs)
            for factor in recipe.factors
        }
        object.__setattr__(self, "p_values", p_values)

    @cached_property
    def graphs(self) -> list[str]:
        """The graphs of which something is compared."""
        there = {one.graph for made in self.by_factor.values() for one in made}
        return [graph for graph in self.found.recipe.graphs if graph in there]

    @property
    def runs(self) -> int:
        """How many runs are there, those of unfinished comparisons too."""
        return sum(len(runs.records) for runs in self.found.cells)

    def of(self, question: Question) -> list[Comparison]:
        """The comparisons that answer a question."""
        return [one for one in self.by_factor[question.factor] if one.arm.name in question.arms]

    def verdicts(self, factor: str, ones: Sequence[Comparison]) -> Iterator[Verdict]:
        """Every primary difference of some comparisons, with its p-value."""
        for one in ones:
            for score, difference in one.differences.items():
                p_value = self.p_values[factor].get((one.arm.name, one.graph, score))
                if p_value is not None:
                    yield Verdict(one, score, difference, p_value)


@dataclass(frozen=True)
class Verdict:
    """One primary comparison."""

    one: Comparison
    score: str
    difference: Difference
    p_value: float

    @property
    def shown(self) -> bool:
        """Whether it is beyond chance."""
        return self.p_value < SIGNIFICANT

    @property
    def better(self) -> bool:
        """Whether the arm is on the better side: a higher accuracy, a lower NLL."""
        return (self.difference.mean > 0.0) == (self.score == "accuracy")

    @property
    def label(self) -> str:
        """The arm, as a sentence calls it, with what it is compared with if not the default."""
        arm = self.one.arm
        return LABELS.get(arm.name, arm.name) + _against(arm)

    @property
    def text(self) -> str:
        """Such as `ARM on Cora: accuracy -1.20 points [-1.90, -0.50], p = 0.003`."""
        size = _with_unit(interval_text(self.difference, DIGITS[self.score]), self.score)
        p_value = p_text(self.p_value)
        p_value = p_value if p_value.startswith("<") else f"= {p_value}"
        graph = GRAPHS[self.one.graph]
        return f"{self.label} on {graph}, {SCORES[self.score]} {size}, p {p_value}"


def shown(verdicts: Sequence[Verdict], *, better: bool) -> list[Verdict]:
    """Those beyond chance on one side."""
    return [one for one in verdicts if one.shown and one.better is better]


def _against(arm: Arm) -> str:
    return "" if arm.against == BASE else f" against {arm.against}"


def _with_unit(text: str, score: str) -> str:
    number, _, rest = text.partition(" ")
    return f"{number}{UNITS[score]} {rest}"


def p_text(p_value: float) -> str:
    """A p-value to three digits."""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


# The first screen


def summary(made: Made) -> str:
    """How much is made, what is beyond chance, a table, and a sentence for every question."""
    found = made.found
    total = planned_runs(found, found.recipe.graphs)
    if not made.runs:
        return f"None of the {total} planned runs has been made yet."
    verdicts = [
        one
        for factor in found.recipe.factors
        for one in made.verdicts(factor.name, made.by_factor[factor.name])
    ]
    planned = sum(factor.planned(found.recipe.graphs) for factor in found.recipe.factors)
    missing = [GRAPHS[graph] for graph in found.recipe.graphs if graph not in made.graphs]
    lines = [
        f"{made.runs} of {total} planned runs are made, in {core_hours(found):.1f} core-hours. "
        f"Of {planned} planned comparisons {len(verdicts)} have all their seeds, on "
        f"{listed([GRAPHS[graph] for graph in made.graphs]) or 'no graph'}"
        + (f"; {listed(missing)} {_is(missing)} not run yet." if missing else "."),
        "",
        f"- **Better, beyond chance:** {named(shown(verdicts, better=True))}.",
        f"- **Worse, beyond chance:** {named(shown(verdicts, better=False))}.",
        f"- **Not told apart:** the other {sum(not one.shown for one in verdicts)} of "
        f"{len(verdicts)} comparisons that are made.",
        "",
        "| part | in its place | made | better | worse | accuracy (points) | NLL |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_row(made, question) for question in QUESTIONS]
    lines.append(_architecture_row(made))
    lines += ["", *(f"{n}. {_sentence(made, q)}" for n, q in enumerate(QUESTIONS, 1))]
    return "\n".join(lines)


def _is(things: Sequence[str]) -> str:
    return "is" if len(things) == 1 else "are"


def listed(words: Sequence[str]) -> str:
    """Words with commas and an `and`."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def named(verdicts: Sequence[Verdict]) -> str:
    """The arms of some verdicts, with graphs and scores."""
    by_arm: dict[str, list[str]] = {}
    for one in verdicts:
        place = f"{SCORES[one.score]} on {GRAPHS[one.one.graph]}"
        by_arm.setdefault(one.label, []).append(place)
    return "; ".join(f"{arm} ({', '.join(places)})" for arm, places in by_arm.items()) or "nothing"


def _cells(made: Made, factor: str, ones: Sequence[Comparison]) -> str:
    verdicts = list(made.verdicts(factor, ones))
    sides = [len(shown(verdicts, better=side)) for side in (True, False)]
    ranges = [_range(verdicts, score) for score in PRIMARY]
    return " | ".join([str(len(verdicts)), *map(str, sides), *ranges])


def _row(made: Made, question: Question) -> str:
    cells = _cells(made, question.factor, made.of(question))
    return f"| {question.title} | {question.asked} | {cells} |"


def _architecture_row(made: Made) -> str:
    cells = _cells(made, "architecture", made.by_factor["architecture"])
    return f"| The architecture | GAT, SAGE, GCNII or APPNP, in place of a GCN | {cells} |"


def _range(verdicts: Sequence[Verdict], score: str) -> str:
    own = [one.difference for one in verdicts if one.score == score]
    return difference_range(own, score) if own else "not made"


def difference_range(differences: Sequence[Difference], score: str) -> str:
    """The smallest and the largest mean of some differences."""
    means = [one.mean for one in differences]
    low, high = (signed(end, DIGITS[score]) for end in (min(means), max(means)))
    return low if low == high else f"{low} to {high}"


def _sentence(made: Made, question: Question) -> str:
    verdicts = list(made.verdicts(question.factor, made.of(question)))
    start = f"**{question.title}.** With {question.asked}"
    if not verdicts:
        return f"{start}: no comparison is made yet."
    parts = []
    for better, word in ((True, "better"), (False, "worse")):
        those = [one.text for one in shown(verdicts, better=better)]
        if those:
            parts.append(f"{word} than the default: {'; '.join(those)}")
    rest = [one for one in verdicts if not one.shown]
    if rest:
        which = "the other" if len(rest) < len(verdicts) else "any of the"
        sizes = [bounds(rest, score) for score in PRIMARY if any(o.score == score for o in rest)]
        parts.append(
            f"no difference is shown in {which} {len(rest)} comparisons ({' and '.join(sizes)})"
            if len(rest) > 1
            else f"no difference is shown in the other one ({sizes[0]})"
        )
    return f"{start}, {'; '.join(parts)}."


def bounds(verdicts: Sequence[Verdict], score: str) -> str:
    """Between which ends the intervals of a score lie."""
    own = [one.difference for one in verdicts if one.score == score]
    low, high = min(one.low for one in own), max(one.high for one in own)
    ends = ", ".join(signed(end, DIGITS[score]) for end in (low, high))
    return f"{SCORES[score]}: intervals within [{ends}]{UNITS[score]}"


# Every comparison


def tables(made: Made) -> str:
    """A table of every factor that has comparisons."""
    lines: list[str] = []
    for factor in made.found.recipe.factors:
        if made.by_factor[factor.name]:
            lines += [*_table(factor, made), ""]
    return "\n".join(lines).rstrip() or "No comparison is made yet."


def _table(factor: Factor, made: Made) -> list[str]:
    p_values = made.p_values[factor.name]
    lines = [
        f"**{factor.title[0].upper()}{factor.title[1:]}.**",
        "",
        "| arm | graph | accuracy (points) | p | NLL | p |",
        "|---|---|---|---|---|---|",
    ]
    for one in made.by_factor[factor.name]:
        cells = []
        for score, difference in one.differences.items():
            cells.append(interval_text(difference, DIGITS[score]))
            p_value = p_values.get((one.arm.name, one.graph, score))
            cells.append("descriptive" if p_value is None else p_text(p_value))
        lines.append(
            f"| {one.arm.name}{_against(one.arm)} | {GRAPHS[one.graph]} | {' | '.join(cells)} |"
        )
    planned = factor.planned(made.found.recipe.graphs)
    beyond = sum(p_value < SIGNIFICANT for p_value in p_values.values())
    lines += [
        "",
        f"Of {planned} primary comparisons {len(p_values)} are made, {beyond} of them beyond "
        "chance.",
    ]
    return lines
