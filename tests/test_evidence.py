"""What the pages quote is what the committed results say."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = "\n".join(p.read_text("utf-8") for p in sorted((ROOT / "results").rglob("*.md")))
QUOTED = re.compile(r"\d+\.\d+ ± \d+\.\d+")


@pytest.mark.parametrize(
    "page", ["README.md", "docs/evidence.md", "docs/general-form.md", "docs/local-rates.md"]
)
def test_every_mean_and_deviation_on_a_page_is_in_a_table_of_the_results(page):
    quoted = set(QUOTED.findall((ROOT / page).read_text("utf-8")))
    assert quoted, f"{page} quotes no result"
    assert {one for one in quoted if one not in RESULTS} == set()
