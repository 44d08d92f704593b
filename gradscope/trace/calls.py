"""The calls of a trace's host as a tree, each with its own time, the device work it caused and the memory it took.

These are torch.profiler's rules, so that sums over calls equal `key_averages()`:

- Operators, annotations, runtime calls and Python frames nest by `nesting`; `HIDDEN` names are left out first.
- A call that is the only child of a call of its own name is dropped; its children and its device work go to that call.
- Memory of a call: every `[memory]` event from its start to its end, both included, of *any* thread. Its own: less its
  children's.
- Device work belongs to the operator or annotation whose `External id` it carries. Where it carries none, or only its
  own correlation (older profilers filled the gap so), it belongs to the innermost operator or annotation around the
  runtime call of its correlation; where that call lies in none, to the runtime call.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from gradscope.trace import categories
from gradscope.trace.device import device_events
from gradscope.trace.frames import Trace
from gradscope.trace.nesting import Integers, Nesting, less_children, nearest, nest

HIDDEN = (
    "[memory]",
    "[OutOfMemory]",
    "profiler::_record_function_enter",
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
    "aten::is_leaf",
    "aten::output_nr",
    "aten::_version",
)
"""Names that torch leaves out of its sums."""

STEP_NAME = "ProfilerStep*"
"""The one name under which torch sums its step marks."""

HOST_MEMORY = (0, 2, 5)
"""Device types of memory on the host: CPU, MKLDNN, IDEEP (c10/core/DeviceType.h)."""

DEVICE_MEMORY = (1, 6, 12, 20)
"""Device types of memory on a device: CUDA, HIP, XPU, PrivateUse1."""

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Calls:
    """Host calls of a trace."""

    frame: pl.DataFrame
    """One row a call, in file order.

    `index`, `name` (steps as `ProfilerStep*`), `kind` (operator, annotation, python, runtime, overhead), `pid`, `tid`,
    `ts_ns`, `dur_ns`, `self_ns`; `device_ns`, `self_device_ns` (null: nothing ran on a device); `memory_bytes`,
    `self_memory_bytes`, `device_memory_bytes`, `self_device_memory_bytes` (null: no such memory events); `flops`,
    `sequence`, `forward_thread`, `external_id`, `correlation`, `shapes`, `stack`; `parent`, the row of the call around
    it, null: none.
    """
    nesting: Nesting
    """The same calls, those of dropped duplicates included, whose rows are `rows`."""
    rows: Integers
    """Row of `frame` that stands for each call of `nesting`: a dropped duplicate's is that of the call it went to."""


def calls(trace: Trace) -> Calls:
    """Nest a trace's host calls and attribute device work and memory to them."""
    chosen = _host_calls(trace)
    start = chosen["ts_ns"].to_numpy()
    end = start + chosen["dur_ns"].to_numpy()
    nesting = nest(_threads(chosen), start, end)
    names = _codes(chosen["name"])
    dropped = _duplicates(nesting.parent, names)
    stands_for = nearest(nesting.parent, ~dropped)
    parent = np.where(nesting.parent >= 0, stands_for[nesting.parent], -1)
    parent[dropped] = -1
    duration = chosen["dur_ns"].to_numpy()
    columns: dict[str, Integers | None] = {"self_ns": _own(duration, parent, dropped)}
    work = _device_work(trace, chosen, nesting)
    if work is None:
        columns |= {"device_ns": None, "self_device_ns": None}
    else:
        own_work = np.zeros(len(work), np.int64)
        np.add.at(own_work, stands_for, work)
        columns |= {"device_ns": nesting.subtree_sums(work), "self_device_ns": own_work}
    for prefix, memory in _memory(trace, start, end).items():
        columns[f"{prefix}memory_bytes"] = memory
        columns[f"self_{prefix}memory_bytes"] = None if memory is None else _own(memory, parent, dropped)
    kept = ~dropped
    row_of = np.cumsum(kept) - 1
    columns["parent"] = np.where(parent >= 0, row_of[parent], -1)
    added = [
        pl.lit(None, pl.Int64).alias(name) if column is None else pl.Series(name, column, pl.Int64)
        for name, column in columns.items()
    ]
    frame = chosen.with_columns(added).filter(pl.Series(kept))
    frame = frame.with_columns(pl.when(pl.col("parent") >= 0).then("parent").alias("parent"))
    return Calls(frame, nesting, row_of[stands_for].astype(np.int64))


def step_interval(trace: Trace, step: int) -> tuple[int, int] | None:
    """Return begin and end (exclusive) of a step in ns; `None`: the trace has no such step.

    A step marked on several threads lasts from the first begin to the last end.
    """
    marks = trace.events.filter(categories.is_step() & (pl.col("name").cast(pl.String) == f"ProfilerStep#{step}"))
    if marks.is_empty():
        return None
    begins, ends = marks["ts_ns"], marks["ts_ns"] + marks["dur_ns"]
    return int(begins.to_numpy().min()), int(ends.to_numpy().max())


def in_step(frame: pl.DataFrame, trace: Trace, step: int | None) -> pl.DataFrame:
    """Keep the rows that begin in a step, all if `step` is `None`, none if the trace has no such step."""
    if step is None:
        return frame
    interval = step_interval(trace, step)
    if interval is None:
        return frame.clear()
    return frame.filter((pl.col("ts_ns") >= interval[0]) & (pl.col("ts_ns") < interval[1]))


def unclaimed_memory(trace: Trace, nested: Calls) -> pl.DataFrame:
    """Return the `[memory]` events that lie in no call of any thread: what torch sums under that name."""
    events = trace.events.filter(categories.is_memory())
    if events.is_empty():
        return events
    by_start = nested.frame.select("ts_ns", end=pl.col("ts_ns") + pl.col("dur_ns")).sort("ts_ns")
    at = events["ts_ns"].to_numpy()
    before = np.searchsorted(by_start["ts_ns"].to_numpy(), at, "right")
    reach = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(by_start["end"].to_numpy())))
    return events.filter(pl.Series(reach[before] < at))


def is_host_memory() -> pl.Expr:
    """Whether a memory event is of the host; by device number where the device's type is missing."""
    typed = pl.col("device_type").is_in(list(HOST_MEMORY))
    return typed.fill_null(pl.col("device").fill_null(-1) < 0)


def is_device_memory() -> pl.Expr:
    """Whether a memory event is of a device."""
    typed = pl.col("device_type").is_in(list(DEVICE_MEMORY))
    return typed.fill_null(pl.col("device").fill_null(-1) >= 0)


def _host_calls(trace: Trace) -> pl.DataFrame:
    kind = (
        pl.when(categories.is_op())
        .then(pl.lit("operator"))
        .when(categories.is_annotation())
        .then(pl.lit("annotation"))
        .when(categories.is_python())
        .then(pl.lit("python"))
        .when(categories.is_runtime())
        .then(pl.lit("runtime"))
        .when((pl.col("cat") == "overhead").fill_null(value=False) & categories.is_slice())
        .then(pl.lit("overhead"))
    )
    columns = ("index", "name", "kind", "pid", "tid", "ts_ns", "dur_ns", "external_id", "correlation")
    more = ("flops", "sequence", "forward_thread", "shapes", "stack")
    chosen = (
        trace.events.with_columns(kind=kind)
        .filter(pl.col("kind").is_not_null() & ~pl.col("name").is_in(list(HIDDEN)).fill_null(value=False))
        .select(*columns, *more)
    )
    steps = pl.col("name").cast(pl.String).str.starts_with(categories.STEP_PREFIX)
    names = chosen.select(pl.col("name").unique()).select("name", renamed=pl.when(steps).then(pl.lit(STEP_NAME)))
    if names["renamed"].null_count() == names.height:
        return chosen
    renamed = pl.when(steps).then(pl.lit(STEP_NAME)).otherwise(pl.col("name").cast(pl.String)).cast(pl.Categorical)
    return chosen.with_columns(name=renamed)


def _codes(column: pl.Series) -> Integers:
    """Return a number per distinct text, -1 for null."""
    return column.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()


def _threads(frame: pl.DataFrame) -> Integers:
    pids, tids = (_codes(frame[column]) for column in ("pid", "tid"))
    return (pids + 1) * (int(tids.max(initial=0)) + 2) + tids + 1


def _duplicates(parent: Integers, names: Integers) -> Flags:
    """Find calls that are the only child of a call of the same name (`EventList._remove_dup_nodes`).

    Dropping one hands its children to a call of the same name, which then has as many: no other answer changes.
    """
    children = np.bincount(parent[parent >= 0], minlength=len(parent))
    inside = parent >= 0
    found: Flags = inside & (names[parent] == names) & (children[parent] == 1)
    return found


def _own(values: Integers, parent: Integers, dropped: Flags) -> Integers:
    return less_children(np.where(dropped, 0, values), parent)


def _device_work(trace: Trace, chosen: pl.DataFrame, nesting: Nesting) -> Integers | None:
    """Return the device time that each call caused itself, in ns; `None`: nothing ran on a device."""
    work = device_events(trace, "external_id")
    if work.is_empty():
        return None
    target = work_targets(work, chosen, nesting.parent)
    total = np.zeros(chosen.height, np.int64)
    known = target >= 0
    np.add.at(total, target[known], (work["end_ns"] - work["ts_ns"]).to_numpy()[known])
    return total


def work_targets(work: pl.DataFrame, chosen: pl.DataFrame, parent: Integers) -> Integers:
    """Return the row of `chosen` that each piece of device work belongs to; -1: nothing in the trace says.

    Args:
        work: Device events with `external_id` and `correlation`.
        chosen: Host calls with these and `kind`.
        parent: Row of the call around each host call; -1: none.
    """
    ranges = (chosen["kind"].is_in(["operator", "annotation"])).to_numpy()
    rows = chosen.select("kind", "external_id", "correlation").with_row_index("row")
    by_id = rows.filter(pl.Series(ranges) & (pl.col("external_id") > 0)).unique("external_id", keep="first")
    launches = rows.filter((pl.col("kind") == "runtime") & pl.col("correlation").is_not_null())
    launches = launches.unique("correlation", keep="first")
    told = pl.col("external_id") != pl.col("correlation").fill_null(0)
    joined = (
        work.with_columns(told_id=pl.when(told).then("external_id"))
        .join(by_id.select(told_id="external_id", by_id="row"), on="told_id", how="left", maintain_order="left")
        .join(launches.select("correlation", launch="row"), on="correlation", how="left", maintain_order="left")
        .select(pl.col("by_id", "launch").cast(pl.Int64).fill_null(-1))
    )
    launch = joined["launch"].to_numpy()
    around = nearest(parent, ranges, launch)
    fallback = np.where(around >= 0, around, launch)
    by_id_rows = joined["by_id"].to_numpy()
    return np.where(by_id_rows >= 0, by_id_rows, fallback)


def _memory(trace: Trace, start: Integers, end: Integers) -> dict[str, Integers | None]:
    """Return bytes per call by prefix of the column: allocated less released from its start to its end."""
    events = trace.events.filter(categories.is_memory() & pl.col("bytes").is_not_null()).sort("ts_ns")
    sums: dict[str, Integers | None] = {}
    for prefix, chosen in (("", is_host_memory()), ("device_", is_device_memory())):
        taken = events.filter(chosen)
        if taken.is_empty():
            sums[prefix] = None
            continue
        at = taken["ts_ns"].to_numpy()
        running = np.concatenate(([0], np.cumsum(taken["bytes"].to_numpy())))
        sums[prefix] = running[np.searchsorted(at, end, "right")] - running[np.searchsorted(at, start, "left")]
    return sums


def launchers(work: pl.DataFrame, nested: Calls) -> pl.Series:
    """Return the name of the call that each piece of device work belongs to, as `work_targets` tells; null: unknown."""
    frame = nested.frame
    target = work_targets(work, frame, frame["parent"].fill_null(-1).to_numpy())
    rows = pl.select(pl.when(pl.Series(target) >= 0).then(pl.Series(target))).to_series()
    return frame["name"].cast(pl.String).gather(rows).alias("launcher")
