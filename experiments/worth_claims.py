"""What the controlled experiment says of the paper's claims, and to a user.

Words are chosen by the verdicts: a claim holds where its comparisons are beyond chance on its side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from experiments.comparisons import holm, resampled_t, simulated_p
from experiments.contrasts import PRIMARY_SCORES
from experiments.rivals_page import counts_beside
from experiments.target_runs import TargetRuns
from experiments.worth_page import (
    GRAPHS,
    SIGNIFICANT,
    Experiment,
    Verdict,
    bounds,
    join,
    mean_range,
    name_places,
    shown,
)

FEW = 2
"""As many differences are printed each with its interval; more are put together."""
NODES = {"cora_ml": 2995, "amazon_photo": 7650, "chameleon_filtered": 890}
"""The nodes of the graphs with random splits, of which test nodes are drawn."""


class Claim(NamedTuple):
    """A claim that holds where these arms are worse than the default."""

    name: str
    claim: str
    arms: str
    question: str
    only: tuple[str, ...] = ()
    reverse: bool = False
    """Whether it holds where the arms are better."""


CLAIMS = (
    Claim("dropout", "learned Graph DropConnect beats DropOut", "DropOut alone", "Masks at all"),
    Claim(
        "dropedge",
        "Graph DropConnect beats DropEdge",
        "one draw per edge",
        "A draw per edge and block",
    ),
    Claim(
        "fixed",
        "learned rates beat fixed ones",
        "fixed at 0.2, 0.5 or 0.8",
        "Not having to choose it",
    ),
    Claim(
        "best",
        "learned rates beat the best fixed one",
        "the best of the three by validation",
        "Learning the rate",
    ),
    Claim("arm", "ARM beats concrete", "ARM", "The gradient estimator", ("ARM",), reverse=True),
    Claim(
        "blocks",
        "more blocks are better",
        "a draw per edge and feature",
        "Which connections share a draw",
        ("edge and feature",),
        reverse=True,
    ),
)


class Advice(NamedTuple):
    """A question and what its answer means in each of three cases; `{where}` is filled in.

    Where nothing is shown the ends of the intervals say how large a difference could still be.
    """

    question: str
    worse: str
    better: str
    neither: str
    only: tuple[str, ...] = ()
    """The arms of the question that it is about, if not all."""


ADVICE = (
    Advice(
        "Masks at all",
        "**Learned masks gain over Monte Carlo DropOut** with the same recipe and calibrator: "
        "{where}.",
        "**Take DropOut alone where you can**, it is better than learned masks: {where}.",
        "**No gain of learned masks over Monte Carlo DropOut is shown**, on {where}. Both have the "
        "same recipe with its DropOut of features, 0.5 on most graphs, and the same calibrator: it "
        "is a gain beside DropOut that is not shown.",
    ),
    Advice(
        "Learning the rate",
        "**Learning the rate gains** even over the best of three fixed ones: {where}.",
        "**Trying three fixed rates and keeping the best on validation gains** over learning the "
        "rate: {where}.",
        "**A learned rate is not told apart from the best of three fixed ones** by validation, "
        "which cost three trainings, on {where}.",
    ),
    Advice(
        "Not having to choose it",
        "**A rate chosen badly can cost**: {where}.",
        "**Some fixed rates are better than the learned one**: {where}.",
        "**No fixed rate of 0.2, 0.5 or 0.8 is shown to be worse or better** than the learned one "
        "on {where}.",
    ),
    Advice(
        "Sampling in prediction",
        "**100 samples are worse than 20**: {where}.",
        "**100 samples can gain over 20**, for five times the passes: {where}.",
        "**100 samples are not shown to be better than 20** on {where}.",
        ("100 samples",),
    ),
    Advice(
        "Sampling in prediction",
        "**One pass with masks off costs** beside 20 samples: {where}.",
        "**One pass with masks off is better than 20 samples**: {where}.",
        "**One pass with masks off is not told apart from 20 samples** on {where}.",
        ("masks off",),
    ),
    Advice(
        "An ensemble",
        "**Five networks are worse than one**: {where}.",
        "**Five networks can gain over one**, for five times the training: {where}.",
        "**Five networks are not shown to be better than one** on {where}.",
    ),
)


class Tested(NamedTuple):
    """A claim with its comparisons, those on its side and those against it."""

    claim: Claim
    verdicts: list[Verdict]
    holds: list[Verdict]
    against: list[Verdict]

    @property
    def words(self) -> str:
        """Whether it holds, with counts."""
        count, holds, against = len(self.verdicts), len(self.holds), len(self.against)
        if not count:
            return "not run yet"
        if holds and against:
            return f"mixed: shown in {holds}, the reverse in {against} of {count} comparisons"
        if holds:
            part = "" if holds == count else " in part"
            return f"holds{part}: shown in {holds} of {count} comparisons"
        if against:
            return f"does not hold: the reverse is shown in {against} of {count} comparisons"
        return f"not shown in any of {count} comparisons"

    @property
    def differences(self) -> str:
        """What is beyond chance, and the ends of the intervals of the others."""
        parts = [list_places(side) for side in (self.holds, self.against) if side]
        if rest := [verdict for verdict in self.verdicts if not verdict.shown]:
            parts.append(f"{'no difference shown elsewhere: ' if parts else ''}{bounds(rest)}")
        return "; ".join(parts)


def judge_claims(made: Experiment) -> list[Tested]:
    """Return every claim with what is made of its comparisons."""
    found = []
    for claim in CLAIMS:
        verdicts = made.answers(claim.question, claim.only)
        sides = (shown(verdicts, better=side) for side in (claim.reverse, not claim.reverse))
        found.append(Tested(claim, verdicts, *sides))
    return found


def claims(made: Experiment) -> str:
    """Return a table of the claims that an arm of the experiment tests alone."""
    lines = [
        "| the paper's claim | in place of the default | does it hold? | differences |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {one.claim.claim} | {one.claim.arms} | {one.words} | {one.differences} |"
        for one in judge_claims(made)
    ]
    return "\n".join(lines)


def words_of(made: Experiment, name: str) -> str:
    """Say whether one claim holds."""
    return next(one.words for one in judge_claims(made) if one.claim.name == name)


def headline(made: Experiment) -> str:
    """Say what holds, what does not and what is not shown, in a sentence each."""
    every = judge_claims(made)
    holds = [one.claim.claim for one in every if one.holds and len(one.holds) == len(one.verdicts)]
    holds = holds or ["of the paper's claims that are tested alone none throughout"]
    reversed_ = []
    for one in every:
        count = f"of {len(one.verdicts)} comparisons"
        if 0 < len(one.holds) < len(one.verdicts):
            holds.append(f"in part, {one.claim.claim} ({len(one.holds)} {count})")
        if one.against:
            reverse = f"{len(one.against)} {count}, where the reverse is shown"
            reversed_.append(f"{one.claim.claim} ({reverse})")
    neither = [one for one in every if not one.holds and not one.against]
    groups = {
        "What holds": holds,
        "What does not": reversed_,
        "What is not shown": [one.claim.claim for one in neither if one.verdicts],
        "Not run yet": [one.claim.claim for one in neither if not one.verdicts],
    }
    return " ".join(f"**{title}:** {'; '.join(those)}." for title, those in groups.items() if those)


def compare_masks_after_normalization(made: Experiment) -> str:
    """Say what masks after the normalization change; not among the primary comparisons."""
    found = [one for one in made.by_factor["rate"] if one.arm.name == "masks after normalization"]
    if not found:
        return "not run yet"
    sizes = []
    for name, score in PRIMARY_SCORES.items():
        own = [one.differences[name] for one in found]
        outside = sum(one.low > 0.0 or one.high < 0.0 for one in own)
        sizes.append(
            f"{score.name} {mean_range(own, score)}{score.unit}, {outside} of {len(own)} intervals "
            "exclude 0"
        )
    where = join([GRAPHS[one.graph] for one in found])
    return f"after minus before on {where}, not corrected: {'; '.join(sizes)}"


def list_places(verdicts: Sequence[Verdict]) -> str:
    """List differences beyond chance: a few with intervals, many by arm and score."""
    if len(verdicts) <= FEW:
        return "; ".join(one.text for one in verdicts)
    by_arm: dict[str, dict[str, list[Verdict]]] = {}
    for one in verdicts:
        by_arm.setdefault(one.label, {}).setdefault(one.score.name, []).append(one)
    parts = []
    for arm, by_score in by_arm.items():
        sizes = [
            f"{name} {mean_range([one.difference for one in those], those[0].score)}"
            f"{those[0].score.unit} on {join([one.graph for one in those])}"
            for name, those in by_score.items()
        ]
        parts.append(f"{arm}, {' and '.join(sizes)}")
    return f"{'; '.join(parts)}; each p < 0.05"


def advice(made: Experiment, rivals: TargetRuns) -> str:
    """Say what holds and what does not, with a bullet for every question that has comparisons."""
    lines = []
    for one in ADVICE:
        verdicts = made.answers(one.question, one.only)
        rest = sum(not verdict.shown for verdict in verdicts)
        for text, better in ((one.worse, False), (one.better, True)):
            if those := shown(verdicts, better=better):
                others = f"; no difference shown in the other {rest}" if rest else ""
                lines.append(f"- {text.format(where=list_places(those) + others)}")
        if verdicts and rest == len(verdicts):
            graphs = join(list(dict.fromkeys(verdict.graph for verdict in verdicts)))
            lines.append(f"- {one.neither.format(where=f'{graphs} ({bounds(verdicts)})')}")
    if not lines:
        return "No comparison is made yet."
    return "\n".join([headline(made), "", *lines, *counts_beside(rivals)])


def sensitivity(made: Experiment) -> str:
    """Return a table of the verdicts with one choice of the statistics changed at a time.

    What was planned stays the verdict. Beside it stand a wider family, p-values by simulation, and
    another correlation of random splits.
    """
    recipe = made.found.recipe
    families = [made.verdicts[factor.name] for factor in recipe.factors]
    sizes = [factor.planned(recipe.graphs) for factor in recipe.factors]
    every = [one for family in families for one in family]
    if not every:
        return "No comparison is made yet."

    def declare(p_value: Callable[[Verdict], float]) -> list[Verdict]:
        pairs = zip(families, sizes, strict=True)
        return [one for family, size in pairs for one in _declare(family, size, p_value)]

    planned = [one for one in every if one.shown]
    changed = {
        f"Holm's correction over all {sum(sizes)} planned comparisons, not those of a factor": (
            _declare(every, sum(sizes), lambda one: one.difference.p_value)
        ),
        "p-values beyond chance by simulation, not by Satterthwaite's t": declare(_simulated),
        "random splits correlated by the test nodes that they share, not by the labels used": (
            declare(_by_shared_nodes)
        ),
    }
    lines = [
        "| changed | beyond chance | no longer | in addition |",
        "|---|---|---|---|",
        f"| nothing: as planned | {len(planned)} of {len(every)} | | |",
    ]
    for title, declared in changed.items():
        lost = name_places([one for one in planned if one not in declared])
        new = name_places([one for one in declared if one not in planned])
        lines.append(f"| {title} | {len(declared)} of {len(every)} | {lost} | {new} |")
    return "\n".join(lines)


def _declare(
    family: Sequence[Verdict], planned: int, p_value: Callable[[Verdict], float]
) -> list[Verdict]:
    p_values = holm([p_value(one) for one in family], planned)
    return [one for one, p in zip(family, p_values, strict=True) if p < SIGNIFICANT]


def _simulated(verdict: Verdict) -> float:
    """Simulate the p-value of those that are declared; simulating all would take minutes."""
    one, p_value = verdict.one, verdict.difference.p_value
    if not verdict.shown or one.over != "seeds and nodes":
        return p_value
    return simulated_p(one.at_nodes(verdict.score), p_value)


def _by_shared_nodes(verdict: Verdict) -> float:
    """Correlate splits by their test nodes: two tests of `m` random nodes of `n` share `m / n`."""
    one = verdict.one
    if one.over != "splits":
        return verdict.difference.p_value
    tested = next(iter(one.runs.values()))["tested"]
    values = one.by_seed(verdict.score)
    return resampled_t(values, tested=tested, fitted=NODES[one.graph] - tested).p_value
