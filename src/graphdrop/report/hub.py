"""Sharing a run on the Hugging Face Hub: ``push_to_hub`` and ``from_hub``.

PyG's ``PyGModelHubMixin`` saves the state of a class that derives from it. Models here are of any
class, and carry samplers, rates, a calibrator and their features, so the file that ``save`` writes
is shared instead, with a model card. ``huggingface_hub`` is installed by those who share; it finds
the user's token by itself.
"""

from __future__ import annotations

import json
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import nn

from graphdrop.config.toml import to_toml
from graphdrop.report.card import model_card
from graphdrop.train.folder import CONFIG, RESULT, stored_config
from graphdrop.train.model_file import BEST, load
from graphdrop.train.records import read_tensors, write_tensors

CARD, SETTINGS = "README.md", "config.json"


def export(run: str | Path, folder: str | Path) -> Path:
    """Write what is shared of a run into a folder: model, card, settings and result.

    Args:
        run: the folder of a finished run.
        folder: where to; it is made if it is not there.
    """
    run, folder = Path(run), Path(folder)
    card, config = model_card(run), stored_config(run)
    # without the folders of this machine, which are nobody else's concern
    names = {key: Path(getattr(config.data, key)).name for key in ("dataset", "edges")}
    data = config.data.model_copy(update={**names, "root": ""})
    config = config.model_copy(update={"data": data})
    plain = config.model_dump(mode="json")
    folder.mkdir(parents=True, exist_ok=True)
    tensors, header = read_tensors(run / BEST)
    write_tensors(folder / BEST, tensors, header | {"config": plain})
    result = json.loads((run / RESULT).read_text("utf-8")) | {"config": plain}
    for name, text in (
        (CARD, card),
        (CONFIG, to_toml(config)),
        (RESULT, json.dumps(result, indent=2) + "\n"),
        (SETTINGS, json.dumps({"library_name": "graphdrop", **plain}, indent=2) + "\n"),
    ):
        (folder / name).write_text(text, "utf-8")
    return folder


def push_to_hub(run: str | Path, repo_id: str, **options: Any) -> str:
    """Share a finished run: its model, its card, its settings and its result.

    Args:
        run: the folder of the run.
        repo_id: ``"user/name"``; it is made if it is not there.
        options: of ``huggingface_hub.HfApi.create_repo``, such as ``private=True``.

    Returns:
        The address of the commit.

    Example::

        push_to_hub("runs/papers", "me/papers", private=True)
    """
    api = _hub().HfApi()
    with tempfile.TemporaryDirectory() as folder:
        export(run, folder)
        api.create_repo(repo_id, exist_ok=True, **options)
        return str(api.upload_folder(repo_id=repo_id, folder_path=folder))


def from_hub(repo_id: str, model: nn.Module | None = None, **options: Any) -> Any:
    """Load a model that ``push_to_hub`` shared; it is data, and no code of it is run.

    Args:
        repo_id: ``"user/name"``.
        model: for a model of your own class, a newly built one; as in ``load``.
        options: of ``huggingface_hub.hf_hub_download``, such as ``revision="main"``.
    """
    return load(_hub().hf_hub_download(repo_id=repo_id, filename=BEST, **options), model)


def _hub() -> Any:
    try:
        return import_module("huggingface_hub")
    except ImportError as error:
        raise ImportError(
            "sharing needs huggingface_hub, which is not installed: run "
            "`pip install huggingface_hub`"
        ) from error
