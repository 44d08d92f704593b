"""The fields of a preset, as the form shows them: read from the schema, written as the command line takes them."""

import pytest

from gradscope.config.fields import fields, table_help, values
from gradscope.config.load import load_preset

BY_KEY = {one.key: one for one in fields()}


def test_each_field_explains_itself():
    assert [one.key for one in fields() if not one.help and one.table] == []
    assert BY_KEY["optimizer.lr"].help == "Learning rate; the optimizer's own default where it is not given."
    assert table_help("memory") == "the strategy that trades time for memory."
    assert table_help("nothing") == ""


@pytest.mark.parametrize(
    ("key", "kind", "optional", "default"),
    [
        ("data.batch_size", "a whole number >= 1", False, "8"),
        ("optimizer.lr", "a number > 0", True, "none"),
        ("model.dropout", "a number >= 0 and < 1", False, "0.0"),
        ("model.options", "a table", False, "{}"),
        ("run.compile", "true or false", False, "false"),
        ("run.precision", "bf16, fp16 or fp32", False, "fp32"),
        ("name", "text", False, ""),
    ],
)
def test_types_and_defaults(key: str, kind: str, optional: bool, default: str):
    one = BY_KEY[key]
    assert (one.kind, one.optional, one.default) == (kind, optional, default)


def test_choices_come_from_the_catalogue_and_the_schema():
    assert [choice.text for choice in BY_KEY["memory.strategy"].choices] == [
        "standard",
        "checkpoint",
        "accumulate",
        "checkpoint-accumulate",
    ]
    assert BY_KEY["model.name"].choices[2].summary == "Llama 3.2 1B, causal language modelling, 1.24 B parameters"
    assert [choice.text for choice in BY_KEY["memory.mode"].choices] == ["grow", "split"]
    assert BY_KEY["run.seed"].choices == ()


def test_grids_are_no_fields():
    assert not [key for key in BY_KEY if key.startswith(("sweep", "claim"))]


def test_every_value_can_be_given_back_on_the_command_line():
    preset = load_preset("quick", ['model.options={num_hidden_layers = 2, note = "x y"}', "memory.accumulate=none"])
    written = values(preset)
    budgets = ("budget.samples", "budget.seconds")  # there is one budget only, so a second one cannot be named
    again = load_preset("quick", [f"{key}={text}" for key, text in written.items() if key not in budgets])
    assert again == preset
    assert written["model.options"] == '{num_hidden_layers = 2, note = "x y"}'
    assert (written["optimizer.lr"], written["data.path"]) == ("0.001", "none")
