"""Traces that other tools stumble over, each from a public report: what gradscope reads in them is what is right."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gradscope.errors import ExitCode, GradscopeError
from gradscope.trace.findings import findings
from gradscope.trace.frames import Trace
from gradscope.trace.idle import idle
from gradscope.trace.kernels import kernels
from gradscope.trace.load import load_trace
from gradscope.trace.memory_timeline import memory
from gradscope.trace.operators import host_time_ns, operators
from gradscope.trace.ranks import by_rank
from gradscope.trace.steps import StepsAnswer, steps
from tests.trace_builder import chrome_event, write_chrome

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


@dataclass(frozen=True)
class Case:
    """What gradscope reads in one fixture."""

    trace: Trace
    rank: int
    steps: StepsAnswer
    operators: pl.DataFrame

    def operator(self, name: str) -> list[int]:
        row = self.operators.row(by_predicate=pl.col("name") == name, named=True)
        return [row["calls"], row["host_ns"] // 1000]

    def aten_us(self, ending: str = "") -> int:
        name = pl.col("name").str
        return self.operators.filter(name.starts_with("aten::") & name.ends_with(ending))["host_ns"].sum() // 1000

    def by_step(self, column: str) -> dict[str, Any]:
        return {str(number): value for number, value in self.steps.table.select("number", column).rows()}


def busy_pct(case: Case, expected: float | dict[str, float]) -> Any:
    if isinstance(expected, dict):
        return {number: case.by_step("gpu_busy_pct")[number] for number in expected}
    return case.steps.totals["in_steps_pct"].item()


FOUND: dict[str, Callable[[Case, Any], Any]] = {
    "steps": lambda case, _: case.steps.count,
    "step_us": lambda case, _: case.steps.table["dur_ns"].unique().item() // 1000,
    "mm": lambda case, _: case.operator("aten::mm"),
    "relu": lambda case, _: case.operator("aten::relu"),
    "op_us": lambda case, _: case.aten_us(),  # BASE's own operators: P09 adds two of other names, of 110 us
    "mm_all_names_us": lambda case, _: case.aten_us("mm"),
    "gpu_busy_us": lambda case, _: case.steps.totals["in_steps_ns"].item() // 1000,
    "gpu_busy_pct": busy_pct,
    "gpu_busy_us_at_most": lambda case, most: max(most, case.steps.totals["in_steps_ns"].item() / 1000),
    "raw_sum_us": lambda case, _: case.steps.totals["raw_sum_ns"].item() // 1000,
    "lost_kernels": lambda case, _: {step: lost for step, lost in case.by_step("lost_kernels").items() if lost},
    "peak_allocated_bytes": lambda case, _: memory(case.trace).devices[0].peak_bytes,
    "rank": lambda case, _: case.rank,
}
"""What each key of expected.json is compared with."""
PROSE = ("note",)
"""Keys that hold sentences: the tests below are about them, one by one."""


@pytest.mark.parametrize("name", GOOD)
def test_every_figure_is_as_expected(name: str) -> None:
    ((rank, trace),) = by_rank([load_trace(CASES / name)]).items()
    case, expected = Case(trace, rank, steps(trace), operators(trace)), EXPECTED[name]
    figures = {key: value for key, value in expected.items() if key not in PROSE}
    found = {key: FOUND[key](case, value) for key, value in figures.items()}
    assert found == {key: pytest.approx(value) if key == "gpu_busy_pct" else value for key, value in figures.items()}


def test_the_same_work_has_the_same_share_however_steps_are_marked_and_ids_are_written() -> None:
    shares, told = {}, {}
    for name in ("base.json", "p11_mixed_types.json", "p14_step_on_two_threads.json", "p17_display_unit.json"):
        trace = load_trace(CASES / name)
        table = operators(trace).filter(pl.col("name").str.starts_with("aten::"))
        shares[name] = (table["self_host_ns"] / host_time_ns(trace) * 100).to_list()
        told[name] = findings(trace)
    assert shares == {name: [20.0, 10.0] for name in shares}
    assert all(found == told["base.json"] for found in told.values())


def test_a_kernel_that_outlasts_the_trace_counts_the_same_in_steps_kernels_and_operators() -> None:
    trace = load_trace(CASES / "p10_long_kernel.json")
    found, mm = steps(trace), operators(trace).row(by_predicate=pl.col("name") == "aten::mm", named=True)
    kernel = kernels(trace).row(0, named=True)
    assert found.totals.select("in_steps_ns", "raw_sum_ns").row(0) == (1_800_000, 900_800_000)
    assert (mm["device_ns"], mm["self_device_ns"]) == (1_800_000, 1_800_000)
    assert (kernel["total_ns"], kernel["max_ns"], kernel["stamped_ns"]) == (1_800_000, 1_000_000, 900_800_000)
    assert "k_mm (900 ms)" in next(note.message for note in found.notes if note.code == "late_device_end")


def test_a_step_without_a_usable_mark_is_named() -> None:
    trace = load_trace(CASES / "p08_zero_step.json")
    assert "step 2 is left out: marked without a usable time" in [note.message for note in trace.notes]
    assert steps(trace).table["number"].to_list() == [0, 1]


def test_a_long_trace_says_of_its_first_events_what_these_say_alone(tmp_path: Path) -> None:
    events = []
    for number in range(400):
        start = 1000 * number
        events += [
            chrome_event(f"ProfilerStep#{number}", "user_annotation", start, 1000),
            chrome_event("aten::mm", "cpu_op", start + 100, 200 + number),
            chrome_event("aten::relu", "cpu_op", start + 700, 100),
        ]
    whole = steps(load_trace(write_chrome(tmp_path / "whole.json", events)))
    part = load_trace(write_chrome(tmp_path / "part.json", events[:999]))
    assert steps(part).table.equals(whole.table.head(333))
    rows = operators(part).select("name", "calls", "host_ns").rows()
    assert rows[1:] == [("aten::mm", 333, 1000 * (333 * 200 + sum(range(333)))), ("aten::relu", 333, 33_300_000)]


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
