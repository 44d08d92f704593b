"""A chunk of decoded events as columns: one polars series an argument, text dictionary-encoded.

Only columns that hold something are made. Times stay as in the file (microseconds) until the whole trace is known.
"""

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import polars as pl

from gradscope.trace.decode import NO_ARGUMENTS, Event, Scalar
from gradscope.trace.frames import EVENT_SCHEMA
from gradscope.trace.scan import UNKNOWN_OFFSET, Scan, Tally
from gradscope.trace.series import floats, integers, json_texts, labels, nothing_in, places, strings

RAW_SCHEMA: dict[str, Any] = {
    **{name: kind for name, kind in EVENT_SCHEMA.items() if name not in ("ts_ns", "dur_ns")},
    "ts_us": pl.Float64,
    "dur_us": pl.Float64,
}
"""Columns of a chunk."""

ARGUMENTS = {
    "external_id": ("external_id",),
    "sequence": ("sequence",),
    "forward_thread": ("forward_thread",),
    "flops": ("flops",),
    "collective": ("collective",),
    "dtype": ("dtype",),
    "in_elems": ("in_elems",),
    "out_elems": ("out_elems",),
    "group_size": ("group_size",),
    "stack": ("stack",),
    "python_id": ("python_id",),
    "python_parent": ("python_parent",),
    "module_id": ("module_id",),
    "bytes": ("memory_bytes", "bytes"),
    "addr": ("addr",),
    "total_allocated": ("total_allocated",),
    "total_reserved": ("total_reserved",),
    "device": ("device_id", "device"),
    "device_type": ("device_type",),
    "stream": ("stream",),
    "correlation": ("correlation",),
    "blocks": ("blocks",),
    "occupancy_pct": ("occupancy_pct",),
}
"""Columns of one argument each, and the names that it goes by, the first that is there counts."""

TEXTS = ("shapes", "types")
"""Columns of JSON text."""

_COLLECTIVE = ("collective", "dtype", "in_elems", "out_elems", "group_size")
_CALL = frozenset(("external_id", "sequence", "forward_thread", "flops", "stack", *_COLLECTIVE, *TEXTS))
COLUMNS_OF = {
    "cpu_op": _CALL,
    "user_annotation": _CALL,
    "python_function": frozenset({"python_id", "python_parent", "module_id"}),
    "cpu_instant_event": frozenset({"bytes", "addr", "total_allocated", "total_reserved", "device", "device_type"}),
    "fwdbwd": frozenset[str](),
}
"""Categories of which it is known what their events can have: the rest is not even looked for."""


@dataclass(slots=True)
class Chunk:
    """Columns of some consecutive events."""

    columns: dict[str, pl.Series]
    height: int
    """Rows."""
    places: int
    """Events in the file, metadata events counted too."""
    tally: Tally
    named: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Metadata events: (kind, pid, tid, text)."""
    whole: bool = True
    """Whether the chunk was read to its end."""


def to_chunk(scan: Scan, *, with_shapes: bool, with_stacks: bool) -> Chunk:
    """Turn decoded events into columns; `index` counts from 0."""
    events, tally = scan.events, scan.tally
    phases = [event.ph for event in events]
    index = pl.int_range(len(events), dtype=pl.UInt32, eager=True).alias("index")
    named: list[tuple[str, str, str, str]] = []
    places = len(events)
    if "M" in phases or None in phases:
        named = [line for event in events if event.ph == "M" and (line := _named(event))]
        kept = [place for place, phase in enumerate(phases) if phase is not None and phase != "M"]
        for place, phase in enumerate(phases):
            if phase is None:
                tally.add("no phase", place, UNKNOWN_OFFSET)
        events = [events[place] for place in kept]
        phases = [phases[place] for place in kept]
        index = pl.Series("index", kept, dtype=pl.UInt32)
    columns = {"index": index}
    if events:
        _own_columns(columns, events, phases, tally)
        _argument_columns(columns, events, tally, with_shapes=with_shapes, with_stacks=with_stacks)
    return Chunk(columns, len(events), places, tally, named, scan.whole)


def _named(event: Event) -> tuple[str, str, str, str] | None:
    value = event.args and (event.args.name if event.args.name is not None else event.args.labels)
    return None if value is None or event.name is None else (event.name, str(event.pid), str(event.tid), str(value))


def _own_columns(columns: dict[str, pl.Series], events: list[Event], phases: list[str | None], tally: Tally) -> None:
    columns["ph"] = labels("ph", [*phases])
    columns["name"] = labels("name", [event.name for event in events]).fill_null("")  # null would drop out of filters
    columns["cat"] = labels("cat", [event.cat for event in events])
    columns["pid"] = places("pid", [event.pid for event in events])
    columns["tid"] = places("tid", [event.tid for event in events])
    columns["ts_us"] = floats("ts_us", [event.ts for event in events], pl.Float64, tally)
    columns["dur_us"] = floats("dur_us", [event.dur for event in events], pl.Float64, tally)
    ids = [event.id for event in events]
    if not nothing_in(ids):
        columns["flow_id"] = strings("flow_id", ids)


def _argument_columns(
    columns: dict[str, pl.Series], events: list[Event], tally: Tally, *, with_shapes: bool, with_stacks: bool
) -> None:
    args = [event.args or NO_ARGUMENTS for event in events]
    everything = frozenset((*ARGUMENTS, *TEXTS))
    wanted = frozenset[str]().union(*(COLUMNS_OF.get(cat or "", everything) for cat in {event.cat for event in events}))
    wanted -= (frozenset() if with_shapes else frozenset(TEXTS)) | (frozenset() if with_stacks else {"stack"})
    for column in (column for column in ARGUMENTS if column in wanted):
        for argument in ARGUMENTS[column]:
            values = list(map(attrgetter(argument), args))
            if not nothing_in(values):
                made, before = _series(column, values, tally), columns.get(column)
                columns[column] = made if before is None else before.fill_null(made)
    for column in (column for column in TEXTS if column in wanted):
        if (texts := json_texts(column, list(map(attrgetter(column), args)))) is not None:
            columns[column] = texts


def _series(name: str, values: list[Scalar], tally: Tally) -> pl.Series:
    kind = EVENT_SCHEMA[name]
    if kind == pl.Categorical:
        return labels(name, values)
    return floats(name, values, kind, tally) if kind.is_float() else integers(name, values, kind, tally)
