"""Which range of a thread holds a moment: who allocated, who waited, who launched."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from gradscope.trace.nesting import nest

NOBODY = -1
"""Place of no range."""

Places = npt.NDArray[np.int64]
"""Places of ranges in `Ranges.frame`, `NOBODY` for none."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of all threads as a tree, ready to be asked."""

    frame: pl.DataFrame
    """The ranges as they were given; a place is a row of it."""
    parents: Places
    _order: Places
    _keys: Places
    """Thread and beginning of each range in one number, in the order of `_order`: ascending."""
    _beginnings: Places
    """When any range begins, ascending: keys hold places in it, so that no time however large can overflow them."""
    _ends: Places
    _threads: dict[tuple[str, str], int]

    def innermost(self, points: pl.DataFrame) -> Places:
        """Return the innermost range that holds each point on its own thread, both edges included.

        Args:
            points: pid, tid and ts_ns.
        """
        found = np.full(points.height, NOBODY, np.int64)
        if not len(self._order) or points.is_empty():
            return found
        times = points["ts_ns"].to_numpy()
        first_key = _codes(points, self._threads) * (len(self._beginnings) + 1)
        begun_by_then = np.searchsorted(self._beginnings, times, "right")
        position = np.searchsorted(self._keys, first_key + begun_by_then, "right") - 1
        begun = (first_key >= 0) & (position >= 0)
        begun &= self._keys[np.maximum(position, 0)] > first_key  # of the same thread
        found[begun] = self._order[position[begun]]
        while (over := (found != NOBODY) & (self._ends[found] < times)).any():
            found[over] = self.parents[found[over]]
        return found

    def beyond(self, places: Places, skipped: npt.NDArray[np.bool_]) -> Places:
        """Climb from each place to the first range that is not skipped; where all around it are, the place stays.

        Args:
            places: Where to start.
            skipped: One a range.
        """
        outer = places.copy()
        while len(skipped) and (over := (outer != NOBODY) & skipped[outer]).any():
            outer[over] = self.parents[outer[over]]
        return np.where(outer == NOBODY, places, outer)

    def names(self, places: Places) -> pl.Series:
        """Return the name of each place as text, null for `NOBODY`."""
        rows = pl.Series(places, dtype=pl.Int64)
        return self.frame["name"].cast(pl.String).gather(rows.set(rows == NOBODY, None))


def ranges(frame: pl.DataFrame) -> Ranges:
    """Make a tree of complete slices (name, pid, tid, ts_ns, dur_ns)."""
    threads: dict[tuple[str, str], int] = {}
    for pid, tid in frame.select(pl.col("pid", "tid").cast(pl.String)).unique(maintain_order=True).iter_rows():
        threads[pid, tid] = len(threads)
    codes = _codes(frame, threads)
    starts = frame["ts_ns"].to_numpy()
    ends = starts + frame["dur_ns"].to_numpy()
    tree = nest(codes, starts, ends)
    beginnings = np.unique(starts)
    keys = codes * (len(beginnings) + 1) + np.searchsorted(beginnings, starts, "right")
    return Ranges(frame, tree.parent, tree.order, keys[tree.order], beginnings, ends, threads)


def _codes(frame: pl.DataFrame, threads: dict[tuple[str, str], int]) -> Places:
    """Return a number for each row's thread, -1 for one that is not among `threads`."""
    known = pl.DataFrame(
        [(pid, tid, code) for (pid, tid), code in threads.items()],
        schema={"pid": pl.String, "tid": pl.String, "code": pl.Int64},
        orient="row",
    )
    named = frame.select(pl.col("pid", "tid").cast(pl.String))
    joined = named.join(known, on=["pid", "tid"], how="left", maintain_order="left", nulls_equal=True)
    return joined["code"].fill_null(NOBODY).to_numpy()
