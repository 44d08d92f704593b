"""Events out of JSON text: typed structs with the arguments that answers need, everything else skipped unread.

`decode_many` takes a whole chunk of sound events at once; `decode_one` takes one event and mends it if it must.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from gradscope.trace.repair import Repairs, escape_stray_quotes, mend

Scalar = int | float | str | None
"""What a number may be in a file: text too, and beyond 64 bit (Ascend/pytorch#133)."""

NOTHING = msgspec.Raw()
DECODE_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)
"""What msgspec raises over bad text: its own, over-long integers as ValueError, nesting as RecursionError."""


def _named(name: str) -> Any:
    return msgspec.field(default=None, name=name)


def _raw(name: str) -> Any:
    return msgspec.field(default=NOTHING, name=name)


class Arguments(msgspec.Struct, gc=False):
    """The `args` of an event as torch's profilers name them, in the order in which they mostly come.

    The fields' names are the columns' names of `frames.EVENT_SCHEMA` where one argument makes one column.
    """

    external_id: Scalar = _named("External id")
    sequence: Scalar = _named("Sequence number")
    forward_thread: Scalar = _named("Fwd thread id")
    types: msgspec.Raw = _raw("Input type")
    shapes: msgspec.Raw = _raw("Input Dims")
    stack: Scalar = _named("Call stack")
    python_parent: Scalar = _named("Python parent id")
    python_id: Scalar = _named("Python id")
    module_id: Scalar = _named("Python module id")
    total_reserved: Scalar = _named("Total Reserved")
    total_allocated: Scalar = _named("Total Allocated")
    memory_bytes: Scalar = _named("Bytes")
    device_id: Scalar = _named("Device Id")
    device_type: Scalar = _named("Device Type")
    addr: Scalar = _named("Addr")
    device: Scalar = None
    stream: Scalar = None
    correlation: Scalar = None
    bytes: Scalar = None
    blocks: Scalar = _named("blocks per SM")
    occupancy_pct: Scalar = _named("est. achieved occupancy %")
    flops: Scalar = None
    collective: Scalar = _named("Collective name")
    dtype: Scalar = None
    in_elems: Scalar = _named("In msg nelems")
    out_elems: Scalar = _named("Out msg nelems")
    group_size: Scalar = _named("Group size")
    name: Scalar = None
    """Of metadata events."""
    labels: Scalar = None


NO_ARGUMENTS = Arguments()


class Event(msgspec.Struct, gc=False):
    """One entry of `traceEvents`."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: Scalar = None
    tid: Scalar = None
    ts: Scalar = None
    dur: Scalar = None
    args: Arguments | None = None
    id: Scalar = None


_MANY = msgspec.json.Decoder(list[Event])
_ONE = msgspec.json.Decoder(Event)
_ARGUMENT_KEYS = {field.encode_name: field.name for field in msgspec.structs.fields(Arguments)}
_RAW_FIELDS = {"types", "shapes"}


def decode_many(text: bytes | memoryview) -> list[Event] | None:
    """Decode events that stand between commas; None if anything in them is not as it should be."""
    try:
        return _MANY.decode(b"".join((b"[", text, b"]")))
    except DECODE_ERRORS:
        return None


def decode_one(text: bytes) -> Event | None:
    """Decode one sound event; None if it is not."""
    try:
        return _ONE.decode(text)
    except DECODE_ERRORS:
        return None


def decode_mended(text: bytes, *, quotes: bool = False) -> tuple[Event, Repairs] | None:
    """Decode one event whatever is wrong with it, as long as it is a JSON object after mending; else None.

    Args:
        text: From its opening to its closing brace.
        quotes: Whether to guess which quotes belong to names.
    """
    stray = 0
    if quotes:
        text, stray = escape_stray_quotes(text)
    mended, repairs = mend(text)
    if stray:
        repairs["quote"] += stray
    if event := decode_one(mended):
        return event, repairs

    def number(written: str) -> float | None:
        """Take what is beyond a float as what a bare word is: no number."""
        value = float(written)
        if not math.isfinite(value):
            repairs["bare word"] += 1
            return None
        return value

    try:
        loose = json.loads(mended, strict=False, parse_float=number, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return (_loose_event(loose), repairs) if isinstance(loose, dict) else None


def _loose_event(fields: Mapping[str, Any]) -> Event:
    """Take what can be taken of an event whose values have types of their own."""
    args = fields.get("args")
    names = {key: _scalar(fields.get(key)) for key in ("pid", "tid", "ts", "dur", "id")}
    return Event(
        ph=_text(fields.get("ph")),
        cat=_text(fields.get("cat")),
        name=_text(fields.get("name")),
        args=_loose_arguments(args) if isinstance(args, dict) else None,
        **names,
    )


def _loose_arguments(args: Mapping[str, Any]) -> Arguments:
    found: dict[str, Any] = {}
    for key, value in args.items():
        if (field := _ARGUMENT_KEYS.get(key)) is None or value is None:
            continue
        found[field] = msgspec.Raw(_json(value).encode()) if field in _RAW_FIELDS else _scalar(value)
    return Arguments(**found)


def _scalar(value: Any) -> Scalar:
    if value is None or isinstance(value, bool):
        return None
    return value if isinstance(value, int | float) else _text(value)


def _text(value: Any) -> str | None:
    """Return a value as text that UTF-8 can hold."""
    if value is None:
        return None
    text = value if isinstance(value, str) else _json(value)
    return text.encode("utf-8", "replace").decode()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)
