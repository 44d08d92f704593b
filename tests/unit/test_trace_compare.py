"""Two traces side by side: what explains the difference. All numbers by hand."""

import pytest

from gradscope.trace.compare import compare
from tests.trace_builder import annotation, events_frame, kernel, launch, op, step


def trace(*rows):
    return events_frame(rows)


def two_steps(mm_us: float, calls: int = 1, *more):
    """Two steps of 1000 us with `calls` products each."""
    rows = []
    for number in range(2):
        rows.append(step(number, 1000 * number, 1000))
        rows += [op("aten::mm", 1000 * number + 100 * index, mm_us) for index in range(calls)]
    return trace(*rows, *more)


def row(frame, name):
    (found,) = frame.filter(frame["name"] == name).rows(named=True)
    return found


def test_longer_calls_and_more_calls_are_told_apart():
    answer = compare(two_steps(40), two_steps(60, 3))
    mm = row(answer.operators, "aten::mm")
    assert answer.per_step
    assert (answer.steps_a, answer.steps_b) == (2, 2)
    assert (mm["calls_a"], mm["calls_b"]) == (1, 3)
    assert (mm["mean_a_ms"], mm["mean_b_ms"]) == (0.04, 0.06)
    assert (mm["a_ms"], mm["b_ms"]) == (0.04, pytest.approx(0.18))
    assert mm["difference_ms"] == pytest.approx(0.14)
    assert mm["by_calls_ms"] == pytest.approx(0.08)  # two more at 0.04
    assert mm["by_duration_ms"] == pytest.approx(0.06)  # three, each 0.02 longer
    assert mm["only_in"] is None


def test_the_largest_difference_comes_first_whichever_its_sign():
    a = trace(step(0, 0, 1000), op("x", 0, 100), op("y", 200, 50), op("z", 300, 10))
    b = trace(step(0, 0, 1000), op("x", 0, 90), op("y", 200, 10), op("z", 300, 30))
    names = compare(a, b).operators["name"].to_list()
    # the step's own time outside of operators: 840 and 870 us
    assert names == ["y", "ProfilerStep*", "z", "x"]


def test_what_only_one_has_differs_by_its_calls_alone():
    a = trace(step(0, 0, 1000), op("old", 0, 100))
    b = trace(step(0, 0, 1000), op("new", 0, 300))
    frame = compare(a, b).operators
    old, new = row(frame, "old"), row(frame, "new")
    assert (old["only_in"], old["calls_b"], old["mean_b_ms"], old["difference_ms"]) == (
        "a",
        0,
        None,
        pytest.approx(-0.1),
    )
    assert (new["only_in"], new["calls_a"], new["mean_a_ms"], new["difference_ms"]) == (
        "b",
        0,
        None,
        pytest.approx(0.3),
    )
    assert (new["by_calls_ms"], new["by_duration_ms"]) == (pytest.approx(0.3), 0)


def test_parts_and_own_times_sum_to_the_difference_of_the_step():
    a = trace(step(0, 0, 1000), op("x", 0, 100), op("inner", 10, 30))
    b = trace(step(0, 0, 1500), op("x", 0, 700), op("inner", 10, 130))
    answer = compare(a, b)
    assert answer.difference_ms == pytest.approx(0.5)
    assert answer.parts["difference_ms"].sum() == pytest.approx(0.5)
    assert answer.operators["difference_ms"].sum() == pytest.approx(0.5)


def test_runs_of_different_length_are_compared_per_step():
    one = trace(step(0, 0, 1000), op("aten::mm", 0, 40))
    answer = compare(one, two_steps(40))
    assert row(answer.operators, "aten::mm")["difference_ms"] == 0
    assert answer.difference_ms == 0


def test_what_runs_outside_of_steps_does_not_count():
    answer = compare(two_steps(40), two_steps(40, 1, op("aten::mm", 5000, 900)))
    assert row(answer.operators, "aten::mm")["difference_ms"] == 0


def test_without_steps_the_whole_traces_are_compared():
    answer = compare(two_steps(40), trace(op("aten::mm", 0, 100)))
    assert not answer.per_step
    mm = row(answer.operators, "aten::mm")
    assert (mm["calls_a"], mm["a_ms"], mm["b_ms"]) == (2, pytest.approx(0.08), pytest.approx(0.1))


def test_a_recomputation_that_only_one_has_is_a_difference_of_its_phase():
    def run(*more):
        return trace(step(0, 0, 1000), annotation("gradscope: backward", 200, 600), *more)

    frame = compare(run(), run(annotation("gradscope: recompute", 300, 100))).phases
    assert row(frame, "recompute")["difference_ms"] == pytest.approx(0.1)
    assert row(frame, "backward")["difference_ms"] == pytest.approx(-0.1)
    assert row(frame, "backward")["device_difference_ms"] is None


def test_a_trace_that_tells_no_phases_has_none_to_compare():
    frame = compare(two_steps(40), trace(step(0, 0, 1000), annotation("gradscope: forward", 200, 600))).phases
    forward = row(frame, "forward")
    assert (forward["a_ms"], forward["b_ms"], forward["difference_ms"]) == (None, pytest.approx(0.6), None)


def test_kernels_are_compared_by_the_devices_time():
    def run(dur):
        return trace(step(0, 0, 1000), launch(1, 100), kernel("k", 200, dur, 1))

    frame = compare(run(300), run(500)).kernels
    k = row(frame, "k")
    assert (k["kind"], k["a_ms"], k["b_ms"]) == ("compute", 0.3, 0.5)
    assert k["difference_ms"] == pytest.approx(0.2)


def test_empty_traces_have_nothing_to_compare():
    answer = compare(trace(), trace())
    assert answer.difference_ms is None
    assert answer.operators.is_empty()
    assert answer.kernels.is_empty()
    assert answer.phases.is_empty()
