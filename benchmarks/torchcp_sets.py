"""Mean sizes of TorchCP's prediction sets on our probabilities, measured once.

    python benchmarks/torchcp_sets.py export /tmp/probabilities --file DATA/amazon_photo.npz ...
    /tmp/torchcp/bin/python benchmarks/torchcp_sets.py measure /tmp/probabilities \\
        --out experiments/torchcp.json

`export` makes the missing runs of `python -m experiments sets` and keeps the probabilities of each.
`measure` runs in an environment of its own, with torch, torch_geometric, numpy, scipy and

    pip install --no-deps torchcp==1.2.1

TorchCP's package imports transformers, torchvision and torchsort; its scores and its split
predictor need none of them, so only their modules are imported. The divisions of the test nodes are
those of our table; TorchCP draws the random part of APS itself.

Two things differ by choice. TorchCP halves the scores of a node without neighbors, which then has
nearly all classes in its set; here such a node keeps its own scores. `sizes_joined` are TorchCP's
with every such node joined to itself. And TorchCP's search for similar features divides by 0 where
a node has no features, so that all scores are NaN: it is given the neighbors that `similar` finds.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

DIVISIONS, ALPHA = 100, 0.1


def export(folder: Path, files: list[str], out: Path) -> None:
    """The runs of the recipe, with what `measure` needs of each in a file."""
    from experiments import recipe, single_run  # noqa: PLC0415
    from experiments.keys import run_key  # noqa: PLC0415
    from experiments.store import Store  # noqa: PLC0415
    from graphdrop.inference import predict  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    count, store = single_run.set_scores, Store(out)

    def keeping(trainer: Any, divisions: int) -> dict[str, Any]:
        data, x = trainer.data, trainer.data.x
        arrays = {
            "probabilities": predict(trainer.model, data).probabilities,
            "x": x.to_dense() if x.layout != torch.strided else x,
            "edge_index": data.edge_index,
            "y": data.y,
            "test": trainer.rows["test"],
        }
        name = recipe.graph_name(trainer.config.data.dataset)
        np.savez(folder / f"{name}.npz", **{k: v.numpy() for k, v in arrays.items()})
        return count(trainer, divisions)

    single_run.set_scores = keeping
    for cell in recipe.read_recipe("sets-auto").cells(files=files):
        (config,) = cell.configs
        record = single_run.run_config(config)
        if run_key(config) not in store.records():
            store.append(record)
        print(cell.dataset, record["seconds"], flush=True)


def without_the_rest() -> None:
    """Let modules of TorchCP be imported without its package's own imports."""
    folder = Path(str(importlib.metadata.distribution("torchcp").locate_file("torchcp")))
    for name in ("torchcp", "torchcp.classification", "torchcp.graph"):
        package = types.ModuleType(name)
        package.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package


def division(nodes: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """As `experiments.set_coverage.division`."""
    order = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(number))
    half = len(nodes) // 2
    return nodes[order[:half].sort().values], nodes[order[half:].sort().values]


def similar(x: np.ndarray[Any, Any], k: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    """Edges to the `k` other nodes of highest cosine similarity, and that similarity."""
    rows = sparse.csr_matrix(x.astype(np.float64))
    length = np.sqrt(np.asarray(rows.multiply(rows).sum(1)).ravel())
    rows = (sparse.diags(1.0 / np.maximum(length, 1e-300)) @ rows).tocsr()
    edges, weights = [], []
    for start in range(0, len(x), 512):
        near = torch.from_numpy((rows[start : start + 512] @ rows.T).toarray())
        place = torch.arange(len(near))
        near[place, start + place] = 0.0
        top = near.topk(k, 1)
        source = (start + place)[:, None].expand_as(top.indices)
        known = top.values > 0
        edges.append(torch.stack([source[known], top.indices[known]]))
        weights.append(top.values[known].float())
    return torch.cat(edges, 1), torch.cat(weights)


def joined(edges: torch.Tensor, nodes: int) -> torch.Tensor:
    """The nodes that no edge leaves, joined to themselves, ``[2, m]``."""
    alone = torch.ones(nodes, dtype=torch.bool)
    alone[edges[0]] = False
    return alone.nonzero().flatten().expand(2, -1)


def sizes_of(path: Path, *, join: bool) -> dict[str, float]:
    """The mean size by score, over all divisions."""
    from torch_geometric.data import Data  # noqa: PLC0415
    from torchcp.classification.score.aps import APS  # noqa: PLC0415
    from torchcp.classification.score.lac import LAC  # noqa: PLC0415
    from torchcp.graph.predictor.split import SplitPredictor  # noqa: PLC0415
    from torchcp.graph.score import DAPS, SNAPS  # noqa: PLC0415

    read = {name: torch.from_numpy(value) for name, value in np.load(path).items()}
    probabilities, edges, nodes = read["probabilities"], read["edge_index"], len(read["y"])
    near, weight = similar(read["x"].numpy())
    if join:
        edges = torch.cat([edges, joined(edges, nodes)], 1)
        loops = joined(near, nodes)
        near, weight = torch.cat([near, loops], 1), torch.cat([weight, torch.ones(loops.shape[1])])
    # a node without a label is in no division, and its one-hot label is not read
    data = Data(x=read["x"], edge_index=edges, y=read["y"].clamp_min(0))
    aps: Callable[..., Any] = APS(score_type="identity")
    scores = {
        "lac": LAC(score_type="identity"),
        "aps": aps,
        "daps": DAPS(data, aps),
        "snaps": SNAPS(data, aps, knn_edge=near, knn_weight=weight),
    }
    label_mask = torch.nn.functional.one_hot(data.y, probabilities.shape[1]).bool()
    found = {}
    for name, score in scores.items():
        if join and name in ("lac", "aps"):
            continue
        predictor = SplitPredictor(data, score, alpha=ALPHA)
        sizes = []
        for number in range(DIVISIONS):
            torch.manual_seed(number)
            fitted, counted = division(read["test"], number)
            predictor.calculate_threshold(probabilities, fitted, label_mask)
            sizes.append(predictor.predict_with_logits(probabilities, counted).sum(1).double())
        found[name] = round(float(torch.cat(sizes).mean()), 5)
    return found


def measure(folder: Path, out: Path) -> None:
    """Write the sizes of every graph in the folder."""
    without_the_rest()
    torch.set_num_threads(1)
    sizes, with_loops = {}, {}
    for path in sorted(folder.glob("*.npz"), key=lambda path: path.stat().st_size):
        sizes[path.stem] = sizes_of(path, join=False)
        with_loops[path.stem] = sizes_of(path, join=True)
        print(path.stem, sizes[path.stem], with_loops[path.stem], flush=True)
    about = {"torchcp": importlib.metadata.version("torchcp"), "torch": torch.__version__}
    found = {**about, "divisions": DIVISIONS, "sizes": sizes, "sizes_joined": with_loops}
    out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("export", "measure"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--out", type=Path, default=Path("results"))
    given = parser.parse_args()
    if given.action == "export":
        export(given.folder, [str(Path(one).resolve()) for one in given.file], given.out)
    else:
        measure(given.folder, given.out)
