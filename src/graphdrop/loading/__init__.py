"""Mini-batches: neighbour sampling and clusters, as PyG `Data` with the ids of the whole graph.

Layers draw their masks by these ids, so that a batch sees the masks of the full batch.
"""

from graphdrop.loading.cluster_loader import ClusterLoader
from graphdrop.loading.filtering import with_graph
from graphdrop.loading.neighbor_loader import NeighborLoader
from graphdrop.loading.whole import WholeGraph

__all__ = ["ClusterLoader", "NeighborLoader", "WholeGraph", "with_graph"]
