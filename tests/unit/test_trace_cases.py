"""Traces that other tools stumble over, each from a public report: what gradscope reads in them is what is right."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gradscope.errors import ExitCode, GradscopeError
from gradscope.trace.frames import Trace
from gradscope.trace.idle import idle
from gradscope.trace.load import load_trace
from gradscope.trace.memory_timeline import memory
from gradscope.trace.operators import operators
from gradscope.trace.steps import StepsAnswer, steps

CASES = Path(__file__).parent.parent / "cases" / "traces"
EXPECTED: dict[str, dict[str, Any]] = json.loads((CASES / "expected.json").read_text())
GOOD = sorted(name for name, expected in EXPECTED.items() if "error" not in expected)
BAD = sorted(name for name, expected in EXPECTED.items() if "error" in expected)
REAL = sorted(path.name for path in (CASES / "real").iterdir() if path.suffix in (".gz", ".json"))


def test_every_fixture_has_an_expectation() -> None:
    files = {path.name for path in CASES.iterdir() if path.is_file()} - {"expected.json"}
    assert files == set(EXPECTED)


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_trace_is_refused_in_one_message(name: str) -> None:
    with pytest.raises(GradscopeError) as refused:
        load_trace(CASES / name)
    assert refused.value.exit_code is ExitCode.USAGE
    assert name in refused.value.message
    if "empty file" in EXPECTED[name]["error"]:
        assert "empty" in refused.value.message


@pytest.mark.parametrize("name", GOOD)
def test_steps_and_operators_are_as_expected(name: str) -> None:
    trace, expected = load_trace(CASES / name), EXPECTED[name]
    found, table = steps(trace), operators(trace)
    assert (found.count or 0) == (expected["steps"] or 0)
    if expected["steps"] is None:
        assert found.count is None
        assert found.table.is_empty()
    if "step_us" in expected:
        assert set(found.table["host_dur_ns"]) == {1000 * expected["step_us"]}
    for operator in ("mm", "relu"):
        if operator in expected:
            assert calls_and_us(table, f"aten::{operator}") == expected[operator]
    aten = table.filter(pl.col("name").str.starts_with("aten::"))
    if "op_us" in expected:
        assert aten["host_ns"].sum() == 1000 * expected["op_us"]
    if "mm_all_names_us" in expected:
        named = aten.filter(pl.col("name").str.ends_with("mm"))
        assert named["host_ns"].sum() == 1000 * expected["mm_all_names_us"]
        assert named.height == 2


def calls_and_us(table: pl.DataFrame, name: str) -> list[int]:
    row = table.row(by_predicate=pl.col("name") == name, named=True)
    return [row["calls"], row["host_ns"] // 1000]


@pytest.mark.parametrize("name", [name for name in GOOD if "gpu_busy_us" in EXPECTED[name]])
def test_the_device_is_busy_as_expected(name: str) -> None:
    found, expected = steps(load_trace(CASES / name)), EXPECTED[name]
    assert found.totals["in_steps_ns"].to_list() == [1000 * expected["gpu_busy_us"]]
    assert found.totals["in_steps_pct"].to_list() == pytest.approx([expected["gpu_busy_pct"]])


@pytest.mark.parametrize("name", [name for name in GOOD if EXPECTED[name].get("steps") and "gpu" not in name])
def test_every_part_of_a_step_is_counted_once(name: str) -> None:
    table = steps(load_trace(CASES / name)).table
    parts = ("compute", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu", "other")
    assert (table.select(pl.sum_horizontal(f"{part}_ns" for part in parts)).to_series() == table["dur_ns"]).all()


def codes(trace: Trace, found: StepsAnswer | None = None) -> dict[str, int]:
    return {note.code: note.count for note in [*trace.notes, *(found.notes if found else [])]}


def test_a_rankless_trace_without_a_device_says_so_and_never_zero_percent() -> None:
    trace = load_trace(CASES / "p06_no_rank.json")
    found = steps(trace)
    assert not trace.has_device_events
    assert found.table["gpu_busy_pct"].null_count() == found.table.height
    assert idle(trace).by_kind.is_empty()
    assert "no_device_events" in codes(trace, found)


def test_a_late_stamp_makes_no_device_busier_than_time() -> None:
    found = steps(load_trace(CASES / "p10_long_kernel.json"))
    expected = EXPECTED["p10_long_kernel.json"]
    assert found.totals["in_steps_ns"][0] <= 1000 * expected["gpu_busy_us_at_most"]
    assert found.totals["raw_sum_ns"][0] == 1000 * expected["raw_sum_us"]
    assert found.totals["late"][0] == 1


def test_a_lost_kernel_takes_its_step_out_of_the_mean() -> None:
    found, expected = steps(load_trace(CASES / "p15_lost_kernel.json")), EXPECTED["p15_lost_kernel.json"]
    by_number = {str(row["number"]): row for row in found.table.iter_rows(named=True)}
    assert {number: by_number[number]["lost_kernels"] for number in expected["lost_kernels"]} == expected[
        "lost_kernels"
    ]
    busy = {number: by_number[number]["gpu_busy_pct"] for number in expected["gpu_busy_pct"]}
    assert busy == pytest.approx(expected["gpu_busy_pct"])
    assert not by_number["0"]["complete"]
    assert found.complete_count == 2
    assert found.mean is not None
    assert found.mean["gpu_busy_pct"] == pytest.approx(40)


def test_memory_peaks_at_what_the_allocator_counted() -> None:
    found = memory(load_trace(CASES / "p16_memory.json"))
    (device,) = found.devices
    assert device.peak_bytes == EXPECTED["p16_memory.json"]["peak_allocated_bytes"]
    assert device.curve["allocated_bytes"].to_list() == [5400, 4400, 4500]


def test_two_flow_ids_beyond_2_to_the_53_stay_two() -> None:
    trace = load_trace(CASES / "p11_mixed_types.json")
    assert set(trace.events["flow_id"].drop_nulls()) == {"9007199254740993", "9007199254740992"}


def test_units_are_microseconds_whatever_the_display_unit() -> None:
    plain, other = (load_trace(CASES / name) for name in ("base.json", "p17_display_unit.json"))
    assert plain.events["ts_ns"].to_list() == other.events["ts_ns"].to_list()
    assert plain.events["dur_ns"].to_list() == other.events["dur_ns"].to_list()


@pytest.mark.parametrize(
    "name",
    [
        "p01_control_char.json",
        "p02_invalid_utf8.json",
        "p03_windows_path.json",
        "p04_bare_inf.json",
        "p05_array.json",
        "p07_holes.json",
        "p07_metadata_only.json",
        "p07_no_events.json",
        "p08_bad_times.json",
        "p08_zero_step.json",
        "p14_step_on_two_threads.json",
        "p14_no_steps.json",
    ],
)
def test_what_was_mended_or_left_out_is_said(name: str) -> None:
    trace = load_trace(CASES / name)
    assert codes(trace, steps(trace))


@pytest.mark.parametrize("name", REAL)
def test_real_traces_load_whole(name: str) -> None:
    trace = load_trace(CASES / "real" / name)
    found = steps(trace)
    assert trace.events.height > 0
    assert not operators(trace).is_empty()
    if found.count:
        busy = found.table["gpu_busy_pct"].drop_nulls()
        assert busy.is_between(0, 100).all()
