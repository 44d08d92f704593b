"""Small traces for tests, out of plain dicts with times in microseconds, so that answers can be worked out by hand."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from gradscope.trace.frames import EVENT_SCHEMA, Metadata, Trace

Row = dict[str, Any]


def events_frame(rows: Iterable[Row], *, metadata: Metadata | None = None, start_us: float = 0.0) -> Trace:
    """Make a trace of rows: keys are the columns of EVENT_SCHEMA, with `ts` and `dur` in us for `ts_ns` and `dur_ns`.

    `name`, and where left out: ph "X", cat "cpu_op", pid "100", tid "100", ts 0, dur null, everything else null.
    """
    full = [_row(index, dict(row)) for index, row in enumerate(rows)]
    events = pl.DataFrame(full, schema=EVENT_SCHEMA, infer_schema_length=None)
    return Trace(None, events, metadata or Metadata(), [], start_us)


def _row(index: int, row: Row) -> Row:
    ts, dur = row.pop("ts", 0), row.pop("dur", None)
    defaults = {"index": index, "cat": "cpu_op", "ph": "X", "pid": "100", "tid": "100"}
    row = defaults | row | {"ts_ns": round(ts * 1000), "dur_ns": None if dur is None else round(dur * 1000)}
    if unknown := set(row) - set(EVENT_SCHEMA):
        raise KeyError(f"no columns: {sorted(unknown)}")
    return {column: row.get(column) for column in EVENT_SCHEMA} | {"pid": str(row["pid"]), "tid": str(row["tid"])}


def op(name: str, ts: float, dur: float, **columns: Any) -> Row:
    """Return an operator on the host."""
    return {"name": name, "ts": ts, "dur": dur, **columns}


def annotation(name: str, ts: float, dur: float, **columns: Any) -> Row:
    """Return a range that a user marked on the host."""
    return {"name": name, "cat": "user_annotation", "ts": ts, "dur": dur, **columns}


def step(number: int, ts: float, dur: float, **columns: Any) -> Row:
    """Return a step mark."""
    return annotation(f"ProfilerStep#{number}", ts, dur, **columns)


def frame(name: str, ts: float, dur: float, **columns: Any) -> Row:
    """Return a Python frame."""
    return {"name": name, "cat": "python_function", "ts": ts, "dur": dur, **columns}


def launch(correlation: int, ts: float, dur: float = 10, name: str = "cudaLaunchKernel", **columns: Any) -> Row:
    """Return a runtime call on the host."""
    return {"name": name, "cat": "cuda_runtime", "ts": ts, "dur": dur, "correlation": correlation, **columns}


def kernel(name: str, ts: float, dur: float, correlation: int | None = None, *, stream: int = 7, **columns: Any) -> Row:
    """Return a kernel on device 0."""
    place = {"cat": "kernel", "pid": "0", "tid": str(stream), "device": 0, "stream": stream}
    return {"name": name, "ts": ts, "dur": dur, "correlation": correlation, **place, **columns}


def memcpy(name: str, ts: float, dur: float, bytes_: int | None = None, **columns: Any) -> Row:
    """Return a copy on device 0."""
    return kernel(name, ts, dur, cat="gpu_memcpy", bytes=bytes_, **columns)


def memory(ts: float, bytes_: int, allocated: int, addr: int = 1, reserved: int = 0, **columns: Any) -> Row:
    """Return an allocation (or, negative, a release) on the CPU, as torch writes it."""
    row = {"name": "[memory]", "cat": "cpu_instant_event", "ph": "i", "ts": ts, "bytes": bytes_, "addr": addr}
    return {**row, "total_allocated": allocated, "total_reserved": reserved, "device_type": 0, "device": -1, **columns}


def chrome_event(name: str, cat: str | None, ts: float, dur: float | None = None, **keys: Any) -> Row:
    """Return an event as it stands in a file; `args` is a key like any other."""
    event: Row = {"ph": "X", "name": name, "pid": 100, "tid": 100, "ts": ts}
    if cat is not None:
        event["cat"] = cat
    if dur is not None:
        event["dur"] = dur
    return event | keys


def write_chrome(path: Path, events: Iterable[Row], **header: Any) -> Path:
    """Write a trace file, compressed if its name ends in `.gz`."""
    content = json.dumps({"schemaVersion": 1, **header, "traceEvents": list(events)}).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def listing(*events: Row | str) -> str:
    """Return the text of a trace file; events that are text already stand in it as they are."""
    texts = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return '{"schemaVersion": 1, "traceEvents": [' + ", ".join(texts) + "]}"


def written(folder: Path, content: bytes | str, name: str = "x.json") -> Path:
    """Write a file of any content."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def note_counts(trace: Trace) -> dict[str, int]:
    """Return the counts of a trace's notes by code."""
    return {note.code: note.count for note in trace.notes}


def event_names(trace: Trace) -> list[str | None]:
    """Return the names of a trace's events."""
    return trace.events.get_column("name").to_list()
