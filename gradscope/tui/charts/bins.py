"""A run's steps sorted into bins, so that a plot is filled from its left and halved when full, and nothing scrolls.

Use:

    bins = Bins(("wall_ms", "forward"))           # kept; one for each table
    bins.update(view.steps)                       # each frame: reads only what is new
    spread = spread_over(bins.steps, columns=70, expected=120)
    seen = bins.view(spread)                      # or dots=2 for braille
    seen.mean("forward")                          # 70 numbers, None where there is none (yet)

Bins hold more columns than any screen has, so that another width costs no second look at the run.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate, groupby
from math import inf, isfinite, isnan
from operator import mul
from typing import TypeVar

from gradscope.core.events import PHASES, Stage
from gradscope.tui.charts.spread import Mark, Spread
from gradscope.tui.view import STAGES, Columns

T = TypeVar("T")

CAPACITY = 1024
"""Bins at most; when there are more, pairs are merged."""

DISTORTED = frozenset(("wall_ms", *PHASES))
"""Columns that a profiler or a warm-up distorts: a bin shows its measured steps, and others only where it has none."""


_MARK_OF = {
    float(index): {Stage.WARMUP: Mark.WARMUP, Stage.MEMORY: Mark.PROFILED, Stage.PROFILE: Mark.PROFILED}.get(
        stage, Mark.MEASURED
    )
    for index, stage in enumerate(STAGES)
}


class _Series:
    """One column's sums by bin; a weight of 0 means that there is no value."""

    __slots__ = ("high", "last", "low", "total", "weight")

    def __init__(self) -> None:
        self.weight: list[float] = []
        self.total: list[float] = []
        self.low: list[float] = []
        self.high: list[float] = []
        self.last: list[float | None] = []

    def grow(self, count: int) -> None:
        more = count - len(self.weight)
        self.weight += [0.0] * more
        self.total += [0.0] * more
        self.low += [inf] * more
        self.high += [-inf] * more
        self.last += [None] * more

    def clear(self, index: int) -> None:
        self.weight[index], self.total[index], self.low[index], self.high[index] = 0.0, 0.0, inf, -inf
        self.last[index] = None

    def add(self, index: int, values: Sequence[float], weights: Sequence[float] | None) -> None:
        """Take in values; a weight each, or all of them 1. Those that are not finite are missing."""
        weight = float(len(values)) if weights is None else sum(weights)
        total = sum(values) if weights is None else sum(map(mul, values, weights))
        if not isfinite(total):
            kept = [
                (value, 1.0 if weights is None else weights[i]) for i, value in enumerate(values) if isfinite(value)
            ]
            if not kept:
                return
            values = [value for value, _ in kept]
            weight = sum(share for _, share in kept)
            total = sum(value * share for value, share in kept)
        self.weight[index] += weight
        self.total[index] += total
        low, high = min(values), max(values)
        self.low[index] = min(self.low[index], low)
        self.high[index] = max(self.high[index], high)
        self.last[index] = values[-1]

    def halve(self) -> None:
        self.weight = [a + b for a, b in _pairs(self.weight, 0.0)]
        self.total = [a + b for a, b in _pairs(self.total, 0.0)]
        self.low = [min(a, b) for a, b in _pairs(self.low, inf)]
        self.high = [max(a, b) for a, b in _pairs(self.high, -inf)]
        self.last = [a if b is None else b for a, b in _pairs(self.last, None)]


class Bins:
    """Columns of an append-only table by step, incrementally; memory and time to draw do not grow with the run."""

    def __init__(
        self,
        names: Sequence[str],
        *,
        distorted: frozenset[str] = DISTORTED,
        first: int = 1,
        capacity: int = CAPACITY,
    ) -> None:
        """The table has a column `step`; `stage` and `covers` are heeded where it has them.

        Args:
            names: Columns to keep.
            distorted: Those of them that show measured steps only, where a bin has some.
            first: Number of the first step.
            capacity: Bins at most.
        """
        self.names = tuple(names)
        self.first = first
        self.steps = 0
        """The highest step so far, counted from `first`."""
        self.per_bin = 1
        self._capacity = capacity
        self._read = 0
        self._views: dict[tuple[Spread, int], Binned] = {}
        self._distorted = [name in distorted for name in self.names]
        self._series = [_Series() for _ in self.names]
        self.marks: list[Mark] = []
        """By bin: the kind of steps that it shows."""
        self.profiled: list[bool] = []
        """By bin: whether it holds profiled steps, shown or not."""

    def update(self, table: Columns) -> None:
        """Take in the rows that are new since the last call."""
        start, stop = self._read, table.count
        if stop <= start:
            return
        self._read = stop
        self._views.clear()
        before = self.first + self.steps - 1 if self.steps else self.first
        numbers = accumulate(table.values("step", start, stop), _later, initial=float(before))
        steps = [int(number) for number in numbers][1:]
        self.steps = steps[-1] - self.first + 1
        while (self.steps - 1) // self.per_bin >= self._capacity:
            self._halve()
        self._grow((self.steps - 1) // self.per_bin + 1)
        columns = [table.values(name, start, stop) for name in self.names]
        stages = table.values("stage", start, stop) if "stage" in table.data else None
        covers = table.values("covers", start, stop) if "covers" in table.data else None
        at = 0
        for stage, run in groupby(stages) if stages is not None else [(1.0, steps)]:
            end_of_run = at + sum(1 for _ in run)
            mark = _MARK_OF.get(stage, Mark.MEASURED)
            while at < end_of_run:
                index = (steps[at] - self.first) // self.per_bin
                end = bisect_left(steps, self.first + (index + 1) * self.per_bin, at, end_of_run)
                weights = None if covers is None else _weights(covers[at:end])
                parts = [column[at:end] for column in columns]
                reach = index if weights is None else self._reach(steps[at], weights[0])
                if reach < index:
                    for earlier in range(reach, index):
                        self._add(earlier, mark, [part[:1] for part in parts], None)
                self._add(index, mark, parts, weights)
                at = end

    def view(self, spread: Spread, dots: int = 1) -> "Binned":
        """Return what a plot shows: `dots` values for each of the spread's columns."""
        view = self._views.get((spread, dots))
        if view is None:
            view = self._views[spread, dots] = Binned(self, spread, dots)
        return view

    def _reach(self, step: int, covers: float) -> int:
        """Return the bin of the first step that a record covers."""
        return max(0, step - int(covers) + 1 - self.first) // self.per_bin

    def _add(self, index: int, mark: Mark, parts: Sequence[Sequence[float]], weights: Sequence[float] | None) -> None:
        shown = self.marks[index]
        if mark > shown:
            self.marks[index] = mark
        self.profiled[index] |= mark is Mark.PROFILED
        for series, distorted, values in zip(self._series, self._distorted, parts, strict=True):
            if distorted and mark < shown:
                continue
            if distorted and mark > shown:
                series.clear(index)
            series.add(index, values, weights)

    def _grow(self, count: int) -> None:
        more = count - len(self.marks)
        self.marks += [Mark.EMPTY] * more
        self.profiled += [False] * more
        for series in self._series:
            series.grow(count)

    def _halve(self) -> None:
        """Merge pairs of bins: in distorted columns the better kind of a pair stands for both."""
        for series, distorted in zip(self._series, self._distorted, strict=True):
            if distorted:
                for right in range(1, len(self.marks), 2):
                    left = right - 1
                    if self.marks[left] != self.marks[right]:
                        series.clear(left if self.marks[left] < self.marks[right] else right)
            series.halve()
        self.marks = [max(a, b) for a, b in _pairs(self.marks, Mark.EMPTY)]
        self.profiled = [a or b for a, b in _pairs(self.profiled, False)]
        self.per_bin *= 2


class Binned:
    """What a plot shows of `Bins`: one value for each of its columns (or dots), `None` where there is none.

    To be read before the next `Bins.update`.
    """

    def __init__(self, bins: Bins, spread: Spread, dots: int = 1) -> None:
        """See `Bins.view`."""
        self.spread = spread
        self._bins = bins
        self._edges = _edges(bins, spread.wider(dots))
        self._cells = self._edges if dots == 1 else _edges(bins, spread)

    @cached_property
    def marks(self) -> tuple[Mark, ...]:
        """The kind of steps that each column shows, `Mark.EMPTY` to the right of the last."""
        return tuple(max(self._bins.marks[start:stop], default=Mark.EMPTY) for start, stop in self._cells)

    @cached_property
    def profiled(self) -> tuple[bool, ...]:
        """Whether each column holds profiled steps, shown or not."""
        return tuple(any(self._bins.profiled[start:stop]) for start, stop in self._cells)

    def mean(self, name: str) -> list[float | None]:
        """Return the mean over the steps of each column."""
        series = self._series(name)
        weights = self._parts(name, series.weight)
        totals = self._parts(name, series.total)
        return [
            sum(total) / whole if (whole := sum(weight)) else None
            for weight, total in zip(weights, totals, strict=True)
        ]

    def low(self, name: str) -> list[float | None]:
        """Return the lowest value in each column."""
        return [_there(min(part, default=inf)) for part in self._parts(name, self._series(name).low)]

    def high(self, name: str) -> list[float | None]:
        """Return the highest value in each column."""
        return [_there(max(part, default=-inf)) for part in self._parts(name, self._series(name).high)]

    def last(self, name: str) -> list[float | None]:
        """Return the last value in each column."""
        return [
            next((value for value in reversed(part) if value is not None), None)
            for part in self._parts(name, self._series(name).last)
        ]

    def _series(self, name: str) -> _Series:
        return self._bins._series[self._bins.names.index(name)]

    def _parts(self, name: str, values: list[T]) -> list[list[T]]:
        """Return, for each column, the values of the bins that count in it."""
        parts = [values[start:stop] for start, stop in self._edges]
        if self._bins._distorted[self._bins.names.index(name)]:
            for column, best in self._mixed:
                start, stop = self._edges[column]
                marks = self._bins.marks[start:stop]
                parts[column] = [value for value, mark in zip(parts[column], marks, strict=True) if mark is best]
        return parts

    @cached_property
    def _mixed(self) -> list[tuple[int, Mark]]:
        """Columns with several kinds of steps, and the kind that counts."""
        marks = [self._bins.marks[start:stop] for start, stop in self._edges]
        return [(column, max(kinds)) for column, kinds in enumerate(marks) if len(set(kinds)) > 1]


def _edges(bins: Bins, spread: Spread) -> list[tuple[int, int]]:
    """Return the first bin of each column and the one after its last; empty ones to the right of the last step."""
    edges = []
    shift, per_bin, count = spread.first - bins.first, bins.per_bin, len(bins.marks)
    for column in range(spread.columns):
        start = max(0, column * spread.span // spread.columns + shift) // per_bin
        stop = max(0, (column + 1) * spread.span // spread.columns + shift)
        # the last column takes the bin that the last step is in, however little of it is on the plot
        stop = -(-stop // per_bin) if column == spread.columns - 1 else stop // per_bin
        edges.append((min(start, count), min(max(start + 1, stop), count)))
    return edges


def _later(before: float, step: float) -> float:
    """A step's number never goes back; a missing one is that of the row before."""
    return step if step > before else before


def _weights(covers: Sequence[float]) -> Sequence[float] | None:
    """Return how many steps each record stands for; `None` where that is 1 for all."""
    if sum(covers) == len(covers):
        return None
    return [1.0 if isnan(count) or count < 1 else count for count in covers]


def _pairs(values: list[T], rest: T) -> Iterable[tuple[T, T]]:
    return zip(values[::2], [*values[1::2], rest] if len(values) % 2 else values[1::2], strict=True)


def _there(value: float) -> float | None:
    return value if isfinite(value) else None
