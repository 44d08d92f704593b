import pytest

from gradscope.config.load import apply_overrides, load_preset
from gradscope.config.places import preset_names, preset_path
from gradscope.config.schema import Preset
from gradscope.errors import GradscopeError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current folder, and a function that writes a file below it."""
    monkeypatch.chdir(tmp_path)

    def write(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return str(file)

    return write


def test_an_empty_file_is_the_defaults(folder):
    assert load_preset(folder("mine.toml", "")) == Preset(name="mine")


def test_tables_are_joined_and_values_replaced_by_what_extends_them(folder):
    folder("base.toml", '[optimizer]\nname = "adam"\nlr = 0.1\n[data]\nbatch_size = 4')
    folder("mine.toml", 'extends = "base.toml"\n[optimizer]\nlr = 0.2')
    preset = load_preset("./mine.toml")
    assert (preset.optimizer.name, preset.optimizer.lr, preset.data.batch_size) == ("adam", 0.2, 4)


def test_extends_is_relative_to_the_file_that_says_it(folder):
    folder("lib/base.toml", "[run]\nseed = 7")
    folder("lib/middle.toml", 'extends = "./base.toml"')
    path = folder("mine.toml", 'extends = "lib/middle.toml"')
    assert load_preset(path).run.seed == 7


def test_a_shipped_preset_can_be_extended_by_name(folder):
    preset = load_preset(folder("mine.toml", 'extends = "quick"\n[run]\nseed = 3'))
    shipped = load_preset("quick")
    assert (preset.run.seed, preset.model, preset.budget) == (3, shipped.model, shipped.budget)


def test_name_and_description_are_not_passed_on(folder):
    folder("base.toml", 'name = "other"\ndescription = "of the base"')
    path = folder("mine.toml", 'extends = "base.toml"')
    assert (load_preset(path).name, load_preset(path).description) == ("mine", "")
    assert load_preset("./base.toml").name == "other"


def test_a_local_preset_hides_the_shipped_one_and_can_extend_it(folder):
    folder("presets/quick.toml", 'extends = "quick"\n[run]\nseed = 99')
    preset = load_preset("quick")
    assert preset.run.seed == 99
    assert preset.budget.updates == 30


def test_a_budget_replaces_the_budget_below_it(folder):
    folder("base.toml", "[budget]\nupdates = 5")
    path = folder("mine.toml", 'extends = "base.toml"\n[budget]\nsamples = 100')
    assert (load_preset(path).budget.updates, load_preset(path).budget.samples) == (None, 100)
    assert load_preset(path, ["budget.seconds=2"]).budget.seconds == 2.0


def test_another_name_starts_without_the_options_of_the_one_before(folder):
    path = folder(
        "mine.toml",
        "[model.options]\na = 1\n[optimizer]\nlr = 0.1\noptions = { eps = 1e-6 }\n"
        '[data]\nname = "folder"\npath = "pictures"',
    )
    same = load_preset(path, ["optimizer.name=adam", "model.name=vit"])
    assert (same.optimizer.options, same.model.options) == ({"eps": 1e-6}, {"a": 1})
    other = load_preset(path, ["optimizer.name=sgd", "data.name=shapes"])
    assert (other.optimizer.options, other.optimizer.lr, other.data.path) == ({}, 0.1, None)


def test_the_word_none_takes_a_value_away(folder):
    folder("base.toml", "[optimizer]\nlr = 0.1\n[run]\ntime_limit_seconds = 60")
    path = folder("mine.toml", 'extends = "base.toml"\n[optimizer]\nlr = "none"')
    preset = load_preset(path, ["run.time_limit_seconds=none"])
    assert (preset.optimizer.lr, preset.run.time_limit_seconds) == (None, None)


def test_overrides_come_last_and_the_later_one_counts(folder):
    path = folder("mine.toml", "[run]\nseed = 1")
    assert load_preset(path, ["run.seed=2", "run.seed=3"]).run.seed == 3
    assert load_preset(path, ['memory={strategy="accumulate"}', "memory.accumulate=2"]).memory.accumulate == 2


def test_overrides_on_a_loaded_preset_are_the_same_as_on_its_file(folder):
    path = folder("mine.toml", "[budget]\nupdates = 5\n[optimizer.options]\neps = 1e-6")
    for overrides in ([], ["budget.seconds=2"], ["optimizer.name=sgd"], ["memory.strategy=accumulate"]):
        assert apply_overrides(load_preset(path), overrides) == load_preset(path, overrides)


def test_names_are_those_of_the_local_folder_and_the_shipped_ones(folder):
    folder("presets/mine.toml", "")
    names = preset_names()
    assert "mine" in names
    assert "quick" in names
    assert names == sorted(names)
    assert str(preset_path("mine")) == "presets/mine.toml"


def test_a_byte_order_mark_is_no_error(folder):
    assert load_preset(folder("mine.toml", "\ufeff[run]\nseed = 4")).run.seed == 4


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("qiuck", 'there is no preset "qiuck"', "did you mean quick?"),
        ("zzzzzz", 'there is no preset "zzzzzz"', "known: grid-paper, grid-tiny,"),
        ("./nothing.toml", "there is no preset file ./nothing.toml", "TOML"),
        ("train.py", 'there is no preset "train.py"', "write ./train.py"),
        ("a\0b", 'there is no preset "a\\x00b"', ""),
        pytest.param("a" * 5000, "there is no preset", "", id="long"),
        ("\x1b[2J", 'there is no preset "\\e[2J"', ""),
    ],
)
def test_a_preset_that_does_not_exist(folder, name, message, hint):
    folder("train.py", "")
    with pytest.raises(GradscopeError) as caught:
        load_preset(name)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[run]\nseed = \n", "mine.toml, line 2, column 8: this is no TOML: Invalid value", "the line is: seed ="),
        ("[run]\nseed = 1\nseed = 2\n", "mine.toml, line 3, column 9: this is no TOML: Cannot overwrite", "seed = 2"),
        ("[run", "mine.toml, ", ""),
        pytest.param("x = " + "[" * 5000, "nested too deeply", "", id="brackets"),
        pytest.param("x = " + "9" * 5000, "too large", "", id="digits"),
        pytest.param(".".join("a" * 5000) + " = 1", "nested more than 24 deep", "", id="dots"),
        pytest.param("#" * 1_000_001, "more than 1000000 bytes", "", id="size"),
    ],
)
def test_what_is_no_toml_is_told_with_file_and_line(folder, text, message, hint):
    folder("mine.toml", text)
    with pytest.raises(GradscopeError) as caught:
        load_preset("./mine.toml")
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_bytes_that_are_no_utf8_are_told_with_their_line(folder, tmp_path):
    (tmp_path / "mine.toml").write_bytes(b'a = 1\nb = "\xff"\n')
    with pytest.raises(GradscopeError, match=r"mine\.toml, line 2: found bytes that are no UTF-8"):
        load_preset("./mine.toml")


def test_a_file_that_cannot_be_read_is_told(folder, tmp_path):
    (tmp_path / "mine.toml").symlink_to("/proc/self/mem")  # reading address 0 is an error, for root too
    with pytest.raises(GradscopeError, match=r"cannot read the preset mine\.toml: Input/output error"):
        load_preset("./mine.toml")


def test_presets_that_extend_each_other_are_told_with_the_whole_circle(folder):
    folder("a.toml", 'extends = "b.toml"')
    folder("b.toml", 'extends = "a.toml"')
    with pytest.raises(GradscopeError) as caught:
        load_preset("./a.toml")
    assert 'extends in b.toml: found "a.toml", which leads back to itself: a.toml -> b.toml -> a.toml' in (
        caught.value.message
    )


def test_a_preset_that_extends_itself_by_a_link_is_told(folder, tmp_path):
    folder("a.toml", 'extends = "link.toml"')
    (tmp_path / "link.toml").symlink_to(tmp_path / "a.toml")
    with pytest.raises(GradscopeError, match="leads back to itself"):
        load_preset("./a.toml")


@pytest.mark.parametrize(
    ("extends", "message", "hint"),
    [
        ("3", "extends in mine.toml: found 3, allowed the name or path of a preset", ""),
        ('["a", "b"]', "found a list, allowed the name or path", ""),
        ('"qick"', 'extends in mine.toml: there is no preset "qick"', "did you mean quick?"),
        ('"other"', 'extends in mine.toml: there is no preset "other"', 'write extends = "other.toml"'),
        ('"none/there.toml"', "extends in mine.toml: there is no preset file", ""),
    ],
)
def test_extends_that_leads_nowhere(folder, extends, message, hint):
    folder("other.toml", "")
    folder("mine.toml", f"extends = {extends}")
    with pytest.raises(GradscopeError) as caught:
        load_preset("./mine.toml")
    assert message in caught.value.message
    assert hint in caught.value.hint
