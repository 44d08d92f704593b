import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscope.trace.intervals import (
    NOTHING,
    clip,
    contains,
    covered_ns,
    difference,
    gaps,
    intersection,
    locate,
    merge,
    merge_frame,
    union,
)


def of(*pairs):
    return merge([start for start, _ in pairs], [end for _, end in pairs])


def test_overlapping_touching_nested_and_unordered_ranges_become_one():
    assert of((30, 40), (0, 10), (5, 12), (12, 20), (2, 3)).pairs() == [(0, 20), (30, 40)]


def test_a_long_range_swallows_all_that_follow_in_it():
    assert of((0, 100), (10, 20), (30, 40), (99, 101), (200, 201)).pairs() == [(0, 101), (200, 201)]


def test_ranges_without_length_or_with_a_negative_one_are_none():
    assert of((5, 5), (9, 3)).pairs() == []
    assert of().length_ns == 0


def test_length_counts_overlap_once():
    assert of((0, 10), (5, 15), (20, 25)).length_ns == 20


def test_a_frame_of_events_is_merged():
    assert merge_frame(pl.DataFrame({"ts_ns": [10, 0], "dur_ns": [5, 11]})).pairs() == [(0, 15)]


def test_union_of_several_sets():
    assert union([of((0, 5)), of((3, 8), (20, 30)), NOTHING]).pairs() == [(0, 8), (20, 30)]
    assert union([]).pairs() == []


def test_intersection_keeps_the_shared_pieces():
    one, other = of((0, 10), (20, 30), (40, 50)), of((5, 25), (45, 46), (48, 60))
    assert intersection(one, other).pairs() == [(5, 10), (20, 25), (45, 46), (48, 50)]
    assert intersection(other, one).pairs() == [(5, 10), (20, 25), (45, 46), (48, 50)]


def test_ranges_that_only_touch_share_nothing():
    assert intersection(of((0, 10)), of((10, 20))).pairs() == []


def test_difference_cuts_out():
    assert difference(of((0, 10), (20, 30)), of((2, 4), (8, 22), (29, 40))).pairs() == [(0, 2), (4, 8), (22, 29)]
    assert difference(of((0, 10)), NOTHING).pairs() == [(0, 10)]
    assert difference(of((3, 7)), of((0, 10))).pairs() == []


def test_clip_keeps_what_is_within():
    assert clip(of((0, 10), (20, 30)), 5, 25).pairs() == [(5, 10), (20, 25)]


def test_gaps_include_both_edges():
    assert gaps(of((10, 20), (30, 40)), 0, 50).pairs() == [(0, 10), (20, 30), (40, 50)]
    assert gaps(of((10, 20), (30, 40)), 10, 40).pairs() == [(20, 30)]
    assert gaps(NOTHING, 0, 5).pairs() == [(0, 5)]
    assert gaps(NOTHING, 5, 5).pairs() == []


def test_covered_time_of_many_windows():
    busy = of((10, 20), (30, 40))
    assert covered_ns(busy, [0, 15, 0, 20, 35, 50, 9], [10, 35, 100, 30, 36, 60, 3]).tolist() == [0, 10, 20, 0, 1, 0, 0]
    assert covered_ns(NOTHING, [0, 1], [5, 6]).tolist() == [0, 0]


def test_a_time_is_in_the_range_it_starts_and_outside_the_one_it_ends():
    assert contains(of((10, 20)), [9, 10, 19, 20]).tolist() == [False, True, True, False]


def test_ranges_that_touch_stay_apart_when_a_time_is_located():
    assert locate([0, 10, 25], [10, 20, 30], [-1, 0, 10, 20, 24, 25, 30]).tolist() == [-1, 0, 1, -1, -1, 2, -1]
    assert locate([], [], [1]).tolist() == [-1]


def test_times_near_the_end_of_64_bit_are_exact():
    big = 1_700_000_000_000_000_000
    assert of((big, big + 1), (big + 2, big + 5)).length_ns == 4


ranges = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12)


def ticks(pairs):
    return {tick for start, end in pairs for tick in range(start, end)}


@given(ranges, ranges, st.integers(0, 60), st.integers(0, 60))
def test_the_algebra_is_that_of_sets(one, other, start, end):
    a, b = of(*one), of(*other)
    ones, others, window = ticks(one), ticks(other), set(range(start, end))
    assert ticks(a.pairs()) == ones
    assert ticks(union([a, b]).pairs()) == ones | others
    assert ticks(intersection(a, b).pairs()) == ones & others
    assert ticks(difference(a, b).pairs()) == ones - others
    assert ticks(gaps(a, start, end).pairs()) == window - ones
    assert covered_ns(a, [start], [end]).tolist() == [len(ones & window)]
    for result in (a, union([a, b]), intersection(a, b), difference(a, b), gaps(a, start, end)):
        assert (result.ends > result.starts).all()
        assert (result.starts[1:] >= result.ends[:-1]).all()


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
def test_any_integer_array_will_do(dtype):
    assert merge(np.array([1, 5], dtype), np.array([3, 9], dtype)).pairs() == [(1, 3), (5, 9)]
