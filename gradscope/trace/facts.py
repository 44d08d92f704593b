"""What several rules ask of a trace, worked out once: steps, the device's work and idle time, operators, memory."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from gradscope.core.units import format_ms, format_number_of, format_pct
from gradscope.trace.categories import is_annotation, is_op, is_runtime
from gradscope.trace.containment import Ranges, ranges
from gradscope.trace.device import DeviceWork, device_work
from gradscope.trace.frames import Trace
from gradscope.trace.idle import idle_window
from gradscope.trace.intervals import Intervals, contains, difference, intersection, merge, merge_frame
from gradscope.trace.memory_timeline import MemoryAnswer, memory
from gradscope.trace.phases import PhasesAnswer, phases
from gradscope.trace.steps import StepsAnswer

SLICE = ("name", "pid", "tid", "ts_ns", "dur_ns")


@dataclass(frozen=True)
class Facts:
    """A trace and what follows from it."""

    trace: Trace

    answer: StepsAnswer
    """`steps(trace)`."""
    memory_answer: MemoryAnswer | None = None
    """`memory(trace)`, where it is at hand."""

    @cached_property
    def steps(self) -> pl.DataFrame:
        """Steps that count: those whose kernels are all in the trace; all of them where that is none."""
        complete = self.answer.table.filter("complete")
        return self.answer.table if complete.is_empty() else complete

    @cached_property
    def window(self) -> Intervals:
        """Time of the steps, until the device has done what they launched; without steps, from first to last work."""
        rows = self.answer.whole if self.steps.is_empty() else self.steps
        return merge_frame(rows, start="start_ns", duration="dur_ns")

    @property
    def window_ns(self) -> int:
        """Length of the window."""
        return self.window.length_ns

    def per_step(self, total: float) -> float | None:
        """Divide by the number of steps; `None` where steps are unknown."""
        return None if self.steps.is_empty() else total / self.steps.height

    def pct(self, time_ns: float) -> float:
        """Return a time's share of the window in percent."""
        return 100 * time_ns / self.window_ns if self.window_ns else 0.0

    def amount(self, time_ns: float) -> str:
        """Format a time a step, or in the whole window where steps are unknown, and its share."""
        share = format_pct(self.pct(time_ns))
        per_step_ns = self.per_step(time_ns)
        if per_step_ns is None:
            return f"{format_ms(time_ns / 1e6)} ({share})"
        return f"{format_ms(per_step_ns / 1e6)} a step ({share})"

    def count(self, number: int, thing: str) -> str:
        """Format how many of a thing there are a step, or in the whole window where steps are unknown."""
        per_step = self.per_step(number)
        if per_step is None:
            return format_number_of(number, thing)
        whole = round(per_step)
        return f"{format_number_of(whole, thing) if whole == per_step else f'{per_step:.1f} {thing}s'} a step"

    def of_steps(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of a table by number and window that belong to steps that count; all without steps."""
        if self.steps.is_empty():
            return table
        return table.join(self.steps, on=["number", "window"], how="semi", maintain_order="left")

    def inside(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that begin within the window."""
        return frame.filter(pl.Series(contains(self.window, frame["ts_ns"].to_numpy()), dtype=pl.Boolean))

    @cached_property
    def work(self) -> DeviceWork:
        """Everything that ran on devices."""
        return device_work(self.trace)

    @cached_property
    def has_device(self) -> bool:
        """Whether anything ran on a device within the window."""
        return len(self.busy) > 0

    @cached_property
    def busy(self) -> Intervals:
        """When any device worked, within the window."""
        return intersection(self.work.busy(), self.window)

    @cached_property
    def idle_window(self) -> Intervals:
        """When it is known whether devices idled, as the idle view has it."""
        return idle_window(self.answer, self.work)

    @cached_property
    def idle(self) -> Intervals:
        """When no device worked, within the idle window."""
        return difference(self.idle_window, self.work.busy())

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """Kernels that begin within the window but those of communication, with their launches (`DeviceWork.table`)."""
        return self.inside(self.work.table.filter(pl.col("kind") == "compute"))

    @cached_property
    def operators(self) -> Ranges:
        """All operators of the host."""
        return ranges(self.trace.events.filter(is_op()).select(SLICE))

    @cached_property
    def memory(self) -> MemoryAnswer:
        """Memory of all devices."""
        return self.memory_answer or memory(self.trace)

    @cached_property
    def phases(self) -> PhasesAnswer:
        """Phases of the steps."""
        return phases(self.trace)

    @cached_property
    def has_runtime(self) -> bool:
        """Whether the trace holds calls of a device's runtime."""
        return bool(self.trace.events.select(is_runtime().any()).item())

    def named(self, pattern: str) -> pl.DataFrame:
        """Return the operators and annotations whose name matches."""
        return self.trace.events.filter((is_op() | is_annotation()) & _named(pattern)).select(SLICE)

    def runtime_calls(self, pattern: str) -> pl.DataFrame:
        """Return the calls of a device's runtime whose name matches."""
        return self.trace.events.filter(is_runtime() & _named(pattern)).select(SLICE)

    def within(self, frame: pl.DataFrame) -> Intervals:
        """Return the union of a frame's slices, within the window."""
        return intersection(merge_frame(frame), self.window)

    def launched_within(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the device work whose launch began in one of a frame's slices, on that slice's thread."""
        launched = self.work.table.filter(pl.col("launch_ns").is_not_null())
        tree = ranges(frame)
        points = launched.select(
            pl.col("launch_pid").alias("pid"), pl.col("launch_tid").alias("tid"), pl.col("launch_ns").alias("ts_ns")
        )
        return launched.filter(pl.Series(tree.innermost(points) >= 0, dtype=pl.Boolean))


def _named(pattern: str) -> pl.Expr:
    return pl.col("name").cast(pl.String).str.contains(pattern).fill_null(value=False)


def gaps_after(idle: Intervals, calls: pl.DataFrame) -> Intervals:
    """Return the idle ranges that begin within one of some calls (its end included) and outlast that call.

    The device ran out of work while the host waited in the call, and got more only after the host had gone on.

    Args:
        idle: When no device worked.
        calls: ts_ns and dur_ns.
    """
    ordered = calls.select("ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns")).sort("end_ns", "ts_ns")
    starts, ends = ordered["ts_ns"].to_numpy(), ordered["end_ns"].to_numpy()
    blamed = np.zeros(len(idle), bool)
    first = np.searchsorted(ends, idle.starts, "left")  # the first call that ends when the range begins, or later
    waiting = merge(starts, ends + 1)
    for position in np.flatnonzero(contains(waiting, idle.starts)):
        begin, end = idle.starts[position], idle.ends[position]
        later = first[position]
        while later < len(ends) and ends[later] < end and not blamed[position]:
            blamed[position] = starts[later] <= begin
            later += 1
    return merge(idle.starts[blamed], idle.ends[blamed])
