"""Planetoid files as Python 2 wrote them."""

from collections.abc import Callable

import pytest

from contracts.python2_pickle import Python2Pickle, planetoid_files


@pytest.fixture(scope="session")
def python2() -> Python2Pickle:
    return Python2Pickle()


@pytest.fixture(scope="session")
def small_planetoid() -> Callable[[], dict[str, bytes]]:
    """The files of a ring of 512 nodes: 4 train, 500 validate, 2 known and unused, 4 test.

    Of the test range 506..511, nodes 507 and 510 are missing. Feature 0 of a node is its id plus
    one, its class is its id modulo 3.
    """
    return lambda: planetoid_files("ring", 512, 4, [511, 506, 509, 508], 506)
