"""The control's tables: what a learned rate is worth, seed by seed."""

from contracts.made_up_records import record_of
from experiments.recipe import read_recipe
from experiments.store import Store
from experiments.tables import MINUS
from experiments.targets import Request, reproduce

ACCURACY = {"GCN-BBDE, learned": 0.83, "fixed at 0.5": 0.82, "fixed at 0.2": 0.84}


def test_differences_are_learned_minus_fixed_on_the_same_seeds(tmp_path):
    store = Store(tmp_path)
    for cell in read_recipe("control-tuned").cells(runs=2):
        for number, config in enumerate(cell.configs):
            store.append(record_of(config, ACCURACY[cell.row] + number / 100))
    request = Request(recipe="tuned", runs=2, render_only=True, out=tmp_path)
    (done,) = reproduce(["control"], request)
    assert set(done.rendering.tables) == {"control", "control-difference"}
    rows = dict(done.rendering.tables["control-difference"].rows)
    assert [cell[0] for cell in rows["learned minus fixed at 0.5"]] == ["1.00 ± 0.00"] * 2
    assert [cell[0] for cell in rows["learned minus fixed at 0.2"]] == [f"{MINUS}1.00 ± 0.00"] * 2
