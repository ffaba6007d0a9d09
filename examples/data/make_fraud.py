"""Makes the tables in `fraud/`: 5,000 accounts that pay each other, one in 25 of them fraudulent.

    python examples/data/make_fraud.py [FOLDER]

All of it is made up. Accounts belong to rings of four to twelve, whose members behave alike and
mostly pay each other. The chance that an account is fraudulent depends on its own behaviour and,
more, on that of the accounts it has dealings with, each by how much they pay:

    p(fraud) = sigmoid(BASE + OWN * own score + AROUND * weighted mean of the neighbours' scores)

so that the true probability is known (`make_fraud` returns it; it is in no file). The tables do not
hold all that it depends on: some values are missing, and the weights of the edges are noisy.
"""

import csv
import io
import math
import sys
from pathlib import Path
from random import Random
from typing import NamedTuple

SEED = 37
ACCOUNTS = 5000
BASE, OWN, AROUND = -5.1, 0.35, 2.1
ALIKE = 0.35
"""How much of the behaviour of an account is that of its ring."""
CHANNELS = {"app": 0.0, "branch": -0.5, "partner": 0.8, "web": 0.1}
COUNTRIES = ("BR", "DE", "IN", "JP", "KE", "US")
COLUMNS = (
    "account",
    "days_open",
    "payments",
    "mean_amount",
    "night_share",
    "channel",
    "country",
    "is_fraud",
)


class Fraud(NamedTuple):
    """The two tables, a header first, and the true probability of fraud of each account."""

    nodes: list[list[str]]
    edges: list[list[str]]
    probability: list[float]


def _payments(random: Random, rings: list[list[int]]) -> dict[tuple[int, int], float]:
    """What pairs of accounts pay each other: most pairs are within a ring, and pay more there."""
    strength: dict[tuple[int, int], float] = {}
    for ring in rings:
        for account in ring:
            for _ in range(2):
                inside = random.random() < 0.75
                other = random.choice(ring) if inside else random.randrange(ACCOUNTS)
                pair = min(account, other), max(account, other)
                if account != other and pair not in strength:
                    strength[pair] = math.exp(random.gauss(1.2 if inside else 0.2, 0.5))
    return strength


def make_fraud(seed: int = SEED) -> Fraud:
    """Make the tables; the same seed gives the same ones."""
    random = Random(seed)  # noqa: S311 - made-up data, not a secret
    rings: list[list[int]] = []
    while sum(map(len, rings)) < ACCOUNTS:
        first = sum(map(len, rings))
        rings.append(list(range(first, min(ACCOUNTS, first + random.randint(4, 12)))))

    # Behaviour: four standard normal numbers and a channel.
    behaviour: list[list[float]] = []
    channels: list[str] = []
    scores: list[float] = []
    for ring in rings:
        common = random.gauss(0, 1)
        for _ in ring:
            numbers = [
                ALIKE * common + math.sqrt(1 - ALIKE**2) * random.gauss(0, 1) for _ in range(4)
            ]
            channel = "partner" if random.gauss(common, 1) > 1.6 else random.choice(list(CHANNELS))
            behaviour.append(numbers)
            channels.append(channel)
            scores.append(sum(numbers) / 2.5 + CHANNELS[channel])

    strength = _payments(random, rings)
    total, weight = [0.0] * ACCOUNTS, [1e-9] * ACCOUNTS
    for (one, other), value in strength.items():
        for here, there in ((one, other), (other, one)):
            total[here] += value * scores[there]
            weight[here] += value
    probability = [
        1 / (1 + math.exp(-(BASE + OWN * own + AROUND * t / w)))
        for own, t, w in zip(scores, total, weight, strict=True)
    ]

    # What the tables show, in an order that tells nothing.
    order = list(range(ACCOUNTS))
    random.shuffle(order)
    place = {account: i for i, account in enumerate(order)}
    nodes = [list(COLUMNS)]
    for i, account in enumerate(order):
        age, payments, amount, night = behaviour[account]
        values = [
            str(round(900 * math.exp(-0.5 * age))),
            str(round(20 * math.exp(0.4 * payments))),
            f"{80 * math.exp(0.5 * amount):.1f}",
            f"{1 / (1 + math.exp(2 - night)):.3f}",
            channels[account],
            random.choice(COUNTRIES),
        ]
        for column, share in ((2, 0.08), (3, 0.12), (4, 0.05)):
            if random.random() < share:
                values[column] = ""
        fraud = random.random() < probability[account]
        nodes.append([f"a{i + 1:04d}", *values, str(int(fraud))])
    edges = [["source", "target", "weight"]]
    for (one, other), value in strength.items():
        ends = [one, other] if random.random() < 0.5 else [other, one]
        noisy = value * math.exp(random.gauss(0, 0.6))
        edges.append([*(f"a{place[end] + 1:04d}" for end in ends), f"{noisy:.2f}"])
    edges[1:] = sorted(edges[1:])
    return Fraud(nodes, edges, [probability[account] for account in order])


def fraud_files() -> dict[str, bytes]:
    """The two files by their names; always the same bytes."""
    made = make_fraud()
    files = {}
    for name, rows in (("nodes.csv", made.nodes), ("edges.csv", made.edges)):
        stream = io.StringIO(newline="")
        csv.writer(stream, lineterminator="\n").writerows(rows)
        files[name] = stream.getvalue().encode()
    return files


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "fraud"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in fraud_files().items():
        (folder / name).write_bytes(content)
