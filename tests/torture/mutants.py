"""Mutation testing: `python -m torture.mutants --mutants 500 --seed 22`.

A mutant is the source of one module with one change: a comparison, an operator, a number, a
condition or a statement. The tests of `make test` that mirror the module are run on it, then those
of its package; a mutant that passes all of them survives. Mutants are drawn at random from all
there are, by a seed. The share of killed ones comes with its Wilson interval. Outcomes are kept as
they come: a second call goes on where the first one stopped, unless a module has changed since.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path
from random import Random

from torture.changes import Mutant, is_same, list_mutants, mutate

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "graphdrop"
LEFT_OUT = ("kernels/gpu/", "kernels/loops.py", "kernels/tiles.py", "__main__.py")
"""Modules without a part in `make test` that could see a change: machine code, and a GPU's."""
SECONDS = 300
"""After which tests on a mutant hang."""


def tests_of(path: Path) -> list[list[str]]:
    """Return the tests of a module: those of its name, then those of its package."""
    place = path.relative_to(SOURCE)
    folder = ROOT / "tests" / place.parts[0]
    own = [str(one) for one in (ROOT / "tests").rglob(f"test_{path.stem}.py")]
    return [tests for tests in (own, [str(folder)] if folder.is_dir() else []) if tests]


def passes(mutant: Mutant | None, path: Path) -> bool:
    """Return whether the tests of a module pass on a copy of the package with a change."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant is not None:
            text = ast.unparse(mutate(mutant))
            (copy / path.relative_to(ROOT / "src")).write_text(text)
        environment = os.environ | {
            "PYTHONPATH": f"{copy}:{ROOT}:{ROOT / 'tests'}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
        for tests in tests_of(path):
            try:
                done = subprocess.run(
                    [*command, *tests],
                    cwd=ROOT,
                    env=environment,
                    check=False,
                    capture_output=True,
                    timeout=SECONDS,
                )
            except subprocess.TimeoutExpired:
                return False
            if done.returncode != 0:
                return False
    return True


def wilson(hits: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """Return the 95 % interval of a share."""
    share, square = hits / count, z * z
    middle = (share + square / (2 * count)) / (1 + square / count)
    spread = math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    half = z / (1 + square / count) * spread
    return middle - half, middle + half


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--seed", type=int, default=22)
    parser.add_argument("--target", action="append", help="only modules with this in their path")
    parser.add_argument("--kept", type=Path, default=ROOT / "build" / "mutants.jsonl")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    places = {path: path.relative_to(SOURCE).as_posix() for path in sorted(SOURCE.rglob("*.py"))}
    paths = [path for path, place in places.items() if not place.startswith(LEFT_OUT)]
    if options.target:
        paths = [path for path in paths if any(word in str(path) for word in options.target)]
    every = [mutant for path in paths for mutant in list_mutants(path)]
    Random(options.seed).shuffle(every)
    chosen = list(islice((one for one in every if not is_same(one)), options.mutants))
    options.kept.parent.mkdir(parents=True, exist_ok=True)
    lines = options.kept.read_text().splitlines() if options.kept.exists() else []
    known = {(one["mutant"], one["sha256"]): one["outcome"] for one in map(json.loads, lines)}
    outcomes: dict[str, str] = {}
    for mutant in chosen:
        sha256 = hashlib.sha256(mutant.path.read_bytes()).hexdigest()
        control = f"{places[mutant.path]} as it is"  # what fails anyway would kill any mutant
        for name, change in ((control, None), (str(mutant), mutant)):
            if (name, sha256) not in known:
                outcome = "survived" if passes(change, mutant.path) else "killed"
                known[name, sha256] = outcome
                with options.kept.open("a") as file:
                    line = {"mutant": name, "sha256": sha256, "outcome": outcome}
                    file.write(json.dumps(line) + "\n")
                print(f"{outcome}: {name}", flush=True)
        if known[control, sha256] != "survived":
            sys.exit(f"a test of {control} fails: nothing it kills would count")
        outcomes[str(mutant)] = known[str(mutant), sha256]
    survivors = [name for name, outcome in outcomes.items() if outcome == "survived"]
    killed = len(outcomes) - len(survivors)
    low, high = wilson(killed, len(outcomes))
    print(
        f"{killed} of {len(outcomes)} mutants killed (95 %: {low:.1%} to {high:.1%}), of "
        f"{len(every)} there are, seed {options.seed}"
    )
    if options.output:
        found = {"seed": options.seed, "there_are": len(every), "mutants": len(outcomes)}
        found |= {"killed": killed, "low": round(low, 4), "high": round(high, 4)}
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(found | {"survivors": survivors}, indent=1) + "\n")
    sys.exit(0 if killed >= 0.9 * len(outcomes) else 1)


if __name__ == "__main__":
    main()
