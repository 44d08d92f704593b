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

HOST_CATEGORIES = frozenset(
    {None, "cpu_op", "python_function", "cpu_instant_event", "user_annotation", "fwdbwd", "Trace"}
)
"""Categories whose events have no arguments of devices: those columns are not even looked for."""

HOST = {
    "external_id": "external_id",
    "sequence": "sequence",
    "forward_thread": "forward_thread",
    "python_id": "python_id",
    "python_parent": "python_parent",
    "module_id": "module_id",
    "bytes": "memory_bytes",
    "addr": "addr",
    "total_allocated": "total_allocated",
    "total_reserved": "total_reserved",
    "device": "device_id",
    "device_type": "device_type",
    "flops": "flops",
}
"""Columns that any event may have, and the arguments that they are of."""
COLLECTIVE = ("dtype", "in_elems", "out_elems", "group_size")
DEVICE = ("stream", "correlation", "device", "bytes", "blocks", "occupancy_pct")
"""Columns of events of devices; two of them are, under another argument, also in HOST."""


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
    """Whether the chunk was read to its end with nothing left out."""


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
    columns["name"] = labels("name", [event.name for event in events])
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

    def put(column: str, argument: str) -> bool:
        values = list(map(attrgetter(argument), args))
        if nothing_in(values):
            return False
        made = _series(column, values, tally)
        before = columns.get(column)
        columns[column] = made if before is None else before.fill_null(made)
        return True

    for column, argument in HOST.items():
        put(column, argument)
    if put("collective", "collective"):
        for column in COLLECTIVE:
            put(column, column)
    if not {event.cat for event in events} <= HOST_CATEGORIES:
        for column in DEVICE:
            put(column, column)
    if with_stacks:
        put("stack", "stack")
    for column in ("shapes", "types") if with_shapes else ():
        made = json_texts(column, list(map(attrgetter(column), args)))
        if made is not None:
            columns[column] = made


def _series(name: str, values: list[Scalar], tally: Tally) -> pl.Series:
    kind = EVENT_SCHEMA[name]
    if kind == pl.Categorical:
        return labels(name, values)
    return floats(name, values, kind, tally) if kind.is_float() else integers(name, values, kind, tally)
