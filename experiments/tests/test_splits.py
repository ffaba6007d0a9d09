"""``reproduce splits``: the paper's figure is placed among the splits that are there."""

from experiments.recipe import read_recipe
from experiments.splits import passage, splits, spreads
from experiments.target_runs import CellRuns, TargetRuns

RECIPE = read_recipe("splits-tuned")


def found(values: list[float]) -> TargetRuns:
    def record(seed: int, percent: float) -> dict:
        return {
            "seed": seed,
            "data": f"split {seed}",
            "seconds": 1.0,
            "versions": {"graphdrop": "0", "torch": "0"},
            "config": {"data": {"dataset": "cora_ml"}},
            "test": {"accuracy": percent / 100.0},
        }

    cells = [
        CellRuns(cell, [record(600 + k, value) for k, value in enumerate(values)], 0)
        for cell in RECIPE.cells()
    ]
    return TargetRuns("splits", RECIPE, "tuned", False, cells)


def test_a_split_at_the_papers_figure_counts_as_one_that_reaches_it():
    assert [one.printed for one in spreads(found([85.0]))] == [85.43, 83.45, 85.52, 81.51]
    two, _, four, _ = spreads(found([84.0, 85.42, 85.43, 85.6]))
    assert (two.above, four.above) == (2, 1)


def test_the_passage_and_the_table_have_quantiles_and_the_share():
    values = [80.0 + 0.2 * k for k in range(50)]
    said = passage(found(values))
    row = "| GCN-BBGDC, 2 layers | 50 | 84.90 ± 2.92 | 80.49 | 84.90 | 89.31 | 85.43 |"
    assert f"{row} 22 of 50 (44 %) |" in said
    assert "the paper's 85.43 % is reached on 22 of them, 44 %." in said
    assert said.count("- **GCN-BBGDC with ") == 2
    rendered = splits(found(values))
    assert "84.90 ± 2.92" in rendered.tables["splits"].to_markdown()
    (figure,) = rendered.figures.values()
    assert figure.axes[0].get_title(loc="left") == "GCN-BBGDC, 2 layers"
    assert len(figure.axes) == 4
    assert "printed 85.43" in {text.get_text() for text in figure.axes[0].texts}
