import pytest

from gradscope.config.grid import cells, matches
from gradscope.config.load import apply_overrides, load_preset
from gradscope.config.resolve import without_grid
from gradscope.errors import GradscopeError


@pytest.fixture
def grid(tmp_path):
    def make(text):
        (tmp_path / "grid.toml").write_text(text)
        return load_preset(str(tmp_path / "grid.toml"))

    return make


def test_a_product_changes_its_last_axis_fastest(grid):
    assert cells(grid('[sweep.axes]\n"run.seed" = [1, 2]\n"optimizer.name" = ["sgd", "adam"]')) == [
        ("run.seed=1", "optimizer.name=sgd"),
        ("run.seed=1", "optimizer.name=adam"),
        ("run.seed=2", "optimizer.name=sgd"),
        ("run.seed=2", "optimizer.name=adam"),
    ]


def test_zip_takes_axes_side_by_side(grid):
    text = '[sweep]\ncombine = "zip"\n[sweep.axes]\n"run.seed" = [1, 2]\n"optimizer.lr" = [0.1, 0.2]'
    assert cells(grid(text)) == [("run.seed=1", "optimizer.lr=0.1"), ("run.seed=2", "optimizer.lr=0.2")]


def test_tables_set_several_keys_and_may_vary_together(grid):
    text = """
[[sweep.axes."model+data"]]
model = { name = "llama", options = { num_hidden_layers = 2 } }
data = { name = "text" }
[[sweep.axes."model+data"]]
model = { name = "vit" }
[sweep.axes]
memory = [{ strategy = "accumulate", accumulate = 2 }]
"""
    assert cells(grid(text)) == [
        (
            "model.name=llama",
            "model.options.num_hidden_layers=2",
            "data.name=text",
            "memory.strategy=accumulate",
            "memory.accumulate=2",
        ),
        ("model.name=vit", "memory.strategy=accumulate", "memory.accumulate=2"),
    ]


def test_cells_are_excluded_by_what_they_resolve_to_and_included_ones_are_added(grid):
    text = """
[sweep]
exclude = [
    { "optimizer.name" = ["sgd", "adagrad"], "memory.strategy" = "standard" },
    { "run.device" = "cpu" },
]
include = [{ "optimizer.name" = "sgd", "memory.strategy" = "standard", "run.seed" = 5 }]
[sweep.axes]
"optimizer.name" = ["sgd", "adam", "adagrad"]
"""
    assert cells(grid(text)) == [
        ("optimizer.name=adam",),
        ("optimizer.name=sgd", "memory.strategy=standard", "run.seed=5"),
    ]


def test_repeats_count_the_seed_up(grid):
    text = '[run]\nseed = 10\n[sweep]\nrepeats = 2\n[sweep.axes]\n"optimizer.name" = ["sgd", "adam"]'
    assert cells(grid(text)) == [
        ("optimizer.name=sgd", "run.seed=10"),
        ("optimizer.name=sgd", "run.seed=11"),
        ("optimizer.name=adam", "run.seed=10"),
        ("optimizer.name=adam", "run.seed=11"),
    ]


def test_a_cell_found_twice_is_there_once(grid):
    assert cells(grid('[sweep.axes]\n"run.seed" = [1, 1, 2]')) == [("run.seed=1",), ("run.seed=2",)]


def test_a_cell_that_breaks_a_rule_is_named(grid):
    preset = grid('[sweep.axes]\n"model.name" = ["vit", "llama"]\n"data.name" = ["shapes", "text"]')
    with pytest.raises(GradscopeError) as caught:
        cells(preset)
    assert caught.value.message.startswith("sweep cell model.name=vit data.name=text: data.name and model.name in -s ")


def test_a_preset_without_a_sweep_has_no_cells(grid):
    with pytest.raises(GradscopeError, match=r"preset grid has no \[sweep\]"):
        cells(grid(""))


def test_texts_that_need_quotes_get_them(grid):
    preset = grid('[sweep.axes]\n"model.options" = [{ "a.b" = "x y", c = "none" }]')
    (cell,) = cells(preset)
    assert apply_overrides(preset, cell).model.options == {"a.b": "x y", "c": "none"}


def test_conditions_match_a_subset_of_the_settings():
    data = {"optimizer": {"name": "sgd", "lr": None}, "run": {"seed": 1}}
    assert matches(data, {"optimizer": {"name": "sgd"}})
    assert matches(data, {"optimizer.lr": "none", "run.seed": [1, 2]})
    assert not matches(data, {"optimizer.name": "sgd", "run.seed": 2})
    assert not matches(data, {"optimizer.name.x": "sgd"})


@pytest.mark.parametrize("name", ["grid-tiny", "grid-paper"])
def test_the_shipped_grids_have_sixty_distinct_cells_that_load(name):
    preset = load_preset(name)
    found = cells(preset)
    loaded = [without_grid(load_preset(name, cell)) for cell in found]
    assert len(found) == 60
    assert len({repr(cell) for cell in loaded}) == 60
    combinations = {(cell.model.name, cell.optimizer.name, cell.memory.strategy) for cell in loaded}
    assert len(combinations) == 60
    assert {cell.model.name for cell in loaded} == {"vit", "modernbert", "llama", "nanovlm"}
    assert {cell.optimizer.name for cell in loaded} == {"sgd", "adam", "adagrad", "adadelta", "cgd"}
    assert {cell.memory.strategy for cell in loaded} == {"standard", "checkpoint", "accumulate"}
    assert {cell.budget for cell in loaded} == {preset.budget}
    assert {cell.optimizer.lr for cell in loaded if cell.optimizer.name == "cgd"} == {None}
