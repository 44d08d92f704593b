import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from gradscope.errors import GradscopeError
from gradscope.trace.device import device_work
from gradscope.trace.load import load_trace
from gradscope.trace.steps import PARTS, steps
from tests.trace_builder import annotation, events_frame, frame, kernel, launch, memcpy, op, step

CASES = Path(__file__).parent.parent / "cases" / "traces"
EXPECTED = json.loads((CASES / "expected.json").read_text())


def parts_us(answer, position=0):
    row = answer.table.row(position, named=True)
    return {part: row[f"{part}_ns"] / 1000 for part in PARTS if row[f"{part}_ns"]}


def codes(answer):
    return [note.code for note in answer.notes]


def test_what_runs_at_one_moment_counts_once_in_the_order_of_the_overview():
    answer = steps(
        events_frame(
            [
                step(0, 0, 1000),
                op("aten::mm", 100, 500),  # under all that follows
                launch(1, 150, 30),  # 150 to 180: runtime
                kernel("k", 200, 100, 1),  # 200 to 300: compute
                memcpy("Memcpy HtoD", 250, 100, correlation=2),  # 300 to 350 is left
                kernel("Memset", 340, 60, 3, cat="gpu_memset", stream=8),  # 350 to 400
                kernel("ncclDevKernel_AllReduce_Sum_f32", 380, 60, 4, stream=9),  # 400 to 440
                annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 590, 60),  # 590 to 650
            ]
        )
    )
    assert parts_us(answer) == {
        "compute": 100,
        "memcpy": 50,
        "memset": 50,
        "communication": 40,
        "runtime": 30,
        "dataloader": 60,
        "cpu": 500 - (100 + 50 + 50 + 40 + 30 + 10),  # the operator without all of it, and 590 to 600 of data loading
        "other": 1000 - 100 - 500 - 50 + 100,
    }
    assert answer.table["dur_ns"][0] == sum(answer.table[f"{part}_ns"][0] for part in PARTS)


def test_device_busy_is_the_union_of_kernels_never_more_than_the_step():
    answer = steps(
        events_frame(
            [
                step(0, 0, 1000),
                kernel("a", 100, 400, 1, stream=7),
                kernel("b", 300, 400, 2, stream=8),
                kernel("ncclDevKernel_AllReduce_Sum_f32", 600, 200, 3, stream=9),
                memcpy("Memcpy HtoD", 900, 50, correlation=4),
            ]
        )
    )
    row = answer.table.row(0, named=True)
    assert (row["gpu_busy_ns"], row["gpu_busy_pct"], row["kernel_sum_ns"], row["kernels"]) == (
        700_000,
        70.0,
        1_000_000,
        3,
    )
    assert answer.devices.row(0, named=True)["active_ns"] == 750_000
    total = answer.totals.row(0, named=True)
    assert (total["raw_sum_ns"], total["union_ns"], total["in_steps_ns"]) == (1_000_000, 700_000, 700_000)


def test_busy_time_is_per_device_and_averaged_over_devices():
    other = {"device": 1, "pid": "1"}
    answer = steps(events_frame([step(0, 0, 1000), kernel("a", 0, 800, 1), kernel("b", 0, 200, 2, **other)]))
    assert answer.devices.select("device", "busy_pct").rows() == [(0, 80.0), (1, 20.0)]
    assert answer.table["gpu_busy_pct"].to_list() == [50.0]


def test_a_step_lasts_until_the_device_has_done_what_it_launched():
    answer = steps(
        events_frame(
            [
                step(0, 0, 100),
                launch(1, 10),
                kernel("a", 50, 250, 1),  # ends at 300
                step(1, 100, 100),
                launch(2, 110),
                kernel("b", 300, 200, 2),  # ends at 500
                step(2, 200, 400),
                launch(3, 210),
                kernel("c", 510, 50, 3),  # within the mark
            ]
        )
    )
    assert answer.table.select(pl.col("start_ns") // 1000, pl.col("dur_ns") // 1000).rows() == [
        (0, 300),
        (300, 200),
        (500, 100),
    ]
    assert [value // 1000 for value in answer.table["host_dur_ns"]] == [100, 100, 400]
    assert answer.table["gpu_busy_pct"].to_list() == [pytest.approx(250 / 3), 100.0, 50.0]


def test_the_first_step_begins_when_the_device_is_done_with_what_came_before():
    answer = steps(
        events_frame(
            [
                launch(1, -50),
                kernel("warm-up", -20, 60, 1),  # ends at 40
                step(0, 0, 100),
                launch(2, 10),
                kernel("a", 50, 20, 2),
            ]
        )
    )
    assert answer.table.select("start_ns", "dur_ns").rows() == [(40_000, 60_000)]


def test_without_launches_in_the_trace_steps_are_their_marks():
    answer = steps(events_frame([step(0, 0, 100), kernel("a", 50, 250, 1)]))
    assert answer.table.select("dur_ns", "gpu_busy_ns").rows() == [(100_000, 50_000)]


def test_annotations_on_the_device_and_python_frames_are_no_part():
    answer = steps(
        events_frame(
            [
                step(0, 0, 1000),
                annotation("ProfilerStep#0", 100, 900, cat="gpu_user_annotation", pid="0", tid="7"),
                annotation("nccl:all_reduce", 100, 900, cat="gpu_user_annotation", pid="0", tid="7"),
                frame("train.py(1): main", 0, 1000),
                annotation("my range", 0, 1000),
                kernel("k", 100, 100, 1),
            ]
        )
    )
    assert answer.count == 1
    assert parts_us(answer) == {"compute": 100, "other": 900}


def test_on_a_cpu_the_backends_ranges_are_communication():
    rows = [step(0, 0, 1000), op("aten::mm", 0, 300), annotation("gloo:all_reduce", 200, 300)]
    assert parts_us(steps(events_frame(rows))) == {"communication": 300, "cpu": 200, "other": 500}


def test_with_kernels_for_it_the_hosts_ranges_of_communication_are_the_hosts_time():
    rows = [
        step(0, 0, 1000),
        op("c10d::allreduce_", 0, 300),
        kernel("ncclDevKernel_AllReduce_Sum_f32", 600, 100, 1),
    ]
    assert parts_us(steps(events_frame(rows))) == {"communication": 100, "cpu": 300, "other": 600}


def test_a_launch_without_a_kernel_is_lost_and_its_step_is_in_no_mean():
    rows = [step(k, 1000 * k, 1000) for k in range(3)]
    rows += [launch(k + 1, 1000 * k + 100) for k in range(3)]
    rows += [kernel("k", 1000 * k + 200, 400, k + 1) for k in (1, 2)]
    answer = steps(events_frame(rows))
    assert answer.table["lost_kernels"].to_list() == [1, 0, 0]
    assert answer.table["complete"].to_list() == [False, True, True]
    assert (answer.complete_count, answer.mean["gpu_busy_pct"]) == (2, 40.0)
    assert "lost_kernels" in codes(answer)


def test_calls_that_launch_no_kernel_of_their_own_lose_none():
    rows = [
        step(0, 0, 1000),
        launch(1, 100),
        kernel("k", 200, 100, 1),
        launch(2, 300, name="cudaMemsetAsync"),  # of no bytes
        launch(3, 400, name="cudaStreamSynchronize"),
        launch(4, 500, name="cudaLaunchHostFunc"),
        launch(5, 600, name="cudaStreamBeginCapture_v10000"),
        launch(6, 650),  # noted down in a graph
        launch(7, 700, name="cudaStreamEndCapture"),
        launch(8, 800, name="cudaGraphLaunch"),
        kernel("in a graph", 850, 10, 8),
        kernel("in a graph", 860, 10, 8),
    ]
    answer = steps(events_frame(rows))
    assert answer.table.select("launches", "lost_kernels", "kernels").rows() == [(2, 0, 3)]


def test_without_any_device_event_no_kernel_is_lost_and_nothing_is_busy():
    answer = steps(events_frame([step(0, 0, 1000), launch(1, 100)]))
    row = answer.table.row(0, named=True)
    assert (row["lost_kernels"], row["gpu_busy_ns"], row["gpu_busy_pct"], row["complete"]) == (0, None, None, True)
    assert not answer.has_device_events
    assert "gpu_busy_pct" not in answer.mean
    assert "no_device_events" in codes(answer)


def test_windows_keep_their_numbers_and_the_gap_between_them_is_no_step():
    answer = steps(
        events_frame(
            [op("aten::mm", 0, 4000), *(step(n, ts, 100) for n, ts in ((2, 0), (3, 100), (6, 900), (7, 1000)))]
        )
    )
    assert answer.table["number"].to_list() == [2, 3, 6, 7]
    assert answer.windows.select("window", "first", "last", "steps", "start_ns", "dur_ns", "gap_ns").rows() == [
        (0, 2, 3, 2, 0, 200_000, None),
        (1, 6, 7, 2, 900_000, 200_000, 700_000),
    ]
    assert answer.table["cpu_ns"].to_list() == [100_000] * 4
    assert "several_windows" in codes(answer)


def test_a_number_that_comes_back_later_is_another_step_of_another_window():
    answer = steps(events_frame([step(1, 0, 100), step(2, 100, 100), step(1, 500, 100)]))
    assert answer.table.select("number", "window").rows() == [(1, 0), (2, 0), (1, 1)]


def test_a_step_that_is_marked_on_two_threads_is_one_as_on_the_thread_with_most_marks():
    rows = [step(0, 0, 100), step(1, 100, 100), step(1, 90, 150, tid="200"), step(2, 200, 100)]
    answer = steps(events_frame(rows))
    assert answer.table.select("number", "start_ns", "dur_ns").rows() == [
        (0, 0, 100_000),
        (1, 100_000, 100_000),
        (2, 200_000, 100_000),
    ]
    assert "repeated_step_mark" in codes(answer)


def test_marks_that_overlap_share_no_time():
    answer = steps(events_frame([op("aten::mm", 0, 300), step(0, 0, 110), step(1, 100, 100)]))
    assert answer.table.select("start_ns", "dur_ns", "cpu_ns").rows() == [
        (0, 110_000, 110_000),
        (110_000, 90_000, 90_000),
    ]


def test_a_mark_without_duration_is_said_to_be_unusable():
    answer = steps(events_frame([step(0, 0, 100), step(1, 0, 0)]))
    assert answer.count == 1
    assert "unusable_step" in codes(answer)


def test_without_marks_steps_are_unknown_and_the_whole_is_no_step():
    answer = steps(events_frame([op("aten::mm", 0, 100), op("aten::mm", 300, 100)]))
    assert (answer.count, answer.table.height, answer.mean) == (None, 0, None)
    assert answer.whole.select("number", "dur_ns", "cpu_ns", "other_ns").rows() == [(None, 400_000, 200_000, 200_000)]
    assert "steps_unknown" in codes(answer)


def test_nothing_has_no_steps():
    answer = steps(events_frame([]))
    assert (answer.count, answer.table.height, answer.whole.height, answer.notes) == (0, 0, 0, [])


def test_a_last_step_in_which_nothing_ran_is_in_no_mean():
    answer = steps(events_frame([step(0, 0, 1000), op("aten::mm", 0, 500), step(1, 1000, 5)]))
    assert (answer.count, answer.mean["dur_ns"]) == (2, 1_000_000)
    assert "empty_last_step" in codes(answer)


def test_a_last_step_that_only_fetched_a_batch_is_in_no_mean():
    fetch = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    rows = [step(0, 0, 1000), op("aten::mm", 0, 500), step(1, 1000, 300), annotation(fetch, 1000, 300)]
    rows.append(op("aten::stack", 1100, 50))
    answer = steps(events_frame(rows))
    assert (answer.count, answer.mean["dur_ns"]) == (2, 1_000_000)
    assert "only data was loaded in the last step, 1: it is in no mean" in [note.message for note in answer.notes]


def test_a_kernel_that_lasts_over_the_next_on_its_stream_is_cut_where_that_begins():
    rows = [
        step(0, 0, 1000),
        kernel("late", 100, 9000, 1),
        kernel("next", 300, 100, 2),
        kernel("elsewhere", 150, 20, 3, stream=8),
    ]
    answer = steps(events_frame(rows))
    total = answer.totals.row(0, named=True)
    assert (total["raw_sum_ns"], total["union_ns"], total["late"]) == (9_120_000, 300_000, 1)
    assert "late_device_end" in codes(answer)


def test_kernels_of_one_graph_and_neighbours_that_overlap_a_little_are_left_as_they_are():
    rows = [
        kernel("a branch", 100, 500, 1),
        kernel("another branch", 200, 100, 1),
        kernel("starts before the last ends", 590, 100, 2),
    ]
    work = device_work(events_frame(rows))
    assert work.busy().pairs() == [(100_000, 690_000)]
    assert not work.table["late"].any()


def test_a_kernel_that_ends_long_after_everything_is_cut_at_the_hosts_last_event():
    work = device_work(events_frame([step(0, 0, 1000), launch(1, 100), kernel("k", 200, 900_000, 1)]))
    assert work.table.select("end_ns", "raw_dur_ns", "late").rows() == [(1_000_000, 900_000_000, True)]


def test_a_kernel_that_begins_after_the_hosts_last_event_is_as_stamped():
    rows = [step(0, 0, 1000), launch(1, 100), launch(2, 200), kernel("a", 900, 4000, 1), kernel("b", 4900, 3000, 2)]
    work = device_work(events_frame(rows))
    assert work.table.select("end_ns", "late").rows() == [(4_900_000, False), (7_900_000, False)]
    answer = steps(events_frame(rows))
    assert answer.table.select("dur_ns", "gpu_busy_ns", "kernels").rows() == [(7_900_000, 7_000_000, 2)]


def test_a_late_end_is_cut_where_the_last_other_work_begins_if_that_is_after_the_host():
    rows = [step(0, 0, 1000), kernel("late", 900, 900_000), kernel("b", 1500, 100, stream=8)]
    work = device_work(events_frame(rows))
    assert work.table.select("name", "end_ns").rows() == [("late", 1_500_000), ("b", 1_600_000)]


def test_of_a_file_that_broke_off_the_steps_that_were_open_are_in_no_mean():
    rows = [step(0, 0, 1000), op("mm", 0, 500), step(1, 1000, 1000), op("mm", 1000, 300), step(2, 2000, 900)]
    whole = events_frame(rows)
    answer = steps(replace(whole, cut_at=(5,)))
    assert answer.table["complete"].to_list() == [True, True, False]
    assert (answer.count, answer.mean["cpu_ns"]) == (3, 400_000)
    message = "step 2 is in no mean: the file breaks off before all of it may have been written"
    assert message in [note.message for note in answer.notes if note.code == "cut_off_steps"]
    assert steps(replace(whole, cut_at=(4,))).table["complete"].to_list() == [True, False, False]
    assert "cut_off_steps" not in codes(steps(whole))


def test_of_joined_windows_only_the_one_that_broke_off_loses_a_step():
    rows = [step(0, 0, 1000), op("mm", 0, 500), step(1, 1000, 1000), op("mm", 1000, 300)]
    rows += [step(7, 9000, 1000), op("mm", 9000, 100)]
    answer = steps(replace(events_frame(rows), cut_at=(4,)))
    assert answer.table.select("number", "complete").rows() == [(0, True), (1, False), (7, True)]


@pytest.mark.parametrize("name", [name for name, expected in EXPECTED.items() if "error" not in expected])
def test_reported_traces_have_the_steps_and_busy_times_that_are_right(name):
    expected = EXPECTED[name]
    try:
        answer = steps(load_trace(CASES / name))
    except GradscopeError as error:  # pragma: no cover - tells which case it is
        pytest.fail(f"{name}: {error.message}")
    assert answer.count == expected["steps"]
    if "step_us" in expected:
        assert answer.table["dur_ns"].to_list() == [1000 * expected["step_us"]] * expected["steps"]
    if "op_us" in expected and "gpu_busy_us" not in expected and name != "p09_overlap.json":
        assert answer.table["cpu_ns"].sum() == 1000 * expected["op_us"]
    if "gpu_busy_us" in expected:
        assert answer.totals["in_steps_ns"].to_list() == [1000 * expected["gpu_busy_us"]]
        assert answer.totals["in_steps_pct"].to_list() == [expected["gpu_busy_pct"]]
    else:
        assert answer.has_device_events == ("p10_long" in name or "p15" in name)
    if "gpu_busy_us_at_most" in expected:
        total = answer.totals.row(0, named=True)
        assert total["raw_sum_ns"] == 1000 * expected["raw_sum_us"]
        assert total["in_steps_ns"] <= 1000 * expected["gpu_busy_us_at_most"]
        assert answer.table["gpu_busy_pct"].max() <= 100
    if "lost_kernels" in expected:
        by_number = {str(number): lost for number, lost in answer.table.select("number", "lost_kernels").rows() if lost}
        busy = {str(number): pct for number, pct in answer.table.select("number", "gpu_busy_pct").rows()}
        assert by_number == expected["lost_kernels"]
        assert busy | expected["gpu_busy_pct"] == busy
        assert answer.mean["gpu_busy_pct"] == 40


# What torch-tb-profiler 0.4.3 says of others' traces, in us: its "Kernel" is all kernels, so it is our busy time.
# Its "CpuOp" takes in runtime calls, since it does not know the category `cuda_runtime`.
PLUGIN = {
    "backward_thread.json": [(413451, 45, 145)],
    "nccl.json.gz": [(222442.191, 48670.168, None), (219726.905, 48969.031, None), (224936.243, 57576.116, None)],
    "rank0_of_many.json.gz": [(607312, 278511, None), (622928, 268792, None)],
    "rank1_of_many.json.gz": [(607904, 269884, None), (630639, 305612, None)],
    "rocm_mi250.json.gz": [(9288.291, 110.881, 8432.762), (49.073, 0, 0)],
    "triton_kernels.json.gz": [(13336315.805, 1.76, None)],
}


@pytest.mark.parametrize("name", PLUGIN)
def test_real_traces_agree_with_torch_tb_profiler(name):
    table = steps(load_trace(CASES / "real" / name)).table
    assert table.height == len(PLUGIN[name])
    for row, (total_us, kernel_us, host_us) in zip(table.iter_rows(named=True), PLUGIN[name], strict=True):
        assert row["dur_ns"] == round(1000 * total_us)
        assert row["gpu_busy_ns"] == pytest.approx(1000 * kernel_us, abs=20)
        if host_us is not None:
            assert row["cpu_ns"] + row["runtime_ns"] == pytest.approx(1000 * host_us, abs=20)
        assert row["dur_ns"] == sum(row[f"{part}_ns"] for part in PARTS)
