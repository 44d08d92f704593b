"""Operators, by hand."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradscope.trace.calls import calls
from gradscope.trace.device import device_work
from gradscope.trace.kernels import kernels
from gradscope.trace.load import load_trace
from gradscope.trace.modules import modules
from gradscope.trace.operators import KINDS, operators
from gradscope.trace.stacks import DEEPEST
from tests.trace_builder import annotation, events_frame, frame, kernel, launch, memcpy, memory, op, step

CASES = Path(__file__).parents[1] / "cases" / "traces"


def answers(rows, *columns, **options):
    found = operators(events_frame(rows), **options)
    return {row["name"]: tuple(row[column] for column in columns) for row in found.iter_rows(named=True)}


def test_self_time_is_total_time_less_that_of_children():
    rows = [op("linear", 0, 100), op("addmm", 10, 60), op("copy", 20, 10), op("addmm", 75, 20)]
    found = answers(rows, "calls", "host_ns", "self_host_ns")
    assert found == {"linear": (1, 100_000, 20_000), "addmm": (2, 80_000, 70_000), "copy": (1, 10_000, 10_000)}


def test_own_time_is_never_below_zero_where_children_overlap():
    """As in a real trace: a frame runs past the end of another one, and both are children of the step."""
    rows = [
        step(3, 0, 100),
        frame("hook", 10, 60, python_id=1),
        frame("wrapper", 60, 35, python_id=2),
        frame("inner", 0, 20, tid=2),
    ]
    assert answers(rows, "host_ns", "self_host_ns") == {"ProfilerStep*": (100_000, 5_000)}
    rows[2] = frame("wrapper", 60, 40, python_id=2)
    rows.append(frame("more", 5, 60, python_id=3))
    assert answers(rows, "self_host_ns") == {"ProfilerStep*": (0,)}
    assert answers(rows, "self_host_ns", signed=True)["ProfilerStep*"][0] < 0


def test_a_call_inside_one_of_its_own_name_counts_twice_unless_it_is_the_only_child():
    twice = [op("add", 0, 100), op("add", 10, 20), op("add", 40, 20)]
    assert answers(twice, "calls", "host_ns", "self_host_ns") == {"add": (3, 140_000, 100_000)}
    once = [op("add", 0, 100), op("add", 10, 80), op("copy", 20, 30)]
    assert answers(once, "calls", "host_ns", "self_host_ns") == {
        "add": (1, 100_000, 70_000),
        "copy": (1, 30_000, 30_000),
    }


def test_device_time_belongs_to_the_operator_around_the_launch():
    rows = [
        op("linear", 0, 100),
        op("addmm", 10, 60),
        launch(1, 20),
        kernel("gemm", 200, 500, 1),
        launch(2, 80),
        kernel("bias", 700, 30, 2),
        launch(3, 150),
        kernel("own", 800, 7, 3),
    ]
    found = answers(rows, "self_device_ns", "device_ns")
    assert found == {"linear": (30_000, 530_000), "addmm": (500_000, 500_000), "cudaLaunchKernel": (7_000, 7_000)}


def test_an_external_id_names_the_operator_wherever_the_launch_was():
    rows = [
        op("compiled", 0, 10, external_id=5),
        op("other", 20, 10, external_id=6),
        launch(9, 22, 2),
        kernel("gemm", 40, 50, 9, external_id=5),
        kernel("lost", 90, 50),
    ]
    assert answers(rows, "self_device_ns", kinds=["operator"]) == {"compiled": (50_000,), "other": (0,)}


def test_an_external_id_that_only_repeats_the_correlation_says_nothing():
    rows = [
        op("unrelated", 0, 10, external_id=9),
        op("mm", 20, 10, external_id=6),
        launch(9, 22, 2, external_id=9),
        kernel("gemm", 40, 50, 9, external_id=9),
    ]
    assert answers(rows, "self_device_ns", kinds=["operator"]) == {"unrelated": (0,), "mm": (50_000,)}


def test_python_frames_do_not_stand_between_an_operator_and_its_launch():
    rows = [
        op("custom", 0, 100),
        frame("kernel.py(3): run", 10, 50),
        launch(1, 20),
        memcpy("HtoD", 90, 40, correlation=1),
    ]
    assert answers(rows, "self_device_ns", kinds=KINDS)["custom"] == (40_000,)


def test_what_a_trace_does_not_tell_is_missing_and_not_zero():
    found = operators(events_frame([op("mm", 0, 10)]))
    unknown = ["self_device_ns", "device_ns", "self_memory_bytes", "memory_bytes", "device_memory_bytes", "flops"]
    assert found.select(unknown).row(0) == (None,) * len(unknown)
    assert found.row(0, named=True)["host_ns"] == 10_000


def test_memory_is_what_was_taken_less_what_was_given_back():
    rows = [
        op("outer", 0, 100),
        op("inner", 10, 20),
        memory(10, 64, 64),  # at the first moment of the call
        memory(30, 32, 96),  # at the last one
        memory(50, -16, 80),
        memory(60, 1000, 1000, device_type=1, device=0),
        memory(200, 5, 85),  # in no call
    ]
    columns = ("memory_bytes", "self_memory_bytes", "device_memory_bytes", "self_device_memory_bytes")
    assert answers(rows, *columns) == {"outer": (80, -16, 1000, 1000), "inner": (96, 96, 0, 0)}
    assert answers(rows, "calls", *columns, kinds=["memory"]) == {"[memory]": (1, 5, 5, 0, 0)}


def test_a_call_on_another_thread_takes_part_in_memory_but_not_in_time():
    rows = [op("main", 0, 100), op("worker", 20, 20, tid="101"), memory(30, 8, 8, tid="101")]
    assert answers(rows, "self_host_ns", "memory_bytes") == {"main": (100_000, 8), "worker": (20_000, 8)}


def test_shapes_divide_calls_of_one_name_and_lists_of_tensors_count_as_none():
    rows = [
        op("mm", 0, 10, shapes="[[2,3],[3,4]]"),
        op("mm", 20, 30, shapes="[[2, 3], [3, 4]]"),
        op("mm", 60, 5, shapes="[[1,3],[3,4]]"),
        op("cat", 70, 1, shapes="[[[1,3],[3,4]],[]]"),
        op("cat", 80, 2, shapes="[[[9]],[]]"),
        op("zero", 90, 1),
    ]
    found = operators(events_frame(rows), by="name+shape").select("name", "shapes", "calls", "host_ns").rows()
    assert found == [
        ("mm", "[[2,3],[3,4]]", 2, 40_000),
        ("mm", "[[1,3],[3,4]]", 1, 5_000),
        ("cat", "[[],[]]", 2, 3_000),
        ("zero", "[]", 1, 1_000),
    ]


def test_stacks_divide_calls_to_the_depth_asked_for():
    rows = [op("mm", 0, 10, stack="f;g;main;"), op("mm", 20, 10, stack="f;h;main;"), op("mm", 40, 1)]
    trace = events_frame(rows)
    deep = operators(trace, by="stack").select("stack", "calls").rows()
    assert deep == [(["f", "g", "main"], 1), (["f", "h", "main"], 1), ([], 1)]
    shallow = operators(trace, by="stack", stack_depth=1).select("stack", "calls").rows()
    assert shallow == [(["f"], 2), ([], 1)]


def test_the_backward_pass_has_the_stack_of_its_forward_call():
    node = "autograd::engine::evaluate_function: MmBackward0"
    rows = [
        op("linear", 0, 10, sequence=4, stack="f;main;"),
        op("mm", 2, 5, sequence=4, stack="mm;f;main;"),
        op(node, 20, 30, sequence=4, stack="run_backward;main;"),
        op("MmBackward0", 22, 20, sequence=4, stack="run_backward;main;"),
        op("mm", 25, 10, stack="run_backward;main;"),
        op("autograd::engine::evaluate_function: AccumulateGrad", 60, 9, stack="run_backward;main;"),
        op("AccumulateGrad", 62, 3, stack="run_backward;main;"),
    ]
    found = operators(events_frame(rows), by="stack").select("name", "stack", "host_ns").rows()
    assert ("mm", ["f", "main"], 10_000) in found
    assert ("mm", ["mm", "f", "main"], 5_000) in found
    assert ("MmBackward0", ["f", "main"], 20_000) in found
    assert (node, ["run_backward", "main"], 30_000) in found
    assert ("AccumulateGrad", [], 3_000) in found


def test_without_stacks_the_python_frames_around_a_call_are_its_stack():
    rows = [frame("main", 0, 100), frame("f", 10, 50), op("mm", 20, 10), op("add", 22, 2), op("mm", 70, 5)]
    found = operators(events_frame(rows), by="stack").select("name", "stack").rows()
    assert found == [("mm", ["f", "main"]), ("mm", ["main"]), ("add", ["f", "main"])]


def test_deep_recursion_keeps_the_innermost_frames():
    rows = [frame(f"f{at}", at, 1000 - 2 * at) for at in range(300)] + [op("mm", 400, 10)]
    (stack,) = operators(events_frame(rows), by="stack")["stack"].to_list()
    assert stack == [f"f{at}" for at in range(299, 299 - DEEPEST, -1)]


def test_one_step_holds_the_calls_that_begin_in_it():
    rows = [step(0, 0, 100), op("mm", 90, 30), step(1, 100, 100), op("mm", 120, 10), op("mm", 200, 10)]
    trace = events_frame(rows)
    found = operators(trace, step=1, kinds=["operator"]).select("name", "calls", "host_ns").rows()
    assert found == [("mm", 1, 10_000)]
    assert operators(trace, step=7).is_empty()
    every = operators(trace, kinds=["annotation"]).select("name", "calls", "host_ns").rows()
    assert every == [("ProfilerStep*", 2, 200_000)]


def test_a_name_is_text_and_nothing_else():
    hostile = "aten::\x1b]0;X\x07[/red] ' \" ^(?i)$"
    rows = [op(hostile, 0, 10), op(None, 20, 5), annotation(hostile, 40, 10)]
    found = operators(events_frame(rows)).select("name", "kind", "calls").rows()
    assert sorted(found, key=str) == sorted(
        [(hostile, "operator", 1), (hostile, "annotation", 1), (None, "operator", 1)], key=str
    )


def test_a_trace_of_nothing_has_no_operators():
    assert operators(events_frame([]), by="stack", kinds=KINDS).is_empty()
    assert operators(events_frame([memory(1, 1, 1)]), by="name+shape", kinds=KINDS)["calls"].to_list() == [1]


CALLS = st.tuples(
    st.sampled_from(
        ["cpu_op", "user_annotation", "python_function", "cuda_runtime", "overhead", "kernel", "gpu_memcpy"]
    ),
    st.sampled_from(["f", "g", "aten::is_leaf", "nn.Module: M_0", "ProfilerStep#0"]),
    st.integers(0, 40),
    st.integers(0, 20),
    st.sampled_from(["1", "2"]),
    st.none() | st.integers(-1, 6),
    st.none() | st.integers(-1, 6),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(CALLS, max_size=25))
def test_whatever_the_trace_no_time_is_lost_or_made(calls_given):
    rows = [
        {
            "cat": cat,
            "name": name,
            "ts": ts,
            "dur": dur,
            "tid": tid,
            "external_id": external,
            "correlation": correlation,
        }
        for cat, name, ts, dur, tid, external, correlation in calls_given
    ]
    trace = events_frame(rows)
    nested = calls(trace)
    outermost = nested.frame.filter(nested.frame["parent"].is_null())
    for by in ("name", "name+shape", "stack"):
        assert operators(trace, by=by, kinds=KINDS, signed=True)["self_host_ns"].sum() == outermost["dur_ns"].sum()
    on_device = kernels(trace)
    work = device_work(trace).table
    assert on_device["total_ns"].sum() == (work["end_ns"] - work["ts_ns"]).sum()
    assert on_device["stamped_ns"].sum() == sum(
        row["dur"] * 1000 for row in rows if row["cat"] in ("kernel", "gpu_memcpy")
    )
    given_to_calls = operators(trace, kinds=KINDS)["self_device_ns"].sum()
    assert given_to_calls <= on_device["total_ns"].sum()
    assert outermost["device_ns"].sum() == given_to_calls
    assert not (modules(trace).frame["self_host_ns"] < 0).any()


PLAIN = {"aten::mm": (3, 600_000), "aten::relu": (3, 300_000)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("base.json", PLAIN),
        ("base_gpu.json", PLAIN),
        ("p05_array.json", PLAIN),
        ("p07_holes.json", {"aten::mm": (2, 400_000), "aten::relu": (3, 300_000)}),
        ("p09_overlap.json", PLAIN | {"a": (1, 50_000), "b": (1, 60_000)}),
        ("p10_frames_end_together.json", PLAIN),
        ("p14_no_steps.json", PLAIN),
        ("p16_memory.json", PLAIN),
    ],
)
def test_the_reported_cases(name, expected):
    found = operators(load_trace(CASES / name), kinds=["operator"])
    assert {name: (count, host) for name, count, host in found.select("name", "calls", "host_ns").rows()} == expected


def test_the_device_case_gives_its_kernels_to_the_operator_that_launched_them():
    found = operators(load_trace(CASES / "base_gpu.json"), kinds=["operator"])
    assert found.select("name", "self_device_ns").rows() == [("aten::mm", 1_200_000), ("aten::relu", 0)]


def test_the_memory_case_gives_each_allocation_to_the_operator_around_it():
    found = operators(load_trace(CASES / "p16_memory.json"), kinds=["operator"])
    assert found.select("name", "memory_bytes").rows() == [("aten::mm", 500), ("aten::relu", -1000)]
