"""Whatever a trace holds: parts sum to steps, no device is busier than there is time, idle and active time are all."""

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradscope.trace.communication import communication, stragglers
from gradscope.trace.idle import idle
from gradscope.trace.phases import phases
from gradscope.trace.steps import PARTS, steps
from tests.trace_builder import annotation, events_frame, frame, kernel, launch, op, step

times = st.integers(-50, 300)
durations = st.integers(0, 120)
correlations = st.one_of(st.none(), st.integers(-1, 6))
threads = st.sampled_from(["100", "200", ""])
device = st.sampled_from([0, 1, None])
event = st.one_of(
    st.builds(
        lambda number, ts, dur, tid: step(number, ts, dur, tid=tid), st.integers(0, 4), times, durations, threads
    ),
    st.builds(
        lambda name, ts, dur, tid, sequence, forward: op(
            name, ts, dur, tid=tid, sequence=sequence, forward_thread=forward
        ),
        st.sampled_from(["aten::mm", "autograd::engine::evaluate_function: MmBackward0", "c10d::allreduce_"]),
        times,
        durations,
        threads,
        st.one_of(st.none(), st.integers(-1, 3)),
        st.one_of(st.none(), st.integers(0, 1)),
    ),
    st.builds(
        lambda name, ts, dur, tid: annotation(name, ts, dur, tid=tid),
        st.sampled_from(
            ["forward", "backward", "gloo:all_reduce", "Optimizer.step#A.step", "ProfilerStep#x", "[/red]"]
        ),
        times,
        durations,
        threads,
    ),
    st.builds(
        launch,
        correlations,
        times,
        durations,
        st.sampled_from(["cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamBeginCapture", "cudaStreamEndCapture"]),
    ),
    st.builds(
        lambda name, ts, dur, correlation, stream, number: kernel(
            name, ts, dur, correlation, stream=stream, device=number
        ),
        st.sampled_from(["k", "ncclDevKernel_AllReduce_Sum_f32"]),
        times,
        st.one_of(durations, st.just(900_000)),
        correlations,
        st.integers(7, 8),
        device,
    ),
    st.builds(lambda ts, dur: frame("train.py(1): main", ts, dur), times, durations),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(event, max_size=25))
def test_time_adds_up(rows):
    trace = events_frame(rows)
    answer = steps(trace)
    for table in (answer.table, answer.whole):
        parts = table.select(pl.sum_horizontal(f"{part}_ns" for part in PARTS).alias("sum"), "dur_ns")
        assert parts["sum"].to_list() == parts["dur_ns"].to_list()
        assert table.select((pl.min_horizontal(f"{part}_ns" for part in PARTS) >= 0).all()).item()
        assert (table["gpu_busy_pct"].drop_nulls() <= 100).all()
    ends = (answer.table["start_ns"] + answer.table["dur_ns"]).to_list()
    assert all(start >= end for start, end in zip(answer.table["start_ns"].to_list()[1:], ends, strict=False))
    assert (answer.totals["union_ns"] <= answer.totals["raw_sum_ns"]).all()
    waits = idle(trace)
    assert (waits.launch_delays["delay_ns"] >= 0).all()
    both = waits.by_step.join(answer.devices, on=["number", "window", "device"]).join(
        answer.table, on=["number", "window"]
    )
    assert both.height == answer.devices.height == waits.by_step.height
    if waits.gaps.height:
        assert waits.longest["dur_ns"][0] == waits.gaps["dur_ns"].max()
    assert both.filter(~pl.col("complete"))["idle_ns"].null_count() == both.height - int(both["complete"].sum())
    both = both.filter("complete")
    assert (both["idle_ns"] + both["active_ns"]).to_list() == both["dur_ns"].to_list()
    told = phases(trace)
    if told.source and answer.table.height:
        summed = told.table.group_by("number", "window").agg(pl.col("host_ns").sum())
        compared = summed.join(answer.table, on=["number", "window"])
        assert compared["host_ns"].to_list() == compared["host_dur_ns"].to_list()
    talk = communication(trace)
    assert (talk.by_step["overlap_ns"] <= talk.by_step["communication_ns"]).all()
    assert (stragglers({0: trace, 1: trace}).calls["wait_ns"] == 0).all()
