"""Mutated files end in success or in a named error, in a process with little memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from torture import fuzz
from torture.entries import ENTRIES

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits are Linux's")


CASES = 300


def fuzzed(folder: Path, *words: object) -> tuple[int, str, dict]:
    output = folder / "counts.json"
    command = [sys.executable, "-m", "torture.fuzz", *map(str, words), "--output", str(output)]
    environment = fuzz.environment_of(folder)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr, json.loads(output.read_text())


def test_mutated_files_of_every_entry_are_read_or_refused_by_name(tmp_path):
    code, said, counts = fuzzed(tmp_path, "--cases", CASES, "--together")
    assert code == 0, said
    assert set(counts["entries"]) == set(ENTRIES)
    total = counts["total"]
    assert total["cases"] >= CASES
    assert total["mutations"] >= 0.75 * total["cases"]
    assert total["read"] > 20
    assert total["refused"] > total["cases"] / 2


@pytest.mark.slow
def test_a_hundred_thousand_mutated_files_are_read_or_refused_by_name(tmp_path):
    code, said, _ = fuzzed(tmp_path)
    assert code == 0, said
