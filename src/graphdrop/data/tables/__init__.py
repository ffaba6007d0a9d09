"""Graphs from tables: nodes and edges in CSV or Parquet files, pandas or networkx."""

from graphdrop.data.tables.loading import apply_schema, from_networkx, from_pandas, load_tables

__all__ = ["apply_schema", "from_networkx", "from_pandas", "load_tables"]
