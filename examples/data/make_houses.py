"""Makes houses/nodes.csv and houses/edges.csv: 2,500 houses with their prices, all made up.

    python examples/data/make_houses.py [FOLDER]

Five towns of houses; edges join each house to its four nearest ones. The price, in thousands of
euros, is a product: of the size, the age, the condition and the garden of the house itself, of how
sought after its street is, which nobody has written down, and of noise of 8 %. Traffic noise and
rents show what a street is worth, but each house reports them with errors that the means over
neighbours take away. One house in eight has no price: it is to be predicted. Some cells are empty.
"""

import csv
import io
import math
import sys
from pathlib import Path
from random import Random

SEED = 7
HOUSES = 2_500
NEAREST = 4
NOISE = 0.08
"""Standard deviation of the logarithm of the price, given all that decides it."""
NO_PRICE = 0.125
CONDITIONS = {"new": 0.12, "renovated": 0.06, "kept": 0.0, "worn": -0.14}
HEATINGS = {"heat pump": 0.05, "district": 0.02, "gas": 0.0, "oil": -0.04}
COLUMNS = (
    "house_id",
    "area_m2",
    "rooms",
    "built",
    "garden_m2",
    "condition",
    "heating",
    "traffic_db",
    "rent_per_m2",
    "town",
    "price",
)
TOWNS = {  # centre, spread, level of prices
    "Altstadt": ((0.0, 0.0), 1.0, 0.25),
    "Brook": ((5.0, 1.0), 0.8, 0.0),
    "Cresta": ((1.0, 5.0), 0.9, 0.1),
    "Dune": ((5.5, 5.5), 0.7, -0.1),
    "Eichen": ((-4.0, 3.5), 0.8, -0.2),
}


def make() -> tuple[list[list[str]], list[list[str]]]:
    """The rows of both tables, without their headers."""
    random = Random(SEED)  # noqa: S311 - nothing here is secret
    waves = [
        (random.gauss(0, 1.1), random.gauss(0, 1.1), random.uniform(0, 2 * math.pi))
        for _ in range(12)
    ]
    houses, places = [], []
    for number in range(HOUSES):
        town = random.choice(list(TOWNS))
        (x, y), spread, level = TOWNS[town]
        place = random.gauss(x, spread), random.gauss(y, spread)
        street = 0.12 * sum(math.sin(a * place[0] + b * place[1] + c) for a, b, c in waves)
        area = max(35.0, math.exp(random.gauss(4.75, 0.35)))
        rooms = max(1, round(area / 26 + random.gauss(0, 0.8)))
        built = round(2024 - 90 * random.random() ** 1.5)
        garden = 0.0 if random.random() < 0.3 else math.exp(random.gauss(5.3, 0.8))
        weights = [3, 4, 6, 4] if built > 1990 else [0, 4, 6, 5]
        condition = random.choices(list(CONDITIONS), weights)[0]
        heating = random.choice(list(HEATINGS))
        logarithm = (
            math.log(2.6)
            + 0.85 * math.log(area)
            + 0.12 * math.cos((2024 - built) / 28)  # old houses are charming, those between are not
            + 0.03 * math.log1p(garden)
            + CONDITIONS[condition]
            + HEATINGS[heating]
            + level
            + street
        )
        price = 1.3 * math.exp(logarithm + random.gauss(0, NOISE))
        rent = 11 + 4 * (street + level)
        cells = [
            f"h{number + 1:04d}",
            f"{area:.0f}",
            "" if random.random() < 0.05 else str(rooms),
            "" if random.random() < 0.04 else str(built),
            f"{garden:.0f}",
            "" if random.random() < 0.03 else condition,
            heating,
            "" if random.random() < 0.08 else f"{58 - 8 * street + random.gauss(0, 6):.1f}",
            "" if random.random() < 0.1 else f"{rent + random.gauss(0, 2):.2f}",
            town,
            "" if random.random() < NO_PRICE else f"{price:.1f}",
        ]
        houses.append(cells)
        places.append(place)
    pairs = set()
    for one, (x, y) in enumerate(places):
        distances = ((x - u) ** 2 + (y - v) ** 2 for u, v in places)
        nearest = sorted((d, other) for other, d in enumerate(distances) if other != one)[:NEAREST]
        pairs |= {(min(one, other), max(one, other)) for _, other in nearest}
    ends = [[houses[one][0], houses[other][0]] for one, other in sorted(pairs)]
    return houses, ends


def house_files() -> dict[str, bytes]:
    """Both tables by their file names."""
    houses, ends = make()
    files = {}
    for name, rows in (
        ("nodes.csv", [list(COLUMNS), *houses]),
        ("edges.csv", [["source", "target"], *ends]),
    ):
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows(rows)
        files[name] = stream.getvalue().encode()
    return files


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "houses"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in house_files().items():
        (folder / name).write_bytes(content)
