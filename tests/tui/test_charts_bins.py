from array import array
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscope.core.events import Stage
from gradscope.tui.charts.bins import Bins
from gradscope.tui.charts.spread import Mark, Spread, spread_over
from gradscope.tui.view import STAGES, Columns, Table


def table(rows, names=("step", "stage", "covers", "wall_ms", "loss")):
    made = Table(names)
    for row in rows:
        made.append(**row)
    return made


def steps(count, first=1, stage=Stage.MEASURE, **values):
    return [
        {"step": step, "stage": STAGES.index(stage), "covers": 1, "wall_ms": float(step), "loss": 10.0 * step} | values
        for step in range(first, first + count)
    ]


def seen(rows, columns, names=("wall_ms", "loss"), expected=None, dots=1, **options):
    bins = Bins(names, **options)
    bins.update(table(rows).columns())
    return bins.view(spread_over(bins.steps, columns, expected=expected, first=bins.first), dots)


def test_a_plot_is_filled_from_the_left_and_halved_when_full():
    assert seen(steps(3), 4).mean("loss") == [10, 20, 30, None]
    assert seen(steps(4), 4).mean("loss") == [10, 20, 30, 40]
    assert seen(steps(5), 4).mean("loss") == [15, 35, 50, None]
    assert seen(steps(9), 4).mean("loss") == [25, 65, 90, None]


def test_a_column_has_a_mean_a_range_and_a_last_value():
    view = seen(steps(5), 4)
    assert view.low("loss") == [10, 30, 50, None]
    assert view.high("loss") == [20, 40, 50, None]
    assert view.last("loss") == [20, 40, 50, None]


def test_a_known_end_spans_the_axis():
    assert seen(steps(2), 6, expected=6).mean("loss") == [10, 20, None, None, None, None]
    wide = seen(steps(2), 6, expected=3)
    assert wide.mean("loss") == [10, 10, 20, 20, None, None]
    assert (wide.spread.column_of(1), wide.spread.column_of(3)) == (0, 4)
    assert [wide.spread.steps_of(column) for column in range(6)] == [(1, 1), (1, 1), (2, 2), (2, 2), (3, 3), (3, 3)]


def test_an_end_far_away_is_neared_by_doubling():
    assert spread_over(10, 70, expected=100_000) == Spread(1, 98, 70)
    assert spread_over(99, 70, expected=100_000) == Spread(1, 196, 70)
    assert spread_over(60_000, 70, expected=100_000) == Spread(1, 100_000, 70)
    assert spread_over(10, 70, expected=120) == Spread(1, 120, 70)


def test_more_steps_than_planned_stretch_the_axis():
    assert spread_over(121, 70, expected=120) == Spread(1, 150, 70)
    assert spread_over(2, 70, expected=1).span >= 2


def test_steps_under_a_profiler_and_warm_up_are_marked_and_measured_ones_win():
    rows = [
        *steps(2, 1, Stage.WARMUP, wall_ms=900.0),
        *steps(2, 3, wall_ms=100.0),
        *steps(2, 5, Stage.PROFILE, wall_ms=500.0),
        *steps(1, 7, Stage.MEMORY, wall_ms=700.0),
    ]
    single = seen(rows, 8)
    measured, warmup, profiled = Mark.MEASURED, Mark.WARMUP, Mark.PROFILED
    assert single.marks == (warmup, warmup, measured, measured, profiled, profiled, profiled, Mark.EMPTY)
    assert single.mean("wall_ms") == [900, 900, 100, 100, 500, 500, 700, None]
    halved = seen(rows, 2)
    assert halved.marks == (measured, profiled)
    assert halved.mean("wall_ms") == [100, pytest.approx((500 + 500 + 700) / 3)]
    assert halved.mean("loss") == [25, 60]  # a loss is a loss, under a profiler too
    assert halved.profiled == (False, True)
    assert seen(rows, 1).profiled == (True,)
    assert seen(rows, 1).mean("wall_ms") == [100]


def test_bins_merged_by_capacity_keep_measured_steps_too():
    rows = [*steps(3, 1, Stage.WARMUP, wall_ms=900.0), *steps(1, 4, wall_ms=100.0), *steps(1, 5, Stage.PROFILE)]
    view = seen(rows, 2, capacity=2)
    assert view.mean("wall_ms") == [100, 5]
    assert view.mean("loss") == [25, 50]
    assert view.profiled == (False, True)


def test_a_record_that_stands_for_several_steps_fills_their_columns():
    rows = [*steps(1), {"step": 5, "stage": 1, "covers": 4, "wall_ms": 3.0, "loss": 7.0}]
    assert seen(rows, 5).mean("loss") == [10, 7, 7, 7, 7]
    rows = [*steps(2), {"step": 4, "stage": 1, "covers": 3, "wall_ms": 3.0, "loss": 30.0}]
    assert seen(rows, 1, capacity=1).mean("loss") == [pytest.approx((10 + 20 + 3 * 30) / 5)]


def test_missing_values_leave_gaps_and_count_in_no_mean():
    rows = steps(6)
    for index, value in ((1, None), (2, nan), (3, None), (4, inf)):
        rows[index]["loss"] = value
    view = seen(rows, 3)
    assert view.mean("loss") == [10, None, 60]
    assert view.last("loss") == [10, None, 60]


def test_steps_that_go_back_or_are_missing_stay_where_the_last_one_was():
    rows = [{"step": 1, "loss": 1.0}, {"step": 4, "loss": 4.0}, {"step": 2, "loss": 6.0}, {"step": None, "loss": 8.0}]
    assert seen(rows, 4).mean("loss") == [1, None, None, 6]


def test_samples_before_the_first_step_lie_in_the_first_column():
    made = table([{"step": None, "cpu": 4.0}, {"step": 0, "cpu": 6.0}, {"step": 1, "cpu": 9.0}], ("step", "cpu"))
    bins = Bins(("cpu",), first=0)
    bins.update(made.columns())
    assert bins.view(spread_over(bins.steps, 2, first=0)).mean("cpu") == [5, 9]


def test_braille_has_two_values_a_column_over_the_same_steps():
    assert seen(steps(3), 2, dots=2).mean("loss") == [10, 20, 30, None]
    assert seen(steps(3), 2).mean("loss") == [15, 30]
    assert seen(steps(1), 2, dots=2).mean("loss") == [10, 10, None, None]


def test_reading_as_the_run_goes_is_reading_it_at_the_end():
    rows = [*steps(40, 1, Stage.WARMUP), *steps(300, 41), *steps(9, 341, Stage.PROFILE), *steps(51, 350)]
    live, made = Bins(("wall_ms", "loss"), capacity=32), Table(("step", "stage", "covers", "wall_ms", "loss"))
    for row in rows:
        made.append(**row)
        live.update(made.columns())
    late = Bins(("wall_ms", "loss"), capacity=32)
    late.update(made.columns())
    for name in ("wall_ms", "loss"):
        spread = spread_over(live.steps, 20)
        one, other = live.view(spread), late.view(spread)
        assert one.mean(name) == pytest.approx(other.mean(name))
        assert (one.low(name), one.high(name), one.last(name)) == (other.low(name), other.high(name), other.last(name))
    assert live.marks == late.marks
    assert live.profiled == late.profiled


def test_nothing_new_changes_nothing():
    bins, made = Bins(("loss",)), table(steps(3))
    bins.update(made.columns())
    bins.update(made.columns())
    assert bins.view(spread_over(3, 3)).mean("loss") == [10, 20, 30]


def test_an_empty_run_has_empty_columns():
    bins = Bins(("loss",))
    bins.update(table([]).columns())
    view = bins.view(spread_over(0, 3))
    assert (view.mean("loss"), view.marks) == ([None] * 3, (Mark.EMPTY,) * 3)


@given(
    deltas=st.lists(st.integers(-3, 40), min_size=1, max_size=60),
    columns=st.integers(1, 50),
    capacity=st.integers(1, 40),
    expected=st.none() | st.integers(-1, 3000),
    dots=st.sampled_from((1, 2)),
)
def test_no_value_is_lost_whatever_the_resolution(deltas, columns, capacity, expected, dots):
    at, rows = 1, []
    for index, delta in enumerate(deltas):
        at = max(1, at + delta)
        rows.append({"step": at, "stage": index % len(STAGES), "covers": 1, "loss": float(index)})
    bins = Bins(("loss",), capacity=capacity)
    bins.update(table(rows, ("step", "stage", "covers", "loss")).columns())
    spread = spread_over(bins.steps, columns, expected=expected)
    assert spread.span >= bins.steps
    view = bins.view(spread, dots)
    high, low = view.high("loss"), view.low("loss")
    assert len(high) == columns * dots
    assert max(value for value in high if value is not None) == len(deltas) - 1
    assert min(value for value in low if value is not None) == 0
    for column in range(columns):
        first, last = spread.steps_of(column)
        assert spread.first <= first <= last
    for step in range(1, spread.span + 1, max(1, spread.span // 50)):
        first, last = spread.steps_of(spread.column_of(step))
        assert first <= step <= last


def test_a_damaged_step_number_costs_no_time():
    bins = Bins(("loss",))
    bins.update(Columns({"step": array("d", [1.0, 1e18]), "loss": array("d", [1.0, 2.0])}, 2))
    assert bins.view(spread_over(bins.steps, 10)).last("loss")[0] == 1
