"""Presets that a person or a broken disk could have made: the loader answers each with a preset or with one message."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradscope.config.check import all_keys
from gradscope.config.convert import preset_from_dict, preset_to_dict
from gradscope.config.grid import cells
from gradscope.config.load import load_preset
from gradscope.config.overrides import format_override, toml_value
from gradscope.config.places import shipped_folder
from gradscope.core.text import visible
from gradscope.errors import GradscopeError

SHIPPED = [path.read_bytes() for path in sorted(shipped_folder().glob("*.toml"))]

KEYS = st.sampled_from(
    [*all_keys(), "sweep", "sweep.axes", "claim", "model+data", "axes", "extends", "lr", ""]
) | st.text(max_size=4)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(
        ["none", "vit", "llama", "text", "shapes", "accumulate", "split", "fp16", "cpu", "py:a:b", "hf:x"]
    )
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "mine.toml"


def load_or_message(file, overrides=()):
    """Load, go on to the cells, and accept nothing but a preset or a message of one line."""
    try:
        preset = load_preset(str(file), overrides)
        assert preset_from_dict(preset_to_dict(preset)) == preset
        if preset.sweep is not None:
            cells(preset)
    except GradscopeError as error:
        told = error
    else:
        return
    assert told.message
    assert visible(told.message + told.hint) == told.message + told.hint
    assert len(told.message) < 2000


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_shipped_preset_with_bytes_changed(file, data):
    raw = bytearray(data.draw(st.sampled_from(SHIPPED)))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(raw)))
        raw[start : start + data.draw(st.integers(0, 12))] = data.draw(st.binary(max_size=6))
    file.write_bytes(raw)
    load_or_message(file)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(st.sampled_from([line for text in SHIPPED for line in text.split(b"\n")]), max_size=30))
def test_lines_of_shipped_presets_in_any_order(file, pieces):
    file.write_bytes(b"\n".join(pieces))
    load_or_message(file)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(KEYS, VALUES), max_size=6))
def test_any_values_under_any_keys(file, pairs):
    file.write_text("")
    load_or_message(file, [format_override(key, value) for key, value in pairs])


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(axes=st.dictionaries(KEYS, st.lists(VALUES, max_size=3), max_size=3))
def test_any_axes(file, axes):
    file.write_text("")
    load_or_message(file, [f"sweep.axes={toml_value(axes)}"])


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(max_size=20), max_size=3))
def test_any_override_texts(file, texts):
    file.write_text("")
    load_or_message(file, texts)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_ten_thousand_mutated_presets(file):
    rng = random.Random(20260808)
    lines = [line for text in SHIPPED for line in text.split(b"\n")]
    for _ in range(10_000):
        raw = bytearray(rng.choice(SHIPPED))
        for _ in range(rng.randint(1, 5)):
            start = rng.randrange(len(raw) + 1)
            piece = rng.choice([rng.randbytes(rng.randrange(5)), rng.choice(lines) + b"\n", raw[: rng.randrange(40)]])
            raw[start : start + rng.randrange(30)] = piece
        file.write_bytes(raw)
        load_or_message(file)
