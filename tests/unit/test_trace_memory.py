"""Memory through a trace: curve, peak, what was alive, what stayed. All numbers by hand."""

from pathlib import Path

import polars as pl

from gradscope.trace.frames import Metadata
from gradscope.trace.load import load_trace
from gradscope.trace.memory_timeline import DeviceMemory, memory
from tests.trace_builder import events_frame, kernel, op, step
from tests.trace_builder import memory as memory_event

CASES = Path(__file__).parents[1] / "cases" / "traces"


def only_device(rows) -> DeviceMemory:
    answer = memory(events_frame(rows))
    assert answer.missing is None
    assert len(answer.devices) == 1
    return answer.devices[0]


def rows_of(frame: pl.DataFrame) -> list[tuple]:
    return frame.rows()


P16 = [
    step(0, 0, 1000),
    op("aten::mm", 100, 200),
    op("aten::relu", 400, 100),
    step(1, 1000, 1000),
    op("aten::mm", 1100, 200),
    memory_event(150, 400, 5400),
    memory_event(450, -1000, 4400),
    memory_event(1150, 100, 4500),
]


def test_the_peak_is_what_the_allocator_counted_not_a_sum_of_sizes():
    device = only_device(P16)
    assert device.device == "CPU"
    assert device.peak_bytes == 5400
    assert device.peak_ts_ns == 150_000
    assert device.peak_step == 0
    assert not device.relative
    assert device.curve["allocated_bytes"].to_list() == [5400, 4400, 4500]
    assert rows_of(device.alive_at_peak) == [("aten::mm", "aten::mm", 400, 1)]
    assert device.older_at_peak_bytes == 5000
    assert [(note.code, note.count) for note in device.notes] == [("release_of_other_size", 1)]


def test_allocations_are_counted_by_step():
    device = only_device(P16)
    assert device.steps == 2
    assert device.allocations == 2
    assert device.allocated_bytes == 500
    assert device.allocations_per_step == 1.0
    assert device.bytes_per_step == 250.0
    assert device.turnover == 250 / 5400


def test_a_cpu_has_no_reserved_memory():
    device = only_device(P16)
    assert device.reserved_peak_bytes is None
    assert device.curve["reserved_bytes"].null_count() == 3


def test_a_device_has_reserved_memory():
    rows = [
        memory_event(10, 512, 1512, 1, 4096, device_type=1, device=0),
        memory_event(20, -512, 1000, 1, 2048, device_type=1, device=0),
    ]
    device = only_device(rows)
    assert device.device == "CUDA 0"
    assert device.reserved_peak_bytes == 4096
    assert device.curve.rows() == [(10_000, 1512, 4096), (20_000, 1000, 2048)]


def test_devices_are_apart_accelerators_first():
    rows = [
        memory_event(10, 100, 100, 1),
        memory_event(11, 64, 640, 1, 1024, device_type=1, device=1),
        memory_event(12, 32, 320, 1, 1024, device_type=1, device=0),
        memory_event(13, -32, 288, 1, 1024, device_type=1, device=0),
    ]
    devices = memory(events_frame(rows)).devices
    assert [(device.device, device.peak_bytes) for device in devices] == [
        ("CUDA 0", 320),
        ("CUDA 1", 640),
        ("CPU", 100),
    ]


def test_what_was_alive_is_named_by_the_innermost_operator_and_by_who_asked_for_it():
    rows = [
        op("aten::linear", 0, 100),
        op("aten::addmm", 10, 80),
        op("aten::empty", 20, 10),
        memory_event(25, 800, 800, 1),
        op("aten::empty", 40, 10),
        memory_event(45, 300, 1100, 2),
        memory_event(60, 50, 1150, 3),  # addmm's own
        memory_event(95, 7, 1157, 4),  # linear's own
        memory_event(200, 5, 1162, 5),  # outside of operators
        memory_event(210, -800, 362, 1),
    ]
    device = only_device(rows)
    assert device.peak_bytes == 1162
    assert rows_of(device.alive_at_peak) == [
        ("aten::empty", "aten::addmm", 1100, 2),
        ("aten::addmm", "aten::addmm", 50, 1),
        ("aten::linear", "aten::linear", 7, 1),
        (None, None, 5, 1),
    ]
    assert rows_of(device.never_freed) == [
        ("aten::empty", "aten::addmm", 300, 1),
        ("aten::addmm", "aten::addmm", 50, 1),
        ("aten::linear", "aten::linear", 7, 1),
        (None, None, 5, 1),
    ]


def test_an_operator_that_only_allocates_is_named_where_nobody_called_it():
    rows = [op("aten::empty", 0, 10), memory_event(5, 8, 8)]
    assert rows_of(only_device(rows).alive_at_peak) == [("aten::empty", "aten::empty", 8, 1)]


def test_operators_of_another_thread_do_not_count():
    rows = [op("aten::mm", 0, 100, tid="7"), memory_event(50, 8, 8)]
    assert rows_of(only_device(rows).alive_at_peak) == [(None, None, 8, 1)]


def test_freed_before_the_peak_is_not_alive_at_it_even_at_a_used_again_address():
    rows = [
        op("a", 0, 10),
        op("b", 20, 10),
        memory_event(5, 100, 100, 1),
        memory_event(15, -100, 0, 1),
        memory_event(25, 300, 300, 1),
        memory_event(50, -300, 0, 1),
    ]
    device = only_device(rows)
    assert rows_of(device.alive_at_peak) == [("b", "b", 300, 1)]
    assert device.never_freed.is_empty()


def test_without_totals_the_curve_counts_from_the_windows_start():
    rows = [
        memory_event(10, 400, None, 1),
        memory_event(20, -1000, None, 2),
        memory_event(30, 100, None, 3),
    ]
    device = only_device(rows)
    assert device.relative
    # 400, -600, -500 summed: at least 600 were there before
    assert device.curve["allocated_bytes"].to_list() == [1000, 0, 100]
    assert device.peak_bytes == 1000
    assert device.older_at_peak_bytes == 600
    assert [(note.code, note.count) for note in device.notes] == [("older_blocks_freed", 1)]


def test_totals_of_zero_everywhere_are_no_totals():
    device = only_device([memory_event(10, 400, 0, 1), memory_event(20, 100, 0, 2)])
    assert device.relative
    assert device.curve["allocated_bytes"].to_list() == [400, 500]


def test_a_negative_total_is_replaced():
    rows = [memory_event(10, 400, 500, 1), memory_event(20, -100, -7, 2), memory_event(30, 50, 450, 3)]
    device = only_device(rows)
    assert device.curve["allocated_bytes"].to_list() == [500, 400, 450]
    assert ("negative_memory", 1) in [(note.code, note.count) for note in device.notes]


def test_a_cpu_that_starts_at_nothing_counts_from_the_windows_start():
    assert only_device([memory_event(10, 400, 400)]).relative
    assert not only_device([memory_event(10, 400, 400, device_type=1, device=0)]).relative


def test_what_readings_count_is_said():
    assert only_device([memory_event(10, 400, 400)]).basis == "relative to window start"
    assert only_device([memory_event(10, 400, 900)]).basis == "blocks born since memory was first recorded"
    assert only_device([memory_event(10, 400, 400, device_type=1, device=0)]).basis is None


def test_events_out_of_order_are_put_in_order():
    rows = [memory_event(30, -400, 100, 1), memory_event(10, 400, 500, 1)]
    device = only_device(rows)
    assert device.curve["allocated_bytes"].to_list() == [500, 100]
    assert device.never_freed.is_empty()


def test_no_memory_events_say_why():
    assert (
        memory(events_frame([kernel("k", 0, 1)])).missing == "no [memory] events: recorded without profile_memory=True"
    )
    recorded = events_frame([kernel("k", 0, 1)], metadata=Metadata(profile_memory=True))
    assert memory(recorded).missing == "no [memory] events: memory was recorded, but nothing was allocated"


def test_a_peak_between_steps_is_in_none():
    assert only_device([step(3, 0, 10), memory_event(10, 4, 9)]).peak_step is None


def test_ranges_that_overlap_without_nesting_keep_the_operator_that_still_runs():
    # a: 20 to 70, b: 40 to 100; at 90 only b runs, at 50 b began last
    rows = [op("a", 20, 50), op("b", 40, 60), memory_event(50, 1, 1, 1), memory_event(90, 2, 3, 2)]
    assert rows_of(only_device(rows).alive_at_peak) == [("b", "b", 3, 2)]


def test_the_memory_case_reads_as_its_note_says():
    device = memory(load_trace(CASES / "p16_memory.json")).devices[0]
    assert device.peak_bytes == 5400
    assert device.curve["allocated_bytes"].min() == 4400
    assert (device.peak_step, device.alive_at_peak["operator"].to_list()) == (0, ["aten::mm"])
