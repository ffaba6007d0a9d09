"""Tests here start from the same random state, whichever ran before them."""

import pytest
import torch


@pytest.fixture(autouse=True)
def same_state() -> None:
    torch.manual_seed(0)
