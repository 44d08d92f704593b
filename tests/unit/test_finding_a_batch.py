"""The largest batch that fits: the search, what a trial decides, and what is said where nothing fits."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscope.config.load import load_preset
from gradscope.config.schema import Preset
from gradscope.core.estimate import CATEGORIES, Estimate
from gradscope.core.events import MemoryMeasured
from gradscope.errors import GradscopeError
from gradscope.launch import find_batch
from gradscope.launch.estimate import Room, room_for
from gradscope.launch.find_batch import MOST_ROWS, MOST_TRIALS, RunTrial, Tried, find_batches, largest
from gradscope.rundir.handle import RunHandle
from tests.builders import run_directory


@given(
    fixed=st.integers(0, 10_000),
    per_row=st.integers(1, 500),
    bend=st.integers(0, 300),
    room=st.integers(0, 200_000),
    start=st.integers(1, 3000),
)
def test_the_largest_that_fits_is_found(fixed: int, per_row: int, bend: int, room: int, start: int) -> None:
    def peak(rows: int) -> int:
        return fixed + per_row * rows + (bend * (rows // 7))

    least = 1 + start % 5
    found = largest(peak, room, start=start, least=least)
    if found is None:
        assert peak(least) > room
    else:
        assert peak(found) <= room < peak(found + 1)


def test_proportional_peaks_take_few_looks() -> None:
    looked: list[int] = []

    def peak(rows: int) -> int:
        looked.append(rows)
        return 1000 + 10 * rows

    assert largest(peak, 11_234, start=8) == 1023
    assert len(looked) <= 6


def test_a_batch_that_always_fits_ends_at_the_largest_looked_at() -> None:
    assert largest(lambda _: 5, 10, start=8) == MOST_ROWS


def made(peak_bytes: int, device: str = "cpu") -> Estimate:
    return Estimate(
        parameters_bytes=0,
        buffers_bytes=0,
        gradients_bytes=0,
        optimizer_state_bytes=0,
        inputs_bytes=0,
        saved_activations_bytes=None,
        peak_activations_bytes=None,
        at_peak_bytes=dict.fromkeys(CATEGORIES, 0),
        peak_bytes=peak_bytes,
        peak_phase="backward",
        phase_peak_bytes={},
        attention=[],
        device=device,
    )


class TenARow:
    """Stands for the estimating process: 10 bytes a row, 5 with checkpointing."""

    def estimate(self, preset: Preset) -> Estimate:
        return made((5 if "checkpoint" in preset.memory.strategy else 10) * preset.data.batch_size)


def search(monkeypatch: pytest.MonkeyPatch, fits: Any, *overrides: str) -> tuple[list[Any], list[int]]:
    """Find batches for 1000 bytes, with trials that fit where `fits` says."""
    tried: list[int] = []

    def attempt(preset: Preset, room_bytes: int, trial: Any) -> Tried:
        tried.append(preset.data.batch_size)
        return Tried(fits(preset.data.batch_size), 7)

    monkeypatch.setattr(find_batch, "try_batch", attempt)
    preset = load_preset("quick", overrides)
    trial: Any = object()
    estimator: Any = TenARow()
    return find_batches(preset, estimator, Room(1000, "given"), say=lambda _: None, trial=trial), tried


def test_each_strategy_has_its_own_batch_and_a_trial_confirms_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found, tried = search(monkeypatch, lambda _: True)
    assert {one.strategy: one.batch_size for one in found} == {
        "standard": 100,
        "checkpoint": 200,
        "accumulate": 100,
        "checkpoint-accumulate": 200,
    }
    assert tried == [100, 200, 100, 200]
    assert {(one.measured_peak_bytes, one.trials) for one in found} == {(7, 1)}


def test_a_trial_that_does_not_fit_makes_the_batch_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    found, tried = search(monkeypatch, lambda rows: rows <= 85)
    assert (found[0].batch_size, found[0].trials, found[0].foretold_peak_bytes) == (81, 3, 810)
    assert tried[:3] == [100, 90, 81]


def test_where_no_trial_fits_there_is_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    found, tried = search(monkeypatch, lambda _: False)
    assert [one.batch_size for one in found] == [None] * 4
    assert len(tried) == 4 * MOST_TRIALS


def test_a_preset_that_accumulates_is_asked_for_the_other_strategies_too(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ["memory.strategy=accumulate", "memory.accumulate=3", "memory.mode=split", "data.batch_size=6"]
    found, _ = search(monkeypatch, lambda _: True, *settings)
    assert [one.batch_size for one in found] == [100, 200, 100, 200]


def test_where_not_even_a_row_fits_no_trial_is_made() -> None:
    estimator: Any = TenARow()
    trial: Any = object()
    found = find_batches(load_preset("quick", []), estimator, Room(4, "given"), say=lambda _: None, trial=trial)
    assert found[0].batch_size is None
    assert found[0].note == "not even data.batch_size = 1 fits"
    assert found[0].foretold_peak_bytes == 10


def test_the_room_is_a_share_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    class Memory:
        available = 1000

    monkeypatch.setattr("gradscope.launch.estimate.psutil.virtual_memory", Memory)
    monkeypatch.setattr("gradscope.launch.estimate.memory_groups", list)
    assert room_for(made(1)) == Room(800, "80 % of the memory available now")
    assert room_for(made(1, device="cuda")) is None


def trial_that_ends(state: str, peak_bytes: int | None) -> RunTrial:
    def trial(preset: Preset, folder: Path) -> RunHandle:
        memory = MemoryMeasured(seq=1, t_ns=1, step=3, source="allocator", allocated_peak_bytes=peak_bytes)
        return RunHandle(run_directory(folder, state, events=[memory], reason="its model raised"))

    return trial


@pytest.mark.parametrize(("peak", "fits"), [(10, True), (11, False)])
def test_a_trial_fits_where_its_measured_peak_does(peak: int, fits: bool) -> None:
    tried = find_batch.try_batch(load_preset("quick", []), 10, trial_that_ends("done", peak))
    assert tried == Tried(fits, peak)


def test_a_trial_that_runs_out_of_memory_does_not_fit() -> None:
    assert find_batch.try_batch(load_preset("quick", []), 10, trial_that_ends("oom", None)) == Tried(False, None)


def test_a_failed_trial_is_an_error_and_not_a_batch() -> None:
    with pytest.raises(GradscopeError, match="ended as failed: its model raised"):
        find_batch.try_batch(load_preset("quick", []), 10, trial_that_ends("failed", None))
