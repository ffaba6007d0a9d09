"""All that is too long for the suite, one part after the other: `make torture`, or one PART of it.

    python -m torture.run [fuzz|loader-coverage|kills|endurance|mutants|slow|coverage]...

Counts go to `results/torture`. A part that fails does not stop the others. `--share 0.01` runs a
hundredth of each, to see that all of it goes through: its counts go to a folder that is removed,
and what is asked of the whole (memory, branches, killed mutants) is printed but not asked of it.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "torture"
SHARE = 1.0
"""How much of every part is run."""
CASES, FITS, MUTANTS = 112_500, 1000, 500
LOADERS = (
    "data/npz.py",
    "data/planetoid.py",
    "data/unpickle.py",
    "data/matrices.py",
    "data/store/manifest.py",
    "data/store/converting.py",
    "data/tables/files.py",
    "data/tables/table.py",
    "data/tables/columns.py",
    "data/tables/loading.py",
    "config/toml.py",
    "train/records.py",
)
"""The modules that read bytes which a stranger may have written."""
COVERED_CASES = 20_000
"""Cases whose branches are counted; counting makes them slow."""


NOTHING_CHOSEN = 5
"""The exit code of pytest when it has run no test."""


def python(*words: object, quiet: bool = False) -> int:
    path = f"{ROOT / 'src'}:{ROOT}:{ROOT / 'tests'}"
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    output = subprocess.DEVNULL if quiet else None
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, env=environment, cwd=ROOT, check=False, stdout=output).returncode


def scaled(count: int, least: int = 1) -> int:
    return max(least, round(SHARE * count))


def asked(code: int, output: Path) -> int:
    """The exit code, or of a share only whether it has come to its end."""
    return code if SHARE == 1.0 else int(not output.exists())


def fuzz() -> int:
    words = ("--cases", scaled(CASES), "--output", RESULTS / "fuzz.json")
    return python("-m", "torture.fuzz", *words, *(["--together"] if SHARE < 1.0 else []))


def loader_coverage() -> int:
    """Lines and branches of the loaders that the fuzz alone reaches."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["--cases", scaled(COVERED_CASES), "--coverage", folder]
        words += ["--together"] if SHARE < 1.0 else []
        code = python("-m", "torture.fuzz", *words)
        files = [f"src/graphdrop/{name}" for name in LOADERS]
        output = RESULTS / "loader-coverage.json"
        cases = scaled(COVERED_CASES)
        wanted = _summary(Path(folder), ",".join(files), output, 90.0, cases=cases)
        return code or asked(wanted, output)


def coverage() -> int:
    """Lines and branches that the default suite reaches in its own process.

    What Numba and Triton compile is left out by `pyproject.toml`; a process that a test starts is
    not counted. Every folder of tests is a process of its own, and what it reached is kept in
    `build/coverage`: a second call goes on where the first one stopped, unless a file has changed.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if SHARE < 1.0 else _kept_for(ROOT / "build" / "coverage")
        names = ["metrics"] if SHARE < 1.0 else _parts_of_the_suite()
        failed = 0
        for name in names:
            if (done := folder / f"{name}.done").exists():
                continue
            print(f"tests/{name}", flush=True)
            words = (
                "run",
                f"--data-file={folder}/.coverage.{name}",
                "-m",
                "pytest",
                "-q",
                "-n",
                "0",
            )
            code = python("-m", "coverage", *words, f"tests/{name}")
            if code in (0, NOTHING_CHOSEN):
                done.touch()
            else:
                failed = code
        output = RESULTS / "coverage.json"
        wanted = _summary(folder, "src/graphdrop/*", output, 95.0, together=True)
        return failed or asked(wanted, output)


def _parts_of_the_suite() -> list[str]:
    files = {path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")}
    return sorted({path.parts[0] for path in files})


def _kept_for(folder: Path) -> Path:
    """A folder that is emptied when the package or its tests have changed."""
    paths = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")])
    together = hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
    mark = folder / "sources"
    if not mark.exists() or mark.read_text() != together:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        mark.write_text(together)
    return folder


def _summary(
    folder: Path,
    include: str,
    output: Path,
    wanted: float,
    *,
    together: bool = False,
    **more: int,
) -> int:
    """Counts from coverage.py's data: all modules together, and each."""
    data = f"--data-file={folder}/.coverage"
    python("-m", "coverage", "combine", "--keep", "--quiet", data, folder)
    python("-m", "coverage", "json", "--quiet", data, f"--include={include}", "-o", folder / "json")
    found = json.loads((folder / "json").read_text())

    def shares(summary: dict[str, int]) -> dict[str, float | int]:
        branches = summary["num_branches"]
        return {
            "lines": summary["num_statements"],
            "lines_reached": summary["covered_lines"],
            "branches": branches,
            "branches_reached": summary["covered_branches"],
        }

    files = {name: shares(one["summary"]) for name, one in sorted(found["files"].items())}
    total = shares(found["totals"])
    line = 100.0 * total["lines_reached"] / total["lines"]
    branch = 100.0 * total["branches_reached"] / total["branches"]
    print(f"{line:.1f} % of {total['lines']} lines, {branch:.1f} % of {total['branches']} branches")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({**more, "total": total, "files": files}, indent=1) + "\n")
    reached = 100.0 * (total["lines_reached"] + total["branches_reached"])
    both = reached / (total["lines"] + total["branches"])
    print(f"{both:.1f} % of lines and branches together")
    return int((both if together else min(line, branch)) < wanted)


def kills() -> int:
    share = ("--share", SHARE) if SHARE < 1.0 else ()
    return python("-m", "torture.kills", *share, "--output", RESULTS / "kills.json")


def endurance() -> int:
    output = RESULTS / "endurance.json"
    words = ("--fits", scaled(FITS, 10), "--output", output)
    return asked(python("-m", "torture.endurance", *words), output)


def mutants() -> int:
    output = RESULTS / "mutants.json"
    words = ["--mutants", scaled(MUTANTS, 3), "--output", output]
    if SHARE < 1.0:  # counting what tests reach takes longer than a few mutants
        words += ["--by-name", "--folder", RESULTS / "mutants"]
    return asked(python("-m", "torture.mutants", *words), output)


def slow() -> int:
    """The tests marked so, without the fuzz, which is a part of its own."""
    words = ("-q", "-n", "0", "-m", "slow", "tests/torture", "-k", "not hundred")
    return python("-m", "pytest", *words)


PARTS: dict[str, Callable[[], int]] = {
    "fuzz": fuzz,
    "loader-coverage": loader_coverage,
    "kills": kills,
    "endurance": endurance,
    "mutants": mutants,
    "slow": slow,
    "coverage": coverage,
}


def main() -> None:
    global RESULTS, SHARE  # noqa: PLW0603 - what all parts share
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--share", type=float, default=1.0, help="of every part, above 0")
    options = parser.parse_args()
    if wrong := [name for name in options.parts if name not in PARTS]:
        sys.exit(f"{wrong[0]} is no part: give some of {', '.join(PARTS)}")
    SHARE = options.share
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        RESULTS = RESULTS if SHARE == 1.0 else Path(folder)
        for name in options.parts or PARTS:
            start = time.monotonic()
            print(f"== {name}", flush=True)
            if PARTS[name]():
                failed.append(name)
            print(f"== {name}: {time.monotonic() - start:.0f} s", flush=True)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
