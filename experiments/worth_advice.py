"""What the controlled experiment says to a user, chosen by its verdicts.

Every text has three forms: the arm is worse than the default beyond chance, better, or neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from experiments.factors import PRIMARY
from experiments.rivals_page import counts_beside
from experiments.target_runs import TargetRuns
from experiments.worth_claims import headline, places
from experiments.worth_page import (
    GRAPHS,
    QUESTIONS,
    Made,
    Verdict,
    bounds,
    listed,
    shown,
)


class Advice(NamedTuple):
    """A question and what its answer means; `{where}` is filled in.

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


def advice(made: Made, rivals: TargetRuns | None = None) -> str:
    """What holds and what does not, then a bullet for every question that has comparisons."""
    lines = []
    for one in ADVICE:
        verdicts = _verdicts(made, one)
        rest = sum(not verdict.shown for verdict in verdicts)
        for text, better in ((one.worse, False), (one.better, True)):
            if those := shown(verdicts, better=better):
                where = places(those) + (
                    f"; no difference shown in the other {rest}" if rest else ""
                )
                lines.append(f"- {text.format(where=where)}")
        if verdicts and rest == len(verdicts):
            where = f"{_graphs(verdicts)} ({_sizes(verdicts)})"
            lines.append(f"- {one.neither.format(where=where)}")
    if not lines:
        return "No comparison is made yet."
    return "\n".join([headline(made), "", *lines, *(counts_beside(rivals) if rivals else ())])


def _verdicts(made: Made, advice: Advice) -> list[Verdict]:
    question = next(one for one in QUESTIONS if one.title == advice.question)
    own = [one for one in made.of(question) if not advice.only or one.arm.name in advice.only]
    return list(made.verdicts(question.factor, own))


def _graphs(verdicts: Sequence[Verdict]) -> str:
    return listed(list(dict.fromkeys(GRAPHS[one.one.graph] for one in verdicts)))


def _sizes(verdicts: Sequence[Verdict]) -> str:
    return " and ".join(bounds(verdicts, score) for score in PRIMARY)
