"""What a trace is once it is loaded: one frame of events, the file's metadata, and notes of what had to be guessed.

Times are integers in nanoseconds since the trace's first plausible event: near 1.7e15 us a float resolves 0.25 us only.
Missing is null, never 0.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

EVENT_SCHEMA: dict[str, Any] = {
    "index": pl.UInt32,  # place in the file's list of events, metadata events counted too
    "name": pl.Categorical,
    "cat": pl.Categorical,
    "ph": pl.Categorical,
    "ts_ns": pl.Int64,  # since Trace.start_us
    "dur_ns": pl.Int64,  # null where the phase has none
    "pid": pl.Categorical,  # opaque text: profilers write numbers, "Spans", ""
    "tid": pl.Categorical,
    "device": pl.Int32,
    "stream": pl.Int64,
    "correlation": pl.Int64,
    "external_id": pl.Int64,
    "sequence": pl.Int64,
    "forward_thread": pl.Int64,
    "bytes": pl.Int64,  # of a memory event (negative: freed), a copy or a fill
    "addr": pl.UInt64,
    "total_allocated": pl.Int64,
    "total_reserved": pl.Int64,
    "device_type": pl.Int32,  # of a memory event: 0 is the CPU, 1 CUDA
    "flow_id": pl.String,  # text: two ids beyond 2^53 stay two
    "python_id": pl.Int64,
    "python_parent": pl.Int64,
    "module_id": pl.Int64,
    "occupancy_pct": pl.Float32,
    "blocks": pl.Float32,  # per multiprocessor
    "flops": pl.Int64,
    "collective": pl.Categorical,
    "dtype": pl.Categorical,
    "in_elems": pl.Int64,
    "out_elems": pl.Int64,
    "group_size": pl.Int32,
    "shapes": pl.Categorical,  # JSON text, as in the file
    "types": pl.Categorical,
    "stack": pl.Categorical,
}
"""Columns of `Trace.events`, one row an event in file order (every phase but `M`; `B`/`E` pairs are made `X`)."""

PROVENANCE_KEY = "gradscope_cut"
"""Key beside the events of a trace that was cut: which steps of which file, and whether that had device events."""


@dataclass(frozen=True, slots=True)
class TraceNote:
    """Something that was repaired, left out or guessed, in one sentence."""

    code: str
    """Stable name, for programs and tests: `control_character`, `missing_duration`, `truncated`, ..."""
    message: str
    """For people; names out of the trace are already made safe to print."""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a trace says of itself beside its events."""

    rank: int | None = None
    world_size: int | None = None
    worker: str | None = None
    """From the file's name, as torch's tensorboard_trace_handler writes it: `HOST_PID`."""
    devices: list[dict[str, Any]] = field(default_factory=list)
    """The file's `deviceProperties`."""
    distributed: dict[str, Any] = field(default_factory=dict)
    """The file's `distributedInfo`."""
    base_time_ns: int = 0
    """Wall time that the file's `ts` count from; 0: from the epoch, or not known."""
    schema_version: int | None = None
    with_stack: bool | None = None
    record_shapes: bool | None = None
    profile_memory: bool | None = None
    with_flops: bool | None = None
    legacy: bool = False
    """A bare list of events, as builds without Kineto write: no device properties."""
    gradscope_run: bool = False
    """The events hold gradscope's own phase ranges."""
    process_names: dict[str, str] = field(default_factory=dict)
    """pid to name."""
    process_labels: dict[str, str] = field(default_factory=dict)
    """pid to label (`CPU`, `GPU 0`)."""
    thread_names: dict[tuple[str, str], str] = field(default_factory=dict)
    """(pid, tid) to name."""
    other: dict[str, Any] = field(default_factory=dict)
    """What else stands beside the events: `traceName`, versions of drivers."""

    @property
    def cut_of_device(self) -> bool:
        """Whether this was cut from a trace with device events: where it has none itself, they were lost."""
        cut = self.other.get(PROVENANCE_KEY)
        return isinstance(cut, dict) and cut.get("device_events") is True


@dataclass(frozen=True, slots=True)
class Trace:
    """A loaded trace."""

    path: Path | None
    events: pl.DataFrame
    """Usable events only, by `EVENT_SCHEMA`; what was left out is counted in `notes`."""
    metadata: Metadata
    notes: list[TraceNote]
    start_us: float = 0.0
    """The file's `ts` at which `ts_ns` is 0."""
    cut_at: tuple[int, ...] = ()
    """The first `index` of what was lost, for each file of the trace that broke off within its list of events."""

    def wall_ns(self, ts_ns: int) -> int:
        """Return the wall time of a `ts_ns` of this trace, exact to what the file's floats resolve."""
        return self.metadata.base_time_ns + whole_ns(self.start_us) + ts_ns

    @property
    def extent(self) -> str:
        """What a sentence on what is missing is about: of a file that breaks off nobody knows what it lacks."""
        return "what is left of this trace" if self.cut_at else "this trace"

    @property
    def has_device_events(self) -> bool:
        """Whether anything ran on a device other than the CPU, as far as the trace says."""
        from gradscope.trace.categories import on_device

        return bool(self.events.select(on_device().any()).item()) if self.events.height else False


def whole_ns(time_us: float) -> int:
    """Return microseconds as whole nanoseconds; an integer stays exact where 1000 times it would not fit a float."""
    whole = math.floor(time_us)
    return whole * 1000 + round((time_us - whole) * 1000)


def empty_events() -> pl.DataFrame:
    """Return a frame of no events with every column."""
    return pl.DataFrame(schema=EVENT_SCHEMA)
