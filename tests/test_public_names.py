"""Everything public is where it is said to be, also after the packages are imported."""

import subprocess
import sys

import pytest

import graphdrop


def test_every_public_name_can_be_had():
    assert [name for name in graphdrop.__all__ if getattr(graphdrop, name) is None] == []
    assert set(graphdrop.__all__) <= set(dir(graphdrop))


def test_a_name_that_is_not_public_is_an_error():
    with pytest.raises(AttributeError, match="has no attribute 'GDC'"):
        graphdrop.GDC  # noqa: B018


@pytest.mark.parametrize("first", ["pass", "from graphdrop.inference import Predictive"])
def test_predict_is_a_function_whatever_was_imported_before(first):
    code = f"""{first}
import graphdrop, graphdrop.inference as room
from graphdrop import predict
import pickle
assert pickle.loads(pickle.dumps(graphdrop.predict)) is predict is room.predict
assert "samples" in __import__("inspect").signature(predict).parameters
try:
    predict(None, None, samples=-1)
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "samples" in done.stdout


HEAVY = ("torch", "torch_geometric", "numba", "scipy", "matplotlib", "pandas", "networkx", "ray")


def imported(code: str) -> set[str]:
    """The heavy packages that a process has imported after this code."""
    code = f"{code}\nimport sys\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_importing_the_package_brings_nothing_heavy():
    # Less than `import torch`, whatever the machine: names are imported when they are first used.
    assert imported("import graphdrop, graphdrop.cli") == set()
