"""All that is too long for the suite, one part after the other: `make torture`, or one PART of it.

    python -m torture.run [fuzz|kills|endurance|mutants]...

Counts go to `results/torture`. A part that fails does not stop the others. `--share 0.01` runs a
hundredth of each, to see that all of it goes through: its counts go to a folder that is removed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "torture"
PARTS = {"fuzz": ("--cases", 112_500), "endurance": ("--fits", 1000), "mutants": ("--mutants", 500)}
"""How much of a part is run; `kills` has a number for each command."""
NAMES = ("fuzz", "kills", "endurance", "mutants")


def run_part(name: str, share: float, results: Path) -> int:
    """Run a part in a process of its own; of a share only its end is asked for."""
    output = results / f"{name}.json"
    words: tuple[object, ...] = ("--share", share)
    if name in PARTS:
        option, count = PARTS[name]
        words = (option, max(3, round(share * count)))
    path = f"{ROOT / 'src'}:{ROOT}:{ROOT / 'tests'}"
    done = subprocess.run(
        [sys.executable, "-m", f"torture.{name}", *map(str, words), "--output", str(output)],
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        check=False,
    )
    return done.returncode if share == 1.0 else int(not output.exists())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(NAMES))
    parser.add_argument("--share", type=float, default=1.0, help="of every part, above 0")
    options = parser.parse_args()
    if wrong := [name for name in options.parts if name not in NAMES]:
        sys.exit(f"{wrong[0]} is no part: give some of {', '.join(NAMES)}")
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        results = RESULTS if options.share == 1.0 else Path(folder)
        for name in options.parts or NAMES:
            start = time.monotonic()
            print(f"== {name}", flush=True)
            if run_part(name, options.share, results):
                failed.append(name)
            print(f"== {name}: {time.monotonic() - start:.0f} s", flush=True)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
