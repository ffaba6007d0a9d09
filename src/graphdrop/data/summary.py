"""Summary of a dataset, as numbers and as text."""

from dataclasses import dataclass

from torch_geometric.data import Data
from torch_geometric.utils import is_undirected

from graphdrop.data.edges import (
    EdgeChanges,
    adjusted_homophily,
    assortativity,
    edge_homophily,
    isolated_nodes,
)
from graphdrop.data.splits import Split, SplitSizes
from graphdrop.data.validate import is_labelled
from graphdrop.graph.validate import check_edge_index


@dataclass(frozen=True)
class Summary:
    """The statistics of a dataset.

    `edges` counts each undirected edge once, and each directed one if the graph is `directed`.
    `homophily` is the fraction of edges between labelled nodes whose ends share the class,
    `unlabelled` counts the nodes with no label, `isolated` those with no neighbour. `changes` says
    what happened to the edges that a file stores; None when there was no file. `stored_dtype` is
    the type in which a `Data` gave its features.
    """

    name: str
    nodes: int
    edges: int
    directed: bool
    features: int
    classes: int
    unlabelled: int
    isolated: int
    homophily: float
    """Of numbers: the correlation between the targets at the two ends of an edge."""
    split: str
    split_sizes: SplitSizes
    changes: EdgeChanges | None
    stored_dtype: str = "float32"
    adjusted: float | None = None
    """The homophily adjusted for the sizes of classes: 0 for what chance gives. None of numbers."""
    target: tuple[float, float, float, float] | None = None
    """Of numbers: the mean, the standard deviation, the lowest and the highest; else None."""

    def rows(self) -> list[tuple[str, str]]:
        """The statistics as text, `(name, value)`."""
        train, val, test = self.split_sizes
        rows = [
            ("nodes", f"{self.nodes:,}"),
            ("edges", f"{self.edges:,} {'directed' if self.directed else 'undirected'}"),
            ("features", f"{self.features:,}{self._converted}"),
            self._labels,
            ("split", f"{train:,} train / {val:,} val / {test:,} test ({self.split})"),
            self._homophily,
            ("isolated nodes", f"{self.isolated:,}"),
        ]
        if self.unlabelled:
            rows.append(("no label", f"{self.unlabelled:,} nodes, in no part of the split"))
        if self.changes is not None:
            rows.append(("stored entries", str(self.changes)))
        return rows

    @property
    def _labels(self) -> tuple[str, str]:
        if self.target is None:
            return "classes", f"{self.classes:,}"
        mean, deviation, low, high = self.target
        return "target", f"{mean:,.5g} ± {deviation:.4g}, from {low:,.5g} to {high:,.5g}"

    @property
    def _homophily(self) -> tuple[str, str]:
        if self.target is not None:
            return "assortativity", f"{self.homophily:.4f}"
        adjusted = "" if self.adjusted is None else f", adjusted {self.adjusted:.4f} (0 by chance)"
        return "homophily", f"{self.homophily:.4f}{adjusted}"

    @property
    def _converted(self) -> str:
        same = self.stored_dtype == "float32"
        return "" if same else f", made float32 from {self.stored_dtype}"

    def __str__(self) -> str:
        width = max(len(what) for what, _ in self.rows())
        lines = [f"  {what:<{width}}  {how_much}" for what, how_much in self.rows()]
        return "\n".join([self.name, *lines])


def summarise(
    name: str,
    data: Data,
    split: Split,
    num_classes: int,
    changes: EdgeChanges | None,
    *,
    stored_dtype: str = "float32",
) -> Summary:
    """Count what `Summary` holds."""
    num_nodes = check_edge_index(data.edge_index, int(data.x.shape[0]))
    labelled, target = is_labelled(data.y), None
    if data.y.is_floating_point():
        known = data.y[labelled].double()
        low, high = known.aminmax()
        target = float(known.mean()), float(known.std(correction=0)), float(low), float(high)
    directed = not is_undirected(data.edge_index, num_nodes=num_nodes)
    entries = int(data.edge_index.shape[1])
    loops = int((data.edge_index[0] == data.edge_index[1]).sum())
    drawn = "" if split.seed is None else f", seed {split.seed}"
    return Summary(
        name=name,
        nodes=num_nodes,
        edges=entries if directed else (entries - loops) // 2 + loops,
        directed=directed,
        features=int(data.x.shape[1]),
        classes=num_classes,
        unlabelled=int((~labelled).sum()),
        isolated=int(isolated_nodes(data.edge_index, num_nodes).sum()),
        homophily=edge_homophily(data.edge_index, data.y)
        if target is None
        else assortativity(data.edge_index, data.y),
        adjusted=None
        if target is not None
        else adjusted_homophily(data.edge_index, data.y, num_classes)[0],
        split=split.name + drawn,
        split_sizes=split.sizes,
        changes=changes,
        stored_dtype=stored_dtype,
        target=target,
    )
