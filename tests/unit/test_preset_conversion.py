import json

import msgspec
import pytest

from gradscope.config.convert import preset_from_dict, preset_to_dict, preset_to_toml
from gradscope.config.load import load_preset
from gradscope.config.places import preset_names
from gradscope.errors import GradscopeError


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_survives_json_as_a_manifest_holds_it(name):
    preset = load_preset(name)
    assert preset_from_dict(json.loads(msgspec.json.encode(preset_to_dict(preset)))) == preset


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_survives_toml(name, tmp_path):
    preset = load_preset(name)
    file = tmp_path / f"{name}.toml"
    file.write_text(preset_to_toml(preset))
    assert load_preset(str(file)) == preset


def test_free_tables_keep_empty_values(tmp_path):
    (tmp_path / "a.toml").write_text("[model.options]\na = {}\nb = []")
    preset = load_preset(str(tmp_path / "a.toml"))
    (tmp_path / "a.toml").write_text(preset_to_toml(preset))
    assert load_preset(str(tmp_path / "a.toml")) == preset


def test_what_is_missing_is_none_in_data_and_absent_in_toml():
    preset = load_preset("quick", ["optimizer.lr=none"])
    assert preset_to_dict(preset)["optimizer"]["lr"] is None
    assert "lr =" not in preset_to_toml(preset)


def test_settings_of_another_version_are_refused_with_a_message():
    with pytest.raises(GradscopeError, match="no preset of this version"):
        preset_from_dict({"name": "x", "unheard_of": 1})
