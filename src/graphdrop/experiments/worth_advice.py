"""What the controlled experiment says to a user and on the paper's claims, chosen by its verdicts.

Every text has three forms: the arm is worse than the default beyond chance, better, or neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from graphdrop.experiments.worth_page import GRAPHS, QUESTIONS, Made, Question, Verdict, listed


class Advice(NamedTuple):
    """A question and what its answer means; `{where}` is filled in."""

    question: str
    worse: str
    better: str
    neither: str


ADVICE = (
    Advice(
        "Masks at all",
        "**Learned masks gain over Monte Carlo DropOut** with the same recipe: {where}.",
        "**Take DropOut alone where you can**: it is better than learned masks on {where}.",
        "**Do not take learned masks for accuracy or likelihood alone**: over Monte Carlo DropOut "
        "with the same recipe and calibrator no gain is shown on {where}.",
    ),
    Advice(
        "Learning the rate",
        "**Learning the rate gains** even over the best of three fixed ones: {where}.",
        "**Trying three fixed rates and keeping the best on validation gains** over learning the "
        "rate: {where}.",
        "**Learning the rate spares the choice of it**: no loss and no gain is shown beside the "
        "best of three fixed rates by validation, on {where}.",
    ),
    Advice(
        "Not having to choose it",
        "**A rate chosen badly costs**: {where}.",
        "**Some fixed rates are better than the learned one**: {where}.",
        "**No fixed rate of 0.2, 0.5 or 0.8 is shown to be worse or better** than the learned one "
        "on {where}.",
    ),
    Advice(
        "Sampling in prediction",
        "**How to predict matters**: {where} is worse than 20 samples.",
        "**How to predict matters**: better than 20 samples is {where}.",
        "**One pass with masks off predicts as well** as 20 or 100 samples, as far as is shown on "
        "{where}.",
    ),
    Advice(
        "An ensemble",
        "**Five networks are worse than one**: {where}.",
        "**Five networks are better than one**, for five times the training: {where}.",
        "**Five networks are not shown to be better than one** on {where}.",
    ),
)


def advice(made: Made) -> str:
    """A bullet for every question of a user that has comparisons."""
    by_title = {question.title: question for question in QUESTIONS}
    lines = []
    for one in ADVICE:
        verdicts = _verdicts(made, by_title[one.question])
        for text, those in zip(
            (one.worse, one.better), (_shown(verdicts, False), _shown(verdicts, True)), strict=True
        ):
            if those:
                lines.append(f"- {text.format(where=_places(those))}")
        if verdicts and not any(v.shown for v in verdicts):
            lines.append(f"- {one.neither.format(where=_graphs(verdicts))}")
    return "\n".join(lines) or "No comparison is made yet."


def _verdicts(made: Made, question: Question) -> list[Verdict]:
    return list(made.verdicts(question.factor, made.of(question)))


def _shown(verdicts: Sequence[Verdict], better: bool) -> list[Verdict]:
    return [one for one in verdicts if one.shown and one.better is better]


def _places(verdicts: Sequence[Verdict]) -> str:
    return "; ".join(one.text for one in verdicts)


def _graphs(verdicts: Sequence[Verdict]) -> str:
    return listed(list(dict.fromkeys(GRAPHS[one.one.graph] for one in verdicts)))


# The paper's claims


class Claim(NamedTuple):
    """A claim that holds where these arms are worse than the default."""

    claim: str
    arms: str
    question: str
    only: tuple[str, ...] = ()
    reverse: bool = False
    """Whether it holds where the arms are better."""


CLAIMS = (
    Claim("learned Graph DropConnect beats DropOut", "DropOut alone", "Masks at all"),
    Claim("Graph DropConnect beats DropEdge", "one draw per edge", "A draw per edge and block"),
    Claim(
        "learned rates beat fixed ones",
        "fixed at 0.2, 0.5 or 0.8",
        "Not having to choose it",
    ),
    Claim(
        "learned rates beat the best fixed one",
        "the best of the three by validation",
        "Learning the rate",
    ),
    Claim(
        "ARM beats concrete",
        "ARM",
        "The gradient estimator",
        ("ARM",),
        reverse=True,
    ),
    Claim(
        "more blocks are better",
        "a draw per edge and feature",
        "Which connections share a draw",
        ("edge and feature",),
        reverse=True,
    ),
)


def claims(made: Made) -> str:
    """The claims of the paper that an arm of the experiment tests alone."""
    by_title = {question.title: question for question in QUESTIONS}
    lines = [
        "| the paper's claim | in place of the default | comparisons | under control |",
        "|---|---|---|---|",
    ]
    for claim in CLAIMS:
        verdicts = [
            one
            for one in _verdicts(made, by_title[claim.question])
            if not claim.only or one.one.arm.name in claim.only
        ]
        said = _said(verdicts, reverse=claim.reverse)
        lines.append(f"| {claim.claim} | {claim.arms} | {len(verdicts)} | {said} |")
    return "\n".join(lines)


def _said(verdicts: Sequence[Verdict], *, reverse: bool) -> str:
    if not verdicts:
        return "not run"
    holds, against = _shown(verdicts, reverse), _shown(verdicts, not reverse)
    parts = []
    if holds:
        parts.append(f"shown: {_places(holds)}")
    if against:
        parts.append(f"the reverse is shown: {_places(against)}")
    rest = len(verdicts) - len(holds) - len(against)
    if rest:
        which = "in any" if rest == len(verdicts) else f"in the other {rest}"
        parts.append(f"no difference shown {which}")
    return "; ".join(parts)
