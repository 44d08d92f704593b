"""`gradscope runs` as a table: runs can be told apart, and a narrow terminal loses what matters least."""

from typing import Any

import pytest

from gradscope.analysis.listing import RunRow, age, strategy_words
from gradscope.cli.runs import table
from gradscope.core.status import Status

NOW = 1_000_000_000_000_000_000


def row(**facts: Any) -> RunRow:
    defaults: dict[str, Any] = {
        "run_id": "20261130T120000Z-a1b2c3",
        "preset": "llama-tiny",
        "optimizer": "adagrad",
        "strategy": "accumulate",
        "accumulate": 4,
        "mode": "grow",
        "path": "traces/llama-tiny/20261130T120000Z-a1b2c3",
        "status": Status.DONE,
        "loss": 2.25,
        "step_ms": 61.5,
        "peak_bytes": 34_288_435,
        "created_wall_ns": NOW - 5 * 3600 * 10**9,
    }
    return RunRow(**(defaults | facts))


@pytest.mark.parametrize(
    ("name", "accumulate", "mode", "shown"),
    [
        ("standard", 1, None, "standard"),
        ("checkpoint", None, None, "checkpoint"),
        ("accumulate", 4, "grow", "accumulate x4"),
        ("accumulate", 8, "split", "split x8"),
        ("checkpoint-accumulate", 4, "grow", "checkpoint x4"),
        ("checkpoint-accumulate", 4, "split", "checkpoint split x4"),
        (None, None, None, "n/a"),
    ],
)
def test_a_strategy_says_how_many_micro_batches(
    name: str | None, accumulate: int | None, mode: str | None, shown: str
) -> None:
    assert strategy_words(name, accumulate, mode) == shown


def test_without_a_width_everything_is_there() -> None:
    assert table([row()], NOW).splitlines()[2] == (
        "a1b2c3  llama-tiny  adagrad    accumulate x4  done    2.25  61.5 ms  32.7 MiB  5 h"
    )


@pytest.mark.parametrize(
    ("width", "heads"),
    [
        (90, "RUN PRESET OPTIMIZER STRATEGY STATUS LOSS STEP PEAK AGE"),
        (80, "RUN PRESET OPTIMIZER STRATEGY STATUS LOSS STEP PEAK"),
        (40, "RUN OPTIMIZER STRATEGY STATUS"),
    ],
)
def test_a_narrow_terminal_loses_the_columns_that_matter_least(width: int, heads: str) -> None:
    lines = table([row()], NOW, width).splitlines()
    assert lines[0].split() == heads.split()
    assert max(map(len, lines)) <= max(width, 44)


def test_ages_survive_a_clock_that_was_set_back() -> None:
    second = 1_000_000_000
    assert age(None, 0) == "n/a"
    assert age(10 * second, 5 * second) == "now"
    assert age(0, 90 * second) == "90 s"
    assert age(0, 5 * 3600 * second) == "5 h"
    assert age(0, 3 * 86400 * second) == "3 days"
