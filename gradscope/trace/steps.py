"""What each step's time went to, how busy each device was, and which steps lost kernels.

The split is that of torch-tb-profiler's Overview (`overall_parser.py`): of what runs at one moment only the first of
compute kernel, copy, fill, communication, runtime call, data loading, operator counts, and the rest is other. So the
parts of a step sum to its duration exactly. Device busy time is something else: the union of kernels, per device,
inside the steps.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from gradscope.trace.categories import (
    GRADSCOPE_PREFIX,
    is_annotation,
    is_communication,
    is_op,
    is_runtime,
    is_slice,
    on_device,
)
from gradscope.trace.complete import without_cut_off, without_stub
from gradscope.trace.device import DeviceWork, device_work, launch_times
from gradscope.trace.frames import Trace, TraceNote
from gradscope.trace.intervals import Intervals, covered_ns, difference, intersection, locate, merge_frame
from gradscope.trace.marks import StepMarks, step_marks

PARTS = ("compute", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu", "other")
"""What a step's time is split into; an earlier one hides a later one that runs at the same moment."""
BUSY_KINDS = ("compute", "communication")
"""Kernels: what NVML counts as busy. Copies and fills are not."""
DATA_LOADING = rf"^enumerate\(DataLoader\)#.*\.__next__$|^enumerate\(DataPipe\)#|^{GRADSCOPE_PREFIX}data$"

STEP_SCHEMA: dict[str, type[pl.DataType] | pl.DataType] = {
    "number": pl.Int64,  # null: the whole trace, where steps are unknown
    "window": pl.Int64,  # stretch of steps without a gap in their numbers
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,  # until the device has done what the step launched
    "host_start_ns": pl.Int64,
    "host_dur_ns": pl.Int64,  # of the mark alone
    **{f"{part}_ns": pl.Int64() for part in PARTS},
    "gpu_busy_ns": pl.Int64,  # union of kernels, mean over devices; null without device events
    "gpu_busy_pct": pl.Float64,  # of dur_ns
    "kernels": pl.Int64,  # that begin in the step
    "kernel_sum_ns": pl.Int64,  # their durations as stamped, added up: may exceed the step
    "launches": pl.Int64,  # calls in the mark that launch a kernel or a graph
    "lost_kernels": pl.Int64,  # of them, those without a kernel in the trace
    "complete": pl.Boolean,  # counts in the means
}


@dataclass(frozen=True, slots=True)
class StepsAnswer:
    """Steps of a trace."""

    count: int | None
    """None: there are events but no step marks, so steps are unknown."""
    table: pl.DataFrame
    """One row a step, by `STEP_SCHEMA`; no row where steps are unknown."""
    devices: pl.DataFrame
    """One row a step and device: number, window, device, busy_ns, busy_pct (kernels), active_ns (copies, fills too)."""
    totals: pl.DataFrame
    """One row a device, over the whole trace: device, kernels, raw_sum_ns (durations as stamped), union_ns,
    in_steps_ns (in complete steps), in_steps_pct (of their time; both null without one), late (events whose end was
    cut)."""
    windows: pl.DataFrame
    """One row a window: window, first, last (step numbers), steps, start_ns, dur_ns, gap_ns (since the last window)."""
    mean: dict[str, float] | None
    """Means of the columns `*_ns` and `*_pct` over complete steps; None without one."""
    whole: pl.DataFrame
    """One row by `STEP_SCHEMA` over the trace from its first to its last work, marked or not; empty without work."""
    has_device_events: bool
    notes: list[TraceNote]

    @property
    def complete_time(self) -> Intervals:
        """When complete steps ran: what totals and means a step are about."""
        return merge_frame(self.table.filter("complete"), start="start_ns")

    @property
    def complete_count(self) -> int:
        """How many steps the means are over."""
        return int(self.table["complete"].sum())


def steps(trace: Trace) -> StepsAnswer:
    """Split each step of a trace.

    Where the trace holds no step marks, `count` is None and only `whole` has figures: no giant step poses as data. A
    step with a launch whose kernel is missing is not complete and left out of the means (pytorch/pytorch#192021); so
    are those that `complete` names.
    """
    work = device_work(trace)
    marks = step_marks(trace, work)
    notes = [*work.notes, *marks.notes]
    has_device = not work.table.is_empty()
    launched, lost = launch_times(trace, work)
    expected = has_device or trace.metadata.cut_of_device
    if not expected:
        lost = lost.clear()
    roles = _roles(trace, work)
    table = _split(marks, roles, work, launched, lost)
    whole = _split(_whole(trace), roles, work, launched, lost).with_columns(
        pl.lit(None, pl.Int64).alias("number"), pl.lit(None, pl.Int64).alias("window")
    )
    ran = (f"{part}_ns" for part in PARTS if part not in ("other", "dataloader"))
    table, stub = without_stub(table, table.select(pl.sum_horizontal(*ran, "launches") > 0).to_series())
    table, cut_off = without_cut_off(table, trace)
    notes += [*stub, *cut_off]
    incomplete = table.filter(pl.col("lost_kernels") > 0)
    if count := int(table["lost_kernels"].sum()):
        text = (
            f"{count} kernel(s) of {incomplete.height} step(s) are missing from the trace: these steps are in no mean"
        )
        notes.append(TraceNote("lost_kernels", text, count))
    outside = len(lost) - int(table["lost_kernels"].sum())
    if outside and len(marks):
        notes.append(
            TraceNote("lost_kernels_outside", f"{outside} kernel(s) launched outside steps are missing", outside)
        )
    if not has_device and not trace.events.is_empty():
        notes.append(TraceNote("no_device_events", "the trace holds no device events"))
    unusable = any(note.code in ("unusable_step", "step_left_out") for note in [*trace.notes, *marks.notes])
    unknown = len(marks) == 0 and not whole.is_empty() and not unusable
    if unknown:
        notes.append(TraceNote("steps_unknown", "the trace holds no ProfilerStep marks: steps are unknown"))
    windows = _windows(marks)
    if windows.height > 1:
        text = f"{windows.height} windows of profiled steps, with gaps between them that are no step"
        notes.append(TraceNote("several_windows", text, windows.height))
    return StepsAnswer(
        count=None if unknown else len(marks),
        table=table,
        devices=_devices(marks, work),
        totals=_totals(table, work),
        windows=windows,
        mean=_mean(table),
        whole=whole,
        has_device_events=has_device,
        notes=notes,
    )


def _roles(trace: Trace, work: DeviceWork) -> dict[str, Intervals]:
    """Return when each part ran, overlaps between parts included.

    Communication is that of the device; where none of it ran there (gloo, MPI), the host's.
    """
    host = trace.events.filter(is_slice() & ~on_device())
    loads = (is_op() | is_annotation()) & pl.col("name").cast(pl.String).str.contains(DATA_LOADING)
    on_card = work.busy(kinds=("communication",))
    talks = is_communication() if not len(on_card) else pl.lit(value=False)
    steps_too = pl.col("name").cast(pl.String).str.starts_with("ProfilerStep#")
    return {
        "compute": work.busy(kinds=("compute",)),
        "memcpy": work.busy(kinds=("memcpy",)),
        "memset": work.busy(kinds=("memset",)),
        "communication": on_card if len(on_card) else merge_frame(host.filter(talks)),
        "runtime": merge_frame(host.filter(is_runtime())),
        "dataloader": merge_frame(host.filter(loads)),
        "cpu": merge_frame(host.filter(is_op() & ~steps_too)),
    }


def _split(
    marks: StepMarks, roles: dict[str, Intervals], work: DeviceWork, launched: pl.Series, lost: pl.Series
) -> pl.DataFrame:
    """Return one row a step."""
    duration = marks.end - marks.start
    columns: dict[str, object] = {
        "number": marks.number,
        "window": marks.window,
        "start_ns": marks.start,
        "dur_ns": duration,
        "host_start_ns": marks.host_start,
        "host_dur_ns": marks.host_end - marks.host_start,
    }
    left = marks.span
    for part, running in roles.items():
        columns[f"{part}_ns"] = covered_ns(intersection(left, running), marks.start, marks.end)
        left = difference(left, running)
    columns["other_ns"] = covered_ns(left, marks.start, marks.end)
    kernels = work.table.filter(pl.col("kind").is_in(BUSY_KINDS))
    step = locate(marks.start, marks.end, kernels["ts_ns"].to_numpy())
    columns["kernels"] = _count(step, len(marks))
    sums = np.zeros(len(marks), np.int64)
    np.add.at(sums, step[step >= 0], kernels["raw_dur_ns"].to_numpy()[step >= 0])
    columns["kernel_sum_ns"] = sums
    columns["launches"] = _count(locate(marks.host_start, marks.host_end, launched.to_numpy()), len(marks))
    missing = _count(locate(marks.host_start, marks.host_end, lost.to_numpy()), len(marks))
    columns["lost_kernels"] = missing
    columns["complete"] = (missing == 0) & (duration > 0)
    table = pl.DataFrame(columns)
    if work.table.is_empty():
        busy: pl.Expr = pl.lit(None, pl.Int64)
        table = table.with_columns(pl.lit(None, pl.Int64).alias(name) for name in ("kernels", "kernel_sum_ns"))
    else:
        each = [covered_ns(work.busy(device, BUSY_KINDS), marks.start, marks.end) for device in work.devices]
        busy = pl.lit(pl.Series(np.rint(np.mean(each, axis=0)).astype(np.int64)))
    share = pl.when(pl.col("dur_ns") > 0).then(100 * pl.col("gpu_busy_ns") / pl.col("dur_ns"))
    table = table.with_columns(busy.alias("gpu_busy_ns")).with_columns(share.alias("gpu_busy_pct"))
    return table.select(pl.col(name).cast(dtype) for name, dtype in STEP_SCHEMA.items())


def _count(position: np.ndarray, length: int) -> np.ndarray:
    return np.bincount(position[position >= 0], minlength=length)


def _whole(trace: Trace) -> StepMarks:
    """Return the trace, from its first work to its last, as if it were one step."""
    worked = trace.events.filter((is_op() | is_runtime() | on_device() | is_communication()) & (pl.col("dur_ns") > 0))
    if worked.is_empty():
        worked = trace.events.filter(is_slice() & (pl.col("dur_ns") > 0))
    none = np.empty(0, np.int64)
    if worked.is_empty():
        return StepMarks(none, none, none, none, none, none, [])
    start = np.array([worked["ts_ns"].min()], np.int64)
    end = np.array([(worked["ts_ns"] + worked["dur_ns"]).max()], np.int64)
    zero = np.zeros(1, np.int64)
    return StepMarks(zero, zero, start, end, start, end, [])


def _devices(marks: StepMarks, work: DeviceWork) -> pl.DataFrame:
    frames = []
    for device in work.devices:
        busy, active = work.busy(device, BUSY_KINDS), work.busy(device)
        columns = {
            "number": marks.number,
            "window": marks.window,
            "busy_ns": covered_ns(busy, marks.start, marks.end),
            "active_ns": covered_ns(active, marks.start, marks.end),
            "dur_ns": marks.end - marks.start,
        }
        frames.append(pl.DataFrame(columns).with_columns(pl.lit(device, pl.Int32).alias("device")))
    schema = {"number": pl.Int64, "window": pl.Int64, "busy_ns": pl.Int64, "active_ns": pl.Int64, "dur_ns": pl.Int64}
    table = pl.concat(frames) if frames else pl.DataFrame(schema=schema | {"device": pl.Int32})
    share = pl.when(pl.col("dur_ns") > 0).then(100 * pl.col("busy_ns") / pl.col("dur_ns"))
    return table.sort("number", "window", "device").select(
        "number", "window", "device", "busy_ns", share.alias("busy_pct"), "active_ns"
    )


def _totals(table: pl.DataFrame, work: DeviceWork) -> pl.DataFrame:
    span = merge_frame(table.filter("complete"), start="start_ns")
    rows = []
    for device in work.devices:
        busy = work.busy(device, BUSY_KINDS)
        events = work.table.filter(pl.col("device") == device)
        kernels = events.filter(pl.col("kind").is_in(BUSY_KINDS))
        inside = intersection(busy, span).length_ns if len(span) else None
        rows.append(
            {
                "device": device,
                "kernels": kernels.height,
                "raw_sum_ns": int(kernels["raw_dur_ns"].sum()),
                "union_ns": busy.length_ns,
                "in_steps_ns": inside,
                "in_steps_pct": None if inside is None else 100 * inside / span.length_ns,
                "late": int(events["late"].sum()),
            }
        )
    integers = ("device", "kernels", "raw_sum_ns", "union_ns", "in_steps_ns", "late")
    order = ("device", "kernels", "raw_sum_ns", "union_ns", "in_steps_ns", "in_steps_pct", "late")
    return pl.DataFrame(rows, schema={name: pl.Int64 if name in integers else pl.Float64 for name in order})


def _windows(marks: StepMarks) -> pl.DataFrame:
    table = pl.DataFrame({"window": marks.window, "number": marks.number, "start": marks.start, "end": marks.end})
    return (
        table.group_by("window", maintain_order=True)
        .agg(
            pl.col("number").first().alias("first"),
            pl.col("number").last().alias("last"),
            pl.len().cast(pl.Int64).alias("steps"),
            pl.col("start").first().alias("start_ns"),
            (pl.col("end").last() - pl.col("start").first()).alias("dur_ns"),
        )
        .with_columns((pl.col("start_ns") - (pl.col("start_ns") + pl.col("dur_ns")).shift()).alias("gap_ns"))
    )


def _mean(table: pl.DataFrame) -> dict[str, float] | None:
    complete = table.filter("complete")
    if complete.is_empty():
        return None
    numbers = [name for name in STEP_SCHEMA if name.endswith(("_ns", "_pct")) and "start" not in name]
    means = complete.select(pl.col(numbers).mean()).row(0, named=True)
    return {name: value for name, value in means.items() if value is not None}
