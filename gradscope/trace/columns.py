"""A chunk of decoded events as columns: one polars series an argument, text dictionary-encoded.

Only columns that hold something are made. Times stay as in the file (microseconds) until the whole trace is known.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import msgspec
import polars as pl

from gradscope.trace.decode import NO_ARGUMENTS, NOTHING, Event, Scalar
from gradscope.trace.frames import EVENT_SCHEMA
from gradscope.trace.scan import UNKNOWN_OFFSET, Scan, Tally

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

INTEGERS = {
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
"""Columns of integers, and the arguments that they are of."""
COLLECTIVE = ("in_elems", "out_elems", "group_size")
ON_DEVICE = ("stream", "correlation")
FLOATS = ("blocks", "occupancy_pct")
ALSO = ("device", "bytes")
"""Columns that are of another argument, or of one of their own name."""


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


class _Texts(dict[Scalar, str]):
    """Memo of scalars as text."""

    def __missing__(self, key: Scalar) -> str:
        text = self[key] = str(key) if key is not None else ""
        return text


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
    columns["ph"] = _labels("ph", phases)
    columns["name"] = _labels("name", [event.name for event in events])
    columns["cat"] = _labels("cat", [event.cat for event in events])
    columns["pid"] = _places("pid", [event.pid for event in events])
    columns["tid"] = _places("tid", [event.tid for event in events])
    columns["ts_us"] = _floats("ts_us", [event.ts for event in events], tally)
    columns["dur_us"] = _floats("dur_us", [event.dur for event in events], tally)
    ids = [event.id for event in events]
    if any(ids):
        columns["flow_id"] = _strings("flow_id", ids)


def _argument_columns(
    columns: dict[str, pl.Series], events: list[Event], tally: Tally, *, with_shapes: bool, with_stacks: bool
) -> None:
    args = [event.args or NO_ARGUMENTS for event in events]
    categories = {event.cat for event in events}

    def argument(name: str) -> list[Any]:
        return list(map(attrgetter(name), args))

    def put(series: pl.Series) -> bool:
        if found := series.null_count() < len(series):
            columns[series.name] = series
        return found

    for column, name in INTEGERS.items():
        put(_integers(column, argument(name), tally))
    if put(_labels("collective", argument("collective"))):
        put(_labels("dtype", argument("dtype")))
        for column in COLLECTIVE:
            put(_integers(column, argument(column), tally))
    if not categories <= HOST_CATEGORIES:
        for column in ON_DEVICE:
            put(_integers(column, argument(column), tally))
        for column in ALSO:
            put(_filled(columns.get(column), _integers(column, argument(column), tally)))
        for column in FLOATS:
            put(_floats(column, argument(column), tally))
    if with_shapes:
        put(_json_texts("shapes", argument("shapes")))
        put(_json_texts("types", argument("types")))
    if with_stacks:
        put(_labels("stack", argument("stack")))


def _filled(before: pl.Series | None, after: pl.Series) -> pl.Series:
    return after if before is None else before.fill_null(after)


def _labels(name: str, values: Sequence[Any]) -> pl.Series:
    return _strings(name, values).cast(pl.Categorical)


def _strings(name: str, values: Sequence[Any]) -> pl.Series:
    try:
        return pl.Series(name, values, dtype=pl.String)
    except TypeError:
        return pl.Series(name, [None if value is None else str(value) for value in values], dtype=pl.String)


def _places(name: str, values: Sequence[Scalar]) -> pl.Series:
    """Return pids or tids as text."""
    texts = _Texts()
    return pl.Series(name, [texts[value] for value in values], dtype=pl.String).cast(pl.Categorical)


def _json_texts(name: str, values: Iterable[msgspec.Raw]) -> pl.Series:
    """Return values as JSON text on one line."""
    texts = [None if value is NOTHING else bytes(value) for value in values]
    series = pl.Series(name, texts, dtype=pl.Binary)
    try:
        labels = series.cast(pl.String).cast(pl.Categorical)
    except pl.exceptions.ComputeError:
        labels = _labels(name, [None if text is None else text.decode("utf-8", "replace") for text in texts])
    if labels.unique().cast(pl.String).str.contains("\n", literal=True).any():
        return _labels(name, [None if text is None else _one_line(text) for text in texts])
    return labels


def _one_line(text: bytes) -> str:
    return json.dumps(json.loads(text.decode("utf-8", "replace"), strict=False))


def _integers(name: str, values: Sequence[Scalar], tally: Tally) -> pl.Series:
    kind = EVENT_SCHEMA[name]
    try:
        return pl.Series(name, values, dtype=kind, strict=True)
    except TypeError:
        low, high = pl.select(low=kind.min(), high=kind.max()).row(0)
        whole = [_integer(value, low, high, tally, place) for place, value in enumerate(values)]
        return pl.Series(name, whole, dtype=kind)


def _integer(value: Scalar, low: int, high: int, tally: Tally, place: int) -> int | None:
    """Return a whole number from what stands for one; one that does not fit is counted and left out."""
    if value is None or value == "":
        return None
    try:
        whole = int(value, 0) if isinstance(value, str) and value[:2] == "0x" else int(value)
    except (ValueError, OverflowError):
        try:
            whole = int(float(value))
        except (ValueError, OverflowError):
            tally.add("number", place, UNKNOWN_OFFSET)
            return None
    if low <= whole <= high:
        return whole
    tally.add("number", place, UNKNOWN_OFFSET)
    return None


def _floats(name: str, values: Sequence[Scalar], tally: Tally) -> pl.Series:
    try:
        return pl.Series(name, values, dtype=RAW_SCHEMA[name], strict=True)
    except (TypeError, OverflowError):
        return pl.Series(
            name, [_float(value, tally, place) for place, value in enumerate(values)], dtype=RAW_SCHEMA[name]
        )


def _float(value: Scalar, tally: Tally, place: int) -> float | None:
    if value is None:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        number = math.nan
    if math.isfinite(number):
        return number
    tally.add("number", place, UNKNOWN_OFFSET)
    return None
