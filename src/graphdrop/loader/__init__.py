"""Mini-batches: neighbour sampling and clusters, as PyG `Data` with the ids of the whole graph.

Layers draw their masks by these ids, so that a batch sees the masks of the full batch.
"""

from graphdrop.loader.batch import BatchGraph
from graphdrop.loader.cluster_loader import ClusterLoader
from graphdrop.loader.filtering import with_graph
from graphdrop.loader.neighbor_loader import NeighborLoader
from graphdrop.loader.whole import WholeGraph

__all__ = ["BatchGraph", "ClusterLoader", "NeighborLoader", "WholeGraph", "with_graph"]
