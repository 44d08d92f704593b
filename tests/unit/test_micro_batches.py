import pytest

from gradscope.config.resolve import micro_steps, rows_per_micro_batch, samples_per_update, without_grid
from gradscope.config.schema import Claim, DataSettings, MemorySettings, Preset, SweepSettings


def preset(strategy, *, rows=8, accumulate=None, mode="grow"):
    return Preset(
        name="x",
        data=DataSettings(batch_size=rows),
        memory=MemorySettings(strategy=strategy, accumulate=accumulate, mode=mode),
    )


@pytest.mark.parametrize("strategy", ["standard", "checkpoint"])
def test_without_accumulation_an_update_is_one_batch(strategy):
    assert rows_per_micro_batch(preset(strategy)) == [8]
    assert rows_per_micro_batch(preset(strategy, mode="split", accumulate=1)) == [8]


@pytest.mark.parametrize("strategy", ["accumulate", "checkpoint-accumulate"])
def test_grow_repeats_the_batch_four_times_unless_told(strategy):
    assert rows_per_micro_batch(preset(strategy)) == [8, 8, 8, 8]
    assert rows_per_micro_batch(preset(strategy, accumulate=2)) == [8, 8]
    assert samples_per_update(preset(strategy)) == 32
    assert micro_steps(preset(strategy)) == 4


@pytest.mark.parametrize(
    ("rows", "parts", "expected"),
    [
        (8, 4, [2, 2, 2, 2]),
        (10, 4, [3, 3, 2, 2]),
        (9, 8, [2, 1, 1, 1, 1, 1, 1, 1]),
        (4, 4, [1, 1, 1, 1]),
        (5, 1, [5]),
    ],
)
def test_split_keeps_the_rows_and_gives_each_part_some(rows, parts, expected):
    split = preset("accumulate", rows=rows, accumulate=parts, mode="split")
    assert rows_per_micro_batch(split) == expected
    assert samples_per_update(split) == rows


def test_a_single_run_has_neither_sweep_nor_claims():
    grid = Preset(name="x", sweep=SweepSettings(axes={}), claim=[Claim(name="a", text="b", metric="c")])
    assert without_grid(grid) == Preset(name="x")
