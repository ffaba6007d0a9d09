"""Does an installed graphdrop work? From tables to calibrated answers, and a model of PyG's own.

Run by the Python of the environment, from any folder but a checkout:

    python release/smoke.py path/to/examples
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = [sys.executable, "-m", "graphdrop"]


def run(*words: str | Path, cwd: Path) -> str:
    """What a command prints; its errors, if it fails, and no further."""
    began = time.monotonic()
    done = subprocess.run(
        [*COMMAND, *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"graphdrop {' '.join(map(str, words))} failed:\n{done.stderr[-3000:]}")
    print(f"  graphdrop {words[0]}: {time.monotonic() - began:.1f} seconds", flush=True)
    return done.stdout


def tables(examples: Path, folder: Path) -> None:
    """Train on the two tables, predict, write a report, and look at what came out."""
    nodes, edges = examples / "data" / "nodes.csv", examples / "data" / "edges.csv"
    given = ("--nodes", nodes, "--edges", edges, "--label", "paper_class", "--id", "paper_id")
    run("train", *given, "--out", "run", cwd=folder)
    run("predict", "run", "-o", "answers.csv", cwd=folder)
    run("report", "run", "-o", "report.html", cwd=folder)
    with (folder / "answers.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with nodes.open(encoding="utf-8", newline="") as file:
        known = [row["paper_id"] for row in csv.DictReader(file)]
    assert [row["id"] for row in rows] == known
    assert all(0.0 < float(row["probability"]) <= 1.0 for row in rows)
    assert {row["trust"] for row in rows} == {"yes", "no"}
    result = json.loads((folder / "run" / "result.json").read_text("utf-8"))
    assert result["calibration"]["name"], "the run is not calibrated"
    assert (folder / "report.html").stat().st_size > 10**5


def own_model() -> None:
    """Make a model of PyG's Bayesian and predict with it."""
    from torch_geometric.nn import GAT  # noqa: PLC0415

    from graphdrop import GraphDropConnect, attach, load_dataset, predict  # noqa: PLC0415

    data = load_dataset("synthetic").data
    model = GAT(data.num_features, 16, num_layers=2, out_channels=int(data.y.max()) + 1)
    attach(model, GraphDropConnect(blocks=2))
    answer = predict(model, data, samples=3)
    assert answer.probabilities.shape == (len(data.y), int(data.y.max()) + 1)
    assert float(answer.epistemic.max()) > 0, "samples of the network are all alike"
    print("  a GAT of PyG's, attached: predicts")


def main() -> None:
    """Run all checks in a folder of their own."""
    import graphdrop  # noqa: PLC0415

    place = Path(graphdrop.__file__).resolve()
    if "site-packages" not in place.parts:
        sys.exit(f"graphdrop is {place}: this checks an installed package, not a checkout")
    version = sys.version.partition(" ")[0]
    print(f"graphdrop {graphdrop.__version__} on Python {version}, {sys.platform}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        tables(Path(sys.argv[1]).resolve(), Path(folder))
    own_model()
    print("All is well.")


if __name__ == "__main__":
    main()
