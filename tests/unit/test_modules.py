"""Time by module."""

from gradscope.trace.modules import modules
from tests.trace_builder import events_frame, frame, kernel, launch, op, step

ROWS = [
    step(0, 0, 200),
    frame("train.py(9): step", 0, 190),
    frame("nn.Module: Net_0", 10, 100),
    frame("net.py(5): forward", 12, 90),
    frame("nn.Module: Linear_0", 20, 30),
    op("aten::linear", 25, 20),
    launch(1, 30, 5),
    kernel("gemm", 60, 40, 1),
    frame("nn.Module: Linear_1", 60, 20),
    op("aten::relu", 85, 10),
    launch(2, 87, 5),
    kernel("relu", 110, 7, 2),
    step(1, 200, 200),
    frame("nn.Module: Net_0", 210, 50),
]


def test_modules_are_told_by_the_path_of_modules_around_them():
    found = modules(events_frame(ROWS))
    assert found.notes == []
    assert found.frame.rows() == [
        ("Net_0", "Net_0", "Net", 0, 2, 100_000, 150_000, 7_000, 47_000),
        ("Net_0 / Linear_0", "Linear_0", "Linear", 1, 1, 30_000, 30_000, 40_000, 40_000),
        ("Net_0 / Linear_1", "Linear_1", "Linear", 1, 1, 20_000, 20_000, 0, 0),
    ]


def test_modules_stand_in_the_order_of_a_tree():
    rows = [
        frame("nn.Module: A_0", 0, 50),
        frame("nn.Module: C_0", 5, 10),
        frame("nn.Module: B_0", 20, 25),
        frame("nn.Module: D_0", 100, 30),
        frame("nn.Module: B_0", 101, 28),
    ]
    found = modules(events_frame(rows)).frame
    assert found["path"].to_list() == ["A_0", "A_0 / B_0", "A_0 / C_0", "D_0", "D_0 / B_0"]


def test_one_step_holds_the_modules_that_begin_in_it():
    found = modules(events_frame(ROWS), step=1).frame
    assert found.select("path", "calls", "host_ns").rows() == [("Net_0", 1, 50_000)]
    assert modules(events_frame(ROWS), step=9).frame.is_empty()


def test_without_frames_the_stacks_of_operators_tell():
    inner = (
        "<built-in function linear>;linear.py(130): forward;nn.Module: Linear_0;net.py(5): forward;nn.Module: Net_0;"
    )
    rows = [
        op("aten::linear", 0, 30, stack=inner),
        op("aten::mm", 5, 20, stack=inner),
        op("aten::add", 40, 5, stack="f;g;"),
    ]
    found = modules(events_frame(rows))
    assert [note.code for note in found.notes] == ["modules_from_stacks"]
    assert found.frame.select("path", "level", "calls", "self_host_ns", "host_ns", "device_ns").rows() == [
        ("Net_0", 0, None, 0, 30_000, None),
        ("Net_0 / Linear_0", 1, None, 30_000, 30_000, None),
    ]


def test_a_trace_that_does_not_tell_of_modules_says_so():
    found = modules(events_frame([op("aten::mm", 0, 5), frame("train.py(1): f", 0, 9)]))
    assert found.frame.is_empty()
    assert [note.code for note in found.notes] == ["no_modules"]
    assert "with_stack" in found.notes[0].message
    assert modules(events_frame([])).frame.is_empty()


def test_a_name_of_a_module_is_text_and_nothing_else():
    found = modules(events_frame([frame("nn.Module: [/red]\x1b[2J_0", 0, 5), frame("nn.Module: ", 10, 5)])).frame
    assert found["module"].to_list() == ["", "[/red]\x1b[2J_0"]
