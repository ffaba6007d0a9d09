"""Tables of what the paper leaves for later say what their runs say."""

from contracts.made_up_records import fill, found_in, record_of
from experiments import extensions
from experiments.recipe import read_recipe
from experiments.store import Store


def test_the_general_form_stands_beside_the_others_with_its_time(tmp_path):
    fill(Store(tmp_path), "general")
    table = extensions.general(found_in(Store(tmp_path), "general")).tables["general"]
    assert table.columns == ["accuracy (%)", "NLL", "ECE (%)", "seconds per epoch"]
    assert [name for name, _ in table.rows][-1] == "one per pair of features"
    assert table.rows[-1][1][0][0] == "70.30 ± 0.00"


def test_global_free_and_amortised_rates_are_compared_by_accuracy_and_last_kl(tmp_path):
    fill(Store(tmp_path), "amortised")
    rendered = extensions.amortised(found_in(Store(tmp_path), "amortised"))
    table = rendered.tables["amortised"]
    rows = dict(table.rows)
    assert len(rows) == 3 * 5
    accuracy, _, kl = rows["cora, 4 layers, amortised, KL averaged"]
    assert (accuracy[0], kl[0]) == ("70.20 ± 0.00", "0.0702 ± 0.0000")


def test_what_was_learned_is_shown_of_the_averaged_kl_by_dataset_and_layer(tmp_path):
    store = Store(tmp_path)
    fill(store, "amortised")
    rendered = extensions.amortised(found_in(store, "amortised"))
    rows = rendered.tables["amortised-edges"].rows
    assert [name for name, _ in rows][:5] == [f"cora, layer {k}" for k in (1, 2, 3, 4)] + [
        "citeseer, layer 1"
    ]
    within, between, _, separation = rows[0][1]
    assert within == between  # the made-up figure: half of the accuracy
    assert (within[0], separation[0]) == ("0.351 ± 0.000", "0.600 ± 0.000")
    panels = rendered.figures["amortised"].axes
    assert [axes.get_title(loc="left") for axes in panels] == [
        "(a) cora",
        "(b) citeseer",
        "(c) cora_ml",
        "(d) cora, last layer",
        "(e) citeseer, last layer",
        "(f) cora_ml, last layer",
    ]


def test_a_network_of_one_pass_is_judged_without_mutual_information(tmp_path):
    rendered = extensions.out_of_distribution(found_in(Store(tmp_path), "ood"))
    assert [name for name, _ in rendered.tables["ood"].rows] == [
        "softmax, highest probability",
        "softmax, entropy",
        "Monte Carlo DropOut, entropy",
        "Monte Carlo DropOut, mutual information",
        "ensemble of 5, entropy",
        "ensemble of 5, mutual information",
        "GCN-BBGDC, entropy",
        "GCN-BBGDC, mutual information",
    ]


def test_deviation_is_over_runs_and_the_interval_over_seeds(tmp_path):
    store = Store(tmp_path)
    pubmed = next(
        cell
        for cell in read_recipe("ood-paper").cells(runs=2)
        if (cell.dataset, cell.row) == ("pubmed", "GCN-BBGDC")
    )
    for config in pubmed.configs:
        store.append(record_of(config, 0.6 + 0.1 * config.left_out + 0.02 * config.seed))
    rendered = extensions.out_of_distribution(found_in(store, "ood"))
    (cell,) = dict(rendered.tables["ood"].rows)["GCN-BBGDC, entropy"][3:]
    # Three classes and two seeds: 60, 70, 80 and 62, 72, 82; the seeds' means are 70 and 72.
    assert cell == ("71.00 ± 9.01", "95 % CI [58.29, 83.71], 6 runs, 2 seeds")
    (axes,) = rendered.figures["ood"].axes
    assert axes.lines[0].get_ydata().round(6).tolist() == [61.0, 71.0, 81.0]
    (accuracy,) = dict(rendered.tables["ood-accuracy"].rows)["GCN-BBGDC"][3:]
    assert accuracy == cell
    (precision,) = dict(rendered.tables["ood-aupr"].rows)["GCN-BBGDC, entropy"][3:]
    assert precision[0] == "30.00 ± 0.00"


def test_a_single_run_has_no_deviation(tmp_path):
    store = Store(tmp_path)
    cell = next(c for c in read_recipe("ood-paper").cells(runs=1) if c.dataset == "pubmed")
    store.append(record_of(cell.configs[0], 0.6))
    rendered = extensions.out_of_distribution(found_in(store, "ood"))
    assert dict(rendered.tables["ood-accuracy"].rows)[cell.row][3] == ("60.00", "1 run")
