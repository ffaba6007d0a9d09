"""Settings are checked, explained, filled in by the method's recipe, and survive a file."""

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from graphdrop import config
from graphdrop.config import Config, Method, toml


@pytest.mark.parametrize(
    ("dataset", "layers", "l2", "warmup"),
    [("cora", 2, 5e-3, 0), ("Citeseer", 4, 1e-2, 40), ("Cora-ML", 4, 1e-3, 20)],
)
def test_the_papers_recipe_depends_on_the_dataset_and_the_depth(dataset, layers, l2, warmup):
    asked = {"recipe": "paper", "data": {"dataset": dataset}, "model": {"layers": layers}}
    settings = config.settle(asked)
    assert (settings.objective.l2, settings.objective.warmup) == (l2, warmup)


@pytest.mark.parametrize("method", [Method.GCN_DO, Method.GCN_DE])
def test_a_baseline_is_trained_as_a_gcn_usually_is(method):
    asked = {"data": {"dataset": "citeseer"}, "model": {"method": str(method)}}
    settings = config.settle({"recipe": "paper"} | asked)
    assert (settings.model.norm, settings.model.init) == ("sym", "glorot")
    assert settings.data.features == "row"
    # Half of 5e-4, because the objective has no 1/2.
    assert (settings.objective.l2, settings.objective.l2_layers) == (2.5e-4, "first")
    assert settings.objective.l2_factor == "one"
    assert settings.train.learning_rate == 0.01
    assert settings.predict.masks == "off"
    assert settings.model.dropout == (0.5 if "DO" in method.split("-") else 0.0)


def test_what_is_given_wins_over_the_recipe():
    asked = {"model": {"method": "GCN-DE", "norm": "row"}, "objective": {"l2": 1.0}}
    settings = config.settle({"recipe": "paper"} | asked)
    assert (settings.model.norm, settings.objective.l2) == ("row", 1.0)
    assert settings.model.init == "glorot"


def test_a_section_can_be_given_as_an_object():
    section = config.ModelSettings(method=Method.GCN_DE, layers=3)
    assert Config(model=section) == config.settle({"model": {"method": "GCN-DE", "layers": 3}})


@pytest.mark.parametrize("method", [Method.GCN, Method.GCN_BBGDC_ARM])
def test_the_written_file_gives_the_same_settings_back(method, tmp_path):
    settings = config.settle({"seed": 7, "model": {"method": str(method), "blocks": "feature"}})
    file = tmp_path / "config.toml"
    file.write_text(toml.to_toml(settings), encoding="utf-8")
    assert config.settle(toml.read(file)) == settings


@hypothesis_settings(deadline=None)  # a busy machine is no failure
@given(st.text())
def test_any_text_survives_the_file(text):
    settings = Config(data=config.DataSettings(dataset=text))
    assert config.settle(tomllib.loads(toml.to_toml(settings))) == settings


def test_the_written_file_explains_every_setting():
    # Long explanations go over several lines.
    comments = " ".join(
        line.removeprefix("# ").strip()
        for line in toml.to_toml(Config()).splitlines()
        if line.startswith("#")
    )
    for setting in toml.explained():
        assert setting.description
        assert setting.description in comments


def test_overrides_are_toml_or_else_text():
    asked = {"train": {"epochs": 5}, "seed": 1}
    words = ["seed=2", "train.learning_rate=1e-3", "model.norm=sym", 'model.init="paper"']
    words += ["model.residual=true", "data.dataset=a=b"]
    assert toml.override(asked, words) == {
        "seed": 2,
        "train": {"epochs": 5, "learning_rate": 1e-3},
        "model": {"norm": "sym", "init": "paper", "residual": True},
        "data": {"dataset": "a=b"},
    }
    assert asked == {"train": {"epochs": 5}, "seed": 1}


@pytest.mark.parametrize("word", ["train.epochs", "=3", "a.b.c=1", "seed.x=1"])
def test_an_override_that_names_no_setting_is_refused(word):
    with pytest.raises(ValueError, match="--set is"):
        toml.override({"seed": 0}, [word])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"model": {"norm": "rows"}}, 'model.norm is \'rows\'; it takes "row", "sym", "paper"'),
        ({"model": {"layers": 0}}, "model.layers is 0; it takes a whole number of at least 1"),
        ({"model": {"layers": "4"}}, "model.layers is '4'; it takes a whole number"),
        ({"model": {"drop": 1.0}}, "model.drop is 1.0; it takes a number above 0 and below 1"),
        ({"train": {"learning_rate": float("nan")}}, "train.learning_rate is nan"),
        ({"model": {"nrom": "row"}}, "model.nrom is not a setting: give model.norm"),
        ({"train": {"lr": 0.1}}, "train.lr is not a setting: give train.learning_rate"),
        ({"modle": {}}, "modle is not a setting: give model"),
        ({"model": 3}, "model is 3; it takes a table"),
        ({"objective": {"kl_weight": "x"}}, "'x'; it takes a number of at least 0 or \"elbo\""),
    ],
)
def test_a_wrong_setting_is_named_with_what_it_takes(asked, message):
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        config.settle(asked)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["Gcn_BbGdc", "bbgdc"])
def test_a_methods_name_is_taken_in_any_case_and_kept_in_its_own(name):
    settings = config.settle({"model": {"method": name}})
    assert settings == Config()
    assert 'method = "GCN-BBGDC"' in toml.to_toml(settings)


@pytest.mark.parametrize(
    ("name", "architecture", "method"),
    [
        ("GAT-BBGDC", "gat", Method.GCN_BBGDC),
        ("gatv2_bde_arm", "gatv2", Method.GCN_BDE_ARM),
        ("SAGE", "sage", Method.GCN),
    ],
)
def test_an_architecture_before_a_methods_name_is_a_setting(name, architecture, method):
    apart = config.settle({"model": {"method": method, "architecture": architecture}})
    for said in ({}, {"architecture": architecture.upper()}):
        assert config.settle({"model": {"method": name, **said}}) == apart
    assert Config(model=config.ModelSettings(method=name)) == apart
    assert config.settle(tomllib.loads(toml.to_toml(apart))) == apart


def test_two_architectures_are_refused_in_one_sentence():
    with pytest.raises(ValueError, match="they name two architectures") as raised:
        config.settle({"model": {"method": "GAT-BBGDC", "architecture": "gin"}})
    assert str(raised.value) == (
        'model.method is "GAT-BBGDC" and model.architecture "gin": they name two architectures, '
        'so give model.method = "GCN-BBGDC", or leave the architecture out'
    )
    with pytest.raises(ValueError, match=r"model\.method is 'GAT-XYZ'; it takes one of GCN, "):
        config.settle({"model": {"method": "GAT-XYZ", "architecture": "gin"}})


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("hiden", "model.hidden"),
        ("samples", "train.samples or predict.samples"),
        ("dropout", "model.dropout or predict.dropout"),
        ("modle", "model"),
        ("xyzzy", "seed or recipe or data or model or objective or train or predict"),
    ],
)
def test_a_setting_without_its_section_gets_the_whole_name(name, given):
    with pytest.raises(ValueError, match=f"^{name} is not a setting: give {given}$"):
        config.settle(toml.override({}, [f"{name}=3"]))


def test_a_long_value_is_cut_in_the_error():
    for value in ("x" * 10**5, 16**5000):
        with pytest.raises(ValueError, match=r"model\.norm is") as raised:
            Config(model={"norm": value})
        assert len(str(raised.value)) < 200


BOMBS = {
    "dots in a key": ("a." * 30_000 + "b = 1", "dots in line 1"),
    "nested arrays": ("a = " + "[" * 5_000 + "]" * 5_000, "5000 opening brackets"),
    "nested tables": ("a = " + "{a = " * 5_000 + "1" + "}" * 5_000, "5000 opening brackets"),
}


@pytest.mark.parametrize(("text", "message"), BOMBS.values(), ids=BOMBS.keys())
def test_a_text_that_would_take_long_is_refused_before_it_is_parsed(
    text, message, tmp_path, monkeypatch
):
    file = tmp_path / "bomb.toml"
    file.write_text(text)
    monkeypatch.setattr(tomllib, "loads", lambda _: pytest.fail("it was parsed"))
    with pytest.raises(ValueError, match=rf"bomb\.toml has .*{message}"):
        toml.read(file)
    with pytest.raises(ValueError, match="--set is ") as raised:
        toml.override({}, [f"model.norm={text}"])
    assert len(str(raised.value)) < 300


def test_no_more_of_a_file_is_read_than_settings_take(tmp_path: Path):
    (tmp_path / "large.toml").write_text("#" * 70_000)
    with pytest.raises(ValueError, match=r"large\.toml has more than 65536 bytes"):
        toml.read(tmp_path / "large.toml")


def test_a_number_of_thousands_of_digits_is_refused_with_the_file(tmp_path: Path):
    file = tmp_path / "some.toml"
    file.write_text("seed = " + "9" * 5000)
    with pytest.raises(ValueError, match=r"some\.toml is not TOML"):
        toml.read(file)
    file.write_text("seed = 0x" + "f" * 5000)
    with pytest.raises(ValueError, match="seed is a number of thousands of digits"):
        config.settle(toml.read(file))


def test_differences_names_what_differs():
    one = Config()
    other = config.settle({"seed": 1, "train": {"epochs": 3}})
    assert toml.differences(one, one) == []
    assert toml.differences(one, other) == ["seed", "train.epochs"]


def test_a_file_that_is_not_toml_is_named(tmp_path: Path):
    file = tmp_path / "broken.toml"
    file.write_text("[model\n")
    with pytest.raises(ValueError, match=r"broken\.toml is not TOML"):
        toml.read(file)
    with pytest.raises(ValueError, match=r"absent\.toml cannot be read"):
        toml.read(tmp_path / "absent.toml")


def test_the_page_on_training_explains_every_setting_and_every_method():
    page = (Path(__file__).parents[1] / "docs" / "training.md").read_text(encoding="utf-8")
    rows = page.splitlines()
    expected = [
        f"| `{one.key}` | `{one.default}` | {one.description} | {one.takes} |"
        for one in toml.explained()
    ]
    assert [row for row in expected if row not in rows] == []
    for method in Method:
        assert any(row.startswith(f"| `{method}` |") for row in rows)
