"""Which events can be used: those with a time and a duration that fit the rest; begin/end pairs become slices.

What is left out is counted. Rules, in this order:

1. An `X` without a time or a duration, or with a negative one, is left out; so is anything else without a time.
2. `B` and `E` of one thread are matched as brackets and become one `X`; what finds no partner is left out.
3. An `X` at time 0 with duration 0 is one that was never stamped (pytorch/pytorch#188481).
4. Times are of another clock if they lie after 2096, or further from the bulk of the trace than an hour and than ten
   times its length. The bulk is what the step marks cover, or, without marks, the middle 98 % of the events.
"""

from collections import Counter

import numpy as np
import polars as pl

from gradscope.trace.categories import is_step

LATEST_US = 4e15
"""The year 2096; sums of two such times still fit 64 bit as nanoseconds."""
FAR_US = 3.6e9
FAR_LENGTHS = 10
BULK = (0.01, 0.99)
SIZES = ("bytes", "total_allocated", "total_reserved")
LARGEST_BYTES = 1 << 46
"""No machine has so much memory; a sum of a hundred thousand such sizes still fits 64 bit."""


def usable_events(events: pl.DataFrame) -> tuple[pl.DataFrame, Counter[str], float]:
    """Return the usable rows of a raw frame, what was left out, and the time at which the first one begins.

    Args:
        events: Rows with `ph`, `name`, `cat`, `pid`, `tid`, `ts_us` and `dur_us`, in file order.

    Returns:
        The usable rows, with `row`, their places in `events`; counts by kind; the least `ts_us`, 0 if there is none.
    """
    events = events.with_row_index("row")
    dropped: Counter[str] = Counter()
    ts, dur, slice_ = pl.col("ts_us"), pl.col("dur_us"), pl.col("ph") == "X"
    timed = ts.is_not_null() & ts.is_finite()
    lasting = dur.is_not_null() & dur.is_finite() & (dur >= 0) & (dur < LATEST_US) & ((ts != 0) | (dur != 0))
    sound = timed & (ts.abs() < LATEST_US) & (~slice_ | lasting)
    keep = events.select(sound.fill_null(value=False)).to_series()
    if not keep.all():
        reason = (
            pl.when(~timed.fill_null(value=False))
            .then(pl.lit("missing time"))
            .when(slice_ & (dur.is_null() | ~dur.is_finite()))
            .then(pl.lit("missing duration"))
            .when(slice_ & (dur < 0))
            .then(pl.lit("negative duration"))
            .when((ts.abs() >= LATEST_US) | (dur >= LATEST_US))
            .then(pl.lit("implausible time"))
            .otherwise(pl.lit("zero time"))
        )
        dropped.update(events.filter(~keep).select(reason).to_series().to_list())
        events = events.filter(keep)
    if events.select(pl.col("ph").is_in(["B", "E"]).any()).item():
        events = _pairs_as_slices(events, dropped)
    events = events.with_columns(pl.when(pl.col("ph") == "X").then(dur).alias("dur_us"))
    if events.height:
        low, high = _plausible(events)
        end = ts + dur.fill_null(0)
        near = events.select((ts >= low) & (end <= high)).to_series()
        if not near.all():
            dropped["implausible time"] += int((~near).sum())
            events = events.filter(near)
    return events, dropped, _start_us(events)


def plausible_sizes(sizes: pl.Series, dropped: Counter[str]) -> pl.Series:
    """Return sizes without those that no memory can have: read from garbage, they would drown all others."""
    far = (sizes > LARGEST_BYTES) | (sizes < -LARGEST_BYTES)
    if not (count := int(far.sum())):
        return sizes
    dropped["implausible size"] += count
    return sizes.set(far, None)


def _start_us(events: pl.DataFrame) -> float:
    slices = events.select(pl.col("ts_us").filter(pl.col("ph") == "X").min(), all=pl.col("ts_us").min())
    least, least_of_all = slices.row(0) if slices.height else (None, None)
    return float(least if least is not None else least_of_all or 0.0)


def _plausible(events: pl.DataFrame) -> tuple[float, float]:
    """Return between which times events are plausible."""
    ts, end = pl.col("ts_us"), pl.col("ts_us") + pl.col("dur_us")
    middle = events.select(low=ts.quantile(BULK[0], "nearest"), mid=ts.median(), high=ts.quantile(BULK[1], "nearest"))
    low, mid, high = middle.row(0)
    marks = events.filter(is_step()).select(low=ts, high=end)
    if marks.height:  # a mark may be far off itself: the bulk is around the median one
        centre = marks.get_column("low").median()
        length = marks.select((pl.col("high") - pl.col("low")).median()).item()
        reach = max(FAR_US, FAR_LENGTHS * marks.height * length)
        near = marks.filter((pl.col("low") - centre).abs() <= reach)
        low, high = (near.select(pl.col("low").min(), pl.col("high").max()).row(0)) if near.height else (centre, centre)
    elif high - low > FAR_US * 24:  # so long a window is rather two clocks: believe the middle half
        quarter = events.select(low=ts.quantile(0.25, "nearest"), high=ts.quantile(0.75, "nearest")).row(0)
        low, high = quarter if quarter[1] - quarter[0] < high - low else (mid, mid)
    margin = max(FAR_US, FAR_LENGTHS * (high - low))
    return low - margin, high + margin


def _pairs_as_slices(events: pl.DataFrame, dropped: Counter[str]) -> pl.DataFrame:
    """Match `B` and `E` as brackets per thread in order of time; the slice takes the place and columns of its `B`."""
    at = events.drop("row").with_row_index("row").filter(pl.col("ph").is_in(["B", "E"]))
    at = at.sort("ts_us", maintain_order=True)
    begins = (at.get_column("ph") == "B").to_list()
    threads = zip(at.get_column("pid").to_physical(), at.get_column("tid").to_physical(), strict=True)
    ends = np.full(events.height, np.nan)
    open_: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for begin, thread, row, ts in zip(
        begins, threads, at.get_column("row").to_list(), at.get_column("ts_us").to_list(), strict=True
    ):
        stack = open_.setdefault(thread, [])
        if begin:
            stack.append((row, ts))
        elif stack:
            started, since = stack.pop()
            ends[started] = ts - since
        else:
            dropped["end without a begin"] += 1
    if left := sum(map(len, open_.values())):
        dropped["begin without an end"] += left
    matched = pl.Series("matched", ends).fill_nan(None)
    made = matched.is_not_null()
    labels = events.get_column("ph").cast(pl.String)
    phase = pl.select(pl.when(made).then(pl.lit("X")).otherwise(labels).alias("ph")).to_series()
    return events.with_columns(
        phase.cast(pl.Categorical),
        pl.select(pl.coalesce(matched, events.get_column("dur_us")).alias("dur_us")).to_series(),
    ).filter(made | ~labels.is_in(["B", "E"]))
