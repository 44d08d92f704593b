import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscope.config.overrides import format_override, parse_override, toml_value


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("optimizer.lr=0.1", "optimizer.lr", 0.1),
        (" optimizer.lr = 1e-3 ", "optimizer.lr", 0.001),
        ("run.seed=7", "run.seed", 7),
        ("run.compile=true", "run.compile", True),
        ("model.name=vit", "model.name", "vit"),
        ('model.name="vit"', "model.name", "vit"),
        ("model.name=hf:org/model", "model.name", "hf:org/model"),
        ("data.path=a=b.txt", "data.path", "a=b.txt"),
        ("memory={strategy='checkpoint'}", "memory", {"strategy": "checkpoint"}),
        ("optimizer.options.betas=[0.9, 0.99]", "optimizer.options.betas", [0.9, 0.99]),
        ("model.name=123", "model.name", "123"),
        ("data.path=true", "data.path", "true"),
        ("model.options.day=2024-01-01", "model.options.day", "2024-01-01"),
        ("model.options.x=", "model.options.x", ""),
        ("run.seed=1\nx=2", "run.seed", "1\nx=2"),
    ],
)
def test_a_value_is_toml_or_else_the_text_as_it_stands(text, key, value):
    override = parse_override(text)
    assert (override.key, override.value) == (key, value)
    assert type(override.value) is type(value)


def test_a_key_in_quotes_may_hold_a_dot():
    assert parse_override('model.options."a.b"=1').path == ("model", "options", "a.b")


def test_a_text_is_written_bare_where_it_reads_back_as_text():
    assert format_override("model.name", "py:mine:build") == "model.name=py:mine:build"
    assert format_override("model.options.x", "true") == 'model.options.x="true"'
    assert format_override("model.options.x", "two words") == 'model.options.x="two words"'
    assert format_override("optimizer.lr", 0.001) == "optimizer.lr=0.001"
    assert format_override("memory", {"strategy": "standard"}) == 'memory={strategy = "standard"}'


SCALARS = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(VALUES)
def test_what_is_written_reads_back_the_same(value):
    override = parse_override(format_override("model.options.x", value))
    assert override.path == ("model", "options", "x")
    assert override.value == value
    assert type(override.value) is type(value)
    assert "\n" not in toml_value(value)
