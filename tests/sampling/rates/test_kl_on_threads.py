"""The KL of a rate per edge has the same bits on any number of threads."""

from collections.abc import Callable, Iterator

import pytest
import torch

from graphdrop.sampling.rates import BetaBernoulliRate, LearnedRate

ENTRIES = 300_000


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def on_threads(run: Callable[[], torch.Tensor]) -> set[float]:
    results = set()
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.add(run().item())
    return results


def test_the_kl_of_many_rates_does_not_depend_on_threads() -> None:
    rates = BetaBernoulliRate(entries=ENTRIES), LearnedRate(entropy_weight=0.1, entries=ENTRIES)
    torch.nn.init.normal_(rates[1].keep_logit, generator=torch.Generator().manual_seed(0))
    for rate in rates:
        assert len(on_threads(rate.kl)) == 1
