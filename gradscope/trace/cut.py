"""A large trace cut to chosen steps: smaller, and still whole for every viewer.

What stays: all metadata; what happened on the host during the steps; what the host launched in them, whenever the
device got to it; flows of which every point stays. A host slice that is longer than the steps (the profiler's own
range, a frame of Python that called the training loop) is clipped to them, with its own times kept in its arguments: as
it was, it would stretch a viewer's axis over the whole recording, and count time of steps that are not there.
"""

import math
import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gradscope.core.target_file import check_target
from gradscope.core.text import visible
from gradscope.errors import GradscopeError
from gradscope.trace.cut_choice import (
    ASYNC,
    BEGIN,
    BROKEN,
    COUNTER,
    DEVICE,
    END,
    FLOW,
    HOST,
    META,
    MIRROR,
    MIRROR_STEP,
    POINT,
    STEP,
    Bools,
    Scan,
    choose,
    paired,
)
from gradscope.trace.document import write_document
from gradscope.trace.frames import PROVENANCE_KEY
from gradscope.trace.raw_events import RawEvents, with_held_numbers

STEP_NAME = re.compile(r"ProfilerStep#([0-9]{1,18})")
DEVICE_CATEGORIES = frozenset(
    {"kernel", "Kernel", "gpu_op", "concurrent_kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset"}
)
MIRROR_CATEGORY = "gpu_user_annotation"
CLIPPED_KEY = "clipped by gradscope"
"""Argument of a clipped slice: the `ts` and `dur` it had."""
PHASES = {"B": BEGIN, "E": END, "b": ASYNC, "n": ASYNC, "e": ASYNC, "s": FLOW, "t": FLOW, "f": FLOW, "C": COUNTER}


@dataclass(frozen=True, slots=True)
class Cut:
    """What was written."""

    path: Path
    steps: list[int]
    kept: int
    """Events written, metadata included."""
    of: int
    """Events in the file that was cut."""
    clipped: int
    """Host slices longer than the steps."""
    broken: int
    """Events without a usable phase or time, left out."""
    size_bytes: int


class _Probe(msgspec.Struct, gc=False):
    ph: Any = None
    ts: Any = None
    dur: Any = None
    pid: msgspec.Raw = msgspec.Raw(b"null")
    tid: msgspec.Raw = msgspec.Raw(b"null")
    name: Any = None
    cat: Any = None
    id: msgspec.Raw = msgspec.Raw(b"")
    args: msgspec.Raw = msgspec.Raw(b"")


class _Arguments(msgspec.Struct, gc=False):
    correlation: msgspec.Raw = msgspec.Raw(b"")


@dataclass(slots=True)
class _Columns:
    """A `Scan` while it grows: 33 bytes an event."""

    kind: "array[int]" = field(default_factory=lambda: array("b"))
    start: "array[float]" = field(default_factory=lambda: array("d"))
    end: "array[float]" = field(default_factory=lambda: array("d"))
    track: "array[int]" = field(default_factory=lambda: array("q"))
    key: "array[int]" = field(default_factory=lambda: array("q"))
    names: dict[bytes, int] = field(default_factory=dict)

    def intern(self, text: bytes) -> int:
        """Return a number for a text: ids are opaque, and 9007199254740993 is not 9007199254740992."""
        return self.names.setdefault(text, len(self.names))

    def scan(self) -> Scan:
        """Return the columns as numpy's."""
        return Scan(
            kind=np.frombuffer(self.kind, dtype=np.int8),
            start=np.frombuffer(self.start, dtype=np.float64),
            end=np.frombuffer(self.end, dtype=np.float64),
            track=np.frombuffer(self.track, dtype=np.int64),
            key=np.frombuffer(self.key, dtype=np.int64),
        )


def parse_steps(text: str) -> tuple[int, int]:
    """Return the first and last step of `3:5` (3, 4 and 5) or `3`.

    Raises:
        GradscopeError: It is neither.
    """
    first, colon, last = text.partition(":")
    if first.isdecimal() and (last.isdecimal() or not colon):
        low, high = int(first), int(last or first)
        if low <= high:
            return low, high
    raise GradscopeError(f"{text!r} is no range of steps", "write it as 3:5 (steps 3, 4 and 5), or 3 for one step")


def cut_trace(
    source: Path,
    out: Path,
    first: int,
    last: int,
    *,
    force: bool = False,
    progress: Callable[[str], None] = lambda _line: None,
) -> Cut:
    """Write the part of a trace that belongs to steps `first` to `last`, both included.

    Args:
        source: Any trace that gradscope reads; it is never changed.
        out: Where to write; compressed if the name ends in `.gz`. Written beside it first, then renamed.
        first: Number of the first step, as in `ProfilerStep#3`.
        last: Number of the last.
        force: Whether a file that is there may be replaced.
        progress: Told what is being done.

    Raises:
        GradscopeError: It is no trace, has no such steps, or `out` may not be written.
        OSError: It cannot be written.
    """
    check_target(out, force=force, inputs=[source])
    progress("reading")
    events = RawEvents(source)
    scan = paired(_scanned(events))
    chosen = _chosen_steps(scan, first, last, events)
    numbers = sorted(chosen)
    low, high = min(span[0] for span in chosen.values()), max(span[1] for span in chosen.values())
    keep = choose(scan, numbers, low, high)
    moved = _to_clip(scan, keep, low, high)
    progress("writing")
    header = {**events.header, PROVENANCE_KEY: _provenance(events, scan, numbers)}
    write_document(out, header, _written(events, keep, moved), replace=force)
    return Cut(
        path=out,
        steps=numbers,
        kept=int(keep.sum()),
        of=keep.size,
        clipped=sum(1 for _, end in moved.values() if end is not None),
        broken=int(scan.rows(BROKEN).sum()) + events.unreadable,
        size_bytes=out.stat().st_size,
    )


def _provenance(events: RawEvents, scan: Scan, steps: list[int]) -> dict[str, Any]:
    """Return which steps of which file, and whether a device was recorded: a cut may have lost all of a step's work."""
    before = events.header.get(PROVENANCE_KEY, msgspec.Raw(b"null"))
    device = bool(scan.rows(DEVICE).any()) or b'"device_events":true' in bytes(before)
    return {"steps": steps, "of": visible(events.path.name), "device_events": device}


def _scanned(events: Iterable[msgspec.Raw]) -> Scan:
    columns = _Columns()
    decode = msgspec.json.Decoder(_Probe).decode
    arguments = msgspec.json.Decoder(_Arguments).decode
    for raw in events:
        try:
            probe = decode(raw)
        except msgspec.DecodeError:  # not an object, or a number that is none
            try:
                probe = decode(with_held_numbers(raw))
            except msgspec.DecodeError:
                probe = _Probe()
        kind, start, end, key = _classified(probe, columns, arguments)
        columns.kind.append(kind)
        columns.start.append(start)
        columns.end.append(end)
        columns.track.append(columns.intern(b"%b/%b" % (bytes(probe.pid), bytes(probe.tid))))
        columns.key.append(key)
    return columns.scan()


def _classified(
    probe: _Probe, columns: _Columns, arguments: Callable[[msgspec.Raw], _Arguments]
) -> tuple[int, float, float, int]:
    """Return an event's kind, start, end and key."""
    start = _number(probe.ts)
    if probe.ph == "M":
        return META if isinstance(probe.name, str) else BROKEN, 0.0, 0.0, -1
    if start is None or not isinstance(probe.ph, str):
        return BROKEN, 0.0, 0.0, -1
    if probe.ph != "X":
        kind = PHASES.get(probe.ph, POINT)
        return kind, start, start, _identity(kind, probe, columns)
    duration = _number(probe.dur)
    if duration is None or duration < 0:
        return BROKEN, 0.0, 0.0, -1
    category = probe.cat if isinstance(probe.cat, str) else ""
    kind = DEVICE if category in DEVICE_CATEGORIES else MIRROR if category == MIRROR_CATEGORY else HOST
    if (number := _step_number(probe.name)) is not None:
        return (MIRROR_STEP if kind == MIRROR else STEP), start, start + duration, number
    return kind, start, start + duration, _correlation(probe, columns, arguments)


def _step_number(name: Any) -> int | None:
    found = STEP_NAME.fullmatch(name) if isinstance(name, str) else None
    return int(found[1]) if found else None


def _identity(kind: int, probe: _Probe, columns: _Columns) -> int:
    """Return what holds events of a kind together: a counter's process and name, a category and an id of the others."""
    if kind == COUNTER:
        return columns.intern(b"C %b %b" % (str(probe.name).encode(errors="replace"), bytes(probe.pid)))
    if kind == BEGIN and (number := _step_number(probe.name)) is not None:
        return number
    if kind in (FLOW, ASYNC):
        return columns.intern(b"%d %b %b" % (kind, str(probe.cat).encode(errors="replace"), bytes(probe.id)))
    return -1


def _correlation(probe: _Probe, columns: _Columns, arguments: Callable[[msgspec.Raw], _Arguments]) -> int:
    """Return the number of what ties a launch to its work on the device."""
    if b'"correlation"' not in bytes(probe.args):
        return -1
    try:
        correlation = bytes(arguments(probe.args).correlation).strip(b'"')
    except msgspec.DecodeError:
        return -1
    return -1 if correlation in (b"", b"0", b"-1", b"null") else columns.intern(b"c" + correlation)


def _number(value: Any) -> float | None:
    """Return a time; some writers put it in quotes."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if type(value) in (int, float) and math.isfinite(value):
        return float(value)
    return None


def _chosen_steps(scan: Scan, first: int, last: int, events: RawEvents) -> dict[int, tuple[float, float]]:
    """Return start and end of each step that was asked for; of two marks with one number, the longer one's."""
    found: dict[int, tuple[float, float]] = {}
    for row in np.flatnonzero(scan.rows(STEP) & (scan.end > scan.start)).tolist():
        number, start, end = int(scan.key[row]), float(scan.start[row]), float(scan.end[row])
        if number not in found or end - start > found[number][1] - found[number][0]:
            found[number] = start, end
    chosen = {number: span for number, span in found.items() if first <= number <= last}
    if chosen:
        return chosen
    source = events.path
    if not found:
        hint = "the file breaks off: it may have held some" if events.cut_off else "call prof.step() in the loop"
        raise GradscopeError(f"{source.name} marks no steps, so it cannot be cut to any", hint)
    raise GradscopeError(
        f"{source.name} has no step {first}" + (f" to {last}" if last > first else ""),
        f"it has steps {min(found)} to {max(found)}",
    )


Times = tuple[float, float | None]
"""A new start, and a new end where the event has one."""


def _to_clip(scan: Scan, keep: Bools, low: float, high: float) -> dict[int, Times]:
    """Return new times for host slices that are longer than the steps, and for levels from before them."""
    moved: dict[int, Times] = {}
    for row in np.flatnonzero(keep & scan.rows(HOST) & ((scan.start < low) | (scan.end > high))).tolist():
        moved[row] = max(float(scan.start[row]), low), min(float(scan.end[row]), high)
    for row in np.flatnonzero(keep & scan.rows(COUNTER) & (scan.start < low)).tolist():
        moved[row] = low, None
    return moved


def _written(events: Iterable[msgspec.Raw], keep: Bools, moved: dict[int, Times]) -> Iterator[bytes | msgspec.Raw]:
    for row, raw in enumerate(events):
        if not keep[row]:
            continue
        text = bytes(raw)
        if row in moved or b'"pid"' not in text or b'"tid"' not in text or b'"ts": "' in text or b'"ts":"' in text:
            yield _completed(raw, moved.get(row))
        else:
            yield raw


def _completed(raw: msgspec.Raw, times: Times | None) -> bytes:
    """Return an event with numbers for times and with all that readers rely on."""
    try:
        event: dict[str, Any] = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        event = msgspec.json.decode(with_held_numbers(raw))
    for name in ("ts", "dur"):
        if isinstance(event.get(name), str):
            event[name] = _number(event[name])
    if event.get("ph") == "M":
        event.setdefault("ts", 0)
    for name in ("pid", "tid"):
        if type(event.get(name)) not in (int, str):
            event[name] = 0
    if times is not None:
        start, end = times
        if end is not None:
            arguments = event.get("args")
            was = {CLIPPED_KEY: {"ts": event["ts"], "dur": event["dur"]}}
            event["args"] = {**arguments, **was} if isinstance(arguments, dict) else was
            event["dur"] = end - start
        event["ts"] = start
    return msgspec.json.encode(event)
