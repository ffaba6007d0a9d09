"""Mutation testing: `python -m torture.mutants --mutants 500`.

A mutant is the source of one module with one change: a comparison, an operator, a number, a
condition or a statement. The tests that reach the changed lines are run on it, the fastest first; a
mutant that passes all of them survives. Mutants are drawn at random from all there are, by a seed
that is printed, and the share of killed ones comes with its Wilson interval. Which test reaches
which line is counted first. Outcomes are kept as they come: a second call goes on where the first
one stopped, unless a module has changed since (to begin anew remove the folder), and `--again`
tries the survivors once more, with tests that are new.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import json
import math
import os
import sys
import time
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from torture.changes import Mutant, is_same, mutants_of, mutated
from torture.forked_tests import OPTIONS, Client, forked, sha

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "graphdrop"
TARGETS = (
    "sampling/rates/*.py",
    "sampling/estimators/*.py",
    "sampling/samplers/*.py",
    "kernels/reference.py",
    "metrics/*.py",
    "calibration/*.py",
)
TESTS = (
    "tests/metrics",
    "tests/sampling/estimators",
    "tests/calibration",
    "tests/inference/test_gaussian.py",
    "tests/inference/test_labels.py",
    "tests/kernels/test_reference.py",
    "tests/sampling/samplers",
    "tests/sampling/rates",
    "tests/nn/test_rows.py",
    "tests/test_doctests.py",
)
EXPRESSION = ("-k", "not doctests or rates or estimators or samplers or metrics or calibration")
RELATED = {
    "sampling": ("tests/sampling/", "tests/nn/test_rows.py"),
    "kernels": ("tests/kernels/test_reference.py", "tests/sampling/estimators/"),
    "metrics": ("tests/metrics/",),
    "calibration": ("tests/calibration/",),
}
"""The tests of a package, for those of which it was not counted what they reach."""
MOST_SECONDS = 8.0
"""Of processor time for the tests on one mutant, the fastest first; then it has survived."""
MOST_IMPORTED = 200
"""Tests on a mutant that is run at import, for which all is imported anew."""


class Reach:
    """Which tests reach a line, and how long they take."""

    def __init__(self, path: Path, server: Client, *, count: bool) -> None:
        shas = {name: one["sha256"] for name, one in self._read(path).items()}
        if count and server.ask("reach", path=str(path), known=shas) != "survived":
            sys.exit("the tests could not be run without a mutant")
        self.names, known = server.ask("names"), self._read(path)
        self.known = {
            name: known[name] for name, now in self.names.items() if _same(known.get(name), now)
        }

    @staticmethod
    def _read(path: Path) -> dict[str, Any]:
        lines = path.read_text().splitlines() if path.exists() else []
        return {one["name"]: one for one in map(json.loads, lines)}

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests that reach a mutant, the fastest first, then those of which it is not known."""
        file = str(mutant.path.relative_to(ROOT))
        first, last = mutant.lines
        package = mutant.path.relative_to(SOURCE).parts[0]
        reached, others = [], []
        for name, one in self.known.items():
            lines = one["lines"].get(file, [])
            if not one["passed"]:
                continue
            if any(first <= line <= last for line in lines):
                reached.append(name)
            elif lines:
                others.append(name)
            elif not (mutant.inside or one["lines"]) and name.startswith(RELATED[package]):
                reached.append(name)  # it looks at what a class says of itself
        for names in (reached, others):
            names.sort(key=lambda name: self.known[name]["seconds"])
        own = f"/test_{mutant.path.stem}.py"
        unknown = [name for name in self.names if name not in self.known]
        unknown = [name for name in unknown if name.startswith(RELATED[package])]
        unknown += [
            name
            for name in self.names
            if name not in self.known and name.endswith(f"[graphdrop.{_module(mutant.path)}]")
        ]
        found = reached + sorted(unknown, key=lambda name: own not in name)
        # what no test reaches is run at import, or never
        return found + others if not (found and mutant.inside) else found

    def few(self, mutant: Mutant, names: list[str], seconds: float) -> list[str]:
        """The tests that fit in so many seconds, those of the module itself first."""
        own, total, found = f"/test_{mutant.path.stem}.py", 0.0, list[str]()
        for name in sorted(names, key=lambda name: own not in name):  # else in their order
            total += self.known[name]["seconds"] if name in self.known else 0.1
            if total > seconds or len(found) == MOST_IMPORTED:
                break
            found.append(name)
        return found or names[:1]

    def limit(self, names: list[str], seconds: float) -> float:
        """Processor seconds after which tests on a mutant hang: thrice what they take, and 10."""
        total = 0.0
        for name in names:
            if name not in self.known:
                return 4 * seconds + 60.0
            total += self.known[name]["seconds"]
            if total > seconds:
                break
        return 3 * total + 10.0


def _same(known: dict[str, Any] | None, sha256: str) -> bool:
    return known is not None and known["sha256"] == sha256


def _has(name: str, words: list[str] | None) -> bool:
    return not words or any(word in name for word in words)


def _module(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def outcome(mutant: Mutant, reach: Reach, server: Client, seconds: float) -> str:
    names = reach.tests(mutant)
    if not names:
        return "survived"
    found = "cannot"
    if mutant.inside:
        change = [str(mutant.path), *list(asdict(mutant).values())[1:]]
        limit = reach.limit(names, seconds)
        found = server.ask("mutant", change=change, names=names, seconds=seconds, limit=limit)
    if found == "cannot":  # it is run when the module is imported
        few = reach.few(mutant, names, seconds)
        found = forked(lambda folder: _imported(mutant, few, folder), 4 * seconds + 60.0)
    return found


def _control(mutant: Mutant, reach: Reach, server: Client, options: argparse.Namespace) -> None:
    """Run the tests of a module once without a mutant: else what fails anyway would kill it."""
    kept = options.folder / "controls.jsonl"
    lines = kept.read_text().splitlines() if kept.exists() else []
    place = str(mutant.path.relative_to(SOURCE))
    known = {one["module"]: one["outcome"] for one in map(json.loads, lines)}
    if place not in known:
        names = reach.tests(mutant)
        seconds, limit = options.seconds, reach.limit(names, options.seconds)
        known[place] = server.ask("mutant", change=None, names=names, seconds=seconds, limit=limit)
        with kept.open("a") as file:
            file.write(json.dumps({"module": place, "outcome": known[place]}) + "\n")
    if known[place] != "survived":
        test = server.ask("last_failed")
        sys.exit(f"{test} fails without a mutant of {place}: nothing it kills would count")


def _imported(mutant: Mutant, names: list[str], folder: Path) -> int:
    """Run the tests in this process, which has not imported the package, on the mutant."""
    code = compile(mutated(mutant), str(mutant.path), "exec", dont_inherit=True)
    loader = importlib.machinery.SourceFileLoader
    original = loader.get_code

    def get_code(self: Any, name: str) -> Any:
        mine = os.path.realpath(self.path) == os.path.realpath(mutant.path)
        return code if mine else original(self, name)

    loader.get_code = get_code  # type: ignore[method-assign]
    temporary = ["--basetemp", str(folder / "tests"), "--rootdir", str(ROOT)]
    return 0 if int(pytest.main([*OPTIONS, "-x", *temporary, *names])) == 0 else 1


def wilson(hits: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share."""
    if not count:
        return 0.0, 1.0
    share, square = hits / count, z * z
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = (
        z / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    )
    return middle - half, middle + half


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--minutes", type=float, help="stop after so many, with fewer mutants")
    parser.add_argument("--target", action="append", help="only modules with this in their path")
    parser.add_argument("--again", action="store_true", help="try the survivors once more")
    parser.add_argument("--only", action="append", help="of the survivors those with this name")
    parser.add_argument("--seconds", type=float, default=MOST_SECONDS, help="of tests on a mutant")
    parser.add_argument("--by-name", action="store_true", help="do not count what tests reach")
    parser.add_argument("--controls", action="store_true", help="only run tests without a mutant")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    paths = [path for pattern in TARGETS for path in sorted(SOURCE.glob(pattern))]
    if options.target:
        paths = [path for path in paths if any(word in str(path) for word in options.target)]
    every = [mutant for path in paths for mutant in mutants_of(path)]
    Random(options.seed).shuffle(every)
    chosen = list(islice((one for one in every if not is_same(one)), options.mutants))
    options.folder.mkdir(parents=True, exist_ok=True)
    kept = options.folder / "outcomes.jsonl"
    sums = {one: sha(one) for one in paths}
    right = {str(one): sums[one.path] for one in chosen}
    lines = kept.read_text().splitlines() if kept.exists() else []
    records = [one for one in map(json.loads, lines) if right.get(one["mutant"]) == one["sha256"]]
    known = {one["mutant"]: one["outcome"] for one in records}
    first = {one["mutant"]: one["outcome"] for one in reversed(records)}
    _import_what_takes_time()
    server = Client([*(str(ROOT / name) for name in TESTS), *EXPRESSION], paths)
    reach = Reach(options.folder / "reach.jsonl", server, count=not options.by_name)
    start = time.monotonic()
    for mutant in chosen:
        name = str(mutant)
        _control(mutant, reach, server, options)
        if options.controls:
            continue
        if known.get(name, "survived" if options.again else "") not in ("", "survived"):
            continue
        if name in known and not (options.again and _has(name, options.only)):
            continue
        if options.minutes and time.monotonic() - start > 60 * options.minutes:
            break
        began = time.monotonic()
        known[name] = outcome(mutant, reach, server, options.seconds)
        first.setdefault(name, known[name])
        seconds = round(time.monotonic() - began, 2)
        record = {"mutant": name, "outcome": known[name], "sha256": right[name], "seconds": seconds}
        with kept.open("a") as file:
            file.write(json.dumps(record) + "\n")
        if known[name] == "survived":
            print(f"survived: {name}", flush=True)
    server.close()
    sys.exit(_summary(options, [str(one) for one in chosen], known, first, len(every)))


def _summary(
    options: argparse.Namespace,
    chosen: list[str],
    known: dict[str, str],
    first: dict[str, str],
    there_are: int,
) -> int:
    tried = [name for name in chosen if name in known]
    survivors = [name for name in tried if known[name] == "survived"]
    killed = len(tried) - len(survivors)
    low, high = wilson(killed, len(tried))
    share = killed / max(1, len(tried))
    print(
        f"{killed} of {len(tried)} mutants killed: {share:.1%} "
        f"(95 %: {low:.1%} to {high:.1%}), of {there_are} there are, seed {options.seed}"
    )
    if options.output:
        controls = (options.folder / "controls.jsonl").read_text().splitlines()
        counts = {
            "seed": options.seed,
            "there_are": there_are,
            "mutants": len(tried),
            "killed": killed,
            "killed_at_first": sum(first[name] != "survived" for name in tried),
            "timeouts": sum(known[name] == "timeout" for name in tried),
            "modules_whose_tests_pass_without_a_mutant": len(controls),
            "low": round(low, 4),
            "high": round(high, 4),
            "survivors": survivors,
        }
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(counts, indent=1) + "\n")
    return 0 if share >= 0.85 else 1


def _import_what_takes_time() -> None:
    """All but the package itself, which is imported with a mutant in it."""
    import numba  # noqa: F401, PLC0415
    import pandas  # noqa: F401, PLC0415
    import pydantic  # noqa: F401, PLC0415
    import scipy.special  # noqa: PLC0415
    import scipy.stats  # noqa: F401, PLC0415
    import sklearn.metrics  # noqa: F401, PLC0415
    import torch  # noqa: F401, PLC0415
    import torch_geometric  # noqa: PLC0415
    import torch_geometric.nn  # noqa: F401, PLC0415
    import torchmetrics  # noqa: F401, PLC0415
    import typer  # noqa: F401, PLC0415

    assert "graphdrop" not in sys.modules


if __name__ == "__main__":
    main()
