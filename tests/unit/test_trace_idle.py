from pathlib import Path

import pytest

from gradscope.trace.findings import findings
from gradscope.trace.idle import idle
from gradscope.trace.load import load_trace
from gradscope.trace.steps import steps
from tests.trace_builder import annotation, events_frame, frame, kernel, launch, memcpy, op, step

REAL = Path(__file__).parent.parent / "cases" / "traces" / "real"


def gaps_us(answer):
    return [
        (start // 1000, dur // 1000, kind)
        for start, dur, kind in answer.gaps.select("start_ns", "dur_ns", "kind").rows()
    ]


def test_a_gap_is_classed_by_when_the_work_that_ends_it_was_launched():
    rows = [
        step(0, 0, 1000),
        launch(1, 0, 5),
        kernel("a", 0, 100, 1),
        launch(2, 150),  # after a ended: the host was late
        kernel("b", 200, 100, 2),
        launch(3, 250),  # in time, and begins within 30 us
        kernel("c", 329, 71, 3),
        launch(4, 350),  # in time, but it takes 30 us
        kernel("d", 430, 570, 4),
    ]
    answer = idle(events_frame(rows))
    assert gaps_us(answer) == [(100, 100, "host wait"), (300, 29, "kernel wait"), (400, 30, "other")]
    assert answer.gaps.select("before", "after", "edge").rows()[0] == ("a", "b", False)
    assert answer.by_kind.select("kind", "gaps", "idle_ns", "step_pct").rows() == [
        ("host wait", 1, 100_000, 10.0),
        ("kernel wait", 1, 29_000, 2.9),
        ("other", 1, 30_000, 3.0),
    ]
    assert gaps_us(idle(events_frame(rows), threshold_ns=100_000))[2][2] == "kernel wait"


def test_work_that_was_launched_at_the_very_end_of_the_last_was_in_time():
    rows = [step(0, 0, 120), launch(1, 0), kernel("a", 0, 100, 1), launch(2, 100), kernel("b", 110, 10, 2)]
    assert gaps_us(idle(events_frame(rows))) == [(100, 10, "kernel wait")]


def test_a_gap_of_unknown_launch_is_a_kernel_wait_or_other_by_its_length():
    rows = [step(0, 0, 1000), kernel("a", 0, 100), kernel("b", 110, 390), kernel("c", 600, 400)]
    assert gaps_us(idle(events_frame(rows))) == [(100, 10, "kernel wait"), (500, 100, "other")]


def test_a_device_idles_only_while_none_of_its_streams_works():
    rows = [
        step(0, 0, 1000),
        kernel("a", 0, 300, stream=7),
        kernel("b", 200, 300, stream=8),
        memcpy("Memcpy DtoH", 490, 210, stream=9),
        kernel("c", 900, 100, stream=7),
        kernel("on the other device", 0, 1000, device=1, pid="1"),
    ]
    assert gaps_us(idle(events_frame(rows))) == [(700, 200, "other")]


def test_idle_and_active_time_of_a_step_are_all_of_it():
    rows = [
        op("before", -50, 10),
        step(0, 0, 500),
        launch(1, 10),
        kernel("a", 100, 200, 1),
        step(1, 500, 500),
        launch(2, 510),
        kernel("b", 600, 100, 2),
        op("after", 1000, 500),
    ]
    trace = events_frame(rows)
    answer = idle(trace)
    assert gaps_us(answer) == [(0, 100, "host wait"), (300, 300, "host wait"), (700, 300, "host wait")]
    assert answer.gaps.select("number", "edge").rows() == [(0, True), (0, False), (1, True)]
    assert answer.by_step.select("number", "idle_ns", "host_wait_ns").rows() == [
        (0, 300_000, 300_000),
        (1, 400_000, 400_000),
    ]
    active = steps(trace).devices["active_ns"].to_list()
    assert [total + busy for total, busy in zip(answer.by_step["idle_ns"], active, strict=True)] == [500_000] * 2


def test_the_time_between_windows_is_not_idle_time():
    rows = [step(2, 0, 100), kernel("a", 0, 100), step(6, 900, 100), kernel("b", 950, 50)]
    answer = idle(events_frame(rows))
    assert [(start, dur) for start, dur, _ in gaps_us(answer)] == [(900, 50)]


def test_without_steps_idle_time_lies_between_the_first_and_the_last_work():
    answer = idle(events_frame([op("aten::mm", 0, 1000), kernel("a", 100, 100), kernel("b", 300, 100)]))
    assert gaps_us(answer) == [(200, 100, "other")]
    assert answer.gaps["number"].to_list() == [None]


def test_without_device_events_no_idle_time_is_known():
    answer = idle(events_frame([step(0, 0, 1000), op("aten::mm", 0, 1000)]))
    assert answer.gaps.is_empty()
    assert [note.code for note in answer.notes] == ["no_device_events"]
    assert idle(events_frame([])).notes == []


def test_launch_delays_are_never_negative_and_those_that_were_are_counted():
    rows = [
        step(0, 0, 1000),
        launch(1, 100, 10),
        kernel("a", 150, 100, 1),
        launch(2, 300, 20),
        kernel("begins in the call", 310, 100, 2),
        launch(3, 500, 10),
        kernel("before its launch", 495, 100, 3),
        kernel("launched before the trace", 700, 10, 99),
    ]
    answer = idle(events_frame(rows))
    assert answer.launch_delays.select("delay_ns", "queue_ns", "number").rows() == [
        (50_000, 40_000, 0),
        (10_000, 0, 0),
        (0, 0, 0),
    ]
    assert answer.negative_delays == 1
    assert "negative_launch_delay" in [note.code for note in answer.notes]


def test_the_longest_gaps_say_what_the_launching_thread_was_doing():
    rows = [
        step(0, 0, 10_000),
        frame("train.py(1): main", 0, 10_000),
        annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1100, 3000),
        op("aten::stack", 1200, 300),
        op("aten::elsewhere", 1000, 3500, tid="200"),
        launch(1, 0),
        kernel("a", 0, 1000, 1),
        launch(2, 4400),
        kernel("b", 4500, 500, 2),
        op("aten::item", 5000, 50),
        launch(3, 5150, name="cudaMemcpyAsync"),
        memcpy("Memcpy DtoH", 5200, 4800, correlation=3),
    ]
    answer = idle(events_frame(rows), longest=1)
    assert answer.longest.select("dur_ns", "host_op", "host_kind", "host_pct").rows() == [
        (
            3_500_000,
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
            "range",
            pytest.approx(100 * 3000 / 3500),
        )
    ]
    assert idle(events_frame(rows)).longest["host_op"].to_list()[1] == "train.py(1): main"


def test_where_nothing_covers_half_of_a_gap_nothing_is_named():
    rows = [
        step(0, 0, 1000),
        launch(1, 0),
        kernel("a", 0, 100, 1),
        op("aten::small", 120, 50),
        op("aten::large", 300, 300),
    ]
    rows += [launch(2, 890), kernel("b", 900, 100, 2)]
    row = idle(events_frame(rows)).longest.row(0, named=True)
    assert (row["host_op"], row["host_kind"], row["host_pct"]) == (None, None, None)
    rows += [op("aten::inner", 310, 450), op("aten::outer", 300, 500)]  # 56 % and 62.5 % of the 800 us
    row = idle(events_frame(rows)).longest.row(0, named=True)
    assert (row["host_op"], row["host_pct"]) == ("aten::outer", pytest.approx(62.5))


def test_a_gap_in_which_the_host_recorded_nothing_says_so():
    answer = idle(events_frame([step(0, 0, 1000), kernel("a", 0, 100), kernel("b", 900, 100)]))
    assert answer.longest.select("host_op", "host_pct").rows() == [(None, None)]


def test_a_lost_kernel_is_told_of_since_its_time_looks_idle():
    rows = [step(0, 0, 1000), launch(1, 0), launch(2, 200), kernel("b", 300, 700, 2)]
    assert "lost_kernels" in [note.code for note in idle(events_frame(rows)).notes]


# What HolisticTraceAnalysis (f4d0062) says of these traces with its last step included: host wait, kernel wait, other,
# in us, per stream; and the sum of its launch delays.
ANALYSIS = {
    "rank0_of_many.json.gz": (
        {
            7: (397917, 3765, 598335),
            23: (1214793, 160, 34),
            25: (560120, 35, 100413),
            84: (794901, 6, 3142),
            203: (558073,),
        },
        20539698,
    ),
    "rank1_of_many.json.gz": (
        {
            7: (407794, 3475, 524657),
            23: (1222526, 134, 30),
            25: (556447, 17, 91823),
            84: (715850, 0, 62586),
            203: (559033,),
        },
        20270258,
    ),
    "cuda_alexnet.json.gz": ({7: (12855007, 104, 0), 20: (12011718, 3, 0)}, 39283),
    "cuda_two_streams.json.gz": ({20: (32, 0, 0), 24: (0, 15, 0), 28: (0, 15, 0)}, 18),
}


@pytest.mark.parametrize("name", ANALYSIS)
def test_real_traces_agree_with_holistic_trace_analysis(name):
    answer = idle(load_trace(REAL / name))
    expected, delays_us = ANALYSIS[name]
    found = {(stream, kind): idle_ns // 1000 for _, stream, kind, idle_ns, _ in answer.per_stream.rows()}
    for stream, values in expected.items():
        for kind, value in zip(("host wait", "kernel wait", "other"), values, strict=False):
            assert found.get((stream, kind), 0) == value
    assert answer.launch_delays["queue_ns"].sum() == 1000 * delays_us


def device_idle(trace):
    told = findings(trace)
    verdicts = [*told.found, *told.calm, *told.unjudged]
    return next(verdict for verdict in verdicts if verdict.rule == "device-idle")


def test_a_step_that_lost_a_kernel_is_in_no_total_of_busy_or_idle_time():
    rows = [
        *(step(number, 100 * number, 100) for number in range(3)),
        *(launch(number + 1, 100 * number, 5) for number in range(3)),
        kernel("a", 10, 40, 1),
        kernel("b", 210, 40, 3),  # that of step 1 is lost
    ]
    trace = events_frame(rows)
    totals = steps(trace).totals
    assert totals.select("in_steps_ns", "in_steps_pct").rows() == [(80_000, 40.0)]
    answer = idle(trace)
    assert answer.by_step["idle_ns"].to_list() == [60_000, None, 60_000]
    assert answer.by_kind["idle_ns"].sum() == 120_000
    assert answer.by_kind["step_pct"].sum() == pytest.approx(60)
    assert "60.0 %" in device_idle(trace).evidence
    all_lost = events_frame([step(0, 0, 100), launch(1, 0), launch(2, 50), kernel("a", 10, 40, 1)])
    assert idle(all_lost).gaps.is_empty()
    assert steps(all_lost).totals["in_steps_pct"].to_list() == [None]
    assert "every step has lost kernels" in device_idle(all_lost).reason


def test_without_steps_idle_time_and_the_finding_begin_with_the_first_device_event():
    trace = events_frame([op("setup", 0, 30_000), kernel("a", 30_000, 1000), kernel("b", 34_000, 1000)])
    answer = idle(trace)
    assert answer.gaps["dur_ns"].to_list() == [3_000_000]
    evidence = device_idle(trace).evidence
    assert evidence == (
        "from the first device event to the last no device works for 3.00 ms of 5.00 ms (60.0 %), which is 8.6 % of "
        "the whole trace; the longest gap is 3.00 ms"
    )
