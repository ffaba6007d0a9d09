"""The README as PyPI shows it: pictures and links lead to the repository, at the version's tag.

PyPI shows the README apart from the files around it, so that `docs/pictures/report.png` is nowhere.
Hatchling runs this when it builds (`tool.hatch.metadata` of `pyproject.toml`). The repository's
address is `Repository` of `project.urls`; while none is stated, the README stays as it is.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Readme(MetadataHookInterface):
    """Gives the metadata of a distribution its long description."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README to the metadata."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        repository = metadata.get("urls", {}).get("Repository")
        if repository:
            text = absolute(text, repository, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def absolute(text: str, repository: str, version: str) -> str:
    """The text with addresses of the repository in place of paths in it."""

    def whole(found: re.Match[str]) -> str:
        kind = "raw" if found["picture"] else "blob"
        return f"{found[0][: -len(found['path'])]}{repository}/{kind}/v{version}/{found['path']}"

    return re.sub(r"(?P<picture>!?)\[[^\]]*\]\((?P<path>(?![a-z]+:|#)[^)\s]+)", whole, text)
