"""Why devices had nothing to do: gaps between their work, how late launches were carried out, what the host did then.

Classes are those of HolisticTraceAnalysis (`get_idle_time_breakdown`). Its gaps lie between neighbours on one stream;
here a device idles only while none of its streams works, and only inside of complete steps. `per_stream` gives its
own figures.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from gradscope.trace.categories import STEP_PREFIX, is_annotation, is_op, is_python, is_runtime
from gradscope.trace.device import DeviceWork, device_work, launch_times
from gradscope.trace.frames import Trace, TraceNote
from gradscope.trace.intervals import Intervals, covered_ns, difference, locate, merge
from gradscope.trace.marks import StepMarks, step_marks
from gradscope.trace.steps import StepsAnswer, steps

KINDS = ("host wait", "kernel wait", "other")
"""host wait: the next work was launched after the last one ended, so the host was too slow. kernel wait: it was
launched in time and began within the threshold: what it takes to start a kernel. other: launched in time, yet long in
coming (it waited for an event, a copy or another stream), or it is not known when it was launched."""

KERNEL_WAIT_NS = 30_000
"""HolisticTraceAnalysis' `consecutive_kernel_delay`: 30 us."""
LONGEST = 10
COVERS = 0.5
"""Of a gap: what a host event has to cover so as to explain it."""

GAP_SCHEMA: dict[str, type[pl.DataType]] = {
    "device": pl.Int32,
    "number": pl.Int64,  # step in which the gap begins; null outside of one
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "kind": pl.String,
    "edge": pl.Boolean,  # before the first or after the last work of a window, where HolisticTraceAnalysis has no gap
    "before": pl.String,  # name of the work that ended; null at the beginning
    "after": pl.String,  # name of the work that ended the gap; null at the end
    "launch_ns": pl.Int64,  # when `after` was launched
}


@dataclass(frozen=True, slots=True)
class IdleAnswer:
    """Idle time of the devices, within `idle_window`."""

    gaps: pl.DataFrame
    """One row a gap, by device and time, by `GAP_SCHEMA`."""
    by_kind: pl.DataFrame
    """One row a device and kind: device, kind, gaps, idle_ns, idle_pct (of the device's idle time), step_pct (of
    `idle_window`)."""
    by_step: pl.DataFrame
    """One row a step and device: number, window, device, idle_ns, host_wait_ns, kernel_wait_ns, other_ns. A gap across
    the border of two steps counts in each with its part. Null in steps that are not complete."""
    per_stream: pl.DataFrame
    """As HolisticTraceAnalysis counts, over the whole trace: device, stream, kind, idle_ns, idle_pct (of stream)."""
    launch_delays: pl.DataFrame
    """One row a piece of device work whose launch is known, by start: name, kind, device, stream, number (of the step
    that launched it), launch_ns, launch_dur_ns, delay_ns (start less start of the launching call, never negative),
    queue_ns (less its duration too, as HolisticTraceAnalysis counts, never negative)."""
    longest: pl.DataFrame
    """The longest gaps, with host_op and host_kind: the operator, runtime call or range that covers most of the gap,
    the innermost of equals; else the innermost Python frame; null where none covers half. host_pct: how much of it.
    For a host wait only the launching thread is asked."""
    negative_delays: int
    """Work that begins before its launch, by its stamps: taken as 0."""
    notes: list[TraceNote]


def idle(
    trace: Trace, *, threshold_ns: int = KERNEL_WAIT_NS, longest: int = LONGEST, answer: StepsAnswer | None = None
) -> IdleAnswer:
    """Find when devices idled, and why.

    Work of a device is kernels, copies and fills, as in HolisticTraceAnalysis.

    Args:
        trace: Of one rank.
        threshold_ns: Up to which a gap before work that was launched in time is a kernel wait.
        longest: How many gaps get to know what the host was doing.
        answer: `steps(trace)`, where it is at hand.
    """
    answer = answer if answer is not None else steps(trace)
    work = device_work(trace)
    marks = step_marks(trace, work)
    span = idle_window(answer, work)
    tables = [_gaps(work.table.filter(pl.col("device") == device), span, threshold_ns) for device in work.devices]
    gaps = pl.concat([pl.DataFrame(schema=GAP_SCHEMA), *(_in_step(table, marks) for table in tables)])
    delays = _delays(work, marks)
    negative = int((delays["raw_ns"] < 0).sum())
    notes = []
    if negative:
        text = f"{negative} device event(s) begin before their launch, by the trace's clocks: their delay is taken as 0"
        notes.append(TraceNote("negative_launch_delay", text, negative))
    if work.devices and (missing := len(launch_times(trace, work)[1])):
        text = f"{missing} kernel(s) are missing from the trace: idle time of their steps is not known"
        notes.append(TraceNote("lost_kernels", text, missing))
    if not work.devices and not trace.events.is_empty():
        notes.append(TraceNote("no_device_events", "the trace holds no device events: no idle time is known"))
    return IdleAnswer(
        gaps=gaps,
        by_kind=_by_kind(gaps, span),
        by_step=_by_step(gaps, answer.table, work.devices),
        per_stream=_per_stream(work.table, threshold_ns),
        launch_delays=delays.drop("raw_ns"),
        longest=_explained(trace, gaps, work, longest),
        negative_delays=negative,
        notes=notes,
    )


def idle_window(answer: StepsAnswer, work: DeviceWork) -> Intervals:
    """Return when it is known whether devices idled: complete steps; without steps, first to last work of any device.

    In a step whose kernels were lost, what looks idle may have been their time: empty where that goes for all steps.
    """
    if not answer.table.is_empty():
        return answer.complete_time
    everything = work.busy()
    return merge(everything.starts[:1], everything.ends[-1:])


def _kind(start: pl.Expr, gap_ns: pl.Expr, launch_ns: pl.Expr, threshold_ns: int) -> pl.Expr:
    """Class a gap that begins at `start` by the launch of the work that ends it."""
    return (
        pl.when((launch_ns > start).fill_null(value=False))
        .then(pl.lit("host wait"))
        .when(gap_ns < threshold_ns)
        .then(pl.lit("kernel wait"))
        .otherwise(pl.lit("other"))
    )


def _gaps(work: pl.DataFrame, span: Intervals, threshold_ns: int) -> pl.DataFrame:
    """Return the gaps of one device."""
    work = work.sort("ts_ns", "launch_ns", nulls_last=True)
    by_end = work.sort("end_ns", "ts_ns")
    free = difference(span, merge(work["ts_ns"].to_numpy(), work["end_ns"].to_numpy()))
    coming = np.searchsorted(work["ts_ns"].to_numpy(), free.ends, "left")
    gone = np.searchsorted(by_end["end_ns"].to_numpy(), free.starts, "right") - 1
    following = _rows(work.select("name", "launch_ns", pl.col("ts_ns").alias("next_ns")), coming)
    previous = _rows(by_end.select(pl.col("name").alias("before"), pl.col("end_ns").alias("last_ns")), gone)
    table = pl.DataFrame({"start_ns": free.starts, "dur_ns": free.durations_ns})
    table = pl.concat([table, following, previous], how="horizontal")
    start, end = pl.col("start_ns"), pl.col("start_ns") + pl.col("dur_ns")
    ended, begun = (
        (pl.col("last_ns") == start).fill_null(value=False),
        (pl.col("next_ns") == end).fill_null(value=False),
    )
    kind = _kind(start, pl.col("dur_ns"), pl.col("launch_ns"), threshold_ns)
    return table.select(
        pl.lit(work["device"][0], pl.Int32).alias("device"),
        "start_ns",
        "dur_ns",
        # with nothing to follow, nothing had been launched
        pl.when(pl.col("next_ns").is_null()).then(pl.lit("host wait")).otherwise(kind).alias("kind"),
        (~ended | ~begun).alias("edge"),
        pl.when(ended).then(pl.col("before").cast(pl.String)).alias("before"),
        pl.when(begun).then(pl.col("name").cast(pl.String)).alias("after"),
        "launch_ns",
    )


def _rows(frame: pl.DataFrame, position: np.ndarray) -> pl.DataFrame:
    """Gather rows; a row of nulls where a position is outside of the frame."""
    inside = (position >= 0) & (position < frame.height)
    place = pl.select(
        pl.when(pl.Series(inside, dtype=pl.Boolean)).then(pl.Series(position, dtype=pl.Int64))
    ).to_series()
    return frame.select(pl.all().gather(place))


def _numbers(marks: StepMarks, times: pl.Series) -> pl.Series:
    """Return the number of the step at each time, null outside of steps."""
    position = locate(marks.start, marks.end, times.to_numpy())
    return _rows(pl.DataFrame({"number": marks.number}), position).to_series()


def _in_step(gaps: pl.DataFrame, marks: StepMarks) -> pl.DataFrame:
    return gaps.with_columns(_numbers(marks, gaps["start_ns"])).select(list(GAP_SCHEMA))


def _by_kind(gaps: pl.DataFrame, span: Intervals) -> pl.DataFrame:
    summed = gaps.group_by("device", "kind").agg(
        pl.len().cast(pl.Int64).alias("gaps"), pl.col("dur_ns").sum().alias("idle_ns")
    )
    return summed.sort("device", "kind").with_columns(
        (100 * pl.col("idle_ns") / pl.col("idle_ns").sum().over("device")).alias("idle_pct"),
        (100 * pl.col("idle_ns") / max(span.length_ns, 1)).alias("step_pct"),
    )


def _by_step(gaps: pl.DataFrame, table: pl.DataFrame, devices: list[int]) -> pl.DataFrame:
    names = {kind: kind.replace(" ", "_") + "_ns" for kind in KINDS}
    begin, end = table["start_ns"].to_numpy(), (table["start_ns"] + table["dur_ns"]).to_numpy()
    known = pl.col("complete")
    frames = []
    for device in devices:
        idle_ns = []
        for kind, name in names.items():
            mine = gaps.filter((pl.col("device") == device) & (pl.col("kind") == kind))
            begins = mine["start_ns"].to_numpy()
            running = merge(begins, begins + mine["dur_ns"].to_numpy())
            idle_ns.append(pl.Series(name, covered_ns(running, begin, end)))
        row = table.select("number", "window", "complete").with_columns(idle_ns)
        frames.append(row.with_columns(pl.lit(device, pl.Int32).alias("device")))
    numbers = dict.fromkeys(("number", "window", *names.values()), pl.Int64)
    empty = pl.DataFrame(schema={**numbers, "device": pl.Int32, "complete": pl.Boolean})
    found = pl.concat([empty, *(frame.select(empty.columns) for frame in frames)])
    return found.sort("window", "number", "device", maintain_order=True).select(
        *("number", "window", "device"),
        pl.when(known).then(pl.sum_horizontal(*names.values())).alias("idle_ns"),
        *(pl.when(known).then(pl.col(name)).alias(name) for name in names.values()),
    )


def _per_stream(work: pl.DataFrame, threshold_ns: int) -> pl.DataFrame:
    ended = pl.col("end_ns").shift().over("device", "stream")
    gaps = work.with_columns(ended.alias("last_ns")).filter(pl.col("last_ns").is_not_null())
    gap = (pl.col("ts_ns") - pl.col("last_ns")).clip(lower_bound=0)
    kind = _kind(pl.col("last_ns"), gap, pl.col("launch_ns"), threshold_ns)
    summed = gaps.group_by("device", "stream", kind.alias("kind")).agg(gap.sum().alias("idle_ns"))
    share = 100 * pl.col("idle_ns") / pl.col("idle_ns").sum().over("device", "stream")
    return summed.sort("device", "stream", "kind").with_columns(share.fill_nan(None).alias("idle_pct"))


def _delays(work: DeviceWork, marks: StepMarks) -> pl.DataFrame:
    launched = work.table.filter(pl.col("launch_ns").is_not_null()).sort("ts_ns", maintain_order=True)
    raw = pl.col("ts_ns") - pl.col("launch_ns")
    waited = raw - pl.col("launch_dur_ns").fill_null(0)
    step = _rows(
        pl.DataFrame({"number": marks.number}), locate(marks.host_start, marks.host_end, launched["launch_ns"])
    )
    return launched.with_columns(step.to_series()).select(
        *("name", "kind", "device", "stream", "number", "launch_ns", "launch_dur_ns"),
        raw.clip(lower_bound=0).alias("delay_ns"),
        waited.clip(lower_bound=0).alias("queue_ns"),
        raw.alias("raw_ns"),
    )


def _explained(trace: Trace, gaps: pl.DataFrame, work: DeviceWork, longest: int) -> pl.DataFrame:
    """Return the longest gaps, each with what the host was doing."""
    top = gaps.sort("dur_ns", "start_ns", descending=[True, False]).head(longest)
    ours = (is_op() | is_runtime() | is_annotation() | is_python()) & (pl.col("dur_ns") > 0)
    kind = pl.coalesce(
        pl.when(is_op()).then(pl.lit("operator")),
        pl.when(is_runtime()).then(pl.lit("runtime")),
        pl.when(is_annotation()).then(pl.lit("range")),
        pl.lit("python"),
    )
    marked = pl.col("name").cast(pl.String).str.starts_with(STEP_PREFIX)
    host = trace.events.filter(ours).select("name", "ts_ns", "dur_ns", "pid", "tid", kind.alias("kind"))
    found = [_host_event(host, gap, work, marked) for gap in top.iter_rows(named=True)]
    schema = {"host_op": pl.String, "host_kind": pl.String, "host_pct": pl.Float64}
    return pl.concat([top, pl.DataFrame(found, schema=schema, orient="row")], how="horizontal")


def _host_event(
    host: pl.DataFrame, gap: dict[str, Any], work: DeviceWork, marked: pl.Expr
) -> tuple[str | None, str | None, float | None]:
    start, end = gap["start_ns"], gap["start_ns"] + gap["dur_ns"]
    ends = pl.col("ts_ns") + pl.col("dur_ns")
    meanwhile = host.filter((pl.col("ts_ns") < end) & (ends > start) & ~marked)
    if gap["kind"] == "host wait" and gap["launch_ns"] is not None:
        launch = work.table.filter((pl.col("launch_ns") == gap["launch_ns"]) & (pl.col("device") == gap["device"]))
        meanwhile = meanwhile.filter(
            (pl.col("pid") == launch["launch_pid"][0]) & (pl.col("tid") == launch["launch_tid"][0])
        )
    if meanwhile.is_empty():
        return None, None, None
    overlap = (pl.min_horizontal(ends, end) - pl.max_horizontal("ts_ns", start)) / gap["dur_ns"]
    # a Python frame tells less than an operator: it comes second, and the innermost of several, since `main` covers all
    frames = pl.col("kind") == "python"
    best_first = [frames, pl.when(~frames).then(-pl.col("share")).otherwise(0.0), pl.col("dur_ns")]
    covering = meanwhile.with_columns(overlap.alias("share")).filter(pl.col("share") >= COVERS).sort(best_first)
    if covering.is_empty():
        return None, None, None
    best = covering.row(0, named=True)
    return str(best["name"]), best["kind"], 100 * best["share"]
