"""Which call lies inside which: the calls of a thread as a tree, by time alone.

The rule is torch.profiler's own (`EventList._populate_cpu_children`), so that numbers agree with `key_averages()`.
Intervals of a thread are taken by start, the longer first, then in the order given. Each belongs to the innermost one
before it that holds it whole. One that runs past the end of the call it began in is no child of that call but its
sibling, and the call it passed takes no more children: nothing is cut and nothing is lost, but the two share some time,
and both count it as theirs.
"""

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Nesting:
    """The tree over n intervals; indices are those of the arrays it was made of."""

    parent: Integers
    """Index of the innermost interval around each one; -1: none."""
    order: Integers
    """Indices by thread and start: a parent stands before its children, and a subtree stands together."""
    place: Integers
    """Where each interval stands in `order`."""
    stop: Integers
    """Where the subtree of each interval ends in `order` (exclusive); it begins at its `place`."""
    overlaps: int
    """How often an interval ran past the end of one that it began in."""

    def subtree_sums(self, values: npt.ArrayLike) -> Integers:
        """Return, for each interval, the sum of `values` (integers, one each) over it and all that lies inside it."""
        running = np.zeros(len(self.order) + 1, np.int64)
        np.cumsum(np.asarray(values, np.int64)[self.order], out=running[1:])
        return running[self.stop] - running[self.place]


def nest(thread: npt.ArrayLike, start: npt.ArrayLike, end: npt.ArrayLike) -> Nesting:
    """Build the tree of intervals.

    Args:
        thread: Integers; intervals of different threads are never inside each other.
        start: Integers, in one unit of time.
        end: Integers, no less than `start`.

    Returns:
        The tree, in O(n log n).
    """
    threads, starts, ends = (np.asarray(column, np.int64) for column in (thread, start, end))
    count = len(starts)
    order = np.lexsort((-ends, starts, threads)).astype(np.int64)
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    sorted_threads = threads[order]
    edges = [0, *(np.flatnonzero(np.diff(sorted_threads)) + 1).tolist(), count] if count else []
    parents = [-1] * count
    stops = [0] * count
    sorted_calls = (starts[order].tolist(), ends[order].tolist())
    overlaps = sum(_nest_thread(sorted_calls, edge, (parents, stops)) for edge in itertools.pairwise(edges))
    above = np.asarray(parents, np.int64)
    parent = np.full(count, -1, np.int64)
    inside = above >= 0
    parent[order[inside]] = order[above[inside]]
    stop = np.empty(count, np.int64)
    stop[order] = stops
    return Nesting(parent, order, place, stop, overlaps)


def _nest_thread(
    sorted_calls: tuple[list[int], list[int]], edge: tuple[int, int], tree: tuple[list[int], list[int]]
) -> int:
    """Fill parents and stops from one edge of a thread to the other, and count overlaps.

    A loop over plain integers, half a microsecond a call: a stack has no vectorised form.
    """
    starts, ends = sorted_calls
    parents, stops = tree
    open_calls: list[int] = []
    overlaps = 0
    for at in range(*edge):
        start, end = starts[at], ends[at]
        while open_calls:
            top = open_calls[-1]
            top_end = ends[top]
            if end <= top_end and start < top_end:
                parents[at] = top
                break
            if start < top_end:
                overlaps += 1
            stops[top] = at
            open_calls.pop()
        open_calls.append(at)
    for left in open_calls:
        stops[left] = edge[1]
    return overlaps


def less_children(values: npt.ArrayLike, parent: Integers) -> Integers:
    """Return each interval's value less those of its direct children: self time out of total time.

    Where children overlap their shared part is taken off twice, and the result can be below 0, as torch's can.
    """
    own = np.array(values, np.int64)
    inside = parent >= 0
    np.subtract.at(own, parent[inside], np.asarray(values, np.int64)[inside])
    return own


def nearest(parent: Integers, wanted: npt.NDArray[np.bool_], start: Integers | None = None) -> Integers:
    """Return, for each interval, itself or the nearest one around it that is wanted; -1: none.

    Args:
        parent: Index of the interval around each one; -1: none.
        wanted: One flag per interval.
        start: Intervals to begin from, -1 among them stays; all if left out.
    """
    nowhere = len(parent)
    jump = np.append(np.where(wanted, np.arange(nowhere), np.where(parent >= 0, parent, nowhere)), nowhere)
    while not np.array_equal(further := jump[jump], jump):  # twice as far each time: deep recursion stays cheap
        jump = further
    found = jump[:-1] if start is None else jump[np.where(start >= 0, start, nowhere)]
    return np.where(found == nowhere, -1, found)
