"""A trace file into a `Trace`."""

from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from gradscope.errors import GradscopeError
from gradscope.trace.document import read_bytes
from gradscope.trace.frames import EVENT_SCHEMA, Metadata, Trace, TraceNote
from gradscope.trace.repair import strict_json


def _number(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return float(value) if "." in value else int(value)
        except ValueError:
            return None
    return value if isinstance(value, int | float) else None


def _integer(value: Any) -> int | None:
    value = _number(value)
    return int(value) if value is not None and abs(value) < 2**63 else None


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def load_trace(
    path: Path, *, with_shapes: bool = True, with_stacks: bool = False, processes: int | None = None
) -> Trace:
    """Load a trace (first version: slow)."""
    content, repairs = strict_json(read_bytes(path))
    document = msgspec.json.decode(content)
    legacy = isinstance(document, list)
    header = {} if legacy else document
    events = document if legacy else document.get("traceEvents")
    if not isinstance(events, list):
        raise GradscopeError(f"{path.name} is no trace: it holds no list of events", "is it the right file?")
    notes = [TraceNote(kind.replace(" ", "_"), kind, count) for kind, count in repairs.items()]
    starts = [_number(e.get("ts")) for e in events if e.get("ph") == "X" and e.get("dur") is not None]
    start_us = float(min((ts for ts in starts if ts), default=0.0))
    rows = []
    for index, e in enumerate(events):
        ts, dur, a = _number(e.get("ts")), _number(e.get("dur")), e.get("args") or {}
        if e.get("ph") == "M" or ts is None or (e.get("ph") == "X" and (dur is None or dur < 0)):
            continue
        row = {
            "index": index, "name": _text(e.get("name")), "cat": e.get("cat"), "ph": e.get("ph"),
            # rounded before it is subtracted: a float near 5e12 us is off by up to half a ns, a difference of two by one
            "ts_ns": round(ts * 1000) - round(start_us * 1000), "dur_ns": None if dur is None else round(dur * 1000),
            "pid": str(e.get("pid")), "tid": str(e.get("tid")),
            "device": _integer(a.get("device", a.get("Device Id"))), "stream": _integer(a.get("stream")),
            "correlation": _integer(a.get("correlation")), "external_id": _integer(a.get("External id")),
            "sequence": _integer(a.get("Sequence number")), "forward_thread": _integer(a.get("Fwd thread id")),
            "bytes": _integer(a.get("Bytes", a.get("bytes"))), "addr": _integer(a.get("Addr")),
            "total_allocated": _integer(a.get("Total Allocated")), "total_reserved": _integer(a.get("Total Reserved")),
            "device_type": _integer(a.get("Device Type")),
            "flow_id": None if e.get("id") is None else str(e["id"]),
            "python_id": _integer(a.get("Python id")), "python_parent": _integer(a.get("Python parent id")),
            "module_id": _integer(a.get("Python module id")),
            "occupancy_pct": _number(a.get("est. achieved occupancy %")), "blocks": _number(a.get("blocks per SM")),
            "flops": _integer(a.get("flops")), "collective": _text(a.get("Collective name")), "dtype": _text(a.get("dtype")),
            "in_elems": _integer(a.get("In msg nelems")), "out_elems": _integer(a.get("Out msg nelems")),
            "group_size": _integer(a.get("Group size")),
            "shapes": _text(a.get("Input Dims")) if with_shapes else None,
            "types": _text(a.get("Input type")) if with_shapes else None,
            "stack": _text(a.get("Call stack")) if with_stacks else None,
        }
        rows.append(row)
    frame = pl.DataFrame(rows, schema=EVENT_SCHEMA, infer_schema_length=None, strict=False)
    distributed = header.get("distributedInfo") or {}
    metadata = Metadata(
        rank=distributed.get("rank"), world_size=distributed.get("world_size"), legacy=legacy,
        devices=header.get("deviceProperties") or [], distributed=distributed,
        base_time_ns=header.get("baseTimeNanoseconds") or 0, schema_version=header.get("schemaVersion"),
    )
    return Trace(path, frame, metadata, notes, start_us)
