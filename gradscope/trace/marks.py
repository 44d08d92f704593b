"""Where steps begin and end, from `ProfilerStep#N` on the host and from what each step launched on the device."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gradscope.trace.categories import STEP_PREFIX, is_step
from gradscope.trace.device import DeviceWork
from gradscope.trace.frames import Trace, TraceNote
from gradscope.trace.intervals import Intervals, locate, merge

Times = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StepMarks:
    """Steps in order of time; none overlaps another."""

    number: Times
    """As torch numbered them: unique within a window, not always within a trace."""
    window: Times
    """Which uninterrupted stretch of profiled steps each belongs to, from 0."""
    host_start: Times
    host_end: Times
    start: Times
    """Where the step begins: its mark, or where the device is done with the step before, whichever is later."""
    end: Times
    """Where it ends: its mark, or where the last work ends that it launched, whichever is later."""
    notes: list[TraceNote]

    def __len__(self) -> int:
        return len(self.number)

    @property
    def span(self) -> Intervals:
        """All windows: from the first step's start to the last one's end, without what lies between windows."""
        edges = np.append(True, self.window[1:] != self.window[:-1]) if len(self) else np.zeros(0, bool)
        return merge(self.start[edges], self.end[np.append(edges[1:], True)] if len(self) else self.end)


def step_marks(trace: Trace, work: DeviceWork) -> StepMarks:
    """Find the steps of a trace.

    * A number that is marked on several threads at once is one step, as long as on the thread with most marks.
    * A mark without duration is no step (pytorch/pytorch#188481).
    * A new window begins where a number does not follow the one before: profiler schedules skip steps.
    * Steps end with their device work, by torch-tb-profiler's rule: end = the later of the mark's end and of the end of
      what the step launched; start = the later of the mark's start and of the end before. Before the first step, the
      end is that of work that no step launched and that was over when the first step's own began.
    """
    marks, notes = _host_marks(trace)
    number, host_start, host_end = (marks[column].to_numpy() for column in ("number", "start", "end"))
    follows = np.append(True, number[1:] == number[:-1] + 1) if len(number) else np.zeros(0, bool)
    window = np.cumsum(~follows).astype(np.int64)
    start, end = _with_device(host_start, host_end, work.table)
    return StepMarks(number, window, host_start, host_end, start, end, notes)


def _host_marks(trace: Trace) -> tuple[pl.DataFrame, list[TraceNote]]:
    """Return number, start, end of each step on the host."""
    notes = []
    found = (
        trace.events.filter(is_step())
        .with_columns(
            pl.col("name").cast(pl.String).str.slice(len(STEP_PREFIX)).cast(pl.Int64, strict=False).alias("number"),
            pl.len().over("pid", "tid").alias("marks"),
        )
        .filter(pl.col("number").is_not_null())
        .with_columns(pl.col("ts_ns").alias("start"), (pl.col("ts_ns") + pl.col("dur_ns")).alias("end"))
    )
    empty = found.filter(pl.col("end") <= pl.col("start"))
    found = found.filter(pl.col("end") > pl.col("start")).sort("number", "start")
    kept = found.with_columns(  # marks of one number that overlap, on any thread, form one cluster
        (pl.col("start") >= pl.col("end").cum_max().shift().over("number")).fill_null(False).alias("apart")
    ).with_columns(pl.col("apart").cum_sum().over("number").alias("cluster"))
    threads = kept.select("number", "cluster", "pid", "tid").n_unique()
    kept = (
        kept.sort("marks", pl.col("end") - pl.col("start"), descending=True, maintain_order=True)
        .unique(["number", "cluster"], keep="first", maintain_order=True)
        .sort("start", "number")
    )
    if again := found.height - threads:
        text = f"{again} step mark(s) repeat a step on the thread that marks it already, at the same time: counted once"
        notes.append(TraceNote("repeated_step_mark", text, again))
    if repeated := threads - kept.height:
        text = f"{repeated} step mark(s) repeat a step that is marked on another thread as well: counted once"
        notes.append(TraceNote("repeated_step_mark", text, repeated))
    # a mark may begin before the end of another: it then begins where that ends
    earlier = pl.col("end").cum_max().shift().fill_null(pl.col("start"))
    kept = kept.with_columns(pl.max_horizontal("start", earlier).alias("start"))
    hidden = kept.filter(pl.col("end") <= pl.col("start"))
    lost = sorted(set(empty["number"]) - set(kept["number"])) + hidden["number"].to_list()
    notes += [
        TraceNote("unusable_step", f"step {step} is unusable: its mark has no duration of its own") for step in lost
    ]
    return kept.filter(pl.col("end") > pl.col("start")).select("number", "start", "end"), notes


def _with_device(host_start: Times, host_end: Times, table: pl.DataFrame) -> tuple[Times, Times]:
    """Return starts and ends of steps that last until the device has done what they launched."""
    start, end = host_start.copy(), host_end.copy()
    launched = table.filter(pl.col("launch_ns").is_not_null())
    step = locate(host_start, host_end, launched["launch_ns"].to_numpy())
    if not (step >= 0).any():
        return start, end
    mine = step >= 0
    device_start = np.full(len(start), np.iinfo(np.int64).max)
    np.minimum.at(device_start, step[mine], launched["ts_ns"].to_numpy()[mine])
    np.maximum.at(end, step[mine], launched["end_ns"].to_numpy()[mine])
    stray = pl.concat([launched.filter(pl.Series(~mine)), table.filter(pl.col("launch_ns").is_null())])[
        "end_ns"
    ].to_numpy()
    before = stray[stray < device_start[0]]
    previous = int(before.max()) if len(before) and (step == 0).any() else int(start[0])
    for position in range(len(start)):  # each start hangs on the end before it
        start[position] = max(previous, start[position])
        end[position] = previous = max(end[position], start[position])
    return start, end
