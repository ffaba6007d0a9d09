"""The paper's claims under control: what the controlled experiment says of those it tests alone.

Words are chosen by the verdicts: a claim holds where its comparisons are beyond chance on its side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from experiments.factors import PRIMARY
from experiments.worth_page import (
    GRAPHS,
    QUESTIONS,
    SCORES,
    UNITS,
    Made,
    Verdict,
    bounds,
    difference_range,
    listed,
    shown,
)

FEW = 2
"""As many differences are printed each with its interval; more are put together."""


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


class Tested(NamedTuple):
    """A claim with its comparisons, those on its side and those against it."""

    claim: Claim
    verdicts: list[Verdict]
    holds: list[Verdict]
    against: list[Verdict]

    @property
    def words(self) -> str:
        """Whether it holds, with counts."""
        count = len(self.verdicts)
        if not count:
            return "not run yet"
        if self.holds and self.against:
            both = f"shown in {len(self.holds)}, the reverse in {len(self.against)}"
            return f"mixed: {both} of {count} comparisons"
        if self.holds:
            part = "" if len(self.holds) == count else " in part"
            return f"holds{part}: shown in {len(self.holds)} of {count} comparisons"
        if self.against:
            reverse = f"the reverse is shown in {len(self.against)}"
            return f"does not hold: {reverse} of {count} comparisons"
        return f"not shown in any of {count} comparisons"


def on_claims(made: Made) -> list[Tested]:
    """Every claim with what is made of its comparisons."""
    by_title = {question.title: question for question in QUESTIONS}
    found = []
    for claim in CLAIMS:
        question = by_title[claim.question]
        verdicts = [
            one
            for one in made.verdicts(question.factor, made.of(question))
            if not claim.only or one.one.arm.name in claim.only
        ]
        sides = (shown(verdicts, better=side) for side in (claim.reverse, not claim.reverse))
        found.append(Tested(claim, verdicts, *sides))
    return found


def claims(made: Made) -> str:
    """A table of the claims that an arm of the experiment tests alone."""
    lines = [
        "| the paper's claim | in place of the default | does it hold? | differences |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {one.claim.claim} | {one.claim.arms} | {one.words} | {_differences(one)} |"
        for one in on_claims(made)
    ]
    return "\n".join(lines)


def words_of(made: Made, name: str) -> str:
    """Whether one claim holds."""
    return next(one.words for one in on_claims(made) if one.claim.name == name)


def headline(made: Made) -> str:
    """What holds, what does not and what is not shown, in a sentence each."""
    every = on_claims(made)
    whole = [one.claim.claim for one in every if one.holds and len(one.holds) == len(one.verdicts)]
    part = [one for one in every if one.holds and len(one.holds) < len(one.verdicts)]
    holds = whole or ["of the paper's claims that are tested alone none throughout"]
    holds += [f"in part, {_counted(one, one.holds)}" for one in part]
    open_ = [one for one in every if not one.holds and not one.against]
    groups = {
        "What holds": holds,
        "What does not": [_counted(one, one.against) for one in every if one.against],
        "What is not shown": [one.claim.claim for one in open_ if one.verdicts],
        "Not run yet": [one.claim.claim for one in open_ if not one.verdicts],
    }
    return " ".join(f"**{title}:** {'; '.join(those)}." for title, those in groups.items() if those)


def _counted(one: Tested, side: Sequence[Verdict]) -> str:
    reverse = ", where the reverse is shown" if side is one.against else ""
    return f"{one.claim.claim} ({len(side)} of {len(one.verdicts)} comparisons{reverse})"


def masks_after_normalization(made: Made) -> str:
    """What masks after the normalization change; not among the primary comparisons."""
    found = [one for one in made.by_factor["rate"] if one.arm.name == "masks after normalization"]
    if not found:
        return "not run yet"
    sizes = []
    for score in PRIMARY:
        own = [one.differences[score] for one in found]
        outside = sum(one.low > 0.0 or one.high < 0.0 for one in own)
        sizes.append(
            f"{SCORES[score]} {difference_range(own, score)}{UNITS[score]}, {outside} of "
            f"{len(own)} intervals exclude 0"
        )
    where = listed([GRAPHS[one.graph] for one in found])
    return f"after minus before on {where}, not corrected: {'; '.join(sizes)}"


def places(verdicts: Sequence[Verdict]) -> str:
    """Differences that are beyond chance: a few with intervals, many by arm and score."""
    if len(verdicts) <= FEW:
        return "; ".join(one.text for one in verdicts)
    by_arm: dict[str, dict[str, list[Verdict]]] = {}
    for one in verdicts:
        by_arm.setdefault(one.label, {}).setdefault(one.score, []).append(one)
    parts = []
    for arm, by_score in by_arm.items():
        sizes = [
            f"{SCORES[score]} {difference_range([o.difference for o in those], score)}"
            f"{UNITS[score]} on {listed([GRAPHS[o.one.graph] for o in those])}"
            for score, those in by_score.items()
        ]
        parts.append(f"{arm}, {' and '.join(sizes)}")
    return f"{'; '.join(parts)}; each p < 0.05"


def _differences(one: Tested) -> str:
    parts = [places(side) for side in (one.holds, one.against) if side]
    rest = [verdict for verdict in one.verdicts if not verdict.shown]
    if rest:
        scores = [score for score in PRIMARY if any(o.score == score for o in rest)]
        sizes = " and ".join(bounds(rest, score) for score in scores)
        parts.append(f"{'no difference shown elsewhere: ' if parts else ''}{sizes}")
    return "; ".join(parts)
