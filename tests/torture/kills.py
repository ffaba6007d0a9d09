"""SIGKILL at random moments: `python -m torture.kills`.

Every command is run once unbroken, and then again and again: killed at a moment that is uniform
over the duration of the unbroken run, started again, and compared with the unbroken one, times
aside. A process that is done before its moment counts as no kill, and another moment is drawn.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from contracts.small_runs import write_graph

TESTS = Path(__file__).parents[1]
MARK = "GRAPHDROP_TORTURE"
"""A variable by which the processes of a command are found, wherever they have gone."""
SETTINGS = (
    "--set model.hidden=8 --set train.evaluate_every=2 --set train.samples=2 "
    "--set predict.samples=3 --set train.checkpoint_seconds=0 --recipe paper --quiet"
)
RECIPE = """
title = "Table 1: test accuracy (%), small"
runs = 2
first_seed = 0
datasets = ["{graph}"]
layers = [2]
rows = [{{ name = "GCN-DO" }}, {{ name = "GCN-BBGDC" }}]

[[rules]]
set.model = {{ hidden = 8 }}
set.train = {{ epochs = 12, evaluate_every = 2, samples = 2 }}
set.predict = {{ samples = 2 }}

[quick]
runs = 1
"""
SEARCH = (
    RECIPE.partition("[quick]")[0].replace("runs = 2\n", "")
    + """
[[spaces]]
choose = {{ "model.dropout" = [0.1, 0.2, 0.3, 0.5] }}
"""
)
SEARCH = SEARCH.replace(
    "first_seed = 0",
    "draw_seed = 3\ntrials = 3\nfirst_seed = 50\nfinalists = 1\nfinalist_seeds = 1",
)


@dataclass(frozen=True)
class Command:
    """A command that is killed."""

    words: str
    """`<graph>`, `<run>` and `<out>` stand for paths."""
    kills: int
    trace: Callable[[Path], Any]
    """What it has left in a folder, times aside."""
    ranks: int = 0
    """Processes of torchrun; 0 without it."""


def of_run(folder: Path) -> Any:
    """All that a finished run has left."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return {
        "metrics": [_timeless(json.loads(line)) for line in lines],
        "result": _timeless(json.loads((folder / "result.json").read_text())),
        "selected": _sha256(folder / "best.safetensors"),
        "config": (folder / "config.toml").read_text(),
        "files": sorted(path.name for path in folder.iterdir()),
    }


def of_seeds(folder: Path) -> Any:
    return [of_run(path) for path in sorted(folder.glob("seed-*"))]


def of_records(folder: Path) -> Any:
    """The records of runs by key, how many there are, and the tables made of them."""
    found = {}
    for path in folder.rglob("*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        found[path.name] = sorted((_timeless(line) for line in lines), key=lambda one: one["key"])
    tables = {path.name: path.read_text() for path in folder.rglob("*.md")}
    return found, {name: _TIMES.sub("", text) for name, text in tables.items()}


_TIMES = re.compile(r"[^;]* of computing| \| [\d.]+ \|$", re.MULTILINE)


def of_files(folder: Path) -> Any:
    """The files but for what a killed process had begun."""
    return {
        str(path.relative_to(folder)): _sha256(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def of_page(folder: Path) -> Any:
    """The report, which names the time at which it was made."""
    text = (folder / "report.html").read_text()
    return re.sub(r"\d{4}-\d\d-\d\d[ T]?[\d:]*", "", text)


OUT = f"{SETTINGS} --out <out>"
COMMANDS = {
    "train": Command(f"train --dataset <graph> --epochs 15 {OUT} --resume", 60, of_run),
    "train-batches": Command(
        f"train --dataset <graph> --epochs 8 --batch-size 8 --fan-out 3,3 {OUT} --resume",
        20,
        of_run,
    ),
    "convert": Command("data convert <graph> <out>/store", 60, of_files),
    "fetch": Command("data fetch cora --root <out>", 40, of_files),
    "report": Command("report <run> -o <out>/report.html", 15, of_page),
    "reproduce": Command("experiments table1 --jobs 1 --out <out>", 10, of_records),
    "search": Command("experiments search table1 --jobs 1 --results <out>", 10, of_records),
    "ddp": Command(
        f"train --dataset <graph> --epochs 10 --batch-size 8 --fan-out 3,3 {OUT} --resume",
        10,
        of_run,
        ranks=2,
    ),
    "ray": Command(
        "train --dataset <graph> --epochs 10 --seeds 2 --executor ray --ray-address local "
        f"--jobs 1 {OUT}",
        10,
        of_seeds,
    ),
}
MEASURED = ("seconds", "cpu_seconds", "seconds_per_epoch", "peak_megabytes", "versions")


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(inner) for key, inner in value.items() if key not in MEASURED}
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class World:
    """A folder with a graph, a run, recipes and searches, and a process that starts commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = f"{os.getpid()}-{folder.name}"
        self.environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "NUMBA_NUM_THREADS": "1",
            "PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS.parent}:{TESTS}",
            "PYTHONWARNINGS": "ignore",
            "GRAPHDROP_DATA": str(folder / "none"),
            MARK: self.mark,
        }
        graph = write_graph(folder / "graph.npz")
        for kind, name, text in (
            ("recipes", "table1-paper", RECIPE),
            ("searches", "table1", SEARCH),
        ):
            (folder / kind).mkdir()
            (folder / kind / f"{name}.toml").write_text(text.format(graph=graph))
        self.log = (folder / "log").open("w")
        command = [sys.executable, "-m", "torture.kill_server", str(folder)]
        self.server = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=self.environment,
            cwd=folder,
        )
        assert self._answer() == "ready", (folder / "log").read_text()
        words = f"train --dataset {graph} --epochs 6 {SETTINGS} --out {folder / 'run'}"
        assert self.wait(self.start(words)) == 0, (folder / "log").read_text()

    def close(self) -> None:
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait()
        self.log.close()

    def start(self, words: str) -> int:
        return int(self._ask(words))

    def wait(self, process: int) -> int:
        return int(self._ask(f"wait {process}"))

    def _ask(self, line: str) -> str:
        assert self.server.stdin is not None
        self.server.stdin.write(line + "\n")
        self.server.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self.server.stdout is not None
        return self.server.stdout.readline().strip()

    def run(self, command: Command, out: Path, moment: float | None) -> tuple[int, float]:
        """Run a command, kill it at a moment if it is not done before; exit code and seconds."""
        words = command.words
        for name, path in (("graph", "graph.npz"), ("run", "run")):
            words = words.replace(f"<{name}>", str(self.folder / path))
        words = words.replace("<out>", str(out))
        start = time.monotonic()
        if command.ranks:
            code = self._run_ranks(command, words, moment)
        else:
            process = self.start(words)
            if moment is not None:
                time.sleep(max(0.0, moment - (time.monotonic() - start)))
                os.kill(process, signal.SIGKILL)
            code = self.wait(process)
        seconds = time.monotonic() - start
        if moment is not None:
            self.end_others()
        return code, seconds

    def _run_ranks(self, command: Command, words: str, moment: float | None) -> int:
        launch = [
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={command.ranks}",
        ]
        line = [sys.executable, *launch, "-m", "graphdrop", *words.split()]
        process = subprocess.Popen(
            line, env=self.environment, stdout=self.log, stderr=self.log, cwd=self.folder
        )
        try:
            return process.wait(timeout=moment)
        except subprocess.TimeoutExpired:
            process.kill()
            self.end_others()
            return process.wait()

    def end_others(self) -> None:
        """Kill what the command had started: its ranks, its workers, its cluster."""
        own = {os.getpid(), self.server.pid}
        deadline = time.monotonic() + 60
        while others := [one for one in marked(self.mark) if one not in own]:
            for one in others:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
            time.sleep(0.02)
            if time.monotonic() > deadline:
                raise AssertionError(f"processes {others} do not end")


def marked(mark: str) -> list[int]:
    """The living processes that have the mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}\0".encode() in (folder / "environ").read_bytes():
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                found += [int(folder.name)] if state not in "ZX" else []
        except OSError:
            continue
    return found


def kill(
    world: World, name: str, kills: int, random: Random, keep: Callable[[dict[str, Any]], object]
) -> None:
    """Kill a command so often; every restart must end like the unbroken run."""
    command = COMMANDS[name]
    out = world.folder / name / "out"
    if not command.ranks:  # what is compiled once
        _made(command, out)
        _unbroken(world, name, out)
        shutil.rmtree(out)
    _made(command, out)
    seconds = _unbroken(world, name, out)
    expected = command.trace(out)
    shutil.rmtree(out)
    found = {
        "seconds": round(seconds, 2),
        "kills": 0,
        "done_before": 0,
        "different": 0,
        "errors": 0,
    }
    while found["kills"] < kills:
        _made(command, out)
        code, _ = world.run(command, out, random.uniform(0.0, seconds))
        killed = code == -signal.SIGKILL
        found["kills" if killed else "done_before"] += 1
        if killed:
            code, _ = world.run(command, out, None)
            # A conversion that was killed when all was done says that its folder exists.
            same = code in (0, 2) and command.trace(out) == expected
            if code != 0 and not same:
                print(
                    f"{name}: exit code {code} after a kill",
                    (world.folder / "log").read_text()[-2000:],
                )
                found["errors"] += 1
            elif not same:
                print(f"{name}: another result after a kill")
                shutil.copytree(out, Path(tempfile.mkdtemp(prefix="torture-")) / "out")
                found["different"] += 1
        shutil.rmtree(out)
        keep(found)


def _unbroken(world: World, name: str, out: Path) -> float:
    code, seconds = world.run(COMMANDS[name], out, None)
    assert code == 0, f"{name} ended with {code}: {(world.folder / 'log').read_text()[-3000:]}"
    return seconds


def _made(command: Command, out: Path) -> None:
    if "--out <out>" not in command.words and "--results" not in command.words:
        out.mkdir(parents=True)
    out.parent.mkdir(parents=True, exist_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", action="append", choices=list(COMMANDS))
    parser.add_argument("--kills", type=int, help="of each command, in place of its own number")
    parser.add_argument("--share", type=float, default=1.0, help="of the number of each command")
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--output", type=Path, help="a JSON file for the counts")
    options = parser.parse_args()
    random, counts = Random(options.seed), dict[str, dict[str, Any]]()
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        world = World(Path(folder))
        try:
            for name in options.command or COMMANDS:
                kills = options.kills or max(1, round(options.share * COMMANDS[name].kills))
                kill(world, name, kills, random, partial(_kept, counts, name, options))
                print(f"{name}: {counts[name]}", flush=True)
        finally:
            world.close()
            world.end_others()
    total = _sums(counts)
    print(total, f"seed {options.seed}")
    sys.exit(1 if total["different"] or total["errors"] else 0)


def _sums(counts: dict[str, dict[str, Any]]) -> dict[str, int]:
    what = ("kills", "different", "errors")
    return {name: sum(one[name] for one in counts.values()) for name in what}


def _kept(
    counts: dict[str, dict[str, Any]],
    name: str,
    options: argparse.Namespace,
    found: dict[str, Any],
) -> None:
    """Write the counts after every kill."""
    counts[name] = found
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        about = {"seed": options.seed, "commands": counts, "total": _sums(counts)}
        options.output.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
