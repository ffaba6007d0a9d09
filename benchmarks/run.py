"""Run every benchmark, or those named: ``python benchmarks/run.py [kernel step predict ...]``.

Each prints a table of figures beside what they have to reach, and writes it to
``benchmarks/results``. Run them alone: a busy machine spoils every ratio.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path

import torch


def main() -> int:
    here = Path(__file__).parent
    known = sorted(path.stem.removeprefix("bench_") for path in here.glob("bench_*.py"))
    # those of large graphs take long, and room on disk: see CONTRIBUTING.md
    wanted = sys.argv[1:] or [name for name in known if not name.startswith("scale")]
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        print(
            f"unknown benchmark {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr
        )
        return 2
    torch.set_num_threads(2)
    warnings.filterwarnings("ignore", message="Sparse")
    reached = [importlib.import_module(f"bench_{name}").main() for name in wanted]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
