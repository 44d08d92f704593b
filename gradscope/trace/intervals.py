"""Sets of time as sorted, disjoint, half-open ranges in nanoseconds: union, intersection, difference, and lengths.

Everything is a few passes of numpy over arrays, so that a million kernels cost some tens of milliseconds. Two ranges
that touch are one range; a range without length is none.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

Nanoseconds = NDArray[np.int64]
"""An array of times or of durations."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """A set of time. Made by `merge` or by the operations below, never by hand from ranges that may overlap."""

    starts: Nanoseconds
    """Ascending; each later than the end before it."""
    ends: Nanoseconds
    """Each later than its start; the end itself is outside."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def length_ns(self) -> int:
        """Total time in the set."""
        return int((self.ends - self.starts).sum())

    @property
    def durations_ns(self) -> Nanoseconds:
        """Length of each range."""
        return self.ends - self.starts

    def pairs(self) -> list[tuple[int, int]]:
        """Return the ranges as plain numbers, for few of them."""
        return list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))


NOTHING = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


def merge(starts: ArrayLike, ends: ArrayLike) -> Intervals:
    """Return the union of ranges that are in any order and may overlap. Ranges without length are left out."""
    first, last = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    filled = last > first
    first, last = first[filled], last[filled]
    if not len(first):
        return NOTHING
    order = np.argsort(first, kind="stable")
    first, last = first[order], np.maximum.accumulate(last[order])
    opens = np.ones(len(first), bool)
    opens[1:] = first[1:] > last[:-1]
    closes = np.append(opens[1:], True)
    return Intervals(first[opens], last[closes])


def merge_frame(frame: pl.DataFrame, *, start: str = "ts_ns", duration: str = "dur_ns") -> Intervals:
    """Return the union of a frame's events."""
    begins = frame[start].to_numpy()
    return merge(begins, begins + frame[duration].to_numpy())


def union(sets: Iterable[Intervals]) -> Intervals:
    """Return what is in any of the sets."""
    given = list(sets)
    if not given:
        return NOTHING
    return merge(np.concatenate([one.starts for one in given]), np.concatenate([one.ends for one in given]))


def intersection(one: Intervals, other: Intervals) -> Intervals:
    """Return what is in both."""
    if not len(one) or not len(other):
        return NOTHING
    first = np.searchsorted(other.ends, one.starts, "right")  # the first range of `other` that ends within or after
    beyond = np.searchsorted(other.starts, one.ends, "left")  # the first that starts after
    pieces = np.maximum(beyond - first, 0)
    left = np.repeat(np.arange(len(one)), pieces)
    right = np.arange(len(left)) - np.repeat(np.cumsum(pieces) - pieces, pieces) + first[left]
    return Intervals(np.maximum(one.starts[left], other.starts[right]), np.minimum(one.ends[left], other.ends[right]))


def difference(one: Intervals, other: Intervals) -> Intervals:
    """Return what is in `one` and not in `other`."""
    if not len(one) or not len(other):
        return one
    return intersection(one, gaps(other, int(one.starts[0]), int(one.ends[-1])))


def clip(one: Intervals, start_ns: int, end_ns: int) -> Intervals:
    """Return what is in the set from `start_ns` to before `end_ns`."""
    return intersection(one, merge([start_ns], [end_ns]))


def gaps(one: Intervals, start_ns: int, end_ns: int) -> Intervals:
    """Return what is missing from the set between `start_ns` and `end_ns`, the edges included."""
    if end_ns <= start_ns:
        return NOTHING
    inside = clip(one, start_ns, end_ns)
    begins, ends = np.append(start_ns, inside.ends), np.append(inside.starts, end_ns)
    filled = ends > begins
    return Intervals(begins[filled].astype(np.int64), ends[filled].astype(np.int64))


def covered_ns(one: Intervals, starts: ArrayLike, ends: ArrayLike) -> Nanoseconds:
    """Return how much of the set lies in each of many windows, which may overlap; 0 for a reversed one."""
    begins, stops = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    return _before_ns(one, np.maximum(begins, stops)) - _before_ns(one, begins)


def contains(one: Intervals, times: ArrayLike) -> NDArray[np.bool_]:
    """Tell of each time whether it is in the set."""
    return locate(one.starts, one.ends, times) >= 0


def locate(starts: ArrayLike, ends: ArrayLike, times: ArrayLike) -> NDArray[np.int64]:
    """Return of each time the position of the range that holds it, -1 for none.

    Args:
        starts: Ascending starts of ranges that do not overlap; they may touch and then stay apart, as steps do.
        ends: Their ends.
        times: In any order.
    """
    begins, stops, wanted = np.asarray(starts, np.int64), np.asarray(ends, np.int64), np.asarray(times, np.int64)
    if not len(begins):
        return np.full(len(wanted), -1, np.int64)
    position = np.searchsorted(begins, wanted, "right") - 1
    return np.where((position >= 0) & (wanted < stops[np.maximum(position, 0)]), position, -1)


def _before_ns(one: Intervals, times: NDArray[Any]) -> Nanoseconds:
    """Return the time in the set before each moment."""
    if not len(one):
        return np.zeros(len(times), np.int64)
    complete = np.append(0, np.cumsum(one.durations_ns))
    position = np.searchsorted(one.starts, times, "right")  # how many ranges start at the moment or before it
    last = np.maximum(position - 1, 0)
    overhang = np.where(position > 0, np.maximum(one.ends[last] - times, 0), 0)
    return np.asarray(complete[position] - overhang, np.int64)
