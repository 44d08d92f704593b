"""The work of devices, each piece with the call that launched it, and with an end that its stream allows.

**Late ends.** A kernel whose completion is stamped late lasts over its successors (AMD-AGI/TraceLens#669). One rule
says what such work counts, in every answer that holds device time; the stamped duration stays beside:

1. A stream runs one launch after the other, so work that contains the next launch's work on its stream whole, by more
   than a microsecond, ends where that begins. Kernels of one launch (a CUDA graph) share its correlation and may
   overlap.
2. Work that begins while the host still records, and ends later than the host's last event and the last beginning of
   work by more than the trace lasts up to there, ends there. What begins after the host's last event is as stamped: a
   host that does not wait ends first.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gradscope.core.text import visible
from gradscope.core.units import format_ms
from gradscope.trace.categories import (
    is_communication,
    is_kernel,
    is_launch,
    is_memcpy,
    is_memset,
    is_runtime,
    is_slice,
    on_device,
)
from gradscope.trace.frames import Trace, TraceNote
from gradscope.trace.intervals import Intervals, locate, merge

KINDS = ("compute", "memcpy", "memset", "communication")
"""What a device does, in the order in which the Overview of torch-tb-profiler lets one hide the other."""

LATE_MARGIN_NS = 1000
"""Stamps of old traces are whole microseconds."""
NAMES_IN_A_NOTE = 3


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """Everything that ran on devices."""

    table: pl.DataFrame
    """By device, stream and start: index, name, kind, device, stream, ts_ns, end_ns (cut as above), raw_dur_ns,
    correlation, late, and of the launching call launch_ns, launch_dur_ns, launch_name, launch_pid, launch_tid (null
    where the trace holds no call with the same correlation)."""
    notes: list[TraceNote]

    def busy(self, device: int | None = None, kinds: tuple[str, ...] = KINDS) -> Intervals:
        """Return when work of some kinds ran, on one device or on any: a union, never more than the time there is."""
        chosen = self.table.filter(pl.col("kind").is_in(kinds))
        if device is not None:
            chosen = chosen.filter(pl.col("device") == device)
        return merge(chosen["ts_ns"].to_numpy(), chosen["end_ns"].to_numpy())

    @property
    def devices(self) -> list[int]:
        """The devices that something ran on."""
        return sorted(self.table["device"].unique().to_list())


def device_work(trace: Trace) -> DeviceWork:
    """Return the work of a trace's devices. Annotations mirrored onto a device are none (pytorch/pytorch#148314)."""
    table = device_events(trace)
    return DeviceWork(table.join(launches(trace), on="correlation", how="left", maintain_order="left"), _notes(table))


def device_events(trace: Trace, *more: str) -> pl.DataFrame:
    """Return what ran on devices, without its launches: the first columns of `DeviceWork.table`.

    Args:
        trace: The trace.
        more: Columns of its events to take as well.
    """
    kind = (
        pl.when(is_memcpy())
        .then(pl.lit("memcpy"))
        .when(is_memset())
        .then(pl.lit("memset"))
        .when(is_communication() & is_kernel())
        .then(pl.lit("communication"))
        .otherwise(pl.lit("compute"))
    )
    table = (
        trace.events.filter(on_device() & pl.col("dur_ns").is_not_null())
        .select(
            "index",
            "name",
            kind.alias("kind"),
            _number("device", "pid").cast(pl.Int32).alias("device"),
            _number("stream", "tid").alias("stream"),
            "ts_ns",
            (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
            pl.col("dur_ns").alias("raw_dur_ns"),
            "correlation",
            *more,
        )
        .sort("device", "stream", "ts_ns", "end_ns", maintain_order=True)
    )
    end, late = _allowed_ends(table, _host_range(trace))
    return table.with_columns(pl.Series("end_ns", end), pl.Series("late", late))


def launches(trace: Trace) -> pl.DataFrame:
    """Return the first runtime or driver call of each correlation, as launch_ns, launch_name and so on."""
    return (
        trace.events.filter(is_runtime() & (pl.col("correlation") > 0))
        .sort("ts_ns", maintain_order=True)
        .unique("correlation", keep="first", maintain_order=True)
        .select(
            "correlation",
            pl.col("ts_ns").alias("launch_ns"),
            pl.col("dur_ns").alias("launch_dur_ns"),
            pl.col("name").alias("launch_name"),
            pl.col("pid").alias("launch_pid"),
            pl.col("tid").alias("launch_tid"),
        )
    )


def launch_times(trace: Trace, work: DeviceWork) -> tuple[pl.Series, pl.Series]:
    """Return the times of all calls that launch kernels, and of those whose kernel the trace does not hold.

    Calls that only note down a graph, between `BeginCapture` and `EndCapture`, launch nothing; nor do host functions.
    """
    name = pl.col("name").cast(pl.String)
    found = trace.events.filter(is_launch() & (pl.col("correlation") > 0) & ~name.str.contains("HostFunc"))
    calls = trace.events.filter(is_runtime() & name.str.contains("StreamBeginCapture|StreamEndCapture"))
    if not calls.is_empty():
        begins = calls.filter(name.str.contains("Begin"))["ts_ns"].sort()
        ends = calls.filter(name.str.contains("End"))["ts_ns"].sort()
        pairs = min(len(begins), len(ends))
        captured = merge(begins.head(pairs), ends.head(pairs))
        found = found.filter(pl.Series(locate(captured.starts, captured.ends, found["ts_ns"].to_numpy()) < 0))
    missing = found.join(work.table.select("correlation"), on="correlation", how="anti")
    return found["ts_ns"], missing["ts_ns"]


def _number(column: str, text: str) -> pl.Expr:
    """Return a column, or where it is null the number that another column's text is, or 0."""
    return pl.coalesce(pl.col(column).cast(pl.Int64), pl.col(text).cast(pl.String).cast(pl.Int64, strict=False), 0)


def _host_range(trace: Trace) -> tuple[int, int] | None:
    """Return when the host's first event began and its last one ended."""
    host = trace.events.filter(
        is_slice() & ~on_device() & ~pl.col("cat").is_in(["gpu_user_annotation"]).fill_null(False)
    )
    first, last = host["ts_ns"].min(), (host["ts_ns"] + host["dur_ns"].fill_null(0)).max()
    return (first, last) if isinstance(first, int) and isinstance(last, int) else None


def _allowed_ends(table: pl.DataFrame, host: tuple[int, int] | None) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the end of each piece of work as its stream allows it, and whether that is earlier than stamped."""
    count = table.height
    start, end = table["ts_ns"].to_numpy(), table["end_ns"].to_numpy().copy()
    late = np.zeros(count, bool)
    if not count:
        return end, late
    place = table.select(pl.struct("device", "stream").rle_id()).to_series().to_numpy()
    launch = table["correlation"].fill_null(-1).to_numpy()
    differs = (place[1:] != place[:-1]) | (launch[1:] != launch[:-1]) | (launch[1:] <= 0)
    run = np.append(0, np.cumsum(differs))
    first_of_run = np.append(0, np.flatnonzero(differs) + 1)
    has_next = run < run[-1]
    following = first_of_run[np.minimum(run + 1, run[-1])]
    has_next &= place[following] == place
    late = has_next & (end[following] > start[following]) & (end > end[following] + LATE_MARGIN_NS)
    end[late] = start[following][late]
    if host is not None:
        last = max(host[1], int(start.max()))
        overdue = (start < host[1]) & (end > last + max(last - host[0], LATE_MARGIN_NS))
        end[overdue] = last
        late |= overdue
    return end, late


def _notes(table: pl.DataFrame) -> list[TraceNote]:
    late = table.filter("late").sort("raw_dur_ns", descending=True)
    if late.is_empty():
        return []
    longest = late.unique("name", keep="first", maintain_order=True).head(NAMES_IN_A_NOTE)
    stamped = longest.select("name", "raw_dur_ns").iter_rows()
    names = ", ".join(f"{visible(str(name))} ({format_ms(raw_ns / 1e6)})" for name, raw_ns in stamped)
    text = f"{late.height} device event(s) last over what follows on their stream or past the trace: cut there: {names}"
    return [TraceNote("late_device_end", text, late.height)]
