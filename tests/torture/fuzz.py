"""Fuzzing of every entry: `python -m torture.fuzz --cases 112500`.

Each case is a mutation of valid files by its number; it ends in success or in one of the project's
named errors, or is a failure. The cases of an entry are done in a process of their own, with a
limit on its memory, and a process that dies is started again after the case at which it died.
"""

import argparse
import contextlib
import json
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

MEGABYTES = 1024
"""Of address space, for one entry, beyond what its imports take."""
LOADED = 64 * 2**20
"""The limit that loaders are told, in bytes."""
TESTS = Path(__file__).parents[1]
COUNTED = ("cases", "mutations", "read", "refused", "failed")
GENERATED = 0.15
"""The part of cases in which no file is a mutation of a valid one."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=112_500)
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--entry", action="append", help="only this one; may be repeated")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--together", action="store_true", help="all entries in one process")
    parser.add_argument("--output", type=Path, help="a JSON file for the counts")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options)
        return
    start = time.monotonic()
    wanted = shares(options)
    counts = {name: dict.fromkeys((*COUNTED, "peak_megabytes"), 0) for name in wanted}
    with tempfile.TemporaryDirectory(prefix="torture-", dir=_memory_folder()) as folder:
        for group in [wanted] if options.together else [{name: wanted[name]} for name in wanted]:
            supervise(group, counts, options, Path(folder))
            for name in group:
                print(f"{name}: {counts[name]}", flush=True)
    total = {what: sum(one[what] for one in counts.values()) for what in COUNTED}
    print(f"{total} in {time.monotonic() - start:.0f} s, seed {options.seed}")
    if options.output:
        text = json.dumps({"seed": options.seed, "entries": counts, "total": total}, indent=1)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(text + "\n")
    sys.exit(1 if total["failed"] else 0)


def shares(options: argparse.Namespace) -> dict[str, int]:
    """How many cases of which entry."""
    from torture.entries import ENTRIES  # noqa: PLC0415

    chosen = options.entry or list(ENTRIES)
    whole = sum(ENTRIES[name].share for name in chosen)
    return {name: max(3, -(-options.cases * ENTRIES[name].share // whole)) for name in chosen}


def supervise(
    wanted: dict[str, int],
    counts: dict[str, dict[str, int]],
    options: argparse.Namespace,
    folder: Path,
) -> None:
    """Do the cases in another process; one that dies is a failure, and the next one goes on."""
    left = {name: [options.first, options.first + count] for name, count in wanted.items()}
    deaths = 0
    while left:
        place = folder / "work"
        place.mkdir()
        (place / "left").write_text(json.dumps(left))
        (place / "case").write_bytes(bytes(8))
        (place / "counts").touch()
        command = [sys.executable, "-X", "faulthandler"]
        command += ["-m", "torture.fuzz", "--worker", str(place), "--seed", str(options.seed)]
        environment = environment_of(place)
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, cwd=place
        )
        for line in (place / "counts").read_text().splitlines():
            found = json.loads(line)
            _add(counts[found["entry"]], found)
            del left[found["entry"]]
        if not (place / "ready").exists():
            raise RuntimeError(done.stderr)
        if done.returncode:
            deaths += 1
            name, case = next(iter(left)), int.from_bytes((place / "case").read_bytes(), "little")
            said = f"case {case} ended the process with {done.returncode}: {done.stderr[-1500:]}"
            first, end = left[name]
            _add(
                counts[name],
                {"entry": name, "cases": case + 1 - first, "failed": 1, "failures": [said]},
            )
            left[name][0] = case + 1
            if case + 1 >= end or deaths > 20:
                del left[name]
        shutil.rmtree(place)


def _add(counts: dict[str, int], found: dict[str, Any]) -> None:
    for failure in found.get("failures", [])[:20]:
        print(f"FAILED {found['entry']}: {failure}", file=sys.stderr)
    for what in COUNTED:
        counts[what] += found.get(what, 0)
    counts["peak_megabytes"] = max(counts["peak_megabytes"], found.get("peak_megabytes", 0))


def work(options: argparse.Namespace) -> None:
    """The cases that are left, in this process."""
    import resource  # noqa: PLC0415

    from torture import guard  # noqa: PLC0415
    from torture.entries import ENTRIES  # noqa: PLC0415

    _prepare()
    left = json.loads((options.worker / "left").read_text())
    folders = {}
    for name in left:
        entry, base = ENTRIES[name], options.worker / "files" / name
        base.mkdir(parents=True)
        entry.make(base)
        folders[name] = sorted(path for path in base.iterdir() if path.is_dir())
        for folder in folders[name]:
            for number in range(entry.warm):  # imports and compiles; all is valid
                _quietly(entry, folder, Random(number))
    guard.install(MEGABYTES)
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "Sparse CSR tensor support", UserWarning)
    (options.worker / "ready").touch()
    with (options.worker / "case").open("r+b") as stream, mmap.mmap(stream.fileno(), 8) as place:
        for name, (first, end) in left.items():
            counts: Counter[str] = Counter()
            failures: list[str] = []
            for number in range(first, end):
                place[:8] = number.to_bytes(8, "little")
                seed = f"{options.seed} {name} {number}"
                verdict, mutation = _case(ENTRIES[name], folders[name], seed)
                counts.update({"cases": 1, "mutations": mutation, verdict.partition(":")[0]: 1})
                if verdict.startswith("failed"):
                    failures.append(f"case {number}: {verdict[8:]}")
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            line = {"entry": name, **counts, "failures": failures[:50], "peak_megabytes": peak}
            with (options.worker / "counts").open("a") as lines:
                lines.write(json.dumps(line) + "\n")


def _case(entry: Any, folders: list[Path], seed: str) -> tuple[str, bool]:
    """Change files, read them, put them back; what came of it, and whether it was a mutation."""
    from torture import entries, guard, mutations  # noqa: PLC0415

    random = Random(seed)
    folder = random.choice(folders)
    mutation = random.random() >= GENERATED or not entry.mutated
    if not entry.mutated:
        new: dict[Path, bytes | None] = {}
    elif mutation:
        new = entries.changed(folder, random)
    else:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        chosen = random.choice(files)
        new = {chosen: mutations.garbage(random)}
    old = {path: path.read_bytes() for path in new}
    for path, content in new.items():
        path.unlink() if content is None else path.write_bytes(content)
    try:
        folders = [folder] if entry.writes else []
        with guard.watched(*folders, evaluates=entry.name == "arguments") as seen:
            verdict = _verdict(entry, folder, random)
        return (f"failed: {seen[0]}" if seen else verdict), mutation
    finally:
        for path, content in old.items():
            path.write_bytes(content)
        if entry.name == "arguments":
            shutil.rmtree(folder / "out", ignore_errors=True)
        elif entry.name == "checkpoint":
            (folder / "damaged.safetensors").unlink(missing_ok=True)


def _verdict(entry: Any, folder: Path, random: Random) -> str:
    import traceback  # noqa: PLC0415

    from torture import guard  # noqa: PLC0415

    try:
        entry.read(folder, random)
    except (Exception, guard.HangsError) as error:
        if guard.is_named(error):
            return "refused"
        where = traceback.extract_tb(error.__traceback__)[-3:]
        places = " < ".join(f"{Path(one.filename).name}:{one.lineno}" for one in reversed(where))
        return f"failed: {type(error).__name__}: {str(error)[:300]} ({places})"
    return "read"


def _quietly(entry: Any, folder: Path, random: Random) -> None:
    with contextlib.suppress(ValueError, OSError, AssertionError):  # no case yet
        entry.read(folder, random)


def _prepare() -> None:
    import urllib.request  # noqa: PLC0415

    import torch  # noqa: PLC0415

    from graphdrop.data import download, planetoid  # noqa: PLC0415
    from torture.valid_files import VALIDATION  # noqa: PLC0415

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no network here")

    torch.set_num_threads(1)
    urllib.request.urlopen = refuse  # type: ignore[assignment]
    download.pip_download = refuse  # type: ignore[assignment]
    planetoid.PUBLIC_VALIDATION = VALIDATION  # of a graph of 14 nodes


def environment_of(folder: Path) -> dict[str, str]:
    root = TESTS.parent  # `experiments` writes some of the valid files
    limits = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return (
        os.environ
        | limits
        | {
            "PYTHONPATH": os.pathsep.join([*map(str, (root / "src", root, TESTS)), *_path()]),
            "GRAPHDROP_MAX_BYTES": str(LOADED),
            "GRAPHDROP_DATA": str(folder / "none"),
            "HOME": str(folder),
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
            "MALLOC_ARENA_MAX": "2",
        }
    )


def _path() -> list[str]:
    return [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []


def _memory_folder() -> str | None:
    """A file system in memory: a hundred thousand files are written."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


if __name__ == "__main__":
    main()
