"""What stands around a trace's list of events: found from the front, mended if it must be, made metadata."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from gradscope.errors import GradscopeError
from gradscope.trace.frames import Metadata
from gradscope.trace.repair import STRING, mend
from gradscope.trace.source import Source

EVENTS_KEY = b'"traceEvents"'
HEADER_BYTES = 1 << 25
"""A list of events that starts later than this is none that a profiler wrote."""
FIRST_READ_BYTES = 1 << 16
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
TOKEN = re.compile(STRING + rb'|["{}\[\]]', re.DOTALL)
LIST_FOLLOWS = re.compile(rb"\s*:\s*\[")
WORKER_NAME = re.compile(r"(?P<worker>.+?)(?:\.\d+)?\.pt\.trace\.json(?:\.gz)?")
"""As torch.profiler.tensorboard_trace_handler names files: HOST_PID.TIME.pt.trace.json."""
KINDS = (
    (re.compile(rb"\xff\xfe|\xfe\xff|\{\0|\0\{|\[\0|\0\["), "it is text in UTF-16", "write it as UTF-8"),
    (re.compile(rb"<"), "it is HTML or XML", "was a page saved instead of the file?"),
    (re.compile(rb"PK\x03\x04"), "it is a zip archive", "unpack it first"),
    (re.compile(rb"\x28\xb5\x2f\xfd|BZh|\xfd7zXZ"), "it is compressed otherwise than by gzip", "unpack it first"),
    (
        re.compile(rb"SQLite format 3\0"),
        "it is an SQLite database",
        "torch.profiler's export_chrome_trace makes a trace",
    ),
    (re.compile(rb"version https://git-lfs"), "it only stands for a file in Git LFS", "`git lfs pull` gets the file"),
)
"""What is taken for a trace, by its first bytes."""
OPTIONS = ("with_stack", "record_shapes", "profile_memory", "with_flops")


Flaw = Literal["cut", "followed"]
"""What stands behind the events breaks off, or something follows the whole of it."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A trace's text up to its first event."""

    head: bytes
    """The object up to and with the key of the list; empty if the file is a bare list."""
    text: bytes
    """All that was read so far."""
    start: int
    """Where the first event may stand in `text`."""

    @property
    def legacy(self) -> bool:
        """Whether the file is a bare list."""
        return not self.head


def read_opening(source: Source) -> Opening:
    """Find the list of events.

    Raises:
        GradscopeError: The file is empty, is no JSON, or holds no list of events.
    """
    name, text, wanted = source.path.name, b"", FIRST_READ_BYTES
    while True:
        piece = source.read(wanted - len(text))
        text = text + piece
        begun = text.removeprefix(BYTE_ORDER_MARK).lstrip()
        if begun[:1] == b"[" and begun[1:2] != b"\0":
            return Opening(b"", text, len(text) - len(begun) + 1)
        if begun and (begun[:1] != b"{" or begun[1:2] == b"\0"):
            raise _no_trace(name, begun)
        if (found := _find_list(text)) is not None:
            return Opening(text[: found[0]], text, found[1])
        if not piece or wanted >= HEADER_BYTES:
            break
        wanted *= 4
    if not text.removeprefix(BYTE_ORDER_MARK).strip():
        broken = f" ({source.damage})" if source.damage else ""
        raise GradscopeError(f"{name} is no trace: it is empty{broken}", "was the run ended while it was written?")
    if source.damage:
        raise GradscopeError(f"{name} is no trace: {source.damage}", "is the file complete?")
    raise GradscopeError(f"{name} is no trace: it holds no list of events", "is it the right file?")


def _no_trace(name: str, text: bytes) -> GradscopeError:
    """Return what to say of a text that opens no object and no list."""
    for opening, what, remedy in KINDS:
        if opening.match(text):
            return GradscopeError(f"{name} is no trace: {what}", remedy)
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return GradscopeError(f"{name} is no trace: it is no JSON", "is it the right file?")
    return GradscopeError(f"{name} is no trace: it is JSON, but no list of events", "is it the right file?")


def _find_list(text: bytes) -> tuple[int, int] | None:
    """Return where the key of the list ends and where its first event may stand."""
    depth = 0
    for token in TOKEN.finditer(text):
        piece = token.group()
        if depth == 1 and piece == EVENTS_KEY and (follows := LIST_FOLLOWS.match(text, token.end())):
            return token.end(), follows.end()
        if piece in (b"{", b"["):
            depth += 1
        elif piece in (b"}", b"]"):
            depth -= 1
        elif piece == b'"':
            return None
    return None


def read_header(head: bytes, rest: bytes) -> tuple[dict[str, Any], Flaw | None]:
    """Return what stands beside the events, and what kept it from being read to its end.

    Args:
        head: `Opening.head`.
        rest: What follows the list's closing bracket; b"" if the file ends before it.
    """
    head = head.removeprefix(BYTE_ORDER_MARK)
    for text, flaw in _readings(head, rest):
        for candidate in (text, None):
            try:
                header = msgspec.json.decode(mend(text)[0] if candidate is None else candidate)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                continue
            if isinstance(header, dict):
                header.pop("traceEvents", None)
                return header, flaw
    return {}, "cut"


def _readings(head: bytes, rest: bytes) -> Iterator[tuple[bytes, Flaw | None]]:
    whole = head + b":null" + rest
    yield whole, None
    yield _first_document(whole), "followed"
    yield head + b":null}", "cut"


def _first_document(text: bytes) -> bytes:
    """Return a text's first JSON object, or nothing where it holds none that is whole."""
    try:
        decoded = text.decode("utf-8", "surrogateescape")
        _, end = json.JSONDecoder(strict=False).raw_decode(decoded)
    except (ValueError, RecursionError):
        return b""
    return decoded[:end].encode("utf-8", "surrogateescape")


def metadata_from(header: Mapping[str, Any], path: Path, *, legacy: bool) -> Metadata:
    """Make metadata of a header, taking only what has the type it should have."""
    distributed = header.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    devices = header.get("deviceProperties")
    worker = WORKER_NAME.fullmatch(path.name)
    taken = {"distributedInfo", "deviceProperties", "baseTimeNanoseconds", "schemaVersion", *OPTIONS}
    return Metadata(
        rank=_integer(distributed.get("rank")),
        world_size=_integer(distributed.get("world_size")),
        worker=worker["worker"] if worker else None,
        devices=[device for device in devices if isinstance(device, dict)] if isinstance(devices, list) else [],
        distributed=distributed,
        base_time_ns=_integer(header.get("baseTimeNanoseconds")) or 0,
        schema_version=_integer(header.get("schemaVersion")),
        legacy=legacy,
        other={key: value for key, value in header.items() if key not in taken},
        with_stack=_switch(header, "with_stack"),
        record_shapes=_switch(header, "record_shapes"),
        profile_memory=_switch(header, "profile_memory"),
        with_flops=_switch(header, "with_flops"),
    )


def _switch(header: Mapping[str, Any], option: str) -> bool | None:
    """Return a profiler option: torch writes those that are on, and since 2.2 a base time in any case."""
    if option in header:
        return bool(_integer(header[option]))
    return False if "baseTimeNanoseconds" in header else None


def _integer(value: Any) -> int | None:
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal() and len(value) < 20:
        value = int(value)
    return int(value) if isinstance(value, int | float) and abs(value) < 2**63 else None
