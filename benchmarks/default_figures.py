"""The default settings on several graphs, to see that a change of the code changed no answer.

    python benchmarks/default_figures.py --out before.jsonl cora citeseer FILE.npz ...
    python benchmarks/default_figures.py --compare before.jsonl after.jsonl

The first command trains the default with three seeds on every graph and writes a line for each; a
run that is stopped goes on where it was. The second prints the means of both files with the
difference and its 95 % interval over seeds.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from statistics import mean, stdev

from graphdrop import Config, Trainer

SCORES = ("accuracy", "nll", "ece")
T_OF_TWO = 4.303  # Student's t of 2 degrees of freedom, 97.5 %


def write_figures(graphs: list[str], out: Path, seeds: int) -> None:
    """Train the default on every graph with every seed, and append a line for each run."""
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    known = {(line["graph"], line["seed"]) for line in lines}
    for graph in graphs:
        for seed in range(seeds):
            name = Path(graph).stem
            if (name, seed) in known:
                continue
            began = time.process_time()
            result = Trainer(Config(seed=seed, data={"dataset": graph})).fit()
            line = {"graph": name, "seed": seed, "cpu_seconds": time.process_time() - began}
            line |= {score: result.test[score] for score in SCORES}
            with out.open("a") as stream:
                stream.write(json.dumps(line) + "\n")
            print(line, flush=True)


def compare_figures(before: Path, after: Path) -> None:
    """Print a table of both files' means and of the differences, seed by seed."""
    files = [
        {(line["graph"], line["seed"]): line for line in map(json.loads, path.open())}
        for path in (before, after)
    ]
    both = sorted(files[0].keys() & files[1].keys())
    print("| graph | score | before | after | difference |\n|---|---|---:|---:|---:|")
    for graph in dict.fromkeys(graph for graph, _ in both):
        for score in SCORES:
            old, new = ([file[key][score] for key in both if key[0] == graph] for file in files)
            gaps = [b - a for a, b in zip(old, new, strict=True)]
            half = T_OF_TWO * stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) == 3 else math.nan
            print(
                f"| {graph} | {score} | {mean(old):.4f} | {mean(new):.4f} "
                f"| {mean(gaps):+.4f} ± {half:.4f} |"
            )


def main() -> None:
    """Write or compare figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", help="names of datasets, or files")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--compare", type=Path, nargs=2)
    asked = parser.parse_args()
    if asked.compare:
        compare_figures(*asked.compare)
    else:
        write_figures(asked.graphs, asked.out, asked.seeds)


if __name__ == "__main__":
    main()
