"""Starts commands quickly, so that many can be killed: `python -m torture.kill_server FOLDER`.

It is `contracts/killable.py` in a small world: recipes and searches of FOLDER, a dataset whose
files come slowly from no network, and worker processes that are forked, since to import torch in
each of them would take most of the time.
"""

import hashlib
import multiprocessing
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Self

from contracts import killable

FILES = {f"ind.cora.part{number}": bytes([number]) * 40_000 for number in range(6)}
"""What `data fetch cora` fetches here."""


class Slow:
    """The answer to a request, some milliseconds for every part of a file."""

    def __init__(self, content: bytes) -> None:
        self.content, self.headers = content, {"Content-Length": str(len(content))}

    def read(self, size: int) -> bytes:
        time.sleep(0.005)
        size = min(size, 8_000)
        part, self.content = self.content[:size], self.content[size:]
        return part

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def main(folder: Path) -> None:
    import matplotlib.pyplot  # noqa: F401, PLC0415 - what takes seconds is done before the fork

    import graphdrop.report  # noqa: F401, PLC0415
    from experiments import recipe, search  # noqa: PLC0415
    from experiments.__main__ import main as command  # noqa: PLC0415
    from graphdrop.data import sources  # noqa: PLC0415

    forked = multiprocessing.get_context("fork")
    multiprocessing.get_context = lambda _method=None: forked  # type: ignore[assignment]
    recipe.recipes_folder = lambda: folder / "recipes"
    search.searches_folder = lambda: folder / "searches"
    files = tuple(
        sources.SourceFile(name, len(content), hashlib.sha256(content).hexdigest())
        for name, content in FILES.items()
    )
    sources.SOURCES["cora"] = replace(sources.SOURCES["cora"], files=files)  # type: ignore[index]
    urllib.request.urlopen = lambda url, **_: Slow(FILES[url.rpartition("/")[2]])  # type: ignore
    killable.main({"experiments": command})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
