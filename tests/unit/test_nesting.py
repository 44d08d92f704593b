"""The tree of calls by time alone."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gradscope.trace.nesting import less_children, nearest, nest


def tree(*intervals, threads=None):
    starts, ends = zip(*intervals, strict=True)
    return nest(threads or [0] * len(intervals), starts, ends)


def test_a_call_belongs_to_the_innermost_one_around_it():
    found = tree((0, 100), (10, 50), (20, 30), (30, 40), (60, 70), (100, 110))
    assert found.parent.tolist() == [-1, 0, 1, 1, 0, -1]
    assert less_children([100, 40, 10, 10, 10, 10], found.parent).tolist() == [50, 20, 10, 10, 10, 10]
    assert found.subtree_sums([1, 2, 4, 8, 16, 32]).tolist() == [31, 14, 4, 8, 16, 32]
    assert found.overlaps == 0


def test_the_order_of_the_file_does_not_matter():
    found = tree((30, 40), (100, 110), (20, 30), (0, 100), (60, 70), (10, 50))
    assert found.parent.tolist() == [5, -1, 5, -1, 3, 3]


def test_of_two_equal_ranges_the_first_in_the_file_is_around_the_other():
    assert tree((0, 10), (0, 10)).parent.tolist() == [-1, 0]


def test_threads_do_not_mix():
    found = tree((0, 100), (10, 20), (10, 20), threads=[1, 2, 1])
    assert found.parent.tolist() == [-1, -1, 0]
    assert found.subtree_sums([1, 2, 4]).tolist() == [5, 2, 4]


def test_a_range_that_runs_past_the_one_it_began_in_is_its_sibling():
    found = tree((0, 1000), (20, 70), (40, 100), (45, 60))
    assert found.parent.tolist() == [-1, 0, 0, 2]  # the last lies in both, and belongs to the later one
    assert found.overlaps == 1


def test_a_call_without_length_at_the_end_of_another_is_outside():
    assert tree((0, 10), (10, 10), (5, 5)).parent.tolist() == [-1, -1, 0]


def test_nothing_has_no_tree():
    found = nest([], [], [])
    assert found.parent.tolist() == []
    assert found.subtree_sums([]).tolist() == []
    assert nearest(found.parent, np.array([], bool)).tolist() == []


def test_nearest_goes_up_to_what_is_wanted():
    parent = tree((0, 100), (10, 50), (20, 30), (200, 210)).parent
    wanted = np.array([True, False, False, False])
    assert nearest(parent, wanted).tolist() == [0, 0, 0, -1]
    assert nearest(parent, wanted, np.array([2, -1])).tolist() == [0, -1]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12)), max_size=30))
def test_it_is_the_tree_that_torch_builds(rows):
    threads, starts, durations = ([row[at] for row in rows] for at in range(3))
    ends = [start + duration for start, duration in zip(starts, durations, strict=True)]
    expected = [-1] * len(rows)
    for thread in set(threads):  # EventList._populate_cpu_children, with its own words
        stack = []
        mine = [at for at in range(len(rows)) if threads[at] == thread]
        for event in sorted(mine, key=lambda at: (starts[at], -ends[at])):
            while stack:
                if starts[event] >= ends[stack[-1]] or ends[event] > ends[stack[-1]]:
                    stack.pop()
                else:
                    expected[event] = stack[-1]
                    break
            stack.append(event)
    found = nest(threads, starts, ends)
    assert found.parent.tolist() == expected
    sizes = found.subtree_sums([1] * len(rows))
    for at in range(len(rows)):
        inside = [other for other in range(len(rows)) if at in ancestors(expected, other)]
        assert sizes[at] == 1 + len(inside)


def ancestors(parent, at):
    found = []
    while (at := parent[at]) >= 0:
        found.append(at)
    return found


def test_deep_recursion_is_linear():
    depth = 100_000
    found = nest(np.zeros(depth), np.arange(depth), 2 * depth - np.arange(depth))
    assert found.parent.tolist() == list(range(-1, depth - 1))
    wanted = np.arange(depth) == 0
    assert nearest(found.parent, wanted).max() == 0
