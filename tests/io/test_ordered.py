"""A sum over many entries has the same bits on any number of threads."""

import pytest
import torch

from graphdrop.io.ordered import ordered_sum


def test_a_long_sum_is_the_sum_and_does_not_depend_on_threads() -> None:
    before = torch.get_num_threads()
    generator = torch.Generator().manual_seed(0)
    plain = 0
    try:
        for _ in range(10):
            values = torch.randn(300_000, generator=generator)
            sums, ordered = set(), set()
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                sums.add(values.sum().item())
                ordered.add(ordered_sum(values).item())
            plain += len(sums)
            (found,) = ordered
            assert found == pytest.approx(values.double().sum().item(), rel=1e-4)
    finally:
        torch.set_num_threads(before)
    assert plain > 10  # torch's own sum does depend on them


def test_the_sum_of_nothing_is_zero() -> None:
    assert ordered_sum(torch.zeros(0)).item() == 0
