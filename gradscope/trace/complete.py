"""Which steps the trace does not hold whole, and which are therefore in no mean."""

import polars as pl

from gradscope.trace.categories import (
    STEP_PREFIX,
    is_annotation,
    is_op,
    is_python,
    is_runtime,
    is_step,
    on_device,
)
from gradscope.trace.frames import Trace, TraceNote

STEPS_NAMED = 5
"""Steps that a note tells by number."""


def steps_left_out(events: pl.DataFrame, usable: pl.DataFrame) -> list[TraceNote]:
    """Say which steps have no usable mark.

    Args:
        events: All events, with `ph`, `cat` and `name`.
        usable: Those of them that can be used.
    """
    name = pl.col("name").cast(pl.String)
    marked, left = (set(frame.filter(is_step()).select(name).to_series()) for frame in (events, usable))
    numbers = sorted(int(mark.removeprefix(STEP_PREFIX)) for mark in marked - left)
    if not numbers:
        return []
    text = f"{_named(numbers)} left out: marked without a usable time"
    return [TraceNote("step_left_out", text, len(numbers))]


def without_stub(table: pl.DataFrame, worked: pl.Series) -> tuple[pl.DataFrame, list[TraceNote]]:
    """Take a last step in which nothing ran, or only a batch was fetched, out of the means.

    It begins as the profiler is stopped, or a loop breaks after `prof.step()`.

    Args:
        table: Steps, by `steps.STEP_SCHEMA`.
        worked: Whether anything but data loading ran in each.
    """
    if not worked.any() or worked[-1]:
        return table, []
    last = pl.int_range(pl.len()) == pl.len() - 1
    ran_there = "only data was loaded" if table["dataloader_ns"][-1] else "nothing ran"
    text = f"{ran_there} in the last step, {table['number'][-1]}: it is in no mean"
    return table.with_columns(pl.col("complete") & ~last), [TraceNote("empty_last_step", text)]


def without_cut_off(table: pl.DataFrame, trace: Trace) -> tuple[pl.DataFrame, list[TraceNote]]:
    """Take steps that were still open when a file broke off out of the means.

    Profilers write events in order of time: of a step that ends after the last event began that the file still holds,
    some may be missing.

    Args:
        table: Steps, by `steps.STEP_SCHEMA`.
        trace: What they are of; `Trace.cut_at` says where its files broke off.
    """
    end = pl.col("start_ns") + pl.col("dur_ns")
    cut = pl.lit(value=False)
    work = is_op() | is_runtime() | on_device() | is_annotation() | is_python()
    for place in trace.cut_at:
        written = pl.col("index") < place
        before, after = trace.events.filter(work & written), trace.events.filter(work & ~written)
        if before.is_empty():
            continue
        here = end > before["ts_ns"][-1]
        if not after.is_empty():  # windows that were joined behind this one are whole
            here &= pl.col("host_start_ns") < after["ts_ns"].min()
        cut |= here
    numbers = table.filter(cut)["number"].to_list()
    if not numbers:
        return table, []
    text = f"{_named(numbers)} in no mean: the file breaks off before all of it may have been written"
    return table.with_columns(pl.col("complete") & ~cut), [TraceNote("cut_off_steps", text, len(numbers))]


def _named(numbers: list[int]) -> str:
    """Return `step 2 is` or `steps 2, 5 are`."""
    told = ", ".join(map(str, numbers[:STEPS_NAMED]))
    more = len(numbers) - STEPS_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return f"step {told} is" if len(numbers) == 1 else f"steps {told}{rest} are"
