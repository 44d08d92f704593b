"""Which events of a trace belong to a stretch of time on the host: pure functions over columns of numbers."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

META, HOST, STEP, DEVICE, MIRROR, MIRROR_STEP, POINT, COUNTER, BEGIN, END, ASYNC, FLOW, BROKEN = range(13)
"""Kinds of events. `MIRROR` is an annotation that the profiler drew on a device's track."""

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Scan:
    """All events of a file, as far as the choice needs them: one row an event."""

    kind: npt.NDArray[np.int8]
    start: Floats
    end: Floats
    track: Ints
    """A number for each (pid, tid)."""
    key: Ints
    """A number for a slice's correlation, a flow's or an async range's id, a counter's name, a step's number (of `B`
    too); or -1."""

    def rows(self, *kinds: int) -> Bools:
        """Return which rows are of one of these kinds."""
        return np.isin(self.kind, kinds)


def choose(scan: Scan, steps: list[int], low: float, high: float) -> Bools:
    """Return which events stay.

    Args:
        scan: The events; `B` and `E` events have their pair's start and end (`paired`).
        steps: Numbers of the steps whose marks stay.
        low: Start of the first step.
        high: End of the last.
    """
    inside = (scan.start < high) & ((scan.end > low) | ((scan.end == scan.start) & (scan.start >= low)))
    marked = scan.rows(STEP, MIRROR_STEP) & np.isin(scan.key, steps)
    keep: Bools = scan.rows(META) | (inside & scan.rows(HOST, POINT, COUNTER, BEGIN, END)) | marked
    keep |= _of_device(scan, keep, inside)
    keep |= _mirrors(scan, keep)
    keep |= _ranges(scan, low, high)
    keep |= _levels_before(scan, low)
    keep |= _whole_flows(scan, keep, inside)
    return keep


def paired(scan: Scan) -> Scan:
    """Give the events of each `B`/`E` pair the pair's start and end; the newest open `B` is the one that ends.

    A pair whose `B` has a step's number is two marks of that step. A `B` that never ends is taken to last for ever; an
    `E` without a `B` is the point that it is.
    """
    rows = np.flatnonzero(scan.rows(BEGIN, END))
    if not rows.size:
        return scan
    kind, start, end, key = scan.kind.copy(), scan.start.copy(), scan.end.copy(), scan.key.copy()
    open_rows: dict[int, list[int]] = {}
    for row in rows[np.lexsort((rows, scan.start[rows], scan.track[rows]))].tolist():
        stack = open_rows.setdefault(int(scan.track[row]), [])
        if scan.kind[row] == BEGIN:
            stack.append(row)
            end[row] = np.inf
        elif stack:
            begun = stack.pop()
            end[begun], start[row], key[row] = end[row], start[begun], key[begun]
            if key[begun] >= 0:
                kind[begun] = kind[row] = STEP
    return Scan(kind, start, end, scan.track, key)


def _of_device(scan: Scan, keep: Bools, inside: Bools) -> Bools:
    """Return work whose launch stays; where the launch was not recorded, work that ran during the steps."""
    launches = scan.rows(HOST) & (scan.key >= 0)
    launched, recorded = np.unique(scan.key[launches & keep]), np.unique(scan.key[launches])
    stays: Bools = np.where(np.isin(scan.key, recorded), np.isin(scan.key, launched), inside)
    return stays & scan.rows(DEVICE)


def _mirrors(scan: Scan, keep: Bools) -> Bools:
    """Return annotations on device tracks that overlap work that stays on the same track."""
    work = keep & scan.rows(DEVICE)
    first, final = _extent(scan.track[work], scan.start[work], scan.end[work], int(scan.track.max(initial=0)) + 1)
    overlap: Bools = (scan.start < final[scan.track]) & (scan.end > first[scan.track])
    return overlap & scan.rows(MIRROR)


def _ranges(scan: Scan, low: float, high: float) -> Bools:
    """Return the events of async ranges (`b`, `n`, `e`) that overlap the steps."""
    stays = np.zeros(scan.kind.size, dtype=np.bool_)
    rows = np.flatnonzero(scan.rows(ASYNC))
    if rows.size:
        key = scan.key[rows]
        first, final = _extent(key, scan.start[rows], scan.start[rows], int(key.max()) + 1)
        stays[rows] = (first[key] < high) & (final[key] >= low)
    return stays


def _extent(group: Ints, start: Floats, end: Floats, groups: int) -> tuple[Floats, Floats]:
    """Return the earliest start and the latest end of each group; an empty one starts after it ends."""
    first, final = np.full(groups, np.inf), np.full(groups, -np.inf)
    np.minimum.at(first, group, start)
    np.maximum.at(final, group, end)
    return first, final


def _levels_before(scan: Scan, low: float) -> Bools:
    """Return the last point before the steps of each counter: a counter holds its level until the next one."""
    stays = np.zeros(scan.kind.size, dtype=np.bool_)
    rows = np.flatnonzero(scan.rows(COUNTER) & (scan.start < low))
    last = {int(scan.key[row]): row for row in rows[np.argsort(scan.start[rows], kind="stable")].tolist()}
    stays[list(last.values())] = True
    return stays


def _whole_flows(scan: Scan, keep: Bools, inside: Bools) -> Bools:
    """Return the points of flows that have all of them at something that stays."""
    stays = np.zeros(scan.kind.size, dtype=np.bool_)
    rows = np.flatnonzero(scan.rows(FLOW))
    if not rows.size:
        return stays
    work = np.flatnonzero(keep & scan.rows(DEVICE))
    at_work = set(zip(scan.track[work].tolist(), scan.start[work].tolist(), strict=True))
    bound = inside[rows].copy()
    on_device = np.isin(scan.track[rows], np.unique(scan.track[scan.rows(DEVICE, MIRROR)]))
    for place in np.flatnonzero(on_device).tolist():
        bound[place] = (int(scan.track[rows[place]]), float(scan.start[rows[place]])) in at_work
    key = scan.key[rows]
    loose = np.bincount(key, weights=~bound, minlength=int(key.max()) + 1)
    stays[rows] = loose[key] == 0
    return stays
