"""Memory of each device through a trace: the curve, its peak and what was alive then, what stayed, how much is churned.

Read from the `[memory]` events that torch writes under `profile_memory=True`. How much is allocated is what the
allocator itself counted (`Total Allocated`), never a sum of sizes: blocks born before the window are freed inside it,
and such a sum goes below zero (pytorch/pytorch#70028).
"""

from dataclasses import dataclass, field

import polars as pl

from gradscope.trace.categories import is_memory, is_op
from gradscope.trace.containment import Ranges, ranges
from gradscope.trace.device import device_work
from gradscope.trace.frames import Trace, TraceNote
from gradscope.trace.marks import step_marks
from gradscope.trace.memory_blocks import Blocks, blocks, name_operators

CPU = 0
DEVICE_NAMES = {CPU: "CPU", 1: "CUDA", 6: "HIP", 9: "XLA", 12: "XPU", 13: "MPS", 15: "HPU", 19: "MTIA", 20: "device"}
"""torch's `c10::DeviceType`; 20 is PrivateUse1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """One device's memory in the window."""

    device: str
    """`CPU`, `CUDA 0`."""
    device_type: int | None
    device_index: int | None
    """`None` for the CPU."""
    curve: pl.DataFrame
    """ts_ns, allocated_bytes, reserved_bytes (null: not known), one row a memory event, in the order of time."""
    relative: bool
    """Whether what was allocated before the window is unknown, so that `curve` counts from the window's start on and
    every reading is the least it can have been."""
    peak_bytes: int
    """Highest reading of `curve`."""
    peak_ts_ns: int
    peak_step: int | None
    """The step that the peak lies in; `None` outside of steps, or where a trace has none."""
    reserved_peak_bytes: int | None
    """Most that the caching allocator held; `None` where it says nothing, as a CPU's."""
    alive_at_peak: pl.DataFrame
    """operator, asked_by, bytes, count, largest first: blocks born in the window and alive at the peak, by the
    innermost operator and by the innermost one that does more than allocate; null outside of operators."""
    older_at_peak_bytes: int
    """What else was allocated at the peak: born before the window."""
    never_freed: pl.DataFrame
    """The same columns, of blocks born in the window and not freed in it: a state that stays, or a leak."""
    allocations: int
    """Births in the window."""
    allocated_bytes: int
    """Sum of their sizes."""
    steps: int
    """Steps that the next two are means over."""
    allocations_per_step: float | None
    bytes_per_step: float | None
    """Allocated within a step."""
    notes: list[TraceNote] = field(default_factory=list)

    @property
    def basis(self) -> str | None:
        """What the readings count, in words, where it is not all that is allocated.

        torch counts on a CPU what was born since memory was first recorded: parameters made before are not in it.
        """
        if self.relative:
            return "relative to window start"
        return "blocks born since memory was first recorded" if self.device_type == CPU else None

    @property
    def turnover(self) -> float | None:
        """How many times its peak a step allocates; `None` where there are no steps or no peak."""
        return self.bytes_per_step / self.peak_bytes if self.bytes_per_step is not None and self.peak_bytes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAnswer:
    """Memory of all devices, accelerators first."""

    devices: list[DeviceMemory]
    missing: str | None = None
    """Why there is none."""


def memory(trace: Trace) -> MemoryAnswer:
    """Return the memory of each device that a trace tells of."""
    wanted = ["index", "ts_ns", "pid", "tid", "device", "device_type", "bytes", "addr", "total_allocated"]
    events = trace.events.filter(is_memory()).select(*wanted, "total_reserved")
    if events.is_empty():
        recorded = trace.metadata.profile_memory
        why = "memory was recorded, but nothing was allocated" if recorded else "recorded without profile_memory=True"
        return MemoryAnswer(devices=[], missing=f"no [memory] events: {why}")
    operators = ranges(trace.events.filter(is_op()).select("name", "pid", "tid", "ts_ns", "dur_ns"))
    steps = _steps(trace)
    parts = events.with_columns(pl.col("device_type").fill_null(CPU)).partition_by(
        "device_type", "device", as_dict=True, include_key=False
    )
    found = [
        _device(kind, None if kind == CPU else index, part, operators, steps) for (kind, index), part in parts.items()
    ]
    found.sort(key=lambda device: (device.device_type == CPU, device.device_type, device.device_index or 0))
    return MemoryAnswer(devices=found)


def _device(kind: int, index: int | None, part: pl.DataFrame, operators: Ranges, steps: pl.DataFrame) -> DeviceMemory:
    events = part.sort("ts_ns", "index").with_row_index("order")
    readings, relative, notes = _readings(events, on_cpu=kind == CPU)
    peak = int(readings.arg_max() or 0)
    peak_bytes, peak_ts_ns = int(readings[peak]), int(events["ts_ns"][peak])
    matched = blocks(events)
    born = name_operators(matched.frame, operators)
    alive = born.filter(pl.col("born") <= peak, pl.col("dies").is_null() | (pl.col("dies") > peak))
    reserved = None if kind == CPU or not events["total_reserved"].max() else events["total_reserved"]
    births = events.filter(pl.col("bytes") > 0)
    in_steps = births.filter(_inside(births["ts_ns"], steps))
    return DeviceMemory(
        device=device_name(kind, index),
        device_type=kind,
        device_index=index,
        curve=events.select(
            "ts_ns",
            readings.alias("allocated_bytes"),
            pl.lit(None, pl.Int64).alias("reserved_bytes") if reserved is None else reserved.alias("reserved_bytes"),
        ),
        relative=relative,
        peak_bytes=peak_bytes,
        peak_ts_ns=peak_ts_ns,
        peak_step=_step_at(peak_ts_ns, steps),
        reserved_peak_bytes=None if reserved is None else _int(reserved.max()),
        alive_at_peak=_by_operator(alive),
        older_at_peak_bytes=max(peak_bytes - _int(alive["bytes"].sum()), 0),
        never_freed=_by_operator(born.filter(pl.col("dies").is_null())),
        allocations=births.height,
        allocated_bytes=_int(births["bytes"].sum()),
        steps=steps.height,
        allocations_per_step=in_steps.height / steps.height if steps.height else None,
        bytes_per_step=_int(in_steps["bytes"].sum()) / steps.height if steps.height else None,
        notes=notes + _block_notes(matched),
    )


def device_name(kind: int, index: int | None) -> str:
    """Return what a device is called: its kind, and its number where it has one."""
    name = DEVICE_NAMES.get(kind, f"device type {kind}")
    return name if index is None or index < 0 else f"{name} {index}"


def _readings(events: pl.DataFrame, *, on_cpu: bool) -> tuple[pl.Series, bool, list[TraceNote]]:
    """Return what was allocated after each event, and whether what came before the window is unknown.

    An event without a total takes the last known one and the sizes since; where no event has one, sizes are summed from
    a start that keeps every reading at 0 or more.
    """
    notes: list[TraceNote] = []
    sizes = events["bytes"].fill_null(0)
    totals = events["total_allocated"]
    negative = _int((totals < 0).sum())
    if negative:
        totals = totals.set(totals < 0, None)
        message = "readings of allocated memory below zero were replaced by what came before and sizes since"
        notes.append(TraceNote("negative_memory", message, negative))
    if totals.max() == 0 and _int(sizes.max()) > 0:  # builds that do not count write 0 everywhere
        totals = pl.Series([None] * len(totals), dtype=pl.Int64)
    summed = sizes.cum_sum()
    if totals.null_count() == len(totals):
        return (summed - min(_int(summed.min()), 0)).clip(lower_bound=0), True, notes
    offsets = (totals - summed).fill_null(strategy="forward").fill_null(strategy="backward")
    readings = (summed + offsets).clip(lower_bound=0)
    # torch's count for the CPU starts when memory is first recorded, so a 0 before the first event says nothing
    before = _int(readings[0]) - _int(sizes[0])
    return readings, on_cpu and before <= 0, notes


def _block_notes(matched: Blocks) -> list[TraceNote]:
    texts = {
        "older_blocks_freed": (matched.older_freed, "blocks born before the window were freed in it"),
        "release_missing": (matched.reborn, "blocks were born at an address that had not been freed"),
        "release_of_other_size": (matched.other_size, "blocks were freed with another size than they were born with"),
        "memory_without_address": (matched.without_address, "memory events name no address: not followed to a release"),
    }
    return [TraceNote(code, message, count) for code, (count, message) in texts.items() if count]


def _by_operator(born: pl.DataFrame) -> pl.DataFrame:
    return (
        born.group_by("operator", "asked_by")
        .agg(pl.col("bytes").sum(), pl.len().cast(pl.Int64).alias("count"))
        .sort(["bytes", "count", "asked_by", "operator"], descending=[True, True, False, False])
    )


def _steps(trace: Trace) -> pl.DataFrame:
    """Return number, ts_ns and end_ns of each step on the host, where memory is asked for."""
    marks = step_marks(trace, device_work(trace))
    return pl.DataFrame({"number": marks.number, "ts_ns": marks.host_start, "end_ns": marks.host_end})


def _inside(times: pl.Series, steps: pl.DataFrame) -> pl.Series:
    """Return which times lie in a step: the last one begun has not ended. Steps do not overlap."""
    if steps.is_empty():
        return pl.Series([False] * len(times), dtype=pl.Boolean)
    last = steps["ts_ns"].search_sorted(times, side="right").cast(pl.Int64) - 1
    ends = steps["end_ns"].gather(last.clip(lower_bound=0))
    return (last >= 0) & (times < ends)


def _step_at(ts_ns: int, steps: pl.DataFrame) -> int | None:
    around = steps.filter(pl.col("ts_ns") <= ts_ns, pl.col("end_ns") > ts_ns)
    return None if around.is_empty() else int(around["number"][0])


def _int(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else 0
