"""Makes the tables in `tickets/`: 3,000 support tickets of one year, of four kinds, all made up.

    python examples/data/make_tickets.py [FOLDER]

A ticket is about billing, delivery, access or a fault. The chance of each depends on three numbers
of the ticket, on its channel, and on what is usual for its customer and its product, whose tickets
have similar numbers. Neither customer nor product is in the tables: edges join each ticket with the
customer's last two and the product's last one. The world drifts: faults become more frequent, the
channels change what they are used for, and so do the products:

    p(kind) = softmax(BY_MONTH * month + CHANNEL * channel's score at that time
                      + OWN * score(numbers) + CUSTOMER * score(the customer's usual numbers)
                      + PRODUCT * score(the product's usual numbers at that time))

so that the true probabilities are known (`make_tickets` returns them; they are in no file). Train
on the past by `--split-by-time opened`; a random split does not see the drift and looks too good.
"""

import csv
import io
import math
import sys
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import NamedTuple

SEED = 37
TICKETS, CUSTOMERS, PRODUCTS = 3000, 400, 80
KINDS = ("access", "billing", "delivery", "fault")
OWN, CHANNEL, CUSTOMER, PRODUCT = 2.0, 2.0, 2.4, 2.4
ALIKE = 0.5
"""How much of a ticket's numbers is its customer's, and how much its product's."""
BY_MONTH = (-0.12, 0.0, -0.06, 0.2)
"""How much the score of each kind grows in a month."""
NUMBERS = ((0.9, -0.6, 0.0, -0.3), (-0.5, 0.9, -0.6, 0.3), (-0.4, -0.4, 0.3, 0.9))
"""What each of three numbers adds to the score of each kind."""
CHANNELS = {
    "chat": ((1.0, 0.0, -0.5, -0.5), (-0.5, 1.0, 0.0, -0.5)),
    "mail": ((-0.5, 1.0, 0.0, -0.5), (0.0, -0.5, 1.0, -0.5)),
    "phone": ((0.0, -0.5, 1.0, -0.5), (0.0, -0.5, 0.5, 0.0)),
    "web": ((-0.5, -0.5, -0.5, 1.5), (0.5, 0.0, -0.5, 0.5)),
}
"""The scores of each kind in a channel, in the first month and in the last."""
PLANS = ("basic", "plus", "pro")
COLUMNS = (
    "ticket",
    "opened",
    "words",
    "hours_to_reply",
    "attachments",
    "channel",
    "plan",
    "first_contact",
    "kind",
)


class Tickets(NamedTuple):
    """The two tables, a header first, and the true probability of each kind for each ticket."""

    nodes: list[list[str]]
    edges: list[list[str]]
    probabilities: list[list[float]]


def _between(first: float, last: float, time: float) -> float:
    """A value that goes from the first to the last in a straight line, for a time from 0 to 1."""
    return first + time * (last - first)


def _score(numbers: list[float], kind: int) -> float:
    """What three numbers say for a kind."""
    return sum(value * row[kind] for value, row in zip(numbers, NUMBERS, strict=True))


def _softmax(scores: list[float]) -> list[float]:
    largest = max(scores)
    powers = [math.exp(score - largest) for score in scores]
    return [power / sum(powers) for power in powers]


def make_tickets(seed: int = SEED) -> Tickets:
    """Make the tables; the same seed gives the same ones."""
    random = Random(seed)  # noqa: S311 - made-up data, not a secret

    def numbers_of_one() -> list[float]:
        return [random.gauss(0, 1) for _ in NUMBERS]

    customers = [(numbers_of_one(), random.choice(PLANS)) for _ in range(CUSTOMERS)]
    # what is usual for a product in the first month and in the last
    products = [(numbers_of_one(), numbers_of_one()) for _ in range(PRODUCTS)]
    days = sorted(random.randrange(366) for _ in range(TICKETS))

    nodes, edges, probabilities = [list(COLUMNS)], [["source", "target"]], []
    of_customer: dict[int, list[int]] = {}
    of_product: dict[int, list[int]] = {}
    for i, day in enumerate(days):
        opened = date(2024, 1, 1) + timedelta(day)
        month, time = opened.month - 1, day / 365
        customer, product = random.randrange(CUSTOMERS), random.randrange(PRODUCTS)
        usual, plan = customers[customer]
        current = [_between(*pair, time) for pair in zip(*products[product], strict=True)]
        numbers = [
            ALIKE * (u + c) + math.sqrt(1 - 2 * ALIKE**2) * random.gauss(0, 1)
            for u, c in zip(usual, current, strict=True)
        ]
        channel = random.choice(list(CHANNELS))
        total = [
            BY_MONTH[k] * month
            + CHANNEL * _between(*(table[k] for table in CHANNELS[channel]), time)
            + OWN * _score(numbers, k)
            + CUSTOMER * _score(usual, k)
            + PRODUCT * _score(current, k)
            for k in range(len(KINDS))
        ]
        probabilities.append(_softmax(total))
        kind = random.choices(KINDS, probabilities[-1])[0]

        values = [
            str(round(60 * math.exp(0.6 * numbers[0]))),
            f"{9 * math.exp(0.7 * numbers[1]):.1f}",
            str(max(0, round(1 + numbers[2] + random.gauss(0, 0.3)))),
            channel,
            plan,
            "no" if customer in of_customer else "yes",
        ]
        for column, share in ((1, 0.08), (4, 0.04)):
            if random.random() < share:
                values[column] = ""
        known = random.random() > 0.04  # the others are still to be sorted
        nodes.append([f"t{i + 1:04d}", opened.isoformat(), *values, kind if known else ""])

        before = of_customer.setdefault(customer, [])[-2:] + of_product.setdefault(product, [])[-1:]
        edges += [[f"t{j + 1:04d}", f"t{i + 1:04d}"] for j in sorted(set(before))]
        of_customer[customer].append(i)
        of_product[product].append(i)
    return Tickets(nodes, edges, probabilities)


def ticket_files() -> dict[str, bytes]:
    """The two files by their names; always the same bytes."""
    made = make_tickets()
    files = {}
    for name, rows in (("nodes.csv", made.nodes), ("edges.csv", made.edges)):
        stream = io.StringIO(newline="")
        csv.writer(stream, lineterminator="\n").writerows(rows)
        files[name] = stream.getvalue().encode()
    return files


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "tickets"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in ticket_files().items():
        (folder / name).write_bytes(content)
