"""Damages that a trace file may take on its way: bytes cut, flipped, put in, doubled, and words that are no JSON."""

import gzip
import random
from pathlib import Path

import polars as pl

from gradscope.core.text import visible
from gradscope.errors import GradscopeError
from gradscope.trace.frames import EVENT_SCHEMA, Trace
from gradscope.trace.load import load_trace

WORDS = [
    *(b"\x00", b"\x01", b"\x1b[2J", b"\xff", b"\xf0\x28\x8c", b"\xef\xbb\xbf", b"\\ud800", b"\\", b"\n"),
    *(b'"', b"{", b"}", b"[", b"]", b",", b":", b"},{", b'},\n{"ph": "X"', b"]}"),
    *(
        b"null",
        b"NaN",
        b"-inf",
        b"N/A",
        b"1e999",
        b"-1",
        b"1e-400",
        b"true",
        b"{}",
        b"[]",
        b'"7"',
        b"9" * 30,
        b"9" * 5000,
    ),
    *(b'"ts":', b'"dur": -5,', b'"ph": "B",', b'"ph": "E",'),
]


def mutated(content: bytes, random_: random.Random) -> bytes:
    """Return `content` with one to four damages."""
    for _ in range(random_.choice((1, 1, 1, 2, 4))):
        at = random_.randrange(len(content) + 1)
        length = random_.choice((1, 1, 2, 7, 60, 400))
        content = random_.choice((_cut, _flip, _insert, _delete, _double, _replace))(content, at, length, random_)
    return content


def _cut(content: bytes, at: int, _length: int, _random: random.Random) -> bytes:
    return content[:at]


def _flip(content: bytes, at: int, _length: int, random_: random.Random) -> bytes:
    return content[:at] + bytes([random_.randrange(256)]) + content[at + 1 :]


def _insert(content: bytes, at: int, _length: int, random_: random.Random) -> bytes:
    return content[:at] + random_.choice(WORDS) + content[at:]


def _delete(content: bytes, at: int, length: int, _random: random.Random) -> bytes:
    return content[:at] + content[at + length :]


def _double(content: bytes, at: int, length: int, random_: random.Random) -> bytes:
    start = random_.randrange(len(content) + 1)
    return content[:at] + content[start : start + length] + content[at:]


def _replace(content: bytes, at: int, length: int, random_: random.Random) -> bytes:
    return content[:at] + random_.choice(WORDS) + content[at + length :]


def packed(content: bytes, random_: random.Random) -> bytes:
    """Return `content` compressed, sometimes with the compressed bytes damaged."""
    packed_ = gzip.compress(content, 1)
    return mutated(packed_, random_) if random_.random() < 0.5 else packed_


def check_load(path: Path) -> Trace | None:
    """Load a file and hold what must hold of any trace; None if it was refused as it should be."""
    try:
        trace = load_trace(path, with_stacks=True, processes=1)
    except GradscopeError as error:
        if error.exit_code != 2 or "\n" in error.message:
            raise
        return None
    events = trace.events
    assert dict(events.schema) == EVENT_SCHEMA
    required = events.select(pl.col("index", "ph", "ts_ns", "pid", "tid").null_count()).row(0)
    assert required == (0, 0, 0, 0, 0)
    slices = events.filter(pl.col("ph") == "X")
    assert slices.get_column("dur_ns").null_count() == 0
    assert (slices.get_column("dur_ns") >= 0).all()
    assert not events.select(pl.col("ph").is_in(["M", "B", "E"]).any()).item()
    assert events.get_column("index").is_sorted()
    assert all(note.message == visible(note.message) and note.count > 0 for note in trace.notes)
    return trace
