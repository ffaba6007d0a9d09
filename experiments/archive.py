"""Finished runs moved from ``runs.jsonl`` into compressed files, one for every graph.

    python -m experiments.archive results worth

moves all lines of ``results/runs.jsonl`` to ``results/archive/runs.worth-GRAPH.jsonl.xz``. The same
lines give the same bytes. A process that is killed leaves every line in one of the two places or in
both, which reads the same.
"""

from __future__ import annotations

import fcntl
import json
import lzma
import sys
from pathlib import Path

from experiments.store import ARCHIVE, Store, unpacked
from graphdrop.io.files import replace_file


def archive(store: Store, name: str) -> list[Path]:
    """Move all whole lines of the file of a store into its archives; returns these.

    Args:
        store: nobody else may be reading it.
        name: of what they are, in the names of the archives before that of the graph.
    """
    known = store.records()
    if not store.path.exists():
        return []
    written = []
    with store.path.open("r+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        lines = [line for line in stream if line.endswith(b"\n")]
        by_graph: dict[str, dict[str, bytes]] = {}
        for line in lines:
            key = json.loads(line)["key"]
            graph = known[key].get("config", {}).get("data", {}).get("dataset", "other")
            by_graph.setdefault(Path(graph).stem, {}).setdefault(key, line)
        for graph, own in by_graph.items():
            path = store.folder / "archive" / f"{store.path.stem}.{name}-{graph}{ARCHIVE}"
            path.parent.mkdir(parents=True, exist_ok=True)
            before = unpacked(path).splitlines(keepends=True) if path.exists() else []
            there = {json.loads(line)["key"]: line for line in before}
            content = b"".join((there | own | there).values())  # a known key keeps its first line
            replace_file(path, lzma.compress(content, preset=9))
            written.append(path)
        stream.truncate(0)
    return written


def main(folder: str, name: str) -> None:
    """Archive the runs of a folder of results."""
    for path in archive(Store(folder), name):
        print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
