import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscope.tui.charts.scale import (
    UNITS,
    GrowingScale,
    Scale,
    highest,
    lowest,
    scale_for,
    stacked_tops,
    usual_top,
)

GIB = 1024**3
MIB = 1024**2


@pytest.mark.parametrize(
    ("high", "quantity", "end", "unit"),
    [
        (1.31 * GIB, "bytes", 1.5 * GIB, "GiB"),
        (1.49 * GIB, "bytes", 2 * GIB, "GiB"),  # too near to the end: there is room above the highest value
        (700 * MIB, "bytes", 768 * MIB, "MiB"),
        (1000 * MIB, "bytes", 1 * GIB, "GiB"),
        (78 * GIB, "bytes", 96 * GIB, "GiB"),
        (412, "ms", 500, "ms"),
        (950, "ms", 1000, "s"),
        (0.3, "ms", 0.4, "ms"),
        (12_000, "ms", 15_000, "s"),
        (92, "pct", 100, "%"),
        (185, "pct", 200, "%"),
        (340, "watt", 400, "W"),
        (1980, "mhz", 3000, "GHz"),
        (4960, "per_second", 6000, "k/s"),
        (2.3, "number", 3, ""),
    ],
)
def test_an_axis_ends_at_a_round_value_in_one_unit(high, quantity, end, unit):
    scale = scale_for(0, high, quantity)
    assert (scale.low, scale.high, scale.unit.name) == (0, pytest.approx(end), unit)


def test_labels_of_one_axis_share_its_unit():
    scale = Scale(0, 1.5 * GIB, "bytes")
    assert [scale.label(value) for value in scale.ticks(4)] == ["0", "0.5", "1", "1.5"]
    assert scale.label(1.5 * GIB, unit=True) == "1.5 GiB"
    assert scale.label(0.25 * GIB) == "0.25"


def test_ticks_are_round_and_no_more_than_asked_for():
    assert Scale(0, 500, "ms").ticks(6) == (0, 100, 200, 300, 400, 500)
    assert Scale(0, 500, "ms").ticks(3) == (0, 500)
    assert Scale(0, 500, "ms").ticks(1) == (0,)
    assert Scale(0, 500, "ms").ticks(0) == ()


def test_a_value_lies_between_the_ends():
    scale = Scale(100, 300)
    assert [scale.share(value) for value in (100, 150, 300, 50, 900)] == [0, 0.25, 1, 0, 1]


def test_a_logarithmic_axis_has_equal_room_for_each_decade():
    scale = scale_for(0.02, 9, log=True)
    assert (scale.low, scale.high) == (0.02, 10)
    decades = scale_for(0.01, 1.0, log=True)
    assert decades.share(0.1) == pytest.approx(0.5)
    assert decades.share(0) == 0
    assert decades.share(-5) == 0
    assert scale_for(1e-4, 1, log=True).ticks(10) == pytest.approx((1e-4, 1e-3, 1e-2, 0.1, 1))


def test_an_axis_grows_in_steps_and_never_shrinks():
    keep = GrowingScale("ms")
    ends = [keep.cover(high).high for high in (90, 95, 97, 98.5, 120, 149, 30, None, 151)]
    assert ends == [100, 100, 100, 100, 150, 150, 150, 150, 200]
    assert keep.cover(151) is keep.cover(160)


def test_an_axis_before_its_first_value_takes_no_stand():
    keep = GrowingScale("number", from_zero=False)
    assert (keep.cover(None).low, keep.cover(None).high) == (0, 1)
    assert (keep.cover(9.2, 8.9).low, keep.cover(9.2, 8.9).high) == (pytest.approx(8.9), pytest.approx(9.2))


def test_an_axis_near_its_values_keeps_the_lowest_it_had():
    keep = GrowingScale("number", from_zero=False)
    keep.cover(9.5, 9.0)
    scale = keep.cover(4.0, 2.0)
    assert (scale.low, scale.high) == (2, 10)


def test_another_kind_of_axis_starts_afresh():
    before = scale_for(0, 900)
    assert scale_for(0.5, 5, log=True, before=before) == Scale(0.5, 5, "number", log=True)


def test_zero_and_equal_values_have_an_axis_too():
    assert scale_for(0, 0, "bytes") == Scale(0, 1, "bytes")
    assert scale_for(7, 7, from_zero=False).holds(7)
    assert scale_for(0, 0, from_zero=False).holds(0)
    assert scale_for(-3, 5).low <= -3


def test_the_usual_top_leaves_out_a_slow_first_step():
    assert usual_top([9000, 400, 410, None, 420, 1100]) == 1100
    assert usual_top([None]) is None
    assert usual_top([0, 0]) == 0


def test_extremes_leave_out_what_is_missing():
    assert highest([[1, None, math.nan], [math.inf, 3]]) == 3
    assert highest([[None]]) is None
    assert lowest([[0.0, 0.2, None, 5]], above=0) == 0.2


def test_heights_of_stacks():
    assert stacked_tops([[1, None, None], [2, 5, None]]) == [3, 5, None]


@given(
    low=st.floats(-1e15, 1e15),
    span=st.floats(0, 1e15),
    quantity=st.sampled_from(sorted(UNITS)),
    log=st.booleans(),
    from_zero=st.booleans(),
    most=st.integers(0, 20),
)
def test_any_range_has_a_scale(*, low, span, quantity, log, from_zero, most):
    high = low + span
    scale = scale_for(low, high, quantity, log=log, from_zero=from_zero)
    assert math.isfinite(scale.low)
    assert scale.low < scale.high
    if not log:
        assert scale.share(low) == 0 or scale.low < low
        assert scale.high >= high * (1 - 1e-6) - 1e-6
    ticks = scale.ticks(most)
    assert len(ticks) <= most
    assert list(ticks) == sorted(ticks)
    for value in (low, high):
        assert 0 <= scale.share(value) <= 1
        assert scale.label(value, unit=True)
    assert scale_for(low, high, quantity, log=log, from_zero=from_zero, before=scale).high == scale.high
