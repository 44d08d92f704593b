"""A Chrome trace as a file: read whatever its form, events left as the bytes they are, written back atomically."""

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from gradscope.core.target_file import written_beside
from gradscope.errors import GradscopeError
from gradscope.trace.repair import Repairs, strict_json

GZIP_MAGIC = b"\x1f\x8b"
GZIP_LEVEL = 6
GZIP_WINDOW = 31  # a gzip header, and the largest window
GZIP_SIZE_BYTES = 4
"""A gzip member ends with the size of its content, modulo 4 GiB."""
SAMPLE_BYTES = 1 << 18
"""Of a compressed file, unpacked to see how much larger its text is."""
SAMPLE_TRUST = 4
"""How many times the text's size may be what the sample says, or the sample what the file's end says."""
EVENTS_KEY = "traceEvents"
EVENTS_PER_WRITE = 4096
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class TraceDocument:
    """A trace's parts. Events are slices of the document's text, so that a file of 500 MB is in memory about once."""

    header: dict[str, msgspec.Raw]
    """Everything beside the events."""
    events: list[msgspec.Raw]
    repairs: Repairs

    @property
    def base_time_ns(self) -> int:
        """Wall time that the events' `ts` (microseconds) count from; 0 where they count from the epoch."""
        raw = self.header.get("baseTimeNanoseconds")
        value = None if raw is None else msgspec.json.decode(raw)
        return value if isinstance(value, int) else 0


def read_bytes(path: Path) -> bytes | bytearray:
    """Return a trace's text. Its first bytes tell whether it is compressed, not its name (pytorch/pytorch#56554).

    Raises:
        GradscopeError: It cannot be read or decompressed.
    """
    try:
        with path.open("rb") as file:
            if file.read(len(GZIP_MAGIC)) != GZIP_MAGIC:
                return path.read_bytes()
        content = bytearray()  # grows in place: joining pieces would take the document's size twice
        with gzip.open(path) as unpacked:
            while piece := unpacked.read(CHUNK_BYTES):
                content += piece
        return content
    except (OSError, EOFError, zlib.error) as error:
        raise GradscopeError(f"cannot read the trace {path}: {error}", "is the file complete?") from error


def find_traces(folder: Path) -> list[Path]:
    """Return the traces below a folder, by name."""
    return sorted(path for pattern in ("*.pt.trace.json", "*.pt.trace.json.gz") for path in folder.rglob(pattern))


def uncompressed_bytes(path: Path) -> int:
    """Return the size of a trace's text, if it is compressed by a guess from the file's beginning.

    The file's last bytes tell the size exactly, but only of a file that is whole and of one member: they are believed
    where they fit the guess.
    """
    with path.open("rb") as file:
        sample = file.read(SAMPLE_BYTES)
        size_bytes = file.seek(0, io.SEEK_END)
        if not sample.startswith(GZIP_MAGIC):
            return size_bytes
        text_bytes, used_bytes = _unpacked_bytes(sample)
        if size_bytes <= len(sample) or not used_bytes:
            return text_bytes
        guess = text_bytes * size_bytes / used_bytes
        file.seek(-GZIP_SIZE_BYTES, io.SEEK_END)
        told = int.from_bytes(file.read(GZIP_SIZE_BYTES), "little")
        told += round((guess - told) / (1 << 32)) << 32
        return told if guess / SAMPLE_TRUST <= told <= guess * SAMPLE_TRUST else round(guess)


def _unpacked_bytes(packed: bytes) -> tuple[int, int]:
    """Return how much text the sound part of some gzip holds, and how many bytes that part has."""
    text_bytes, rest = 0, packed
    while rest.startswith(GZIP_MAGIC):
        inflate = zlib.decompressobj(GZIP_WINDOW)
        try:
            while rest and not inflate.eof:
                text_bytes += len(inflate.decompress(rest, CHUNK_BYTES))
                rest = inflate.unconsumed_tail
        except zlib.error:  # reading it says so
            break
        rest = inflate.unused_data.lstrip(b"\0")
    return text_bytes, len(packed) - len(rest)


def read_document(path: Path) -> TraceDocument:
    """Read a trace that is a JSON object with a list of events.

    Raises:
        GradscopeError: It is none.
    """
    content, repairs = strict_json(read_bytes(path))
    try:
        header = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        events = msgspec.json.decode(header.pop(EVENTS_KEY), type=list[msgspec.Raw])
    except (msgspec.DecodeError, KeyError) as error:
        raise GradscopeError(f"{path.name} is no trace: it holds no list of events", "is it the right file?") from error
    return TraceDocument(header, events, repairs)


def write_document(
    path: Path, header: dict[str, Any], events: Iterable[bytes | msgspec.Raw], *, replace: bool = True
) -> None:
    """Write a trace, compressed if its name ends in `.gz`, as `written_beside` does.

    Raises:
        GradscopeError: Something is there that may not be replaced.
        OSError: It could not be written; the old file is then untouched.
    """
    with written_beside(path, replace=replace) as raw:
        if path.name.endswith(".gz"):
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=GZIP_LEVEL, mtime=0) as packed:
                _write(packed, header, events)
        else:
            _write(raw, header, events)


def _write(file: BinaryIO | gzip.GzipFile, header: dict[str, Any], events: Iterable[bytes | msgspec.Raw]) -> None:
    file.write(b"{\n")
    for key, value in header.items():
        file.write(msgspec.json.encode(key) + b": " + msgspec.json.encode(value) + b",\n")
    file.write(msgspec.json.encode(EVENTS_KEY) + b": [\n")
    for index, batch in enumerate(_batches(events)):
        file.write((b",\n" if index else b"") + batch)
    file.write(b"\n]}\n")


def _batches(events: Iterable[bytes | msgspec.Raw]) -> Iterator[bytes]:
    """Join events into pieces worth a call of the compressor."""
    buffer = io.BytesIO()
    for number, event in enumerate(events):
        if number and number % EVENTS_PER_WRITE == 0:
            yield buffer.getvalue()
            buffer = io.BytesIO()
        elif number:
            buffer.write(b",\n")
        buffer.write(event)
    if buffer.tell():
        yield buffer.getvalue()
